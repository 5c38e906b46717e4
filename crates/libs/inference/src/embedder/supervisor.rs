//! The one task that owns the inference process of the embedder.
//!
//! Queries go to the process at once. Of the texts only a few are there at a time, so that they stay
//! here in turns and the process's memory is bounded; the process itself puts queries first.
//!
//! Invariant: every call is answered, and every way out of a process answers all that it had.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use crate::child::{Happened, Keeper, KeeperOptions};
use crate::embedder::jobs::{Jobs, Place, TextsAnswer};
use crate::embedder::model_file::first_of;
use crate::embedder::{EmbeddedText, EmbedderOptions, EmbedderStatus, MAX_TEXT_BYTES};
use crate::gguf::FileIdentity;
use crate::protocol::{EmbedderConfiguration, EmbeddingUsage, FromWorker, ToWorker};
use crate::{LocalError, LocalErrorCode, LocalState};

/// Texts that the process has at a time: some batches ahead, so that it never waits for the pipe.
const MAX_TEXTS_AHEAD: usize = 32;
const MAX_BYTES_AHEAD: usize = MAX_TEXT_BYTES;
/// Bytes of the texts that wait here.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Weight of the latest answer in the speed that is reported.
const LATEST_WEIGHT: f64 = 0.1;

/// A file that cannot be used, and why.
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
    /// The texts that the process has, and their bytes.
    ahead: HashMap<u64, (Place, usize)>,
    bytes_ahead: usize,
    /// The file that the process was started for.
    loaded: Option<FileIdentity>,
    /// What is refused is not read again for every request.
    refusal: Refusal,
}

