//! Task that owns the inference process of the local model.
//!
//! Requests are queued here, fairly by client; the process only has the running ones.
//!
//! Invariant: a request is in `waiting` or in `running` until its end was reported; when a process is lost, all of its
//! requests are ended.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::child::{Keeper, KeeperOptions, ProcessEvent};
use crate::local::LocalModelOptions;
use crate::local::buffer::Reply;
use crate::protocol::{self, FromWorker, ProtocolError, ToWorker, WorkerConfiguration, WorkerUsage};
use crate::{FairQueue, GenerateRequest, LocalError, LocalErrorCode, LocalEvent, LocalState, LocalStatus};

/// Weight of the latest call in the reported speeds.
const LATEST_WEIGHT: f64 = 0.3;
/// Minimum number of tokens of a call that updates the speeds.
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
    waiting: FairQueue<QueuedRequest>,
    running: HashMap<u64, Running>,
}

#[derive(Debug)]
struct QueuedRequest {
    id: u64,
    request: Box<GenerateRequest>,
    reply: Reply,
}

#[derive(Debug)]
struct Running {
    client: Arc<str>,
    reply: Reply,
}

enum Wakeup {
    Command(Option<Command>),
    Process(ProcessEvent),
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
            name: "the built-in model",
            worker_command: options.worker_command.clone(),
            spawner: options.spawner.clone(),
            entropy: options.entropy.clone(),
            idle_unload: options.idle_unload,
            stall_timeout: options.stall_timeout,
            restart_backoff: options.restart_backoff,
        });
        let waiting = FairQueue::new(options.max_queue);
        Self { options, commands, dropped, status, keeper, waiting, running: HashMap::new() }
    }

    /// Runs until shutdown, or until all command senders are dropped.
    pub(super) async fn run(mut self) {
        loop {
            match self.next().await {
                Wakeup::Command(Some(Command::Generate { id, request, reply })) => {
                    self.enqueue(QueuedRequest { id, request, reply });
                }
                Wakeup::Command(Some(Command::Shutdown { done })) => {
                    self.shutdown().await;
                    // The caller may have stopped waiting.
                    let _ = done.send(());
                    return;
                }
                Wakeup::Command(None) => return self.shutdown().await,
                Wakeup::Process(ProcessEvent::Frame(frame)) => self.on_frame(frame),
                Wakeup::Process(ProcessEvent::Lost(message)) => self.on_lost(&message),
                Wakeup::Process(ProcessEvent::Unloaded) => self.on_unloaded(),
                Wakeup::Process(ProcessEvent::Nothing) => {}
                Wakeup::StreamDropped => self.cancel_abandoned(),
            }
            self.start_next().await;
            let active = self.running.len() + self.waiting.len();
            self.status.send_if_modified(|status| {
                let changed = status.active_requests != active;
                status.active_requests = active;
                changed
            });
        }
    }

    async fn next(&mut self) -> Wakeup {
        let has_work = !self.running.is_empty();
        let observed = tokio::select! {
            biased;
            observed = self.keeper.observe(has_work) => observed,
            () = self.dropped.notified() => return Wakeup::StreamDropped,
            command = self.commands.recv() => return Wakeup::Command(command),
        };
        Wakeup::Process(self.keeper.classify(observed, has_work).await)
    }

    fn enqueue(&mut self, waiting: QueuedRequest) {
        if waiting.reply.is_abandoned() {
            return;
        }
        let client = Arc::clone(&waiting.request.client);
        if let Some(QueuedRequest { reply, .. }) = self.waiting.push(&client, waiting) {
            reply.finish(Err(self.overloaded()));
        }
    }

    fn overloaded(&self) -> LocalError {
        let active = self.running.len() + self.waiting.len();
        LocalError::new(
            LocalErrorCode::Overloaded,
            format!("too many requests are running on or waiting for the built-in model ({active}); retry later"),
        )
    }

    /// Starts as many requests as the process runs concurrently, round-robin by client.
    async fn start_next(&mut self) {
        let most_of_one = self.options.max_parallel.saturating_sub(1).max(1);
        let count_for = |running: &HashMap<u64, Running>, client: &Arc<str>| {
            running.values().filter(|running| running.client == *client).count()
        };
        while self.running.len() < self.options.max_parallel {
            let next = self.waiting.pop(|client| count_for(&self.running, client) < most_of_one);
            let Some((client, QueuedRequest { id, request, reply })) = next else { return };
            match self.try_generate(id, request).await {
                Ok(()) => {
                    self.running.insert(id, Running { client, reply });
                }
                Err(error) => {
                    if error.code == LocalErrorCode::ModelMissing {
                        self.status.send_modify(|status| status.last_error = Some(error.message.clone()));
                    }
                    reply.finish(Err(error));
                }
            }
        }
    }

    async fn try_generate(&mut self, id: u64, request: Box<GenerateRequest>) -> Result<(), LocalError> {
        if !tokio::fs::try_exists(&request.model_path).await.unwrap_or(true) {
            return Err(crate::model_missing(&request.model_path));
        }
        let model_path = request.model_path.clone();
        let frame = ToWorker::Generate { id, request };
        // Reported here, while the caller still receives it.
        if let Err(ProtocolError::TooLong { length }) = protocol::encode(&frame) {
            return Err(LocalError::new(
                LocalErrorCode::ContextLength,
                format!("the conversation has {length} bytes and does not fit into a context window"),
            ));
        }
        let configuration = ToWorker::Configure(WorkerConfiguration {
            context_length: self.options.context_length,
            max_parallel: self.options.max_parallel,
        });
        match self.keeper.start(configuration).await {
            Ok(false) => {}
            Ok(true) => self.status.send_modify(|status| {
                status.state = LocalState::Loading;
                status.model = Some(model_path);
                status.process_id = self.keeper.process_id();
            }),
            Err(error) => {
                self.record_failure();
                return Err(error);
            }
        }
        if self.running.is_empty() {
            self.keeper.begin_work();
        }
        if self.keeper.send(frame) { Ok(()) } else { Err(self.overloaded()) }
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
                if let Some(running) = self.running.get(&id) {
                    running.reply.push_text(text);
                }
            }
            FromWorker::Finished { id, reason, usage, calls } => {
                self.keeper.succeeded();
                self.record_speed(usage);
                if let Some(Running { reply, .. }) = self.running.remove(&id) {
                    let WorkerUsage { input_tokens, output_tokens, .. } = usage;
                    reply.finish(Ok(LocalEvent::Finished { reason, input_tokens, output_tokens, calls }));
                }
            }
            FromWorker::Failed { id, code, message } => {
                let fatal = matches!(code, LocalErrorCode::ModelMissing | LocalErrorCode::UnsupportedCpu);
                if fatal || code == LocalErrorCode::Internal {
                    tracing::warn!(code = code.as_str(), message, "local model failed");
                    self.status.send_modify(|status| {
                        status.last_error = Some(message.clone());
                        if fatal {
                            status.state = LocalState::Failed;
                            status.context_length = None;
                        }
                    });
                }
                if let Some(Running { reply, .. }) = self.running.remove(&id) {
                    reply.finish(Err(LocalError::new(code, message)));
                }
            }
            // Sent only by an embedding process.
            FromWorker::Embedded { .. } => {}
        }
    }

    fn cancel_abandoned(&mut self) {
        self.waiting.retain(|waiting| !waiting.reply.is_abandoned());
        for (&id, _) in self.running.iter().filter(|(_, running)| running.reply.is_abandoned()) {
            // The reply stays listed until the process confirms: it is running until then.
            if self.keeper.process_id().is_some() && !self.keeper.send(ToWorker::Cancel { id }) {
                tracing::debug!(id, "failed to send cancellation to inference process");
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
        self.record_failure();
        for (_, Running { reply, .. }) in self.running.drain() {
            reply.finish(Err(LocalError::new(LocalErrorCode::Unavailable, message)));
        }
    }

    fn record_failure(&self) {
        self.status.send_modify(|status| {
            status.state = LocalState::Failed;
            status.process_id = None;
            status.context_length = None;
            status.last_error = Some(self.keeper.last_failure().to_owned());
        });
    }

    fn record_speed(&mut self, usage: WorkerUsage) {
        let read = usage.input_tokens.saturating_sub(usage.cached_tokens);
        self.status.send_modify(|status| {
            update_average(&mut status.prompt_tokens_per_second, read, usage.prompt_seconds);
            update_average(&mut status.generation_tokens_per_second, usage.output_tokens, usage.generation_seconds);
        });
    }

    async fn shutdown(&mut self) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Generate { reply, .. } = command {
                reply.finish(Err(LocalError::shutting_down()));
            }
        }
        // Unfinished requests fail with the same error when dropped.
        self.waiting.clear();
        self.running.clear();
        self.keeper.end().await;
        self.status.send_modify(|status| {
            status.state = LocalState::Unloaded;
            status.process_id = None;
            status.context_length = None;
            status.active_requests = 0;
        });
    }
}

fn update_average(speed: &mut Option<f64>, tokens: u32, seconds: f64) {
    if tokens < MIN_TOKENS_FOR_SPEED || seconds <= 0.0 {
        return;
    }
    let latest = f64::from(tokens) / seconds;
    *speed = Some(speed.map_or(latest, |before| before + LATEST_WEIGHT * (latest - before)));
}
