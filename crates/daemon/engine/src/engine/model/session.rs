//! Sessions: the log of one turn each.

use std::time::Duration;

use agentd_base::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::event::{EventKind, SessionEvent};
use super::origin::Origin;
use super::trace::TurnTrace;
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

impl Session {
    /// The first event of every session, number 0.
    pub(crate) fn start_event(&self) -> SessionEvent {
        let data = json!({
            "conversation_id": self.conversation_id,
            "message_id": self.message_id,
            "session_id": self.id,
        });
        SessionEvent::new(0, EventKind::Start, &data)
    }
}
