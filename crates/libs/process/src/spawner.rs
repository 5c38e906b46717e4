//! Starting of children.

use std::io;
use std::sync::Arc;

use crate::child::Child;
use crate::request::SpawnRequest;
use crate::thread::{Handle, Job};

/// Reason why a child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("failed to start `{program}`")]
    Start {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("failed to open the pipes of `{program}`")]
    Pipes {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("the thread that starts processes has ended")]
    ThreadGone,
}

/// Starts child processes. Cheap to clone; all clones share one thread.
#[derive(Debug, Clone)]
pub struct Spawner(Arc<Handle>);

impl Spawner {
    /// Starts the thread.
    ///
    /// # Errors
    /// Returns an error if the system provides no thread or descriptor.
    pub fn start() -> io::Result<Self> {
        Ok(Self(Arc::new(Handle::start()?)))
    }

    /// Starts a child. Must be called within a tokio runtime, which then drives its pipes.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started; the source is the reason.
    pub async fn spawn(&self, request: SpawnRequest) -> Result<Child, SpawnError> {
        let program = request.program.display().to_string();
        let (answer, started) = tokio::sync::oneshot::channel();
        self.0.submit(Job::Spawn { request: Box::new(request), answer });
        match started.await {
            Ok(Ok(spawned)) => {
                Child::new(Arc::clone(&self.0), spawned).map_err(|source| SpawnError::Pipes { program, source })
            }
            Ok(Err(source)) => Err(SpawnError::Start { program, source }),
            Err(_) => Err(SpawnError::ThreadGone),
        }
    }
}
