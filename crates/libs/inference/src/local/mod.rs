//! The daemon's side: one supervisor task that owns the inference process.

mod buffer;
mod supervisor;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd_base::{Backoff, Entropy};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot, watch};

pub use buffer::LocalStream;

use crate::gguf::{CHAT_TEMPLATE, FileIdentity, read_texts};
use crate::local::buffer::{Buffer, Reply};
use crate::local::supervisor::{Command, Supervisor};
use crate::{GenerateRequest, LocalError, LocalErrorCode};
use agentd_process::Spawner;

/// Requests that the supervisor has not looked at yet; it does so at once.
const MAX_COMMANDS: usize = 256;

/// How the model inside is run.
#[derive(Debug, Clone)]
pub struct LocalModelOptions {
    /// What starts the inference process: the daemon's own binary and the hidden subcommand.
    pub worker_command: (PathBuf, Vec<OsString>),
    pub spawner: Spawner,
    /// For seeds and for the spread of restarts.
    pub entropy: Entropy,
    /// The process ends after so long without a request, and its memory with it.
    pub idle_unload: Duration,
    /// Replies written at once, in turns. Each takes memory for a context window. One client has all but one of
    /// them at most, so that another one need not wait for the end of its replies.
    pub max_parallel: usize,
    /// Requests that wait beyond those, fair by client; what has no place is refused as `overloaded`.
    pub max_queue: usize,
    /// Tokens of a conversation, reply included; lowered to what a model was trained for.
    pub context_length: u32,
    /// A process that says nothing for so long while it has work is taken for hung, and killed.
    pub stall_timeout: Duration,
    /// How long to wait before a restart after the second failure in a row, and after each further one.
    pub restart_backoff: Backoff,
}

impl LocalModelOptions {
    /// The usual settings for `program arguments…` as the inference process.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>, arguments: Vec<OsString>, spawner: Spawner, entropy: Entropy) -> Self {
        Self {
            worker_command: (program.into(), arguments),
            spawner,
            entropy,
            idle_unload: Duration::from_secs(300),
            max_parallel: 4,
            max_queue: 128,
            context_length: 4096,
            stall_timeout: Duration::from_secs(60),
            restart_backoff: Backoff {
                base: Duration::from_secs(1),
                multiplier: 2.0,
                cap: Duration::from_secs(60),
                jitter: 0.2,
            },
        }
    }
}

/// Whether there is a model in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalState {
    /// No process, no memory; the next request starts one.
    Unloaded,
    Loading,
    Ready,
    /// The last attempt failed; `last_error` says why. The next request tries again.
    Failed,
}

/// What can be told of the model inside.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct LocalStatus {
    pub state: LocalState,
    /// The file that is loaded, or was asked for last.
    pub model: Option<PathBuf>,
    /// Memory of the inference process, files it has mapped included; 0 without one.
    pub resident_bytes: u64,
    pub process_id: Option<u32>,
    /// Of the last calls, recent ones counting more; `None` before the first.
    pub prompt_tokens_per_second: Option<f64>,
    pub generation_tokens_per_second: Option<f64>,
    /// Of the loaded model, as far as it is used.
    pub context_length: Option<u32>,
    pub last_error: Option<String>,
    /// Requests that run or wait.
    pub active_requests: usize,
}

impl Default for LocalStatus {
    fn default() -> Self {
        Self {
            state: LocalState::Unloaded,
            model: None,
            resident_bytes: 0,
            process_id: None,
            prompt_tokens_per_second: None,
            generation_tokens_per_second: None,
            context_length: None,
            last_error: None,
            active_requests: 0,
        }
    }
}

#[derive(Debug)]
struct Inner {
    options: LocalModelOptions,
    supervisor: Mutex<Lifecycle>,
    next_id: AtomicU64,
    /// Wakes the supervisor when a stream was dropped.
    dropped: Arc<Notify>,
    status: watch::Sender<LocalStatus>,
    /// What was found out of the last file that was asked for.
    supports_tools: Mutex<Option<(PathBuf, FileIdentity, bool)>>,
}

#[derive(Debug)]
enum Lifecycle {
    NotStarted,
    Running(mpsc::Sender<Command>),
    ShutDown,
}

/// Whether the chat template of a model file has tools, so that the model can be offered some. The file says it, so no
/// process is needed. Blocks for some milliseconds. `false` where the file cannot be read.
#[must_use]
pub fn supports_tools(model_path: &Path) -> bool {
    let template = read_texts(model_path, [CHAT_TEMPLATE]).ok().and_then(|[template]| template);
    template.is_some_and(crate::worker::has_tools)
}

/// The model inside. Cheap to clone; all clones share one process.
#[derive(Debug, Clone)]
pub struct LocalModel(Arc<Inner>);

impl LocalModel {
    /// Starts nothing: that is left to the first request.
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

    /// [`supports_tools`], read once for each file.
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

    /// Asks for a reply. Every outcome comes through the stream: events up to `Finished`, or one
    /// error, after which it ends. Dropping the stream cancels the request.
    ///
    /// Must be called within a tokio runtime.
    #[must_use]
    pub fn generate(&self, mut request: GenerateRequest) -> LocalStream {
        request.seed.get_or_insert_with(|| u32::from_le_bytes(self.0.options.entropy.bytes()));
        let buffer = Arc::new(Buffer::new());
        let stream = LocalStream::new(Arc::clone(&buffer), Arc::clone(&self.0.dropped));
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let Some(supervisor) = self.supervisor() else {
            return LocalStream::failed(shut_down());
        };
        if supervisor.try_send(Command::Generate { id, request: Box::new(request), reply: Reply::new(buffer) }).is_err()
        {
            return LocalStream::failed(LocalError::new(
                LocalErrorCode::Overloaded,
                "too many requests wait for the model inside; try again later",
            ));
        }
        stream
    }

    /// The way to the supervisor, started if need be; `None` after shutdown.
    fn supervisor(&self) -> Option<mpsc::Sender<Command>> {
        let mut lifecycle = self.0.supervisor.lock();
        match &*lifecycle {
            // Closed when the runtime that it ran on is gone.
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

    /// How it does at this moment.
    #[must_use]
    pub fn status(&self) -> LocalStatus {
        let mut status = self.0.status.borrow().clone();
        status.resident_bytes = status.process_id.map_or(0, crate::child::resident_bytes);
        status
    }

    /// Follows the status. `resident_bytes` is not kept up to date here; [`Self::status`] reads it.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<LocalStatus> {
        self.0.status.subscribe()
    }

    /// Ends the process and fails what still runs. Requests afterwards are refused.
    pub async fn shutdown(&self) {
        let before = std::mem::replace(&mut *self.0.supervisor.lock(), Lifecycle::ShutDown);
        if let Lifecycle::Running(supervisor) = before {
            let (done, finished) = oneshot::channel();
            if supervisor.send(Command::Shutdown { done }).await.is_ok() {
                // An error says that the supervisor is gone, and with it the process.
                let _ = finished.await;
            }
        }
    }
}

pub(crate) fn shut_down() -> LocalError {
    LocalError::new(LocalErrorCode::Unavailable, "the daemon is shutting down")
}
