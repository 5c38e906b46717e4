//! A turn as a tree of spans, and where in a trace it stands.

use agentd_base::Timestamp;
use agentd_base::trace::{SpanId, TraceContext, TraceId};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::attempt::Purpose;
use super::session::SessionId;

/// Where in a trace a turn stands. All of it follows from the session's id and from where the turn was asked for, so
/// whoever takes the turn up again goes on in the same spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnTrace {
    turn: TraceContext,
    asked_in: Option<TraceContext>,
}

fn digest(id: &SessionId, part: &str) -> [u8; 32] {
    Sha256::new().chain_update(id.as_str()).chain_update("/").chain_update(part).finalize().into()
}

fn span_of(id: &SessionId, part: &str) -> SpanId {
    let [a, b, c, d, e, f, g, h, ..] = digest(id, part);
    SpanId::new(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
}

impl TurnTrace {
    #[must_use]
    pub fn new(id: &SessionId, asked_in: Option<TraceContext>) -> Self {
        let own = || {
            let digest = digest(id, "trace");
            let (first, _) = digest.split_first_chunk().unwrap_or((&[0; 16], &[]));
            TraceId::new(u128::from_be_bytes(*first))
        };
        let turn = TraceContext {
            trace_id: asked_in.map_or_else(own, |asked_in| asked_in.trace_id),
            span_id: span_of(id, "turn"),
            is_sampled: asked_in.is_none_or(|asked_in| asked_in.is_sampled),
        };
        Self { turn, asked_in }
    }

    /// The turn itself.
    #[must_use]
    pub fn turn(&self) -> TraceContext {
        self.turn
    }

    /// Where it was asked for, where that was part of a trace.
    #[must_use]
    pub fn asked_in(&self) -> Option<TraceContext> {
        self.asked_in
    }

    /// A part of the turn that has a name: a call of a tool, an approval.
    pub(crate) fn part(&self, id: &SessionId, name: &str) -> TraceContext {
        self.turn.at(span_of(id, name))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepKind {
    Recall,
    ModelCall,
}

impl StepKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Recall => "recall",
            Self::ModelCall => "model_call",
        }
    }
}

/// What a turn did besides what its log shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    /// That of the span.
    pub(crate) id: String,
    pub(crate) kind: StepKind,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) ended_at: Option<Timestamp>,
    pub(crate) data: Value,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_follow_from_the_session() {
        let (one, other) = (SessionId::from("sess_1"), SessionId::from("sess_2"));
        let asked_in = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
        let trace = TurnTrace::new(&one, asked_in);
        assert_eq!(trace, TurnTrace::new(&one, asked_in));
        assert_eq!(trace.turn().trace_id, asked_in.unwrap().trace_id);
        assert!(!trace.turn().is_sampled);
        assert_ne!(trace.turn().span_id, TurnTrace::new(&other, asked_in).turn().span_id);
        assert_ne!(trace.part(&one, "0.0").span_id, trace.part(&one, "0.1").span_id);
        let own = TurnTrace::new(&one, None);
        assert!(own.turn().is_sampled && own.turn().trace_id != TurnTrace::new(&other, None).turn().trace_id);
    }
}
