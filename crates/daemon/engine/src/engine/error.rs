//! What can go wrong before a turn runs, or with its log. What goes wrong in a turn is an event.

use agentd_base::{DomainError, ErrorKind};
use agentd_store::StoreError;

use crate::agents::AgentError;
use crate::engine::model::{ApprovalStatus, SessionId, SessionStatus};
use crate::providers::ProviderError;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(
        "conversation {conversation_id} is still being answered; follow the reply at \
         /api/chat/sessions/{session_id}/stream, cancel it, or send again when it is done"
    )]
    TurnInProgress { conversation_id: String, session_id: SessionId },
    #[error("there is no session `{session_id}`; the log of a reply is kept for 24 hours after its end")]
    NotFound { session_id: String },
    #[error("the session is over already, it is {}", .status.as_str())]
    Ended { status: SessionStatus },
    #[error("there is no approval `{id}` here; GET /api/chat/approvals lists those there are")]
    ApprovalNotFound { id: String },
    #[error("this was answered already, it is {}", .status.as_str())]
    ApprovalAnswered { status: ApprovalStatus },
    #[error("nobody answered this in time, so it has expired; ask the agent again")]
    ApprovalExpired,
    /// What was to be approved cannot happen any more; it is cancelled.
    #[error("this cannot be approved any more: {reason}")]
    ApprovalVoid { reason: String },
    #[error("the daemon is going down and takes no new messages; send it again when it is back")]
    Draining,
    #[error("{limit} replies are being written already; try again when one of them is done")]
    TooManyTurns { limit: usize },
    /// The agent was deleted while the message came in.
    #[error("the agent is not there any more")]
    AgentGone,
    /// Somebody else ended the session; nothing was written.
    #[error("the session is not held any more")]
    Lost,
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error("the session cannot be read or stored now")]
    Store(#[from] StoreError),
}

impl EngineError {
    #[must_use]
    pub fn no_session(id: &SessionId) -> Self {
        Self::NotFound { session_id: id.as_str().chars().take(80).collect() }
    }
}

impl DomainError for EngineError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::TurnInProgress { .. }
            | Self::Ended { .. }
            | Self::ApprovalAnswered { .. }
            | Self::ApprovalExpired
            | Self::ApprovalVoid { .. }
            | Self::Lost => ErrorKind::Conflict,
            Self::NotFound { .. } | Self::ApprovalNotFound { .. } | Self::AgentGone => ErrorKind::NotFound,
            Self::Draining | Self::TooManyTurns { .. } => ErrorKind::Unavailable,
            Self::Agent(error) => error.kind(),
            Self::Provider(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::TurnInProgress { .. } => "turn_in_progress",
            Self::NotFound { .. } => "session_not_found",
            Self::Ended { .. } => "session_ended",
            Self::ApprovalNotFound { .. } => "approval_not_found",
            Self::ApprovalAnswered { .. } => "approval_answered",
            Self::ApprovalExpired => "approval_expired",
            Self::ApprovalVoid { .. } => "approval_void",
            Self::Draining => "draining",
            Self::TooManyTurns { .. } => "too_many_turns",
            Self::AgentGone => "agent_not_found",
            Self::Lost => "session_lost",
            Self::Agent(error) => error.code(),
            Self::Provider(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
