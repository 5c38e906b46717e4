//! Model backend that plays scripted replies and records requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use agentd_llm::{
    Finish, FinishReason, ModelBackend, ModelError, ModelErrorCode, ModelEvent, ModelRequest, ModelStream, ToolCall,
    Usage,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Plays replies in the order they were pushed, one per call. A call without a pushed reply fails with `internal`, so
/// that a test notices. Clones share all state.
#[derive(Debug, Clone, Default)]
pub struct ScriptedBackend(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    replies: Mutex<VecDeque<ScriptedReply>>,
    fallback: Mutex<Option<ScriptedReply>>,
    requests: Mutex<Vec<ModelRequest>>,
}

/// Reply in steps.
#[derive(Debug, Clone, Default)]
pub struct ScriptedReply {
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
enum Step {
    /// Fails the call itself; allowed only as the first step.
    Refuse(ModelError),
    Yield(ModelEvent),
    Fail(ModelError),
    Wait(Gate),
    Delay(Duration),
    Hang,
}

/// Blocks a stream until the test releases it. Clones share the gate.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    /// Creates a closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets `steps` waits pass, including future ones.
    pub fn release(&self, steps: usize) {
        self.0.add_permits(steps);
    }

    /// Lets all waits pass permanently.
    pub fn open(&self) {
        self.0.close();
    }

    /// Waits for a release; each release serves one waiter.
    pub async fn pass(&self) {
        if let Ok(permit) = self.0.acquire().await {
            permit.forget();
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl ScriptedReply {
    /// Creates an empty reply; end it with [`Self::finish`], [`Self::fail`] or [`Self::hang`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a reply of text pieces, followed by `stop` with `usage`.
    #[must_use]
    pub fn text<'a>(pieces: impl IntoIterator<Item = &'a str>, usage: Usage) -> Self {
        pieces.into_iter().fold(Self::new(), Self::piece).finish(FinishReason::Stop, usage)
    }

    /// Creates a reply that fails the call before any stream.
    #[must_use]
    pub fn refused(error: ModelError) -> Self {
        Self { steps: vec![Step::Refuse(error)] }
    }

    #[must_use]
    pub fn piece(self, text: &str) -> Self {
        self.step(Step::Yield(ModelEvent::Text(text.to_owned())))
    }

    #[must_use]
    pub fn reasoning(self, text: &str) -> Self {
        self.step(Step::Yield(ModelEvent::Reasoning(text.to_owned())))
    }

    #[must_use]
    pub fn tool_call(self, call: ToolCall) -> Self {
        self.step(Step::Yield(ModelEvent::ToolCall(call)))
    }

    /// Waits until `gate` is released.
    #[must_use]
    pub fn wait(self, gate: &Gate) -> Self {
        self.step(Step::Wait(gate.clone()))
    }

    #[must_use]
    pub fn delay(self, delay: Duration) -> Self {
        self.step(Step::Delay(delay))
    }

    #[must_use]
    pub fn finish(self, reason: FinishReason, usage: Usage) -> Self {
        self.step(Step::Yield(ModelEvent::Finished(Finish { reason, usage })))
    }

    /// Fails within the stream.
    #[must_use]
    pub fn fail(self, error: ModelError) -> Self {
        self.step(Step::Fail(error))
    }

    /// Never produces anything again.
    #[must_use]
    pub fn hang(self) -> Self {
        self.step(Step::Hang)
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

impl ScriptedBackend {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a reply for one call.
    pub fn push(&self, reply: ScriptedReply) {
        self.0.replies.lock().push_back(reply);
    }

    /// Sets the reply for calls without a pushed reply.
    pub fn always(&self, reply: ScriptedReply) {
        *self.0.fallback.lock() = Some(reply);
    }

    /// Returns all requests so far, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.0.requests.lock().clone()
    }

    /// Returns the number of pushed replies that were not used yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.0.replies.lock().len()
    }
}

impl ModelBackend for ScriptedBackend {
    fn generate(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelStream, ModelError>> {
        self.0.requests.lock().push(request);
        let pushed = self.0.replies.lock().pop_front();
        let reply = pushed.or_else(|| self.0.fallback.lock().clone());
        let played = match reply.map(|reply| reply.steps) {
            None => Err(ModelError::new(ModelErrorCode::Internal, "the script has no reply left for this call")),
            Some(steps) => match steps.first() {
                Some(Step::Refuse(error)) => Err(error.clone()),
                _ => Ok(play(steps)),
            },
        };
        async move { played }.boxed()
    }
}

fn play(steps: Vec<Step>) -> ModelStream {
    stream::unfold(steps.into_iter(), |mut steps| async move {
        loop {
            match steps.next()? {
                Step::Yield(event) => {
                    if matches!(event, ModelEvent::Finished(_)) {
                        return Some((Ok(event), Vec::new().into_iter()));
                    }
                    return Some((Ok(event), steps));
                }
                Step::Fail(error) | Step::Refuse(error) => return Some((Err(error), Vec::new().into_iter())),
                Step::Wait(gate) => gate.pass().await,
                Step::Delay(delay) => tokio::time::sleep(delay).await,
                Step::Hang => std::future::pending().await,
            }
        }
    })
    .boxed()
}
