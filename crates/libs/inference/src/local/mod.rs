//! Daemon side of the local model: a supervisor task that owns the inference process.

mod buffer;
mod options;
mod supervisor;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot, watch};

pub use buffer::LocalStream;
pub use options::LocalModelOptions;

use crate::gguf::{CHAT_TEMPLATE, FileIdentity, read_texts};
use crate::local::buffer::{Buffer, Reply};
use crate::local::supervisor::{Command, Supervisor};
use crate::{GenerateRequest, LocalError, LocalErrorCode, LocalStatus};

/// Maximum number of requests that the supervisor has not yet received.
const MAX_COMMANDS: usize = 256;

#[derive(Debug)]
struct Inner {
    options: LocalModelOptions,
    supervisor: Mutex<Lifecycle>,
    next_id: AtomicU64,
    /// Wakes the supervisor when a stream is dropped.
    dropped: Arc<Notify>,
    status: watch::Sender<LocalStatus>,
    /// Cached result for the last file that was queried.
    supports_tools: Mutex<Option<(PathBuf, FileIdentity, bool)>>,
}

#[derive(Debug)]
enum Lifecycle {
    NotStarted,
    Running(mpsc::Sender<Command>),
    ShutDown,
}

/// Whether the chat template of a model file supports tools. Reads the file without a process and blocks for a few
/// milliseconds. Returns `false` for an unreadable file.
#[must_use]
pub fn supports_tools(model_path: &Path) -> bool {
    let template = read_texts(model_path, [CHAT_TEMPLATE]).ok().and_then(|[template]| template);
    template.is_some_and(crate::worker::has_tools)
}

/// Local model. Cheap to clone; all clones share one process.
#[derive(Debug, Clone)]
pub struct LocalModel(Arc<Inner>);

impl LocalModel {
    /// Creates the handle. The process is started on the first request.
    #[must_use]
    pub fn new(options: LocalModelOptions) -> Self {
        Self(Arc::new(Inner {
            options,
            supervisor: Mutex::new(Lifecycle::NotStarted),
            next_id: AtomicU64::new(1),
            dropped: Arc::new(Notify::new()),
            status: watch::Sender::new(LocalStatus::default()),
            supports_tools: Mutex::new(None),
        }))
    }

    /// Returns [`supports_tools`], cached per file.
    #[must_use]
    pub fn supports_tools(&self, model_path: &Path) -> bool {
        let Ok(metadata) = std::fs::metadata(model_path) else { return false };
        let identity = FileIdentity::from(&metadata);
        if let Some((path, known, supports_tools)) = &*self.0.supports_tools.lock()
            && (path.as_path(), known) == (model_path, &identity)
        {
            return *supports_tools;
        }
        let supports_tools = supports_tools(model_path);
        *self.0.supports_tools.lock() = Some((model_path.to_path_buf(), identity, supports_tools));
        supports_tools
    }

    /// Requests a reply. Every outcome is delivered by the stream: events up to `Finished`, or one error as the last
    /// item. Dropping the stream cancels the request.
    ///
    /// Must be called within a tokio runtime.
    #[must_use]
    pub fn generate(&self, mut request: GenerateRequest) -> LocalStream {
        request.seed.get_or_insert_with(|| u32::from_le_bytes(self.0.options.entropy.bytes()));
        let buffer = Arc::new(Buffer::new());
        let stream = LocalStream::new(Arc::clone(&buffer), Arc::clone(&self.0.dropped));
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let Some(supervisor) = self.supervisor() else {
            return LocalStream::failed(LocalError::shutting_down());
        };
        if supervisor.try_send(Command::Generate { id, request: Box::new(request), reply: Reply::new(buffer) }).is_err()
        {
            return LocalStream::failed(LocalError::new(
                LocalErrorCode::Overloaded,
                "too many requests are waiting for the built-in model; retry later",
            ));
        }
        stream
    }

    /// Returns the supervisor's sender, starting it if necessary; `None` after shutdown.
    fn supervisor(&self) -> Option<mpsc::Sender<Command>> {
        let mut lifecycle = self.0.supervisor.lock();
        match &*lifecycle {
            // Closed if its runtime has ended.
            Lifecycle::Running(sender) if !sender.is_closed() => Some(sender.clone()),
            Lifecycle::ShutDown => None,
            Lifecycle::NotStarted | Lifecycle::Running(_) => {
                let (sender, commands) = mpsc::channel(MAX_COMMANDS);
                let supervisor = Supervisor::new(
                    self.0.options.clone(),
                    commands,
                    Arc::clone(&self.0.dropped),
                    self.0.status.clone(),
                );
                tokio::spawn(supervisor.run());
                *lifecycle = Lifecycle::Running(sender.clone());
                Some(sender)
            }
        }
    }

    /// Returns the current status.
    #[must_use]
    pub fn status(&self) -> LocalStatus {
        let mut status = self.0.status.borrow().clone();
        status.resident_bytes = status.process_id.map_or(0, crate::child::resident_bytes);
        status
    }

    /// Subscribes to the status. `resident_bytes` is only updated by [`Self::status`].
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<LocalStatus> {
        self.0.status.subscribe()
    }

    /// Ends the process and fails all running requests. Subsequent requests are refused.
    pub async fn shutdown(&self) {
        let before = std::mem::replace(&mut *self.0.supervisor.lock(), Lifecycle::ShutDown);
        if let Lifecycle::Running(supervisor) = before {
            let (done, finished) = oneshot::channel();
            if supervisor.send(Command::Shutdown { done }).await.is_ok() {
                // An error means that the supervisor and its process have already ended.
                let _ = finished.await;
            }
        }
    }
}
