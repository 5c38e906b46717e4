//! Child processes, all started by one thread.
//!
//! A child asks the kernel to be killed when its parent ends, and the kernel means the thread that
//! started it, not the process. So one thread starts all children and stays for as long as there is
//! a [`Spawner`] or a [`Child`]; it also reaps them.
//!
//! Invariants of every child: its own process group; dies with the daemon; sees no descriptor but
//! its three standard ones and those that were named; sees no environment but what was named. When the leader of the group
//! ends, the rest of the group is killed, and nothing is left as a zombie. A dropped [`Child`] is
//! killed with its group.
//!
//! Deliberately absent: sandboxing, restarts, and time limits. Those belong to who starts the child.

mod before_exec;
mod child;
mod thread;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

pub use before_exec::BeforeExec;
pub use child::{Child, ExitOutcome};

/// Where one of a child's standard streams leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stream {
    /// To `/dev/null`.
    #[default]
    Null,
    /// To a pipe whose other end the [`Child`] holds.
    Pipe,
}

/// A program to be started.
#[derive(Debug, Clone, Default)]
pub struct SpawnRequest {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// The child's whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// `None`: the daemon's.
    pub current_directory: Option<PathBuf>,
    pub stdin: Stream,
    pub stdout: Stream,
    pub stderr: Stream,
    /// Descriptors that the program keeps, under the numbers that they have here.
    pub descriptors: Vec<Arc<OwnedFd>>,
    /// Runs in the child before the program, with the daemon's rights.
    pub before_exec: Option<BeforeExec>,
}

impl SpawnRequest {
    /// A program without arguments, environment, or streams.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..Self::default() }
    }
}

/// Why there is no child.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("`{program}` could not be started")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("the pipes to `{program}` could not be opened")]
    Pipes {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("the thread that starts processes is gone")]
    ThreadGone,
}

/// Starts children. Cheap to clone; all clones share one thread.
#[derive(Debug, Clone)]
pub struct Spawner(Arc<thread::Handle>);

impl Spawner {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread or no descriptor.
    pub fn start() -> io::Result<Self> {
        Ok(Self(Arc::new(thread::Handle::start()?)))
    }

    /// Starts a child. Must be called within a tokio runtime, which then serves its pipes.
    ///
    /// # Errors
    /// When the program cannot be started; the source says why.
    pub async fn spawn(&self, request: SpawnRequest) -> Result<Child, SpawnError> {
        let program = request.program.display().to_string();
        let (answer, started) = tokio::sync::oneshot::channel();
        self.0.submit(thread::Job::Spawn { request: Box::new(request), answer });
        match started.await {
            Ok(Ok(spawned)) => {
                Child::new(self.clone(), spawned).map_err(|source| SpawnError::Pipes { program, source })
            }
            Ok(Err(source)) => Err(SpawnError::Start { program, source }),
            Err(_) => Err(SpawnError::ThreadGone),
        }
    }
}

#[cfg(test)]
mod tests;
