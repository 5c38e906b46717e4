//! The one task that owns the inference process of the model inside.
//!
//! Invariant: a request is in `replies` until its end was told, and every way out of a process tells
//! all of them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::child::{Happened, Keeper, KeeperOptions};
use crate::local::buffer::Reply;
use crate::local::{LocalModelOptions, LocalState, LocalStatus, shut_down};
use crate::protocol::{self, FromWorker, ProtocolError, ToWorker, WorkerConfiguration, WorkerUsage};
use crate::{GenerateRequest, LocalError, LocalErrorCode, LocalEvent};

/// Weight of the latest call in the speeds that are reported.
const LATEST_WEIGHT: f64 = 0.3;
/// Calls with fewer tokens say nothing about speed.
const MIN_TOKENS_FOR_SPEED: u32 = 8;

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
    keeper: Keeper,
    replies: HashMap<u64, Reply>,
}

enum Woken {
    Command(Option<Command>),
    Process(Happened),
    StreamDropped,
}

impl Supervisor {
    pub(super) fn new(
        options: LocalModelOptions,
        commands: mpsc::Receiver<Command>,
        dropped: Arc<Notify>,
        status: watch::Sender<LocalStatus>,
    ) -> Self {
        let keeper = Keeper::new(KeeperOptions {
            name: "the model inside",
            worker_command: options.worker_command.clone(),
            spawner: options.spawner.clone(),
            entropy: options.entropy.clone(),
            idle_unload: options.idle_unload,
            stall_timeout: options.stall_timeout,
            restart_backoff: options.restart_backoff,
        });
        Self { options, commands, dropped, status, keeper, replies: HashMap::new() }
    }

    /// Until shutdown, or until nobody can send a command any more.
    pub(super) async fn run(mut self) {
        loop {
            match self.next().await {
                Woken::Command(Some(Command::Generate { id, request, reply })) => {
                    self.generate(id, *request, reply).await;
                }
                Woken::Command(Some(Command::Shutdown { done })) => {
                    self.shutdown().await;
                    // Nobody waits if the caller gave up.
                    let _ = done.send(());
                    return;
                }
                Woken::Command(None) => return self.shutdown().await,
                Woken::Process(Happened::Frame(frame)) => self.on_frame(frame),
                Woken::Process(Happened::Lost(message)) => self.on_lost(&message),
                Woken::Process(Happened::Unloaded) => self.on_unloaded(),
                Woken::Process(Happened::Nothing) => {}
                Woken::StreamDropped => self.cancel_abandoned(),
            }
            let active = self.replies.len();
            self.status.send_if_modified(|status| {
                let changed = status.active_requests != active;
                status.active_requests = active;
                changed
            });
        }
    }

    async fn next(&mut self) -> Woken {
        let has_work = !self.replies.is_empty();
        let observed = tokio::select! {
            biased;
            observed = self.keeper.observe(has_work) => observed,
            () = self.dropped.notified() => return Woken::StreamDropped,
            command = self.commands.recv() => return Woken::Command(command),
        };
        Woken::Process(self.keeper.classify(observed, has_work).await)
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
        let configuration = ToWorker::Configure(WorkerConfiguration {
            context_length: self.options.context_length,
            max_parallel: self.options.max_parallel,
            max_queue: self.options.max_queue,
        });
        match self.keeper.start(configuration).await {
            Ok(false) => {}
            Ok(true) => self.status.send_modify(|status| {
                status.state = LocalState::Loading;
                status.model = Some(model_path);
                status.process_id = self.keeper.process_id();
            }),
            Err(error) => {
                self.note_failure();
                return Err(error);
            }
        }
        if self.replies.is_empty() {
            self.keeper.begin_work();
        }
        if self.keeper.send(frame) { Ok(()) } else { Err(overloaded()) }
    }

    fn on_frame(&mut self, frame: FromWorker) {
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
            FromWorker::Finished { id, reason, usage, calls } => {
                self.keeper.succeeded();
                self.note_speed(usage);
                if let Some(reply) = self.replies.remove(&id) {
                    let WorkerUsage { input_tokens, output_tokens, .. } = usage;
                    reply.finish(Ok(LocalEvent::Finished { reason, input_tokens, output_tokens, calls }));
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
            // An embedder's, which this process is not.
            FromWorker::Embedded { .. } => {}
        }
    }

    fn cancel_abandoned(&mut self) {
        let abandoned: Vec<u64> =
            self.replies.iter().filter(|(_, reply)| reply.is_abandoned()).map(|(&id, _)| id).collect();
        for id in abandoned {
            // The reply stays listed until the process confirms: it is at work until then.
            if self.keeper.process_id().is_some() && !self.keeper.send(ToWorker::Cancel { id }) {
                tracing::debug!(id, "a cancellation could not be sent; the process takes nothing");
            }
        }
    }

    fn on_unloaded(&mut self) {
        self.status.send_modify(|status| {
            status.process_id = None;
            status.context_length = None;
            if status.state != LocalState::Failed {
                status.state = LocalState::Unloaded;
            }
        });
    }

    fn on_lost(&mut self, message: &str) {
        self.note_failure();
        for (_, reply) in self.replies.drain() {
            reply.finish(Err(LocalError::new(LocalErrorCode::Unavailable, message)));
        }
    }

    fn note_failure(&self) {
        self.status.send_modify(|status| {
            status.state = LocalState::Failed;
            status.process_id = None;
            status.context_length = None;
            status.last_error = Some(self.keeper.last_failure().to_owned());
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
        self.keeper.end().await;
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
