//! Errors before a turn runs, or with its log. Errors within a turn are events.

use agentd_base::{DomainError, ErrorKind};
use agentd_store::StoreError;

use crate::agents::AgentError;
use crate::engine::model::{ApprovalStatus, SessionId, SessionStatus};
use crate::providers::ProviderError;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(
        "conversation {conversation_id} already has a reply in progress; follow it at \
         /api/chat/sessions/{session_id}/stream, cancel it, or retry when it is complete"
    )]
    TurnInProgress { conversation_id: String, session_id: SessionId },
    #[error("session `{session_id}` not found; session logs are retained for 24 hours after their end")]
    NotFound { session_id: String },
    #[error("the session has already ended; its status is {}", .status.as_str())]
    Ended { status: SessionStatus },
    #[error("approval `{id}` not found; list approvals with GET /api/chat/approvals")]
    ApprovalNotFound { id: String },
    #[error("the approval is already decided; its status is {}", .status.as_str())]
    ApprovalAnswered { status: ApprovalStatus },
    #[error("the approval expired before it was decided; ask the agent again")]
    ApprovalExpired,
    /// The approved action is no longer possible; the approval is cancelled.
    #[error("the action can no longer be approved: {reason}")]
    ApprovalVoid { reason: String },
    #[error("the daemon is shutting down and accepts no new messages; retry after the restart")]
    Draining,
    #[error("limit of concurrent replies reached ({limit}); retry later")]
    TooManyTurns { limit: usize },
    /// The agent was deleted concurrently.
    #[error("the agent was deleted")]
    AgentGone,
    /// Another process ended the session; nothing was written.
    #[error("the session is owned by another process")]
    Lost,
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error("failed to read or write the session; retry later")]
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
