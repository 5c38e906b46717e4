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
    Tool,
    /// An approval request.
    Approval,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanStatus {
    Running,
    /// Waits for an approval.
    Waiting,
    Done,
    Failed,
    Rejected,
    Expired,
    Cancelled,
    /// The daemon stopped before the span ended.
    Interrupted,
    /// The turn ended while the call ran; it may have had an effect.
    Unknown,
}

/// Tokens of one model call or of all calls of a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct SpanTokens {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Part of `input_tokens`.
    pub cache_read_tokens: u64,
    /// Part of `input_tokens`.
    pub cache_write_tokens: u64,
    /// Part of `output_tokens`.
    pub reasoning_tokens: u64,
    /// `provider`, `estimated`, or `missing` if unknown; for several calls the least certain.
    #[schema(value_type = String)]
    pub source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SpanError {
    pub code: String,
    pub message: String,
}

/// A part of a turn with its children.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TraceSpan {
    /// Span id, 16 hex digits; identical in exported traces.
    pub id: String,
    #[serde(rename = "type")]
    pub span_type: SpanType,
    /// Agent id, model, tool, or approved action.
    pub name: String,
    /// Start; null if unknown.
    pub started_at: Option<Timestamp>,
    /// Duration in milliseconds; null while it runs or if unknown.
    pub duration_ms: Option<u64>,
    pub status: SpanStatus,
    /// Purpose of a model call; null for other spans.
    pub purpose: Option<Purpose>,
    /// Id of the tool call, as in the events of the reply; set for tool calls and their approvals.
    pub call_id: Option<String>,
    /// Tokens of a turn or a model call; null for other spans.
    pub tokens: Option<SpanTokens>,
    /// Estimated cost in US dollars; null if a price is unknown or the span has no cost.
    pub cost_estimate: Option<f64>,
    pub error: Option<SpanError>,
    /// Episodes that a recall added to the prompt, the most relevant first.
    pub episode_ids: Vec<String>,
    /// Parts of this span, in the order of their start.
    #[schema(no_recursion)]
    pub children: Vec<TraceSpan>,
}

/// The trace of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SessionTrace {
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// Trace id, 32 hex digits; also in log lines and exported traces.
    pub trace_id: String,
    /// Number of model calls whose price is unknown; if not zero, the turn has no `cost_estimate`.
    pub unpriced_calls: u64,
    pub span: TraceSpan,
}
