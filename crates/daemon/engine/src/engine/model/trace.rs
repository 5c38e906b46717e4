//! A turn as a tree of spans.

use agentd_base::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::attempt::Purpose;
use super::session::SessionId;

/// What a part of a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanType {
    /// The whole of it.
    Turn,
    /// What the agent remembers was asked for.
    Recall,
    /// One attempt at a call of the model.
    ModelCall,
    Tool,
    /// The owner was asked.
    Approval,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanStatus {
    Running,
    /// For an owner's answer.
    Waiting,
    Done,
    Failed,
    Rejected,
    Expired,
    Cancelled,
    /// The daemon ended meanwhile.
    Interrupted,
    /// The turn ended while it ran; whether it had an effect is not known.
    Unknown,
}

/// Tokens of a call, or of all calls together.
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
    /// `provider`, `estimated`, or `missing` where nothing is known; of several calls the least certain.
    #[schema(value_type = String)]
    pub source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SpanError {
    pub code: String,
    pub message: String,
}

/// A part of a turn, with its own parts.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TraceSpan {
    /// 16 hex digits; the same in what goes to a collector.
    pub id: String,
    #[serde(rename = "type")]
    pub span_type: SpanType,
    /// The agent's id, the model, the tool, or what was asked for.
    pub name: String,
    /// Null where nobody knows any more.
    pub started_at: Option<Timestamp>,
    /// Null while it is not over, and where nobody knows.
    pub duration_ms: Option<u64>,
    pub status: SpanStatus,
    /// Of a call of a model.
    pub purpose: Option<Purpose>,
    /// Of a call of a tool, and of what an owner was asked about it: as the events of the reply have it.
    pub call_id: Option<String>,
    /// Of a turn and of calls of models.
    pub tokens: Option<SpanTokens>,
    /// In US dollars. Null where a price is not known, and where nothing is paid for.
    pub cost_estimate: Option<f64>,
    pub error: Option<SpanError>,
    /// Of a recall: the episodes that the model was shown, the most relevant first.
    pub episode_ids: Vec<String>,
    /// In the order in which they began.
    #[schema(no_recursion)]
    pub children: Vec<TraceSpan>,
}

/// The trace of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SessionTrace {
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// 32 hex digits: in every line that is logged of it, and in what goes to a collector.
    pub trace_id: String,
    /// Calls of models whose price is not known; then the turn has no `cost_estimate`.
    pub unpriced_calls: u64,
    pub span: TraceSpan,
}
