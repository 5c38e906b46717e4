//! Why a message was not taken, found or sent.

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_store::StoreError;

use super::email::EmailError;
use super::model::BODY_LIMIT;

#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    #[error("the message has {bytes} bytes, more than the {BODY_LIMIT} that are sent; shorten it")]
    BodyTooLarge { bytes: usize },
    #[error("there is no such notification; what has ended is kept for 30 days")]
    NotFound,
    #[error("the notification is {status}; only a dead_letter can be retried")]
    NotDead { status: &'static str },
    #[error("the address is not valid")]
    Invalid(Vec<FieldProblem>),
    #[error(transparent)]
    Email(#[from] EmailError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DomainError for NotifyError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::BodyTooLarge { .. } => ErrorKind::TooLarge,
            Self::NotFound => ErrorKind::NotFound,
            Self::NotDead { .. } => ErrorKind::Conflict,
            Self::Invalid(problems) => ErrorKind::Invalid(problems.clone()),
            Self::Email(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::BodyTooLarge { .. } => "message_too_large",
            Self::NotFound => "not_found",
            Self::NotDead { .. } => "not_dead_letter",
            Self::Invalid(_) => "invalid_request",
            Self::Email(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
