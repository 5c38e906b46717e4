//! Task that owns the inference process of the embedder.
//!
//! Queries are sent to the process immediately. Texts are sent a few at a time, so that calls take turns and the
//! process's memory is bounded; the process itself prioritizes queries.
//!
//! Invariant: every call is answered; when a process is lost, all calls that it had are failed.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use crate::child::{Keeper, KeeperOptions, ProcessEvent};
use crate::embedder::jobs::{Jobs, TextPosition, TextsAnswer};
use crate::embedder::model_file::first_existing;
use crate::embedder::{EmbeddedText, EmbedderOptions, EmbedderStatus, MAX_TEXT_BYTES};
use crate::gguf::FileIdentity;
use crate::protocol::{EmbedderConfiguration, EmbeddingUsage, FromWorker, ToWorker};
use crate::{LocalError, LocalErrorCode, LocalState};

/// Maximum number of texts in the process: a few batches ahead, so that it never waits for the pipe.
const MAX_TEXTS_IN_FLIGHT: usize = 32;
const MAX_BYTES_IN_FLIGHT: usize = MAX_TEXT_BYTES;
/// Maximum total size of the queued texts, in bytes.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Weight of the latest result in the reported speed.
const LATEST_WEIGHT: f64 = 0.1;

/// Model file that was found unusable, with the error.
pub(super) type Refusal = Arc<Mutex<Option<(FileIdentity, LocalError)>>>;

type QueryAnswer = oneshot::Sender<Result<Vec<f32>, LocalError>>;

#[derive(Debug)]
pub(super) enum Command {
    Query { text: String, answer: QueryAnswer },
    Texts { texts: Vec<String>, answer: TextsAnswer },
    Shutdown { done: oneshot::Sender<()> },
}

#[derive(Debug)]
pub(super) struct Supervisor {
    options: EmbedderOptions,
    commands: mpsc::Receiver<Command>,
    status: watch::Sender<EmbedderStatus>,
    keeper: Keeper,
    next_id: u64,
    queries: HashMap<u64, QueryAnswer>,
    jobs: Jobs,
    /// Texts sent to the process, with their sizes in bytes.
    in_flight: HashMap<u64, (TextPosition, usize)>,
    bytes_in_flight: usize,
    /// File for which the process was started.
    loaded: Option<FileIdentity>,
    /// Last unusable file, so that it is not read again for every request.
    refusal: Refusal,
}

enum Wakeup {
    Command(Option<Command>),
    Process(ProcessEvent),
}

impl Supervisor {
    pub(super) fn new(
        options: EmbedderOptions,
        commands: mpsc::Receiver<Command>,
        status: watch::Sender<EmbedderStatus>,
        refusal: Refusal,
    ) -> Self {
        let keeper = Keeper::new(KeeperOptions {
            name: "the embedder",
            worker_command: options.worker_command.clone(),
            spawner: options.spawner.clone(),
            entropy: options.entropy.clone(),
            idle_unload: options.idle_unload,
            stall_timeout: options.stall_timeout,
            restart_backoff: options.restart_backoff,
        });
        Self {
            options,
            commands,
            status,
            keeper,
            next_id: 0,
            queries: HashMap::new(),
            jobs: Jobs::default(),
            in_flight: HashMap::new(),
            bytes_in_flight: 0,
            loaded: None,
            refusal,
        }
    }

    /// Runs until shutdown, or until all command senders are dropped.
    pub(super) async fn run(mut self) {
        loop {
            match self.next().await {
                Wakeup::Command(Some(Command::Query { text, answer })) => self.query(text, answer).await,
                Wakeup::Command(Some(Command::Texts { texts, answer })) => self.texts(texts, answer),
                Wakeup::Command(Some(Command::Shutdown { done })) => {
                    self.shutdown().await;
                    // The caller may have stopped waiting.
                    let _ = done.send(());
                    return;
                }
                Wakeup::Command(None) => return self.shutdown().await,
                Wakeup::Process(ProcessEvent::Frame(frame)) => self.on_frame(frame),
                Wakeup::Process(ProcessEvent::Lost(message)) => {
                    self.record_failure(&message);
                    self.fail_all(&LocalError::new(LocalErrorCode::Unavailable, message));
                }
                Wakeup::Process(ProcessEvent::Unloaded) => self.record_unloaded(),
                Wakeup::Process(ProcessEvent::Nothing) => {}
            }
            self.send_texts().await;
            let active = self.queries.len() + self.jobs.texts();
            self.status.send_if_modified(|status| {
                let changed = status.active_requests != active;
                status.active_requests = active;
                changed
            });
        }
    }

