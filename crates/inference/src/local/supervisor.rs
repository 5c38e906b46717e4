//! The one task that owns the inference process.
//!
//! States: no process; a process without work (ends after `idle_unload`); a process with work (is
//! killed after `stall_timeout` of silence); waiting to restart. The first failure is followed by a
//! restart at the next request; after further ones in a row, requests are refused until the backoff
//! has passed. A finished reply ends the row.
//!
//! Invariant: a request is in `replies` until its end was told, and every way out of a process tells
//! all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::local::buffer::Reply;
use crate::local::process::Process;
use crate::local::{LocalModelOptions, LocalState, LocalStatus, shut_down};
use crate::protocol::{self, FromWorker, ProtocolError, ToWorker, WorkerUsage};
use crate::{GenerateRequest, LocalError, LocalErrorCode, LocalEvent};

/// Weight of the latest call in the speeds that are reported.
const LATEST_WEIGHT: f64 = 0.3;
/// Calls with fewer tokens say nothing about speed.
const MIN_TOKENS_FOR_SPEED: u32 = 8;
/// Stands for "no deadline"; the timer wakes up in vain once in a while.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub(super) enum Command {
    Generate { id: u64, request: Box<GenerateRequest>, reply: Reply },
    Shutdown { done: oneshot::Sender<()> },
}

#[derive(Debug)]
pub(super) struct Supervisor {
    options: LocalModelOptions,
    commands: mpsc::Receiver<Command>,
    dropped: Arc<Notify>,
    status: watch::Sender<LocalStatus>,
    process: Option<Process>,
    replies: HashMap<u64, Reply>,
    /// Of the last frame, or of the first request after idling.
    last_activity: Instant,
    failures_in_a_row: u32,
    restart_at: Instant,
}

enum Happened {
    Command(Option<Command>),
    Frame(Option<Result<FromWorker, ProtocolError>>),
    StreamDropped,
    Deadline,
}

impl Supervisor {
    pub(super) fn new(
        options: LocalModelOptions,
        commands: mpsc::Receiver<Command>,
        dropped: Arc<Notify>,
        status: watch::Sender<LocalStatus>,
    ) -> Self {
        let now = Instant::now();
        Self {
            options,
            commands,
            dropped,
            status,
            process: None,
            replies: HashMap::new(),
            last_activity: now,
            failures_in_a_row: 0,
            restart_at: now,
        }
    }

    /// Until shutdown, or until nobody can send a command any more.
    pub(super) async fn run(mut self) {
        loop {
            match self.next().await {
                Happened::Command(Some(Command::Generate { id, request, reply })) => {
                    self.generate(id, *request, reply).await;
                }
                Happened::Command(Some(Command::Shutdown { done })) => {
                    self.shutdown().await;
                    // Nobody waits if the caller gave up.
                    let _ = done.send(());
                    return;
                }
                Happened::Command(None) => return self.shutdown().await,
                Happened::Frame(Some(Ok(frame))) => self.on_frame(frame),
                Happened::Frame(Some(Err(error))) => {
                    let why = format!("it sent something that is no answer: {error}");
                    self.process_failed(Some(why)).await;
                }
                Happened::Frame(None) => self.process_failed(None).await,
                Happened::StreamDropped => self.cancel_abandoned(),
                Happened::Deadline => self.on_deadline().await,
            }
            let active = self.replies.len();
            self.status.send_if_modified(|status| {
                let changed = status.active_requests != active;
                status.active_requests = active;
                changed
            });
        }
    }

