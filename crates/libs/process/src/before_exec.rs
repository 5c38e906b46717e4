//! Hook that runs in a child between fork and exec.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Step that a new child executes before its program, with the daemon's rights: to drop them, or to change what the
/// program will see.
#[derive(Clone)]
pub struct BeforeExec(Arc<dyn Fn() -> io::Result<()> + Send + Sync>);

impl BeforeExec {
    /// Creates the hook. An error of `step` becomes the error of the spawn.
    ///
    /// # Safety
    ///
    /// `step` runs in a fork of a multi-threaded process. It may only make calls that are safe after such a fork: no
    /// allocation, lock, formatting or panic.
    #[allow(unsafe_code, reason = "the caller promises what no type can say")]
    pub unsafe fn new(step: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Arc::new(step))
    }

    pub(crate) fn run(&self) -> io::Result<()> {
        (self.0)()
    }
}

impl fmt::Debug for BeforeExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BeforeExec")
    }
}