    async fn next(&mut self) -> Wakeup {
        let has_work = self.has_work();
        let observed = tokio::select! {
            biased;
            observed = self.keeper.observe(has_work) => observed,
            command = self.commands.recv() => return Wakeup::Command(command),
        };
        Wakeup::Process(self.keeper.classify(observed, has_work).await)
    }

    /// Whether the process has unanswered work.
    fn has_work(&self) -> bool {
        !self.queries.is_empty() || !self.in_flight.is_empty()
    }

    async fn query(&mut self, text: String, answer: QueryAnswer) {
        if self.queries.len() >= self.options.max_queries {
            let _ = answer.send(Err(overloaded()));
            return;
        }
        if let Err(error) = self.ensure_process().await {
            let _ = answer.send(Err(error));
            return;
        }
        let id = self.id();
        if self.keeper.send(ToWorker::Embed { id, is_query: true, text }) {
            self.queries.insert(id, answer);
        } else {
            let _ = answer.send(Err(overloaded()));
        }
    }

    fn texts(&mut self, texts: Vec<String>, answer: TextsAnswer) {
        let bytes: usize = texts.iter().map(String::len).sum();
        if self.jobs.texts() + texts.len() > self.options.max_texts || self.jobs.bytes() + bytes > MAX_WAITING_BYTES {
            let _ = answer.send(Err(overloaded()));
        } else {
            self.jobs.add(texts, answer);
        }
    }

