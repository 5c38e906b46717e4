//! A turn as a tree of spans.

use agentd_base::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::attempt::Purpose;
use super::session::SessionId;

/// Type of a part of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanType {
    /// The turn as a whole.
    Turn,
    /// A recall from the agent's memory.
    Recall,
    /// One attempt at a model call.
    ModelCall,
    /// A tool call.
    Tool,
    /// An approval request.
    Approval,
}

/// Status of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanStatus {
    /// In progress.
    Running,
    /// Waits for an approval.
    Waiting,
    /// Completed.
    Done,
    /// Ended with an error.
    Failed,
    /// The owner rejected the approval.
    Rejected,
    /// The approval expired.
    Expired,
    /// Cancelled before it completed.
    Cancelled,
    /// The daemon stopped before the span ended.
    Interrupted,
    /// The turn ended while the call ran; it may have had an effect.
    Unknown,
}

/// Token usage of one model call, or the total of all calls of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct SpanTokens {
    /// Tokens of the prompts, including cached ones.
    pub input_tokens: u64,
    /// Generated tokens, including reasoning.
    pub output_tokens: u64,
    /// Tokens read from the prompt cache; part of `input_tokens`.
    pub cache_read_tokens: u64,
    /// Tokens written to the prompt cache; part of `input_tokens`.
    pub cache_write_tokens: u64,
    /// Tokens of the model's reasoning; part of `output_tokens`.
    pub reasoning_tokens: u64,
    /// Origin of the counts: `provider`, `estimated`, or `missing` if unknown. For several calls, the least certain
    /// one.
    #[schema(value_type = String)]
    pub source: &'static str,
}

/// Error of a span.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SpanError {
    /// Error code; `tool_error` for tool calls, otherwise as in the `error` event of a chat stream.
    pub code: String,
    /// Error message; messages of tools are truncated to 500 characters.
    pub message: String,
}

/// Part of a turn, with its child spans.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TraceSpan {
    /// Span id, 16 hex digits; identical in exported traces.
    pub id: String,
    #[serde(rename = "type")]
    pub span_type: SpanType,
    /// Agent id, model, tool, or approved action.
    pub name: String,
    /// Start time; null if unknown.
    pub started_at: Option<Timestamp>,
    /// Duration in milliseconds; null while it runs or if unknown.
    pub duration_ms: Option<u64>,
    pub status: SpanStatus,
    /// Purpose of a model call; null for other spans.
    pub purpose: Option<Purpose>,
    /// Id of the tool call, as in the events of the reply; null for all spans except tool calls and their approvals.
    pub call_id: Option<String>,
    /// Tokens of a turn or a model call; null for other spans.
    pub tokens: Option<SpanTokens>,
    /// Estimated cost in US dollars; null if a price is unknown or the span has no cost.
    pub cost_estimate: Option<f64>,
    /// Error of a failed span; null if none is known.
    pub error: Option<SpanError>,
    /// Ids of the episodes that a recall added to the prompt, most relevant first.
    pub episode_ids: Vec<String>,
    /// Child spans, ordered by start time.
    #[schema(no_recursion)]
    pub children: Vec<TraceSpan>,
}

/// Trace of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SessionTrace {
    /// Id of the session.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// Trace id, 32 hex digits; also in log lines and exported traces.
    pub trace_id: String,
    /// Number of model calls whose price is unknown; if not zero, the turn has no `cost_estimate`.
    pub unpriced_calls: u64,
    /// Span of the turn as a whole.
    pub span: TraceSpan,
}
