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
/// How often a model is asked again that answered nothing, or with a call that its vendor could not read.
const MAX_RETRIES_WITHOUT_ANSWER: u32 = 2;
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
    /// Its text has more than blanks.
    has_words: bool,
    has_calls: bool,
    /// An answer without text and calls is an answer.
    may_be_empty: bool,
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
            has_words: false,
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

    /// The same, where a prompt that is too long is the caller's to shorten.
    pub(super) fn without_halving(mut self) -> Self {
        self.halvings = MAX_HALVINGS;
        self
    }

    /// The same, where an answer without text and calls is an answer.
    pub(super) fn allowing_silence(mut self, is_allowed: bool) -> Self {
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
                        self.has_words |= !text.trim().is_empty();
                        if self.options.noted.keeps_content {
                            self.answer.push_str(&text);
                        }
                        return Some(CallEvent::Text(text));
                    }
                    Some(Ok(ModelEvent::Reasoning(text))) => self.output_tokens += estimate_tokens(&text),
                    Some(Ok(ModelEvent::ToolCall(call))) => {
                        self.has_text = true;
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

    /// Ends an attempt that came to its proper end; `None` when another one follows.
    fn finished(&mut self, finish: Finish) -> Option<CallEvent> {
        self.state = State::Over;
        let usage = match finish.usage.source {
            UsageSource::Missing => self.estimated(),
            _ => finish.usage,
        };
        let Some(defect) = find_defect(finish.reason, self.has_words, self.has_calls, self.may_be_empty) else {
            self.note(usage, AttemptEnd::Done, Some(finish.reason));
            return Some(CallEvent::End(Ok(Finish { usage, ..finish })));
        };
        let error = defect.into_error(&self.options.model);
        self.note(usage, failure(&error), Some(finish.reason));
        if defect.is_worth_a_retry() && !self.has_text && self.retries < MAX_RETRIES_WITHOUT_ANSWER {
            self.retry_after(PAUSE);
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

    /// Ends an attempt that failed; `None` when another one follows.
    fn failed(&mut self, error: ModelError) -> Option<CallEvent> {
        self.state = State::Over;
        let usage = self.failed_usage(&error);
        self.note(usage, failure(&error), None);
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

fn failure(error: &ModelError) -> AttemptEnd {
    AttemptEnd::Failed { code: error.code.as_str().to_owned(), message: error.message.clone() }
}

/// Why an answer that came to its proper end is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defect {
    /// Neither text nor tool calls.
    Empty,
    /// The vendor could not read the tool call of its model.
    MalformedCall,
    /// The model, or a filter of its vendor, refused.
    Refused,
    /// A refusal in the middle of the text.
    RefusedToGoOn,
    /// The output limit was reached before the first word.
    OutOfTokens,
}

/// Judges an answer; `None` if it is one. `may_be_empty` is set where enough was said before, or where the caller
/// takes silence for an answer.
fn find_defect(reason: FinishReason, has_words: bool, has_calls: bool, may_be_empty: bool) -> Option<Defect> {
    let says_nothing = !has_words && !has_calls;
    match reason {
        // The calls of an answer that was refused are not run either.
        FinishReason::ContentFilter if has_words => Some(Defect::RefusedToGoOn),
        FinishReason::ContentFilter => Some(Defect::Refused),
        FinishReason::MalformedCall if !has_calls => Some(Defect::MalformedCall),
        FinishReason::Length if says_nothing => Some(Defect::OutOfTokens),
        _ if says_nothing && !may_be_empty => Some(Defect::Empty),
        _ => None,
    }
}

impl Defect {
    /// Whether another attempt may end otherwise.
    fn is_worth_a_retry(self) -> bool {
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
            Self::RefusedToGoOn => (
                ModelErrorCode::NoAnswer,
                format!(
                    "model `{model}` or the content filter of its provider stopped the answer before its end; rephrase \
                     the request or choose another model"
                ),
            ),
            Self::OutOfTokens => (
                ModelErrorCode::NoAnswer,
                format!(
                    "model `{model}` reached its output limit before it wrote an answer; raise max_output_tokens of \
                     PUT /api/settings/agent or choose another model"
                ),
            ),
        };
        ModelError::new(code, message)
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
mod tests;
