//! Errors of notifications.

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_core::vault::VaultError;
use agentd_store::StoreError;
use agentd_web_push::PushError;

use super::email::EmailError;
use super::model::MAX_BODY_BYTES;

#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    #[error("the message is too large ({bytes} bytes, limit {MAX_BODY_BYTES}); shorten it")]
    BodyTooLarge { bytes: usize },
    #[error("notification not found; completed notifications are deleted after 30 days")]
    NotFound,
    #[error("the notification is {status}; only dead_letter notifications can be retried")]
    NotDead { status: &'static str },
    #[error("push device not found; it was removed, or its subscription expired")]
    DeviceNotFound,
    #[error("push device limit reached ({most}); remove a device first")]
    TooManyDevices { most: u64 },
    #[error("{0}")]
    NotPushed(String),
    #[error("the request is not valid")]
    Invalid(Vec<FieldProblem>),
    #[error(transparent)]
    Email(#[from] EmailError),
    #[error(transparent)]
    Key(#[from] PushError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DomainError for NotifyError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::BodyTooLarge { .. } => ErrorKind::TooLarge,
            Self::NotFound | Self::DeviceNotFound => ErrorKind::NotFound,
            Self::NotDead { .. } | Self::TooManyDevices { .. } => ErrorKind::Conflict,
            Self::NotPushed(_) => ErrorKind::Upstream,
            Self::Invalid(problems) => ErrorKind::Invalid(problems.clone()),
            Self::Email(error) => error.kind(),
            Self::Key(_) => ErrorKind::Internal,
            Self::Vault(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::BodyTooLarge { .. } => "message_too_large",
            Self::NotFound | Self::DeviceNotFound => "not_found",
            Self::TooManyDevices { .. } => "too_many_devices",
            Self::NotPushed(_) => "push_refused",
            Self::NotDead { .. } => "not_dead_letter",
            Self::Invalid(_) => "invalid_request",
            Self::Email(error) => error.code(),
            Self::Key(_) => "internal_error",
            Self::Vault(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
