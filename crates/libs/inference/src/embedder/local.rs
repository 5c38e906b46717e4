//! The handle of the sentence encoder inside.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Backoff, Entropy};
use agentd_process::Spawner;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use crate::embedder::model_file::{fingerprint, first_of};
use crate::embedder::supervisor::{Command, Supervisor};
use crate::embedder::{
    DIMENSIONS, EmbeddedText, Embedder, EmbedderLimits, MAX_QUERY_BYTES, MAX_TEXT_BYTES, MAX_TEXTS_PER_CALL,
};
use crate::gguf::FileIdentity;
use crate::{LocalError, LocalErrorCode, LocalState};

/// Calls that the supervisor has not looked at yet; it does so at once.
const MAX_COMMANDS: usize = 256;

/// How the embedder is run.
#[derive(Debug, Clone)]
pub struct EmbedderOptions {
    /// Where a GGUF file of a sentence encoder of the BERT family with [`DIMENSIONS`] dimensions may
    /// lie. The first that is there is used, also if it came after the start.
    pub model_paths: Vec<PathBuf>,
    /// What starts the inference process: the daemon's own binary and the hidden subcommand.
    pub worker_command: (PathBuf, Vec<OsString>),
    pub spawner: Spawner,
    /// For the spread of restarts.
    pub entropy: Entropy,
    pub limits: EmbedderLimits,
    /// Threads that embed texts, besides the one for queries. `None`: as many as suit the machine, two
    /// on one with two processors.
    pub text_threads: Option<usize>,
    /// The process ends after so long without a request, and its memory with it.
    pub idle_unload: Duration,
    /// Queries that wait or are worked on; more are refused as `overloaded`.
    pub max_queries: usize,
    /// Texts that wait or are worked on, of all calls together; more are refused as `overloaded`.
    pub max_texts: usize,
    /// A process that says nothing for so long while it has work is taken for hung, and killed.
    pub stall_timeout: Duration,
    /// How long to wait before a restart after the second failure in a row, and after each further one.
    pub restart_backoff: Backoff,
}

impl EmbedderOptions {
    /// The usual settings for `program arguments…` as the inference process.
    #[must_use]
    pub fn new(
        model_paths: Vec<PathBuf>,
        program: impl Into<PathBuf>,
        arguments: Vec<OsString>,
        spawner: Spawner,
        entropy: Entropy,
    ) -> Self {
        Self {
            model_paths,
            worker_command: (program.into(), arguments),
            spawner,
            entropy,
            limits: EmbedderLimits::default(),
            text_threads: None,
            idle_unload: Duration::from_secs(300),
            max_queries: 64,
            max_texts: 4096,
            stall_timeout: Duration::from_secs(30),
            restart_backoff: Backoff {
                base: Duration::from_secs(1),
                multiplier: 2.0,
                cap: Duration::from_secs(60),
                jitter: 0.2,
            },
        }
    }
}

/// What can be told of the embedder.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct EmbedderStatus {
    pub state: LocalState,
    /// The file that is loaded or will be.
    pub model: PathBuf,
    /// Memory of the inference process, files it has mapped included; 0 without one.
    pub resident_bytes: u64,
    pub process_id: Option<u32>,
    /// Of the last texts, recent ones counting more; `None` before the first.
    pub tokens_per_second: Option<f64>,
    pub last_error: Option<String>,
    /// Queries and texts that wait or are worked on.
    pub active_requests: usize,
}

impl EmbedderStatus {
    /// That of an embedder which did nothing yet.
    #[must_use]
    pub fn unloaded(model: impl Into<PathBuf>) -> Self {
        Self {
            state: LocalState::Unloaded,
            model: model.into(),
            resident_bytes: 0,
            process_id: None,
            tokens_per_second: None,
            last_error: None,
            active_requests: 0,
        }
    }
}

#[derive(Debug)]
struct Inner {
    options: EmbedderOptions,
    supervisor: Mutex<Lifecycle>,
    status: watch::Sender<EmbedderStatus>,
    refusal: Refusal,
    /// Of the file as it was when it was last read.
    model_id: tokio::sync::Mutex<Option<(FileIdentity, String)>>,
}

/// A file that cannot be used, and why.
pub(super) type Refusal = Arc<Mutex<Option<(FileIdentity, LocalError)>>>;

#[derive(Debug)]
enum Lifecycle {
    NotStarted,
    Running(mpsc::Sender<Command>),
    ShutDown,
}

/// The sentence encoder inside. Cheap to clone; all clones share one process.
///
/// Must be used within a tokio runtime.
#[derive(Debug, Clone)]
pub struct LocalEmbedder(Arc<Inner>);

