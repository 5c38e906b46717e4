//! Handle of the local sentence encoder.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use crate::embedder::model_file::{fingerprint, first_existing};
use crate::embedder::supervisor::{Command, Refusal, Supervisor, overloaded};
use crate::embedder::{
    DIMENSIONS, EmbeddedText, Embedder, EmbedderOptions, EmbedderStatus, MAX_QUERY_BYTES, MAX_TEXT_BYTES,
    MAX_TEXTS_PER_CALL,
};
use crate::gguf::FileIdentity;
use crate::{LocalError, LocalErrorCode};

/// Maximum number of commands that the supervisor has not yet received.
const MAX_COMMANDS: usize = 256;

#[derive(Debug)]
struct Inner {
    options: EmbedderOptions,
    supervisor: Mutex<Lifecycle>,
    status: watch::Sender<EmbedderStatus>,
    refusal: Refusal,
    /// Id of the file as it was when last read.
    model_id: tokio::sync::Mutex<Option<(FileIdentity, String)>>,
}

#[derive(Debug)]
enum Lifecycle {
    NotStarted,
    Running(mpsc::Sender<Command>),
    ShutDown,
}

/// Local sentence encoder. Cheap to clone; all clones share one process.
///
/// Must be used within a tokio runtime.
#[derive(Debug, Clone)]
pub struct LocalEmbedder(Arc<Inner>);

impl LocalEmbedder {
    /// Creates the handle. The process is started and the file read on the first call.
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

    /// Returns the file's name and the beginning of its SHA-256. The file is read on the first call, and again only
    /// after it was replaced.
    ///
    /// # Errors
    /// Returns `model_missing`, also for an unusable file.
    pub async fn model_id(&self) -> Result<String, LocalError> {
        let (path, identity) = first_existing(&self.0.options.model_paths).await?;
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

    /// Embeds a query; see [`Embedder::embed_query`].
    ///
    /// # Errors
    /// See [`Embedder`].
    pub async fn embed_query(&self, text: &str) -> Result<Vec<f32>, LocalError> {
        let text = text[..text.floor_char_boundary(MAX_QUERY_BYTES)].to_owned();
        let (answer, answered) = oneshot::channel();
        self.ask(Command::Query { text, answer }, answered).await
    }

    /// Embeds texts; see [`Embedder::embed_texts`].
    ///
    /// # Errors
    /// See [`Embedder`]; returns `invalid` for a text longer than [`MAX_TEXT_BYTES`] and for more than
    /// [`MAX_TEXTS_PER_CALL`] texts.
    pub async fn embed_texts(&self, texts: Vec<String>) -> Result<Vec<EmbeddedText>, LocalError> {
        check_texts(&texts)?;
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
        let Some(supervisor) = self.supervisor() else { return Err(LocalError::shutting_down()) };
        if supervisor.try_send(command).is_err() {
            return Err(overloaded());
        }
        // Without an answer, the supervisor and its runtime have ended.
        answered.await.unwrap_or_else(|_| Err(LocalError::shutting_down()))
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
                let (options, status, refusal) =
                    (self.0.options.clone(), self.0.status.clone(), Arc::clone(&self.0.refusal));
                tokio::spawn(Supervisor::new(options, commands, status, refusal).run());
                *lifecycle = Lifecycle::Running(sender.clone());
                Some(sender)
            }
        }
    }

    /// Returns the current status.
    #[must_use]
    pub fn status(&self) -> EmbedderStatus {
        let mut status = self.0.status.borrow().clone();
        status.resident_bytes = status.process_id.map_or(0, crate::child::resident_bytes);
        status
    }

    /// Subscribes to the status. `resident_bytes` is only updated by [`Self::status`].
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<EmbedderStatus> {
        self.0.status.subscribe()
    }

    /// Ends the process and fails all running calls. Subsequent calls are refused.
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

/// Rejects texts that no embedder accepts.
fn check_texts(texts: &[String]) -> Result<(), LocalError> {
    let invalid = |message| Err(LocalError::new(LocalErrorCode::Invalid, message));
    if texts.len() > MAX_TEXTS_PER_CALL {
        return invalid(format!("too many texts in one call ({}, limit {MAX_TEXTS_PER_CALL})", texts.len()));
    }
    match texts.iter().map(String::len).max() {
        Some(longest) if longest > MAX_TEXT_BYTES => {
            invalid(format!("a text is too long ({longest} bytes, limit {MAX_TEXT_BYTES})"))
        }
        _ => Ok(()),
    }
}
