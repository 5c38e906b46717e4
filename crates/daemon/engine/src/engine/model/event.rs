//! The events of a session.

use std::sync::Arc;

use agentd_base::Timestamp;
use serde_json::{Value, json};

use super::approval::Approval;
use super::rounds::{CallProgress, Outcome, as_object};
use super::session::Session;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Start,
    Token,
    ToolUse,
    ToolResult,
    ApprovalRequest,
    Done,
    Error,
}

impl EventKind {
    const ALL: [Self; 7] =
        [Self::Start, Self::Token, Self::ToolUse, Self::ToolResult, Self::ApprovalRequest, Self::Done, Self::Error];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Token => "token",
            Self::ToolUse => "tool_use",
            Self::ToolResult => "tool_result",
            Self::ApprovalRequest => "approval_request",
            Self::Done => "done",
            Self::Error => "error",
        }
    }

    pub(crate) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).unwrap_or(Self::Error)
    }

    /// Whether no event follows.
    #[must_use]
    pub fn is_last(self) -> bool {
        matches!(self, Self::Done | Self::Error)
    }
}

/// One event of a session. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionEvent {
    pub seq: u64,
    pub kind: EventKind,
    /// JSON, without line breaks.
    pub data: Arc<str>,
    /// Time of the event; set for tool steps only.
    pub at: Option<Timestamp>,
}

impl SessionEvent {
    pub(crate) fn new(seq: u64, kind: EventKind, data: &Value) -> Self {
        Self { seq, kind, data: data.to_string().into(), at: None }
    }

    pub(crate) fn at(self, at: Timestamp) -> Self {
        Self { at: Some(at), ..self }
    }

    /// The first event of every session, number 0.
    pub(crate) fn start(session: &Session) -> Self {
        let data = json!({
            "conversation_id": session.conversation_id,
            "message_id": session.message_id,
            "session_id": session.id,
        });
        Self::new(0, EventKind::Start, &data)
    }

    pub(crate) fn token(seq: u64, content: &str) -> Self {
        Self::new(seq, EventKind::Token, &json!({ "content": content }))
    }

    /// Start of a tool call; stored before the tool runs.
    pub(crate) fn tool_use(seq: u64, round: u32, call: &CallProgress) -> Self {
        let data = json!({
            "tool": call.call.name,
            "input": as_object(&call.call.input),
            "call_id": call.id,
            "round": round,
        });
        Self::new(seq, EventKind::ToolUse, &data)
    }

    pub(crate) fn tool_result(seq: u64, round: u32, call: &CallProgress, outcome: &Outcome) -> Self {
        let mut data = json!({
            "tool": call.call.name,
            "output": outcome.output,
            "call_id": call.id,
            "round": round,
            "status": outcome.status,
            "untrusted_source": outcome.untrusted_source,
        });
        // Without a preceding `tool_use`, this is the only event that contains the input.
        if call.approval_id.is_some() && outcome.is_error() {
            data["input"] = as_object(&call.call.input);
        }
        Self::new(seq, EventKind::ToolResult, &data)
    }

    pub(crate) fn approval_request(seq: u64, call_id: &str, approval: &Approval) -> Self {
        let data = json!({
            "approval_id": approval.id,
            "tool": approval.tool,
            "input": approval.input,
            "input_sha256": approval.input_sha256,
            "call_id": call_id,
            "expires_at": approval.expires_at,
            "untrusted_sources": approval.untrusted_sources,
            "request_reason": approval.request_reason,
        });
        Self::new(seq, EventKind::ApprovalRequest, &data)
    }

    pub(crate) fn error(seq: u64, code: &str, message: &str) -> Self {
        Self::new(seq, EventKind::Error, &json!({"code": code, "message": message}))
    }

    /// Final event of a successful turn. `is_truncated` is set if the reply reached the output limit.
    pub(crate) fn done(
        seq: u64,
        session: &Session,
        (input_tokens, output_tokens): (u64, u64),
        is_truncated: bool,
    ) -> Self {
        let data = json!({
            "message_id": session.message_id,
            "provider": session.provider,
            "model": session.model,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
            "finish_reason": if is_truncated { "length" } else { "stop" },
        });
        Self::new(seq, EventKind::Done, &data)
    }

    /// Parses the data as JSON.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_default()
    }
}
