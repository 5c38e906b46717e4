//! Errors of settings.

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_store::StoreError;

use crate::vault::VaultError;

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("the settings are not valid")]
    Invalid(Vec<FieldProblem>),
    #[error("the stored settings of `{section}` are malformed")]
    Unreadable { section: &'static str, source: serde_json::Error },
    #[error("picture not found; the avatar may have been replaced")]
    AvatarNotFound,
    #[error("the picture is larger than {limit} bytes; reduce its size")]
    AvatarTooLarge { limit: usize },
    #[error("send the picture as multipart/form-data in the field `file`")]
    AvatarNotMultipart,
    #[error("the picture could not be stored; check the data directory and its free space")]
    AvatarFile(#[source] std::io::Error),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SettingsError {
    pub(super) fn field(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldProblem { field: field.to_owned(), message: message.into() }])
    }
}

impl DomainError for SettingsError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(problems) => ErrorKind::Invalid(problems.clone()),
            Self::Unreadable { .. } | Self::AvatarFile(_) => ErrorKind::Internal,
            Self::AvatarNotFound => ErrorKind::NotFound,
            Self::AvatarTooLarge { .. } => ErrorKind::TooLarge,
            Self::AvatarNotMultipart => ErrorKind::UnsupportedMediaType,
            Self::Vault(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_request",
            Self::Unreadable { .. } | Self::AvatarFile(_) => "internal_error",
            Self::AvatarNotFound => "not_found",
            Self::AvatarTooLarge { .. } => "body_too_large",
            Self::AvatarNotMultipart => "unsupported_media_type",
            Self::Vault(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
