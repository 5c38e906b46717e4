//! What a child does between fork and exec, for who must change more than arguments and streams.

use std::fmt;
use std::io;
use std::sync::Arc;

/// A step that a new child takes before it becomes its program, with the rights of the daemon:
/// to leave them, or to change what the child will see.
#[derive(Clone)]
pub struct BeforeExec(Arc<dyn Fn() -> io::Result<()> + Send + Sync>);

impl BeforeExec {
    /// An error of `step` becomes the error of the spawn.
    ///
    /// # Safety
    /// `step` runs in a fork of a process with many threads. It may only make calls that are safe
    /// after such a fork: no allocation, no lock, no formatting, no panic.
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