enum Woken {
    Command(Option<Command>),
    Process(Happened),
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
            ahead: HashMap::new(),
            bytes_ahead: 0,
            loaded: None,
            refusal,
        }
    }

    /// Until shutdown, or until nobody can send a command any more.
    pub(super) async fn run(mut self) {
        loop {
            match self.next().await {
                Woken::Command(Some(Command::Query { text, answer })) => self.query(text, answer).await,
                Woken::Command(Some(Command::Texts { texts, answer })) => self.texts(texts, answer),
                Woken::Command(Some(Command::Shutdown { done })) => {
                    self.shutdown().await;
                    // Nobody waits if the caller gave up.
                    let _ = done.send(());
                    return;
                }
                Woken::Command(None) => return self.shutdown().await,
                Woken::Process(Happened::Frame(frame)) => self.on_frame(frame),
                Woken::Process(Happened::Lost(message)) => {
                    self.note_failure(&message);
                    self.fail_all(&LocalError::new(LocalErrorCode::Unavailable, message));
                }
                Woken::Process(Happened::Unloaded) => self.note_unloaded(),
                Woken::Process(Happened::Nothing) => {}
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

    async fn next(&mut self) -> Woken {
        let has_work = self.has_work();
        let observed = tokio::select! {
            biased;
            observed = self.keeper.observe(has_work) => observed,
            command = self.commands.recv() => return Woken::Command(command),
        };
        Woken::Process(self.keeper.classify(observed, has_work).await)
    }

    /// Whether the process has anything to answer.
    fn has_work(&self) -> bool {
        !self.queries.is_empty() || !self.ahead.is_empty()
    }

    async fn query(&mut self, text: String, answer: QueryAnswer) {
        if self.queries.len() >= self.options.max_queries {
            let _ = answer.send(Err(overloaded()));
            return;
        }
        if let Err(error) = self.make_ready().await {
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

    /// Gives the process as many texts as it may have.
    async fn send_texts(&mut self) {
        while self.jobs.has_waiting() && self.ahead.len() < MAX_TEXTS_AHEAD && self.bytes_ahead < MAX_BYTES_AHEAD {
            if let Err(error) = self.make_ready().await {
                return self.jobs.fail_all(&error);
            }
            let Some((place, text)) = self.jobs.next() else { return };
            let (id, bytes) = (self.id(), text.len());
            if self.keeper.send(ToWorker::Embed { id, is_query: false, text }) {
                self.ahead.insert(id, (place, bytes));
                self.bytes_ahead += bytes;
            } else {
                self.jobs.fail(place, overloaded());
            }
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Sees to it that there is a process for the file as it now is.
    async fn make_ready(&mut self) -> Result<(), LocalError> {
        if self.has_work() {
            return Ok(());
        }
        let (model_path, identity) = match first_of(&self.options.model_paths).await {
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
        // A process that has another file in memory would go on with that one.
        if self.loaded.is_some_and(|loaded| loaded != identity) && self.keeper.end().await {
            self.note_unloaded();
        }
        let configuration = EmbedderConfiguration {
            model_path: model_path.clone(),
            text_threads: self.options.text_threads,
            limits: self.options.limits,
            max_queue: self.options.max_queries + MAX_TEXTS_AHEAD,
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
                self.note_failure(self.keeper.last_failure());
                return Err(error);
            }
        }
        self.keeper.begin_work();
        Ok(())
    }

    fn on_frame(&mut self, frame: FromWorker) {
        match frame {
            FromWorker::Loading { .. } => self.note_state(LocalState::Loading),
            FromWorker::Loaded { .. } => {
                self.status.send_modify(|status| {
                    status.state = LocalState::Ready;
                    status.last_error = None;
                });
            }
            FromWorker::Embedded { id, embedded, usage } => {
                self.keeper.succeeded();
                self.note_speed(usage);
                self.answer(id, embedded);
            }
            FromWorker::Failed { id, code, message } => {
                let error = LocalError::new(code, message);
                self.note_refusal(&error);
                if let Some(answer) = self.queries.remove(&id) {
                    let _ = answer.send(Err(error));
                } else if let Some(place) = self.take_ahead(id) {
                    self.jobs.fail(place, error);
                }
            }
            // The others are those of the model that writes.
            FromWorker::Working | FromWorker::Text { .. } | FromWorker::Finished { .. } => {}
        }
    }

    fn answer(&mut self, id: u64, embedded: EmbeddedText) {
        if let Some(answer) = self.queries.remove(&id) {
            let vector = embedded.chunks.into_iter().next().map(|chunk| chunk.vector);
            // Nobody waits if the caller gave up.
            let _ = answer.send(vector.ok_or_else(no_words));
        } else if let Some(place) = self.take_ahead(id) {
            self.jobs.finish(place, embedded);
        }
    }

    fn take_ahead(&mut self, id: u64) -> Option<Place> {
        let (place, bytes) = self.ahead.remove(&id)?;
        self.bytes_ahead -= bytes;
        Some(place)
    }

    fn note_refusal(&mut self, error: &LocalError) {
        let is_fatal = matches!(error.code, LocalErrorCode::ModelMissing | LocalErrorCode::UnsupportedCpu);
        if is_fatal {
            let refused = self.loaded.map(|loaded| (loaded, error.clone()));
            // All that was asked of the file fails alike, and is told once.
            let before = std::mem::replace(&mut *self.refusal.lock(), refused);
            if before.is_some_and(|(file, _)| Some(file) == self.loaded) {
                return;
            }
        }
        if is_fatal || error.code == LocalErrorCode::Internal {
            tracing::warn!(code = error.code.as_str(), message = error.message, "the embedder failed");
            self.status.send_modify(|status| {
                status.last_error = Some(error.message.clone());
                if is_fatal {
                    status.state = LocalState::Failed;
                }
            });
        }
    }

    fn note_failure(&self, message: &str) {
        self.status.send_modify(|status| {
            status.state = LocalState::Failed;
            status.process_id = None;
            status.last_error = Some(message.to_owned());
        });
    }

    fn note_unloaded(&self) {
        self.status.send_modify(|status| {
            status.process_id = None;
            if status.state != LocalState::Failed {
                status.state = LocalState::Unloaded;
            }
        });
    }

    fn note_state(&self, state: LocalState) {
        self.status.send_if_modified(|status| {
            let changed = status.state != state;
            status.state = state;
            changed
        });
    }

    fn note_speed(&self, usage: EmbeddingUsage) {
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
        // Those that wait may be tried: their process is not this one.
        for (_, (place, _)) in self.ahead.drain() {
            self.jobs.fail(place, error.clone());
        }
        self.bytes_ahead = 0;
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

/// What a query without a word is told.
fn no_words() -> LocalError {
    LocalError::new(LocalErrorCode::Invalid, "the query holds no word whose meaning could be looked for")
}

pub(super) fn overloaded() -> LocalError {
    LocalError::new(LocalErrorCode::Overloaded, "too many texts wait for the embedder; try again later")
}
