//! Trace spans of a turn for a collector: `invoke_agent`, `chat` and `execute_tool` with the semantic conventions for
//! generative AI (<https://opentelemetry.io/docs/specs/semconv/gen-ai/>), and spans for other waits. They contain
//! prompts and answers only if the owner enabled that.
//!
//! A span is recorded when it ends, by the process that ended it. Without a collector, nothing here allocates.

use agentd_base::Timestamp;
use agentd_base::trace::{SpanId, TraceContext};
use agentd_llm::{FinishReason, ModelMessage};
use agentd_telemetry::{KeyValue, Span, SpanKind, number, text_list};
use serde_json::{Value, json};

use super::call::CallOptions;
use super::model::{Approval, Attempt, AttemptContent, AttemptEnd, CallProgress, Outcome, Session, SessionStatus};
use super::state::EngineState;
use crate::agents::Agent;

/// Maximum size of the messages in a span; the newest are kept.
const MAX_CONTENT_BYTES: usize = 32 << 10;
/// Maximum length of one message, tool input or tool result.
const MAX_TEXT_CHARACTERS: usize = 8_000;
const MAX_ERROR_CHARACTERS: usize = 500;

/// Returns the tracing span of a turn's log lines.
pub(crate) fn turn_span(session: &Session) -> tracing::Span {
    tracing::info_span!("turn", session = %session.id, trace_id = %session.trace.turn().trace_id)
}

/// Returns the name of a provider in the conventions.
fn provider_name(provider: &str) -> &str {
    match provider {
        "google" => "gcp.gemini",
        "mistral" => "mistral_ai",
        "xai" => "x_ai",
        other => other,
    }
}

fn text(key: &'static str, value: &str) -> KeyValue {
    KeyValue::new(key, value.to_owned())
}

