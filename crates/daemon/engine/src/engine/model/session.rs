//! Sessions: the log of one turn each, and where in a trace the turn stands.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_base::trace::{SpanId, TraceContext, TraceId};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::origin::Origin;
use crate::agents::AgentId;

agentd_base::typed_id!(
    /// The id of a session: the log of one turn.
    SessionId,
    "sess"
);
agentd_store::stored_ids!(SessionId);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    Running,
    Done,
    Failed,
    Cancelled,
    Interrupted,
}

impl SessionStatus {
    const ALL: [Self; 5] = [Self::Running, Self::Done, Self::Failed, Self::Cancelled, Self::Interrupted];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }

    /// What the database holds is one of these: a rule of the table says so.
    pub(crate) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|status| status.as_str() == text).unwrap_or(Self::Failed)
    }
}

/// The row of a session.
#[derive(Debug, Clone)]
pub struct Session {
    pub id: SessionId,
    pub agent_id: AgentId,
    pub origin: Origin,
    /// Whose usage it is, besides the agent's.
    pub project_id: Option<String>,
    pub conversation_id: Option<String>,
    /// The reply's message, where one is kept.
    pub message_id: Option<String>,
    /// Who keeps the reply; see [`TurnSink::name`].
    pub transcript: Option<String>,
    pub provider: String,
    pub model: String,
    pub prompt_tokens_estimate: u64,
    pub status: SessionStatus,
    pub error_code: Option<String>,
    pub owner: String,
    pub started_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    /// Since when it waits for an approval; nobody holds it then.
    pub waiting_since: Option<Timestamp>,
    /// Total time it waited for approvals, the present wait not included.
    pub waited: Duration,
    pub trace: TurnTrace,
}

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