    async fn next(&mut self) -> Happened {
        let deadline = self.last_activity + self.patience();
        let frame = async {
            match &mut self.process {
                Some(process) => process.next_frame().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Frames first: a deadline must not win over an answer that is there.
            biased;
            frame = frame => Happened::Frame(frame),
            () = self.dropped.notified() => Happened::StreamDropped,
            command = self.commands.recv() => Happened::Command(command),
            () = tokio::time::sleep_until(deadline) => Happened::Deadline,
        }
    }

    fn patience(&self) -> Duration {
        match (&self.process, self.replies.is_empty()) {
            (None, _) => NEVER,
            (Some(_), true) => self.options.idle_unload,
            (Some(_), false) => self.options.stall_timeout,
        }
    }

    async fn generate(&mut self, id: u64, request: GenerateRequest, reply: Reply) {
        if let Err(error) = self.try_generate(id, request).await {
            if error.code == LocalErrorCode::ModelMissing {
                self.status.send_modify(|status| status.last_error = Some(error.message.clone()));
            }
            return reply.finish(Err(error));
        }
        self.replies.insert(id, reply);
    }

    async fn try_generate(&mut self, id: u64, request: GenerateRequest) -> Result<(), LocalError> {
        let waiting = self.replies.len();
        let overloaded = || {
            LocalError::new(
                LocalErrorCode::Overloaded,
                format!("{waiting} requests run or wait already for the model inside; try again later"),
            )
        };
        if self.replies.len() >= self.options.max_parallel + self.options.max_queue {
            return Err(overloaded());
        }
        if !tokio::fs::try_exists(&request.model_path).await.unwrap_or(true) {
            return Err(crate::model_missing(&request.model_path));
        }
        let model_path = request.model_path.clone();
        let frame = ToWorker::Generate { id, request: Box::new(request) };
        // Said here, where the caller still hears it.
        if let Err(ProtocolError::TooLong { length }) = protocol::encode(&frame) {
            return Err(LocalError::new(
                LocalErrorCode::ContextLength,
                format!("the conversation has {length} bytes, far more than a context window holds"),
            ));
        }
        if self.process.is_none() {
            self.start().await?;
            self.status.send_modify(|status| {
                status.state = LocalState::Loading;
                status.model = Some(model_path);
            });
        }
        if self.replies.is_empty() {
            self.last_activity = Instant::now();
        }
        match &self.process {
            Some(process) if process.send(frame) => Ok(()),
            _ => Err(overloaded()),
        }
    }

    async fn start(&mut self) -> Result<(), LocalError> {
        let now = Instant::now();
        if now < self.restart_at {
            let why = self.status.borrow().last_error.clone().unwrap_or_default();
            return Err(LocalError::new(
                LocalErrorCode::Unavailable,
                format!(
                    "the model inside failed {} times in a row and is tried again in {} s; the last time: {why}",
                    self.failures_in_a_row,
                    (self.restart_at - now).as_secs() + 1
                ),
            ));
        }
        match Process::start(&self.options).await {
            Ok(process) => {
                tracing::info!(pid = process.pid(), "the inference process was started");
                self.status.send_modify(|status| status.process_id = Some(process.pid()));
                self.process = Some(process);
                Ok(())
            }
            Err(error) => {
                let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
                let message = format!("the inference process is not there: {error}{}", source.unwrap_or_default());
                self.note_failure(&message);
                Err(LocalError::new(LocalErrorCode::Unavailable, message))
            }
        }
    }

    fn on_frame(&mut self, frame: FromWorker) {
        self.last_activity = Instant::now();
        match frame {
            FromWorker::Working => {}
            FromWorker::Loading { model_path } => {
                self.status.send_if_modified(|status| {
                    let changed = status.state != LocalState::Loading || status.model.as_ref() != Some(&model_path);
                    status.state = LocalState::Loading;
                    status.model = Some(model_path);
                    changed
                });
            }
            FromWorker::Loaded { model_path, context_length } => self.status.send_modify(|status| {
                status.state = LocalState::Ready;
                status.model = Some(model_path);
                status.context_length = Some(context_length);
                status.last_error = None;
            }),
            FromWorker::Text { id, text } => {
                if let Some(reply) = self.replies.get(&id) {
                    reply.push_text(text);
                }
            }
            FromWorker::Finished { id, reason, usage } => {
                self.failures_in_a_row = 0;
                self.note_speed(usage);
                if let Some(reply) = self.replies.remove(&id) {
                    let WorkerUsage { input_tokens, output_tokens, .. } = usage;
                    reply.finish(Ok(LocalEvent::Finished { reason, input_tokens, output_tokens }));
                }
            }
            FromWorker::Failed { id, code, message } => {
                let fatal = matches!(code, LocalErrorCode::ModelMissing | LocalErrorCode::UnsupportedCpu);
                if fatal || code == LocalErrorCode::Internal {
                    tracing::warn!(code = code.as_str(), message, "the model inside failed");
                    self.status.send_modify(|status| {
                        status.last_error = Some(message.clone());
                        if fatal {
                            status.state = LocalState::Failed;
                            status.context_length = None;
                        }
                    });
                }
                if let Some(reply) = self.replies.remove(&id) {
                    reply.finish(Err(LocalError::new(code, message)));
                }
            }
        }
    }

    fn cancel_abandoned(&mut self) {
        let abandoned: Vec<u64> =
            self.replies.iter().filter(|(_, reply)| reply.is_abandoned()).map(|(&id, _)| id).collect();
        for id in abandoned {
            // The reply stays listed until the process confirms: it is at work until then.
            if let Some(process) = &self.process
                && !process.send(ToWorker::Cancel { id })
            {
                tracing::debug!(id, "a cancellation could not be sent; the process takes nothing");
            }
        }
    }

    async fn on_deadline(&mut self) {
        if self.last_activity + self.patience() > Instant::now() {
            return;
        }
        if !self.replies.is_empty() {
            let seconds = self.options.stall_timeout.as_secs_f64();
            return self.process_failed(Some(format!("it said nothing for {seconds} s and was ended"))).await;
        }
        self.last_activity = Instant::now();
        if let Some(process) = self.process.take() {
            let outcome = process.end().await;
            tracing::info!(%outcome, "the inference process was idle and gave its memory back");
            self.status.send_modify(|status| {
                status.process_id = None;
                status.context_length = None;
                if status.state != LocalState::Failed {
                    status.state = LocalState::Unloaded;
                }
            });
        }
    }

    /// The process is lost. `why` is `None` when it ended by itself.
    async fn process_failed(&mut self, why: Option<String>) {
        let Some(process) = self.process.take() else { return };
        let (why, (outcome, last_words)) = match why {
            Some(why) => (Some(why), process.kill().await),
            None => (None, process.collect().await),
        };
        let mut message = match why {
            Some(why) => format!("the inference process failed: {why}"),
            None => format!("the inference process {outcome}"),
        };
        if let Some(words) = last_words {
            message = format!("{message}; its last words: {words}");
        }
        self.note_failure(&message);
        for (_, reply) in self.replies.drain() {
            reply.finish(Err(LocalError::new(LocalErrorCode::Unavailable, message.clone())));
        }
    }

    fn note_failure(&mut self, message: &str) {
        tracing::warn!(message, "the model inside is not available");
        self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
        // One failure alone may be an accident: the next request tries again at once.
        self.restart_at = Instant::now();
        if self.failures_in_a_row > 1 {
            let unit = self.options.entropy.unit();
            self.restart_at += self.options.restart_backoff.delay(self.failures_in_a_row - 1, unit);
        }
        self.status.send_modify(|status| {
            status.state = LocalState::Failed;
            status.process_id = None;
            status.context_length = None;
            status.last_error = Some(message.to_owned());
        });
    }

    fn note_speed(&mut self, usage: WorkerUsage) {
        let read = usage.input_tokens.saturating_sub(usage.cached_tokens);
        self.status.send_modify(|status| {
            blend(&mut status.prompt_tokens_per_second, read, usage.prompt_seconds);
            blend(&mut status.generation_tokens_per_second, usage.output_tokens, usage.generation_seconds);
        });
    }

    async fn shutdown(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Generate { reply, .. } = command {
                reply.finish(Err(shut_down()));
            }
        }
        for (_, reply) in self.replies.drain() {
            reply.finish(Err(shut_down()));
        }
        if let Some(process) = self.process.take() {
            process.end().await;
        }
        self.status.send_modify(|status| {
            status.state = LocalState::Unloaded;
            status.process_id = None;
            status.context_length = None;
            status.active_requests = 0;
        });
    }
}

fn blend(speed: &mut Option<f64>, tokens: u32, seconds: f64) {
    if tokens < MIN_TOKENS_FOR_SPEED || seconds <= 0.0 {
        return;
    }
    let latest = f64::from(tokens) / seconds;
    *speed = Some(speed.map_or(latest, |before| before + LATEST_WEIGHT * (latest - before)));
}
