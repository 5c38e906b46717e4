//! A model call with its attempts.

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

/// Delay before a retry if the provider names none.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Maximum delay before a retry.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);
const MAX_RETRIES: u32 = 1;
/// Maximum number of retries after an empty answer or a tool call that the vendor could not parse.
const MAX_RETRIES_OF_DEFECTIVE_ANSWER: u32 = 2;
const MAX_HALVINGS: u32 = 3;

/// Options shared by all attempts.
#[derive(Debug, Clone)]
pub(super) struct CallOptions {
    pub(super) client: Arc<str>,
    pub(super) model: String,
    pub(super) temperature: Option<f64>,
    pub(super) max_output_tokens: Option<u32>,
    /// Whether a user waits for the reply.
    pub(super) is_conversation: bool,
    pub(super) timeout: Duration,
    pub(super) tools: Arc<[ToolDefinition]>,
    pub(super) recording: AttemptRecording,
}

/// Dependencies and settings for recording attempts.
#[derive(Debug, Clone)]
pub(super) struct AttemptRecording {
    pub(super) clock: Clock,
    pub(super) ids: IdGenerator,
    pub(super) purpose: Purpose,
    /// Whether prompts and answers are recorded for the trace collector.
    pub(super) keeps_content: bool,
}

/// Allowance for reasoning, which vendors count as output.
const REASONING_TOKENS: u32 = 2_000;

impl CallOptions {
    /// Limits the answer to `max_tokens` useful tokens.
    pub(super) fn with_max_output(mut self, provider: &str, max_tokens: Option<u32>) -> Self {
        let reasoning = if provider == LOCAL { 0 } else { REASONING_TOKENS };
        let wanted = max_tokens.map(|max_tokens| max_tokens.saturating_add(reasoning));
        self.max_output_tokens = wanted.into_iter().chain(self.max_output_tokens).min();
        self
    }
}

/// Events of a call, in order; nothing follows `End`.
#[derive(Debug)]
pub(super) enum CallEvent {
    Text(String),
    /// A tool call; precedes the end.
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
    /// Estimated tokens generated so far, including reasoning.
    output_tokens: u64,
    /// Whether anything was produced, including tool calls.
    has_output: bool,
    /// Whether the text is more than white space.
    has_visible_text: bool,
    has_calls: bool,
    /// Whether an answer without text and calls is accepted.
    may_be_empty: bool,
    /// Whether the provider may have read the prompt.
    is_sent: bool,
    began_at: Option<Timestamp>,
    /// Text so far, if content is recorded.
    answer: String,
    retries: u32,
    halvings: u32,
    attempts: Vec<Attempt>,
}

