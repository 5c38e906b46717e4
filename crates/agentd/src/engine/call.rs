//! One answer of a model, with the attempts that it took.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Timestamp};
use agentd_llm::{
    Finish, FinishReason, ModelBackend, ModelError, ModelErrorCode, ModelEvent, ModelRequest, ModelStream, ToolCall,
    ToolDefinition, Usage, UsageSource,
};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;

use crate::engine::model::{Attempt, AttemptContent, AttemptEnd, Purpose};
use crate::engine::prompt::{Prompt, estimate_tokens};
use crate::providers::LOCAL;

/// The pause before the second attempt when the provider names none.
const PAUSE: Duration = Duration::from_millis(500);
/// Nobody waits longer than this for a second attempt.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const MAX_RETRIES: u32 = 1;
const MAX_HALVINGS: u32 = 3;

/// What is the same for every attempt.
#[derive(Debug, Clone)]
pub(super) struct CallOptions {
    pub(super) client: Arc<str>,
    pub(super) model: String,
    pub(super) temperature: Option<f64>,
    pub(super) max_output_tokens: Option<u32>,
    /// A person waits for the reply.
    pub(super) is_conversation: bool,
    pub(super) timeout: Duration,
    pub(super) tools: Arc<[ToolDefinition]>,
    pub(super) noted: Noted,
}

/// What is noted of each attempt, and with what.
#[derive(Debug, Clone)]
pub(super) struct Noted {
    pub(super) clock: Clock,
    pub(super) ids: IdGenerator,
    pub(super) purpose: Purpose,
    /// A collector is to see what was said.
    pub(super) keeps_content: bool,
}

/// Vendors count what a model thinks before it answers as output, too.
const THOUGHT_TOKENS: u32 = 2_000;

impl CallOptions {
    /// The same for an answer of which no more than `most` tokens are of use.
    pub(super) fn with_most_output(mut self, provider: &str, most: Option<u32>) -> Self {
        let thought = if provider == LOCAL { 0 } else { THOUGHT_TOKENS };
        let wanted = most.map(|most| most.saturating_add(thought));
        self.max_output_tokens = wanted.into_iter().chain(self.max_output_tokens).min();
        self
    }
}

/// What comes of a call, in order; nothing follows `End`.
#[derive(Debug)]
pub(super) enum CallEvent {
    Text(String),
    /// Comes before the end.
    ToolCall(ToolCall),
    End(Result<Finish, ModelError>),
}