    /// Sends as many texts to the process as its limits allow.
    async fn send_texts(&mut self) {
        while self.jobs.has_waiting()
            && self.in_flight.len() < MAX_TEXTS_IN_FLIGHT
            && self.bytes_in_flight < MAX_BYTES_IN_FLIGHT
        {
            if let Err(error) = self.ensure_process().await {
                return self.jobs.fail_all(&error);
            }
            let Some((position, text)) = self.jobs.next() else { return };
            let (id, bytes) = (self.id(), text.len());
            if self.keeper.send(ToWorker::Embed { id, is_query: false, text }) {
                self.in_flight.insert(id, (position, bytes));
                self.bytes_in_flight += bytes;
            } else {
                self.jobs.fail(position, overloaded());
            }
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Ensures that a process is running for the current version of the file.
    async fn ensure_process(&mut self) -> Result<(), LocalError> {
        if self.has_work() {
            return Ok(());
        }
        let (model_path, identity) = match first_existing(&self.options.model_paths).await {
            Ok(found) => found,
            Err(error) => {
                self.status.send_modify(|status| status.last_error = Some(error.message.clone()));
                return Err(error);
            }
        };
        {
            let mut refusal = self.refusal.lock();
            match &*refusal {
                Some((refused, error)) if *refused == identity => return Err(error.clone()),
                _ => *refusal = None,
            }
        }
        // A process that has loaded another file would continue with that one.
        if self.loaded.is_some_and(|loaded| loaded != identity) && self.keeper.end().await {
            self.record_unloaded();
        }
        let configuration = EmbedderConfiguration {
            model_path: model_path.clone(),
            text_threads: self.options.text_threads,
            limits: self.options.limits,
            max_queue: self.options.max_queries + MAX_TEXTS_IN_FLIGHT,
        };
        match self.keeper.start(ToWorker::ConfigureEmbedder(configuration)).await {
            Ok(false) => {}
            Ok(true) => {
                self.loaded = Some(identity);
                self.status.send_modify(|status| {
                    status.state = LocalState::Loading;
                    status.model = model_path;
                    status.process_id = self.keeper.process_id();
                });
            }
            Err(error) => {
                self.record_failure(self.keeper.last_failure());
                return Err(error);
            }
        }
        self.keeper.begin_work();
        Ok(())
    }

    fn on_frame(&mut self, frame: FromWorker) {
        match frame {
            FromWorker::Loading { .. } => self.record_state(LocalState::Loading),
            FromWorker::Loaded { .. } => {
                self.status.send_modify(|status| {
                    status.state = LocalState::Ready;
                    status.last_error = None;
                });
            }
            FromWorker::Embedded { id, embedded, usage } => {
                self.keeper.succeeded();
                self.record_speed(usage);
                self.answer(id, embedded);
            }
            FromWorker::Failed { id, code, message } => {
                let error = LocalError::new(code, message);
                self.record_refusal(&error);
                if let Some(answer) = self.queries.remove(&id) {
                    let _ = answer.send(Err(error));
                } else if let Some(position) = self.take_in_flight(id) {
                    self.jobs.fail(position, error);
                }
            }
            // Other frames belong to the text generation process.
            FromWorker::Working | FromWorker::Text { .. } | FromWorker::Finished { .. } => {}
        }
    }

    fn answer(&mut self, id: u64, embedded: EmbeddedText) {
        if let Some(answer) = self.queries.remove(&id) {
            let vector = embedded.chunks.into_iter().next().map(|chunk| chunk.vector);
            // The caller may have stopped waiting.
            let _ = answer.send(vector.ok_or_else(empty_query_error));
        } else if let Some(position) = self.take_in_flight(id) {
            self.jobs.finish(position, embedded);
        }
    }

    fn take_in_flight(&mut self, id: u64) -> Option<TextPosition> {
        let (position, bytes) = self.in_flight.remove(&id)?;
        self.bytes_in_flight -= bytes;
        Some(position)
    }

    fn record_refusal(&mut self, error: &LocalError) {
        let is_fatal = matches!(error.code, LocalErrorCode::ModelMissing | LocalErrorCode::UnsupportedCpu);
        if is_fatal {
            let refused = self.loaded.map(|loaded| (loaded, error.clone()));
            // All requests for this file fail alike; only the first failure is reported.
            let before = std::mem::replace(&mut *self.refusal.lock(), refused);
            if before.is_some_and(|(file, _)| Some(file) == self.loaded) {
                return;
            }
        }
        if is_fatal || error.code == LocalErrorCode::Internal {
            tracing::warn!(code = error.code.as_str(), message = error.message, "embedder failed");
            self.status.send_modify(|status| {
                status.last_error = Some(error.message.clone());
                if is_fatal {
                    status.state = LocalState::Failed;
                }
            });
        }
    }

    fn record_failure(&self, message: &str) {
        self.status.send_modify(|status| {
            status.state = LocalState::Failed;
            status.process_id = None;
            status.last_error = Some(message.to_owned());
        });
    }

    fn record_unloaded(&self) {
        self.status.send_modify(|status| {
            status.process_id = None;
            if status.state != LocalState::Failed {
                status.state = LocalState::Unloaded;
            }
        });
    }

    fn record_state(&self, state: LocalState) {
        self.status.send_if_modified(|status| {
            let changed = status.state != state;
            status.state = state;
            changed
        });
    }

    fn record_speed(&self, usage: EmbeddingUsage) {
        if usage.tokens == 0 || usage.seconds <= 0.0 {
            return;
        }
        let latest = f64::from(usage.tokens) / usage.seconds;
        self.status.send_modify(|status| {
            let before = status.tokens_per_second.unwrap_or(latest);
            status.tokens_per_second = Some(before + LATEST_WEIGHT * (latest - before));
        });
    }

    fn fail_all(&mut self, error: &LocalError) {
        for (_, answer) in self.queries.drain() {
            let _ = answer.send(Err(error.clone()));
        }
        // Queued texts may be tried with the next process.
        for (_, (position, _)) in self.in_flight.drain() {
            self.jobs.fail(position, error.clone());
        }
        self.bytes_in_flight = 0;
    }

    async fn shutdown(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Query { answer, .. } => drop(answer.send(Err(LocalError::shutting_down()))),
                Command::Texts { answer, .. } => drop(answer.send(Err(LocalError::shutting_down()))),
                Command::Shutdown { done } => drop(done.send(())),
            }
        }
        self.fail_all(&LocalError::shutting_down());
        self.jobs.fail_all(&LocalError::shutting_down());
        self.keeper.end().await;
        self.status.send_modify(|status| {
            status.state = LocalState::Unloaded;
            status.process_id = None;
            status.active_requests = 0;
        });
    }
}

/// Error for a query without any words.
fn empty_query_error() -> LocalError {
    LocalError::new(LocalErrorCode::Invalid, "the query contains no searchable words")
}

pub(super) fn overloaded() -> LocalError {
    LocalError::new(LocalErrorCode::Overloaded, "too many texts are waiting for the embedder; retry later")
}