impl Call {
    /// Creates a call. Nothing is sent before [`next`](Self::next) is polled.
    pub(super) fn new(backend: Arc<dyn ModelBackend>, options: CallOptions, prompt: Prompt) -> Self {
        let mut call = Self {
            backend,
            options,
            prompt,
            state: State::Over,
            output_tokens: 0,
            has_output: false,
            has_visible_text: false,
            has_calls: false,
            may_be_empty: false,
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

    /// Leaves it to the caller to shorten a prompt that is too long.
    pub(super) fn without_halving(mut self) -> Self {
        self.halvings = MAX_HALVINGS;
        self
    }

    /// Sets whether an answer without text and calls is accepted.
    pub(super) fn allowing_empty(mut self, is_allowed: bool) -> Self {
        self.may_be_empty = is_allowed;
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

    /// Returns the next event. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<CallEvent> {
        loop {
            match &mut self.state {
                State::Opening(opening) => {
                    if !self.is_sent {
                        self.is_sent = true;
                        self.began_at = Some(self.options.recording.clock.now());
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
                        self.has_output = true;
                        self.has_visible_text |= !text.trim().is_empty();
                        if self.options.recording.keeps_content {
                            self.answer.push_str(&text);
                        }
                        return Some(CallEvent::Text(text));
                    }
                    Some(Ok(ModelEvent::Reasoning(text))) => self.output_tokens += estimate_tokens(&text),
                    Some(Ok(ModelEvent::ToolCall(call))) => {
                        self.has_output = true;
                        self.has_calls = true;
                        return Some(CallEvent::ToolCall(call));
                    }
                    Some(Ok(ModelEvent::Finished(finish))) => {
                        if let Some(end) = self.finished(finish) {
                            return Some(end);
                        }
                    }
                    Some(Err(error)) => {
                        if let Some(end) = self.failed(error) {
                            return Some(end);
                        }
                    }
                    None => {
                        let error = ModelError::new(
                            ModelErrorCode::ProviderUnavailable,
                            "the model's answer ended prematurely",
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

    /// Ends a completed attempt; `None` if a retry follows.
    fn finished(&mut self, finish: Finish) -> Option<CallEvent> {
        self.state = State::Over;
        let usage = match finish.usage.source {
            UsageSource::Missing => self.estimated(),
            _ => finish.usage,
        };
        let Some(defect) = find_defect(finish.reason, self.has_visible_text, self.has_calls, self.may_be_empty) else {
            self.record_attempt(usage, AttemptEnd::Done, Some(finish.reason));
            return Some(CallEvent::End(Ok(Finish { usage, ..finish })));
        };
        let error = defect.into_error(&self.options.model);
        self.record_attempt(usage, failure(&error), Some(finish.reason));
        if defect.is_retryable() && !self.has_output && self.retries < MAX_RETRIES_OF_DEFECTIVE_ANSWER {
            self.retry_after(RETRY_DELAY);
            return None;
        }
        Some(CallEvent::End(Err(error)))
    }

    fn retry_after(&mut self, pause: Duration) {
        self.retries += 1;
        self.is_sent = false;
        self.output_tokens = 0;
        self.state = State::Pausing(Box::pin(tokio::time::sleep(pause)));
    }

    /// Ends a failed attempt; `None` if a retry follows.
    fn failed(&mut self, error: ModelError) -> Option<CallEvent> {
        self.state = State::Over;
        let usage = self.failed_usage(&error);
        self.record_attempt(usage, failure(&error), None);
        self.is_sent = false;
        if !self.has_output {
            self.output_tokens = 0;
            if error.code == ModelErrorCode::ContextLength && self.halvings < MAX_HALVINGS && self.prompt.halve() {
                self.halvings += 1;
                self.open();
                return None;
            }
            if let Some(pause) = retry_delay(&error)
                && self.retries < MAX_RETRIES
            {
                self.retry_after(pause);
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

    /// Usage of a failed attempt: an estimate if the model had begun or may still be working, otherwise unknown and
    /// most likely zero.
    fn failed_usage(&self, error: &ModelError) -> Usage {
        let has_begun = self.output_tokens > 0 || error.code == ModelErrorCode::Timeout;
        if has_begun { self.estimated() } else { Usage::default() }
    }

    /// Records a completed attempt.
    fn record_attempt(&mut self, usage: Usage, end: AttemptEnd, finish: Option<FinishReason>) {
        let recording = &self.options.recording;
        let content = recording.keeps_content.then(|| {
            let (system, messages) = (self.prompt.system_text(), self.prompt.for_model());
            Box::new(AttemptContent { system, messages, answer: std::mem::take(&mut self.answer) })
        });
        self.attempts.push(Attempt {
            id: recording.ids.next_span(),
            purpose: recording.purpose,
            usage,
            began_at: self.began_at.take(),
            ended_at: Some(recording.clock.now()),
            end,
            finish,
            content,
        });
    }

    /// Returns the prompt and all attempts. A running attempt is abandoned; it is counted because its prompt was sent.
    pub(super) fn into_parts(mut self) -> (Prompt, Vec<Attempt>) {
        if self.is_sent && matches!(self.state, State::Opening(_) | State::Reading(_)) {
            self.record_attempt(self.estimated(), AttemptEnd::Abandoned, None);
        }
        (self.prompt, self.attempts)
    }
}

fn failure(error: &ModelError) -> AttemptEnd {
    AttemptEnd::Failed { code: error.code.as_str().to_owned(), message: error.message.clone() }
}

/// Defect of an answer that completed without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// Neither text nor tool calls.
    Empty,
    /// The vendor could not parse the tool call of its model.
    MalformedCall,
    /// The model or a content filter of its vendor refused to answer.
    Refused,
    /// A refusal in the middle of the text.
    RefusedMidway,
    /// The output limit was reached before any text.
    OutOfTokens,
}

/// Checks a completed answer; `None` if it is valid. `may_be_empty` is set if enough text came before, or if the caller
/// accepts an empty answer.
fn find_defect(reason: FinishReason, has_visible_text: bool, has_calls: bool, may_be_empty: bool) -> Option<Defect> {
    let is_empty = !has_visible_text && !has_calls;
    match reason {
        // The calls of a refused answer are not run either.
        FinishReason::ContentFilter if has_visible_text => Some(Defect::RefusedMidway),
        FinishReason::ContentFilter => Some(Defect::Refused),
        FinishReason::MalformedCall if !has_calls => Some(Defect::MalformedCall),
        FinishReason::Length if is_empty => Some(Defect::OutOfTokens),
        _ if is_empty && !may_be_empty => Some(Defect::Empty),
        _ => None,
    }
}

impl Defect {
    /// Whether a retry may succeed.
    fn is_retryable(self) -> bool {
        matches!(self, Self::Empty | Self::MalformedCall)
    }

    fn into_error(self, model: &str) -> ModelError {
        let (code, message) = match self {
            Self::Empty => (
                ModelErrorCode::ProviderUnavailable,
                format!("model `{model}` returned an empty answer; send the message again or choose another model"),
            ),
            Self::MalformedCall => (
                ModelErrorCode::ProviderUnavailable,
                format!(
                    "model `{model}` wrote a tool call that its provider could not read; send the message again or \
                     choose another model"
                ),
            ),
            Self::Refused => (
                ModelErrorCode::NoAnswer,
                format!(
                    "model `{model}` or the content filter of its provider refused to answer; rephrase the request or \
                     choose another model"
                ),
            ),
            Self::RefusedMidway => (
                ModelErrorCode::NoAnswer,
                format!(
                    "model `{model}` or the content filter of its provider stopped the answer before its end; rephrase \
                     the request or choose another model"
                ),
            ),
            Self::OutOfTokens => (
                ModelErrorCode::NoAnswer,
                format!(
                    "model `{model}` reached its output limit before it wrote an answer; raise max_output_tokens with \
                     PUT /api/settings/agent or choose another model"
                ),
            ),
        };
        ModelError::new(code, message)
    }
}

/// Returns the delay before the retry; `None` if the error is not retried.
fn retry_delay(error: &ModelError) -> Option<Duration> {
    let pause = match error.code {
        ModelErrorCode::Overloaded | ModelErrorCode::ProviderUnavailable => error.retry_after.unwrap_or(RETRY_DELAY),
        ModelErrorCode::RateLimit => error.retry_after?,
        _ => return None,
    };
    (pause <= MAX_RETRY_DELAY).then_some(pause)
}

#[cfg(test)]
mod tests;