enum State {
    Opening(BoxFuture<'static, Result<ModelStream, ModelError>>),
    Pausing(BoxFuture<'static, ()>),
    Reading(ModelStream),
    Over,
}

pub(super) struct Call {
    backend: Arc<dyn ModelBackend>,
    options: CallOptions,
    prompt: Prompt,
    state: State,
    /// Generated characters, reasoning included, for an estimate.
    output_tokens: u64,
    /// It has said something, be it a call of a tool.
    has_text: bool,
    /// The provider may have read the prompt.
    is_sent: bool,
    began_at: Option<Timestamp>,
    /// What it has said, where that is kept.
    answer: String,
    retries: u32,
    halvings: u32,
    attempts: Vec<Attempt>,
}

impl Call {
    /// Nothing is sent before [`next`](Self::next) is polled.
    pub(super) fn new(backend: Arc<dyn ModelBackend>, options: CallOptions, prompt: Prompt) -> Self {
        let mut call = Self {
            backend,
            options,
            prompt,
            state: State::Over,
            output_tokens: 0,
            has_text: false,
            is_sent: false,
            began_at: None,
            answer: String::new(),
            retries: 0,
            halvings: 0,
            attempts: Vec::new(),
        };
        call.open();
        call
    }

    /// The same, where a prompt that is too long is the caller's to shorten.
    pub(super) fn without_halving(mut self) -> Self {
        self.halvings = MAX_HALVINGS;
        self
    }

    fn open(&mut self) {
        let has_tools = !self.options.tools.is_empty();
        let request = ModelRequest {
            client: Arc::clone(&self.options.client),
            model: self.options.model.clone(),
            system: Some(self.prompt.system_text()),
            messages: if has_tools { self.prompt.for_model() } else { self.prompt.for_model_without_tools() },
            tools: Arc::clone(&self.options.tools),
            temperature: self.options.temperature,
            max_output_tokens: self.options.max_output_tokens,
            is_conversation: self.options.is_conversation,
            timeout: self.options.timeout,
        };
        let backend = Arc::clone(&self.backend);
        self.state = State::Opening(Box::pin(async move { backend.generate(request).await }));
    }

    /// The next event. May be dropped and asked again: nothing is lost.
    pub(super) async fn next(&mut self) -> Option<CallEvent> {
        loop {
            match &mut self.state {
                State::Opening(opening) => {
                    if !self.is_sent {
                        self.is_sent = true;
                        self.began_at = Some(self.options.noted.clock.now());
                    }
                    match opening.await {
                        Ok(stream) => self.state = State::Reading(stream),
                        Err(error) => {
                            if let Some(end) = self.failed(error) {
                                return Some(end);
                            }
                        }
                    }
                }
                State::Pausing(pause) => {
                    pause.await;
                    self.open();
                }
                State::Reading(stream) => match stream.next().await {
                    Some(Ok(ModelEvent::Text(text))) => {
                        self.output_tokens += estimate_tokens(&text);
                        self.has_text = true;
                        if self.options.noted.keeps_content {
                            self.answer.push_str(&text);
                        }
                        return Some(CallEvent::Text(text));
                    }
                    Some(Ok(ModelEvent::Reasoning(text))) => self.output_tokens += estimate_tokens(&text),
                    Some(Ok(ModelEvent::ToolCall(call))) => {
                        self.has_text = true;
                        return Some(CallEvent::ToolCall(call));
                    }
                    Some(Ok(ModelEvent::Finished(finish))) => {
                        self.state = State::Over;
                        let usage = match finish.usage.source {
                            UsageSource::Missing => self.estimated(),
                            _ => finish.usage,
                        };
                        self.note(usage, AttemptEnd::Done, Some(finish.reason));
                        return Some(CallEvent::End(Ok(Finish { usage, ..finish })));
                    }
                    Some(Err(error)) => {
                        if let Some(end) = self.failed(error) {
                            return Some(end);
                        }
                    }
                    None => {
                        let error = ModelError::new(
                            ModelErrorCode::ProviderUnavailable,
                            "the model's answer broke off without an end",
                        );
                        if let Some(end) = self.failed(error) {
                            return Some(end);
                        }
                    }
                },
                State::Over => return None,
            }
        }
    }

    /// Ends the attempt; `None` when another one follows.
    fn failed(&mut self, error: ModelError) -> Option<CallEvent> {
        self.state = State::Over;
        let usage = self.failed_usage(&error);
        let end = AttemptEnd::Failed { code: error.code.as_str().to_owned(), message: error.message.clone() };
        self.note(usage, end, None);
        self.is_sent = false;
        if !self.has_text {
            self.output_tokens = 0;
            if error.code == ModelErrorCode::ContextLength && self.halvings < MAX_HALVINGS && self.prompt.halve() {
                self.halvings += 1;
                self.open();
                return None;
            }
            if let Some(pause) = pause_before_retry(&error)
                && self.retries < MAX_RETRIES
            {
                self.retries += 1;
                self.state = State::Pausing(Box::pin(tokio::time::sleep(pause)));
                return None;
            }
        }
        Some(CallEvent::End(Err(error)))
    }

    fn estimated(&self) -> Usage {
        Usage {
            input_tokens: self.prompt.tokens(),
            output_tokens: self.output_tokens,
            source: UsageSource::Estimated,
            ..Usage::default()
        }
    }

    /// Of an attempt that failed: a guess if the model had begun or may still be working, else
    /// nothing is known, and nothing was most likely used.
    fn failed_usage(&self, error: &ModelError) -> Usage {
        let has_begun = self.output_tokens > 0 || error.code == ModelErrorCode::Timeout;
        if has_begun { self.estimated() } else { Usage::default() }
    }

    /// Notes an attempt that is over.
    fn note(&mut self, usage: Usage, end: AttemptEnd, finish: Option<FinishReason>) {
        let noted = &self.options.noted;
        let content = noted.keeps_content.then(|| {
            let (system, messages) = (self.prompt.system_text(), self.prompt.for_model());
            Box::new(AttemptContent { system, messages, answer: std::mem::take(&mut self.answer) })
        });
        self.attempts.push(Attempt {
            id: noted.ids.next_span(),
            purpose: noted.purpose,
            usage,
            began_at: self.began_at.take(),
            ended_at: Some(noted.clock.now()),
            end,
            finish,
            content,
        });
    }

    /// The prompt, and every attempt. A running one is given up; its prompt was sent, so it is counted.
    pub(super) fn into_parts(mut self) -> (Prompt, Vec<Attempt>) {
        if self.is_sent && matches!(self.state, State::Opening(_) | State::Reading(_)) {
            self.note(self.estimated(), AttemptEnd::GivenUp, None);
        }
        (self.prompt, self.attempts)
    }
}

/// How long to wait before the one second attempt; `None`: there is none.
fn pause_before_retry(error: &ModelError) -> Option<Duration> {
    let pause = match error.code {
        ModelErrorCode::Overloaded | ModelErrorCode::ProviderUnavailable => error.retry_after.unwrap_or(PAUSE),
        ModelErrorCode::RateLimit => error.retry_after?,
        _ => return None,
    };
    (pause <= LONGEST_PAUSE).then_some(pause)
}

#[cfg(test)]
mod tests {
    use agentd_base::{Entropy, MockClock};
    use agentd_llm::{ScriptedBackend, ScriptedReply};

    use super::*;
    use crate::engine::model::{HistoryMessage, Marker};

    fn call(backend: &ScriptedBackend, history: Vec<HistoryMessage>) -> Call {
        let clock = MockClock::new(Timestamp::from_micros(1)).clock();
        let options = CallOptions {
            client: "owner".into(),
            model: "m".to_owned(),
            temperature: None,
            max_output_tokens: None,
            is_conversation: true,
            timeout: Duration::from_secs(60),
            tools: Arc::default(),
            noted: Noted {
                ids: IdGenerator::new(clock.clone(), Entropy::seeded(1)),
                clock,
                purpose: Purpose::Answer,
                keeps_content: false,
            },
        };
        Call::new(
            Arc::new(backend.clone()),
            options,
            Prompt::new("S".to_owned(), history, false, &Marker::new([1; 32])),
        )
    }

    fn question() -> Vec<HistoryMessage> {
        vec![HistoryMessage::User("hello".to_owned())]
    }

    fn error(code: ModelErrorCode) -> ModelError {
        ModelError::new(code, "no")
    }

    async fn run(mut call: Call) -> (String, Option<Result<Finish, ModelError>>, Vec<Usage>) {
        let mut text = String::new();
        while let Some(event) = call.next().await {
            match event {
                CallEvent::Text(piece) => text.push_str(&piece),
                CallEvent::ToolCall(call) => panic!("no tool was offered: {call:?}"),
                CallEvent::End(end) => {
                    assert!(call.next().await.is_none());
                    return (text, Some(end), usages(call));
                }
            }
        }
        (text, None, usages(call))
    }

    fn usages(call: Call) -> Vec<Usage> {
        call.into_parts().1.into_iter().map(|attempt| attempt.usage).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_overloaded_provider_is_asked_once_more() {
        let backend = ScriptedBackend::new();
        backend.push(ScriptedReply::refused(error(ModelErrorCode::Overloaded)));
        let counted = Usage { input_tokens: 3, output_tokens: 2, source: UsageSource::Provider, ..Usage::default() };
        backend.push(ScriptedReply::text(["a", "b"], counted));
        let (text, end, usages) = run(call(&backend, question())).await;
        assert_eq!(text, "ab");
        assert_eq!(end.unwrap().unwrap().reason, FinishReason::Stop);
        assert_eq!(usages, [Usage::default(), counted]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_failure_is_final() {
        let backend = ScriptedBackend::new();
        for _ in 0..3 {
            backend.push(ScriptedReply::refused(error(ModelErrorCode::ProviderUnavailable)));
        }
        let (_, end, usages) = run(call(&backend, question())).await;
        assert_eq!(end.unwrap().unwrap_err().code, ModelErrorCode::ProviderUnavailable);
        assert_eq!((backend.left(), usages.len()), (1, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_repeated_once_the_model_has_spoken() {
        let backend = ScriptedBackend::new();
        backend.push(ScriptedReply::new().piece("four").fail(error(ModelErrorCode::Overloaded)));
        backend.push(ScriptedReply::text(["again"], Usage::default()));
        let (text, end, usages) = run(call(&backend, question())).await;
        assert_eq!((text.as_str(), backend.left()), ("four", 1));
        assert_eq!(end.unwrap().unwrap_err().code, ModelErrorCode::Overloaded);
        assert_eq!((usages[0].source, usages[0].output_tokens), (UsageSource::Estimated, 1));
    }

    #[test]
    fn waits_as_told_but_not_long() {
        let limit = |seconds| error(ModelErrorCode::RateLimit).with_retry_after(Some(Duration::from_secs(seconds)));
        assert_eq!(pause_before_retry(&limit(10)), Some(Duration::from_secs(10)));
        assert_eq!(pause_before_retry(&limit(11)), None);
        assert_eq!(pause_before_retry(&error(ModelErrorCode::RateLimit)), None);
        assert_eq!(pause_before_retry(&error(ModelErrorCode::Auth)), None);
    }

    #[tokio::test]
    async fn a_prompt_that_is_too_long_is_halved() {
        let backend = ScriptedBackend::new();
        backend.push(ScriptedReply::refused(error(ModelErrorCode::ContextLength)));
        backend.push(ScriptedReply::text(["short"], Usage::default()));
        let long = "x".repeat(4_000);
        let mut history: Vec<HistoryMessage> = (0..6)
            .flat_map(|_| [HistoryMessage::User(long.clone()), HistoryMessage::Assistant(long.clone())])
            .collect();
        history.extend(question());
        let (text, _, _) = run(call(&backend, history)).await;
        assert_eq!(text, "short");
        let sizes: Vec<usize> = backend.requests().iter().map(|request| request.messages.len()).collect();
        assert!(sizes[1] <= sizes[0] / 2 + 1, "{sizes:?}");
    }
}
