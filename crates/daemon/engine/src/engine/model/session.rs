//! Sessions: each is the log of one turn, with its position in a trace.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_base::trace::{SpanId, TraceContext, TraceId};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::agents::AgentId;

agentd_base::typed_id!(
    /// The id of a session: the log of one turn.
    SessionId,
    "sess"
);
agentd_store::stored_ids!(SessionId);

/// Status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionStatus {
    /// The turn runs or waits for an approval.
    Running,
    /// The turn completed.
    Done,
    /// The turn ended with an error.
    Failed,
    /// The turn was cancelled.
    Cancelled,
    /// The daemon stopped before the turn ended.
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

    /// A table constraint guarantees one of these values.
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
    /// Project to which the usage is charged, besides the agent.
    pub project_id: Option<String>,
    pub conversation_id: Option<String>,
    /// Message of the reply, if it is stored.
    pub message_id: Option<String>,
    /// Name of the [`TurnSink`](super::TurnSink) that stores the reply. Column `transcript`.
    pub sink: Option<String>,
    pub provider: String,
    pub model: String,
    pub prompt_tokens_estimate: u64,
    pub status: SessionStatus,
    pub error_code: Option<String>,
    pub owner: String,
    pub started_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    /// Start of the current wait for approvals; a waiting session has no owner.
    pub waiting_since: Option<Timestamp>,
    /// Total time spent waiting for approvals, excluding the current wait.
    pub waited: Duration,
    pub trace: TurnTrace,
}

/// Position of a turn in a trace. It is derived from the session's id and the parent span, so that a process that
/// resumes the turn continues the same spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnTrace {
    turn: TraceContext,
    parent: Option<TraceContext>,
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
    pub fn new(id: &SessionId, parent: Option<TraceContext>) -> Self {
        let own = || {
            let digest = digest(id, "trace");
            let (first, _) = digest.split_first_chunk().unwrap_or((&[0; 16], &[]));
            TraceId::new(u128::from_be_bytes(*first))
        };
        let turn = TraceContext {
            trace_id: parent.map_or_else(own, |parent| parent.trace_id),
            span_id: span_of(id, "turn"),
            is_sampled: parent.is_none_or(|parent| parent.is_sampled),
        };
        Self { turn, parent }
    }

    /// Span of the turn itself.
    #[must_use]
    pub fn turn(&self) -> TraceContext {
        self.turn
    }

    /// Span of the request that started the turn, if it was traced.
    #[must_use]
    pub fn parent(&self) -> Option<TraceContext> {
        self.parent
    }

    /// Span of a named part of the turn: a tool call or an approval.
    pub(crate) fn part(&self, id: &SessionId, name: &str) -> TraceContext {
        self.turn.at(span_of(id, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_derived_from_the_session_id() {
        let (one, other) = (SessionId::from("sess_1"), SessionId::from("sess_2"));
        let parent = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
        let trace = TurnTrace::new(&one, parent);
        assert_eq!(trace, TurnTrace::new(&one, parent));
        assert_eq!(trace.turn().trace_id, parent.unwrap().trace_id);
        assert!(!trace.turn().is_sampled);
        assert_ne!(trace.turn().span_id, TurnTrace::new(&other, parent).turn().span_id);
        assert_ne!(trace.part(&one, "0.0").span_id, trace.part(&one, "0.1").span_id);
        let own = TurnTrace::new(&one, None);
        assert!(own.turn().is_sampled && own.turn().trace_id != TurnTrace::new(&other, None).turn().trace_id);
    }
}

/// Kind of client that requested a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OriginKind {
    /// A message of the owner.
    #[default]
    Chat,
    /// A message received through a device.
    Device,
    Scheduler,
    Webhook,
    Hook,
    Channel,
    /// The agent itself, if its owner permits that.
    Proactive,
    /// An auxiliary turn of the daemon without a conversation. It publishes no events.
    Auxiliary,
}

impl OriginKind {
    const ALL: [Self; 8] = [
        Self::Chat,
        Self::Device,
        Self::Scheduler,
        Self::Webhook,
        Self::Hook,
        Self::Channel,
        Self::Proactive,
        Self::Auxiliary,
    ];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Device => "device",
            Self::Scheduler => "scheduler",
            Self::Webhook => "webhook",
            Self::Hook => "hook",
            Self::Channel => "channel",
            Self::Proactive => "proactive",
            Self::Auxiliary => "aside",
        }
    }

    pub(crate) fn from_stored(text: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).unwrap_or_default()
    }
}

/// Client that requested a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    pub kind: OriginKind,
    pub job_id: Option<String>,
    pub run_id: Option<String>,
    /// The API key of the request, if one was used.
    pub key_id: Option<String>,
}

impl Origin {
    #[must_use]
    pub fn of(kind: OriginKind) -> Self {
        Self { kind, job_id: None, run_id: None, key_id: None }
    }

    /// A message of the owner, sent with this API key if one was used.
    #[must_use]
    pub fn chat(key_id: Option<String>) -> Self {
        Self { key_id, ..Self::of(OriginKind::Chat) }
    }

    #[must_use]
    pub fn auxiliary() -> Self {
        Self::of(OriginKind::Auxiliary)
    }

    /// Returns the client for fair scheduling: the API key, the job, or else the kind.
    #[must_use]
    pub fn client(&self) -> Arc<str> {
        let id = self.key_id.as_deref().or(self.job_id.as_deref());
        id.unwrap_or_else(|| self.kind.as_str()).into()
    }

    /// A run of a job. The scheduler has already published `task.queued` for it.
    #[must_use]
    pub fn run(job_id: impl Into<String>, run_id: impl Into<String>) -> Self {
        let (job_id, run_id) = (Some(job_id.into()), Some(run_id.into()));
        Self { job_id, run_id, ..Self::of(OriginKind::Scheduler) }
    }

    /// Returns the source by which usage is grouped.
    #[must_use]
    pub fn source(&self) -> &'static str {
        match self.kind {
            OriginKind::Auxiliary => "api",
            kind => kind.as_str(),
        }
    }
}