fn beginning(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

impl EngineState {
    /// Records the span of an ended turn. `end` is the status with the error code.
    pub(crate) fn record_turn(
        &self,
        session: &Session,
        agent: Option<&Agent>,
        (status, code): (SessionStatus, Option<&str>),
        spent: Option<(u64, u64)>,
    ) {
        self.context.tracer.record(|| {
            let name = agent.map_or_else(|| session.agent_id.to_string(), |agent| agent.svc_name.clone());
            let mut attributes = vec![
                text("gen_ai.operation.name", "invoke_agent"),
                text("gen_ai.provider.name", provider_name(&session.provider)),
                text("gen_ai.request.model", &session.model),
                text("gen_ai.agent.id", session.agent_id.as_str()),
                text("gen_ai.agent.name", &name),
                text("agentd.session.id", session.id.as_str()),
                text("agentd.origin", session.origin.source()),
                text("agentd.status", status.as_str()),
            ];
            if let Some(conversation) = &session.conversation_id {
                attributes.push(text("gen_ai.conversation.id", conversation.as_str()));
            }
            if let Some((input_tokens, output_tokens)) = spent {
                attributes.push(number("gen_ai.usage.input_tokens", input_tokens));
                attributes.push(number("gen_ai.usage.output_tokens", output_tokens));
            }
            if let Some(code) = code {
                attributes.push(text("error.type", code));
            }
            Span {
                context: session.trace.turn(),
                parent: session.trace.parent().map(|parent| parent.span_id),
                name: format!("invoke_agent {name}"),
                kind: SpanKind::Internal,
                started_at: session.started_at,
                ended_at: self.context.clock.now(),
                attributes,
                error: code.map(str::to_owned),
            }
        });
    }

    /// Records the span of an attempt at a model call.
    pub(crate) fn record_call(&self, session: &Session, options: &CallOptions, attempt: &Attempt) {
        // Attempts without measured times are skipped.
        let (Some(started_at), Some(ended_at)) = (attempt.began_at, attempt.ended_at) else { return };
        self.context.tracer.record(|| {
            let usage = &attempt.usage;
            let mut attributes = vec![
                text("gen_ai.operation.name", "chat"),
                text("gen_ai.provider.name", provider_name(&session.provider)),
                text("gen_ai.request.model", &session.model),
                number("gen_ai.usage.input_tokens", usage.input_tokens),
                number("gen_ai.usage.output_tokens", usage.output_tokens),
                number("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
                number("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
            ];
            if let Some(conversation) = &session.conversation_id {
                attributes.push(text("gen_ai.conversation.id", conversation.as_str()));
            }
            if let Some(temperature) = options.temperature {
                attributes.push(KeyValue::new("gen_ai.request.temperature", temperature));
            }
            if let Some(max_tokens) = options.max_output_tokens {
                attributes.push(number("gen_ai.request.max_tokens", u64::from(max_tokens)));
            }
            if let Some(finish) = attempt.finish {
                attributes.push(text_list("gen_ai.response.finish_reasons", [finish_name(finish).to_owned()]));
            }
            if let Some(content) = &attempt.content {
                attributes.extend(content_attributes(content, attempt.finish));
            }
            let error = match &attempt.end {
                AttemptEnd::Done => None,
                AttemptEnd::Failed { code, message } => Some((code.as_str(), beginning(message, MAX_ERROR_CHARACTERS))),
                AttemptEnd::Abandoned => Some(("cancelled", "the caller stopped reading".to_owned())),
                AttemptEnd::Interrupted => Some(("interrupted", "the daemon ended".to_owned())),
            };
            if let Some((code, _)) = &error {
                attributes.push(text("error.type", code));
            }
            Span {
                context: session.trace.turn().at(attempt.id),
                parent: Some(session.trace.turn().span_id),
                name: format!("chat {}", session.model),
                kind: SpanKind::Client,
                started_at,
                ended_at,
                attributes,
                error: error.map(|(_, message)| message),
            }
        });
    }
}

fn finish_name(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::ToolUse => "tool_call",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::MalformedCall => "error",
        FinishReason::Other => "other",
    }
}

/// Returns prompt and answer in the form of the conventions; of a long conversation the newest messages.
fn content_attributes(content: &AttemptContent, finish: Option<FinishReason>) -> [KeyValue; 3] {
    let part = |text: &str| json!({"type": "text", "content": beginning(text, MAX_TEXT_CHARACTERS)});
    let mut messages: Vec<Value> = Vec::new();
    let mut left = MAX_CONTENT_BYTES;
    for message in content.messages.iter().rev() {
        let entry = match message {
            ModelMessage::User { content } => json!({"role": "user", "parts": [part(content)]}),
            ModelMessage::Assistant { content, tool_calls } => {
                let calls = tool_calls.iter().map(|call| {
                    let input = beginning(&call.input.to_string(), MAX_TEXT_CHARACTERS);
                    json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": input})
                });
                let text_part = (!content.is_empty()).then(|| part(content));
                json!({"role": "assistant", "parts": text_part.into_iter().chain(calls).collect::<Vec<_>>()})
            }
            ModelMessage::Tool { content, name, .. } => {
                let response = beginning(content, MAX_TEXT_CHARACTERS);
                json!({"role": "tool", "parts": [{"type": "tool_call_response", "name": name, "response": response}]})
            }
        };
        let Some(rest) = left.checked_sub(entry.to_string().len()) else { break };
        left = rest;
        messages.push(entry);
    }
    messages.reverse();
    let answer = json!([{
        "role": "assistant",
        "parts": [part(&content.answer)],
        "finish_reason": finish.map(finish_name),
    }]);
    [
        KeyValue::new("gen_ai.system_instructions", json!([part(&content.system)]).to_string()),
        KeyValue::new("gen_ai.input.messages", Value::from(messages).to_string()),
        KeyValue::new("gen_ai.output.messages", answer.to_string()),
    ]
}

/// Span of a running tool call.
pub(crate) struct ToolSpan {
    context: TraceContext,
    parent: TraceContext,
    tool: String,
    call_id: String,
    started_at: Timestamp,
    /// Recorded only if spans include content.
    input: Option<String>,
}

impl ToolSpan {
    /// Starts the span of a tool call.
    pub(crate) fn begin(engine: &EngineState, session: &Session, progress: &CallProgress) -> Self {
        let tracer = &engine.context.tracer;
        let text_if_on = |text: &str| if tracer.is_enabled() { text.to_owned() } else { String::new() };
        let input = || beginning(&progress.call.input.to_string(), MAX_TEXT_CHARACTERS);
        Self {
            context: session.trace.part(&session.id, &progress.id),
            parent: session.trace.turn(),
            tool: text_if_on(&progress.call.name),
            call_id: text_if_on(&progress.id),
            started_at: engine.context.clock.now(),
            input: tracer.includes_content().then(input),
        }
    }

    /// Trace context for requests made by the tool.
    pub(crate) fn context(&self) -> TraceContext {
        self.context
    }

    pub(crate) fn end(self, engine: &EngineState, outcome: &Outcome, ended_at: Timestamp) {
        engine.context.tracer.record(|| {
            let mut attributes = vec![
                text("gen_ai.operation.name", "execute_tool"),
                text("gen_ai.tool.name", &self.tool),
                KeyValue::new("gen_ai.tool.call.id", self.call_id),
                text("gen_ai.tool.type", "function"),
            ];
            if let Some(input) = self.input {
                let output = beginning(&outcome.output.to_string(), MAX_TEXT_CHARACTERS);
                attributes.push(KeyValue::new("gen_ai.tool.call.arguments", input));
                attributes.push(KeyValue::new("gen_ai.tool.call.result", output));
            }
            // A tool's error message may repeat its input, so it counts as content.
            let error = outcome.is_error().then(|| "the tool failed".to_owned());
            if error.is_some() {
                attributes.push(text("error.type", "tool_error"));
            }
            Span {
                context: self.context,
                parent: Some(self.parent.span_id),
                name: format!("execute_tool {}", self.tool),
                kind: SpanKind::Internal,
                started_at: self.started_at,
                ended_at,
                attributes,
                error,
            }
        });
    }
}

impl EngineState {
    /// Records the span of a recall.
    pub(crate) fn record_recall(
        &self,
        session: &Session,
        id: SpanId,
        (started_at, ended_at): (Timestamp, Timestamp),
        memories: usize,
    ) {
        let turn = session.trace.turn();
        self.context.tracer.record(|| Span {
            context: turn.at(id),
            parent: Some(turn.span_id),
            name: "recall".to_owned(),
            kind: SpanKind::Internal,
            started_at,
            ended_at,
            attributes: vec![number("agentd.recall.memories", memories as u64)],
            error: None,
        });
    }

    /// Records the spans of a round's approvals.
    pub(crate) fn record_approvals(&self, session: &Session, calls: &[CallProgress], decisions: &[Approval]) {
        let waited = calls.iter().filter(|progress| progress.outcome.is_none());
        for id in waited.filter_map(|progress| progress.approval_id.as_deref()) {
            let Some(approval) = decisions.iter().find(|known| known.id.as_str() == id) else { continue };
            let Some(ended_at) = approval.decided_at else { continue };
            self.context.tracer.record(|| Span {
                context: session.trace.part(&session.id, id),
                parent: Some(session.trace.turn().span_id),
                name: format!("wait_for_approval {}", approval.tool),
                kind: SpanKind::Internal,
                started_at: approval.requested_at,
                ended_at,
                attributes: vec![
                    text("gen_ai.tool.name", &approval.tool),
                    text("agentd.approval.status", approval.status.as_str()),
                ],
                error: None,
            });
        }
    }
}