impl LocalEmbedder {
    /// Starts nothing and reads nothing: that is left to the first call.
    #[must_use]
    pub fn new(options: EmbedderOptions) -> Self {
        let status =
            watch::Sender::new(EmbedderStatus::unloaded(options.model_paths.first().cloned().unwrap_or_default()));
        Self(Arc::new(Inner {
            options,
            supervisor: Mutex::new(Lifecycle::NotStarted),
            status,
            refusal: Refusal::default(),
            model_id: tokio::sync::Mutex::new(None),
        }))
    }

    /// The file's name and the beginning of its SHA-256. Reads the file on the first call, and again
    /// only when it was replaced.
    ///
    /// # Errors
    /// `model_missing`; also for a file that turned out to be of no use.
    pub async fn model_id(&self) -> Result<String, LocalError> {
        let (path, identity) = first_of(&self.0.options.model_paths).await?;
        if let Some((refused, error)) = &*self.0.refusal.lock()
            && *refused == identity
        {
            return Err(error.clone());
        }
        let mut known = self.0.model_id.lock().await;
        if let Some((of, id)) = &*known
            && *of == identity
        {
            return Ok(id.clone());
        }
        let id = fingerprint(&path).await?;
        *known = Some((identity, id.clone()));
        Ok(id)
    }

    /// See [`Embedder::embed_query`].
    ///
    /// # Errors
    /// See [`Embedder`].
    pub async fn embed_query(&self, text: &str) -> Result<Vec<f32>, LocalError> {
        let text = text[..text.floor_char_boundary(MAX_QUERY_BYTES)].to_owned();
        let (answer, answered) = oneshot::channel();
        self.ask(Command::Query { text, answer }, answered).await
    }

    /// See [`Embedder::embed_texts`].
    ///
    /// # Errors
    /// See [`Embedder`]; `invalid` for a text beyond [`MAX_TEXT_BYTES`] and for more than
    /// [`MAX_TEXTS_PER_CALL`] of them.
    pub async fn embed_texts(&self, texts: Vec<String>) -> Result<Vec<EmbeddedText>, LocalError> {
        check(&texts)?;
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let (answer, answered) = oneshot::channel();
        self.ask(Command::Texts { texts, answer }, answered).await
    }

    async fn ask<T>(
        &self,
        command: Command,
        answered: oneshot::Receiver<Result<T, LocalError>>,
    ) -> Result<T, LocalError> {
        let Some(supervisor) = self.supervisor() else { return Err(crate::local::shut_down()) };
        if supervisor.try_send(command).is_err() {
            return Err(overloaded());
        }
        // Without an answer the supervisor is gone, and the runtime it ran on.
        answered.await.unwrap_or_else(|_| Err(crate::local::shut_down()))
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
                let (options, status, refusal) =
                    (self.0.options.clone(), self.0.status.clone(), Arc::clone(&self.0.refusal));
                tokio::spawn(Supervisor::new(options, commands, status, refusal).run());
                *lifecycle = Lifecycle::Running(sender.clone());
                Some(sender)
            }
        }
    }

    /// How it does at this moment.
    #[must_use]
    pub fn status(&self) -> EmbedderStatus {
        let mut status = self.0.status.borrow().clone();
        status.resident_bytes = status.process_id.map_or(0, crate::child::resident_bytes);
        status
    }

    /// Follows the status. `resident_bytes` is not kept up to date here; [`Self::status`] reads it.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<EmbedderStatus> {
        self.0.status.subscribe()
    }

    /// Ends the process and fails what still runs. Calls afterwards are refused.
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

impl Embedder for LocalEmbedder {
    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn model_id(&self) -> BoxFuture<'_, Result<String, LocalError>> {
        self.model_id().boxed()
    }

    fn embed_query<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Vec<f32>, LocalError>> {
        self.embed_query(text).boxed()
    }

    fn embed_texts(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<EmbeddedText>, LocalError>> {
        self.embed_texts(texts).boxed()
    }

    fn status(&self) -> EmbedderStatus {
        self.status()
    }
}

/// What no embedder takes.
pub(super) fn check(texts: &[String]) -> Result<(), LocalError> {
    let invalid = |message| Err(LocalError::new(LocalErrorCode::Invalid, message));
    if texts.len() > MAX_TEXTS_PER_CALL {
        return invalid(format!("{} texts are too many for one call; give at most {MAX_TEXTS_PER_CALL}", texts.len()));
    }
    match texts.iter().map(String::len).max() {
        Some(longest) if longest > MAX_TEXT_BYTES => {
            invalid(format!("a text of {longest} bytes is too long; the longest may have {MAX_TEXT_BYTES}"))
        }
        _ => Ok(()),
    }
}

/// What a query without a word is told.
pub(super) fn no_words() -> LocalError {
    LocalError::new(LocalErrorCode::Invalid, "the query holds no word whose meaning could be looked for")
}

pub(super) fn overloaded() -> LocalError {
    LocalError::new(LocalErrorCode::Overloaded, "too many texts wait for the embedder; try again later")
}
