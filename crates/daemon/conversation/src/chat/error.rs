//! Errors of chat before a reply streams. Later failures are reported as events.

use std::time::Duration;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_engine::agents::AgentError;
use agentd_engine::engine::{EngineError, NoAnswer, SessionId};
use agentd_engine::projects::ProjectError;
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    #[error("conversation `{id}` not found; list conversations with GET /api/chat/conversations")]
    ConversationNotFound { id: String },
    #[error("message `{id}` not found in this conversation; reload the conversation")]
    MessageNotFound { id: String },
    #[error("the request is not valid")]
    Invalid { problems: Vec<FieldProblem> },
    #[error("a reply is being written in this conversation; cancel session {session_id} or wait until it ends")]
    Busy { session_id: SessionId },
    /// The messages kept changing while they were read.
    #[error("the conversation changed while it was read; retry")]
    Contended,
    /// The model wrote no welcome.
    #[error("the model gave no answer: {message}")]
    NoAnswer { code: String, message: String },
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Project(#[from] ProjectError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("conversations are temporarily unavailable; retry")]
    Store(#[from] StoreError),
}

impl From<NoAnswer> for ChatError {
    fn from(NoAnswer { code, message }: NoAnswer) -> Self {
        Self::NoAnswer { code, message }
    }
}

impl ChatError {
    pub(super) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid { problems: vec![FieldProblem { field: field.to_owned(), message: message.into() }] }
    }

    pub(super) fn no_conversation(id: &str) -> Self {
        Self::ConversationNotFound { id: id.chars().take(80).collect() }
    }
}

impl DomainError for ChatError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::ConversationNotFound { .. } | Self::MessageNotFound { .. } => ErrorKind::NotFound,
            Self::Invalid { problems } => ErrorKind::Invalid(problems.clone()),
            Self::Busy { .. } => ErrorKind::Conflict,
            Self::Contended => ErrorKind::InProgress(Duration::from_secs(1)),
            Self::NoAnswer { code, .. } => match code.as_str() {
                "rate_limit" => ErrorKind::TooMany(Duration::from_secs(10)),
                "cancelled" => ErrorKind::Conflict,
                _ => ErrorKind::Upstream,
            },
            Self::Agent(error) => error.kind(),
            Self::Project(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::ConversationNotFound { .. } => "conversation_not_found",
            Self::MessageNotFound { .. } => "message_not_found",
            Self::Invalid { .. } => "invalid_request",
            Self::Busy { .. } => "turn_in_progress",
            Self::Contended => "contended",
            Self::NoAnswer { .. } => "no_answer",
            Self::Agent(error) => error.code(),
            Self::Project(error) => error.code(),
            Self::Engine(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
