//! Errors of authentication.

use std::time::Duration;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_store::StoreError;

use super::model::Refusal;
use crate::runtime::TrustedFileError;
use crate::settings::SettingsError;

#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    #[error("The request is not valid")]
    Invalid(Vec<FieldProblem>),
    #[error("The username or password is wrong")]
    WrongCredentials,
    #[error("Too many wrong passwords for this user from this address; try again in {} s", .retry_after.as_secs().max(1))]
    TooManyFailures { retry_after: Duration },
    #[error("The password is wrong")]
    WrongPassword,
    #[error(
        "Only a session of the web page can confirm its password; API keys and session tokens need no confirmation"
    )]
    NotPageSession,
    #[error(
        "This login already created session {id}, and its token is returned only once; log in with a new idempotency key"
    )]
    AlreadyLoggedIn { id: String },
    #[error("Too many concurrent logins; try again shortly")]
    Busy,
    #[error("An account already exists; log in with POST /api/auth/login")]
    AccountExists,
    /// Another request created the first key, or anonymous access was closed meanwhile.
    #[error(
        "The Authorization header is missing: an API key already exists, so this needs `Authorization: Bearer <API key>`"
    )]
    NeedsCredential,
    #[error("Setup is complete: an API key was already created; create more keys with POST /api/auth/keys")]
    KeyExists,
    #[error("The credential was revoked or has expired")]
    CredentialGone,
    #[error("API key not found or revoked; list active keys with GET /api/auth/keys")]
    KeyNotFound,
    #[error("Session not found or ended; list active sessions with GET /api/auth/sessions")]
    SessionNotFound,
    #[error("API key limit reached ({limit}); revoke unused keys")]
    TooManyKeys { limit: i64 },
    #[error("Ticket limit reached ({limit} unused tickets); use them or let them expire")]
    TooManyTickets { limit: i64, retry_after: Duration },
    #[error(
        "SVC_BOOTSTRAP_API_KEY_FILE must contain one API key: `svc_` and at least 64 hexadecimal digits (create one with `echo svc_$(openssl rand -hex 32)`)"
    )]
    BadBootstrapKey,
    #[error("the file in SVC_BOOTSTRAP_API_KEY_FILE cannot be used")]
    BootstrapKeyFile(#[from] TrustedFileError),
    #[error("A password could not be hashed: {reason}")]
    Hashing { reason: String },
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for AuthError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::AccountExists => Self::AccountExists,
            Refusal::NeedsCredential => Self::NeedsCredential,
        }
    }
}

impl DomainError for AuthError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(fields) => ErrorKind::Invalid(fields.clone()),
            Self::WrongCredentials | Self::WrongPassword | Self::NeedsCredential | Self::CredentialGone => {
                ErrorKind::Unauthenticated
            }
            Self::TooManyFailures { retry_after } | Self::TooManyTickets { retry_after, .. } => {
                ErrorKind::TooMany(*retry_after)
            }
            Self::Busy => ErrorKind::TooMany(Duration::from_secs(1)),
            Self::AccountExists
            | Self::KeyExists
            | Self::TooManyKeys { .. }
            | Self::AlreadyLoggedIn { .. }
            | Self::NotPageSession => ErrorKind::Conflict,
            Self::KeyNotFound | Self::SessionNotFound => ErrorKind::NotFound,
            Self::BadBootstrapKey => ErrorKind::Invalid(Vec::new()),
            Self::BootstrapKeyFile(_) | Self::Hashing { .. } => ErrorKind::Internal,
            Self::Settings(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_request",
            Self::WrongCredentials => "wrong_credentials",
            Self::WrongPassword => "wrong_password",
            Self::NotPageSession => "not_page_session",
            Self::TooManyFailures { .. } => "too_many_attempts",
            Self::AlreadyLoggedIn { .. } => "already_done",
            Self::Busy => "busy",
            Self::AccountExists => "account_exists",
            Self::NeedsCredential => "missing_credential",
            Self::KeyExists => "setup_complete",
            Self::CredentialGone => "invalid_credential",
            Self::KeyNotFound | Self::SessionNotFound => "not_found",
            Self::TooManyKeys { .. } => "too_many_keys",
            Self::TooManyTickets { .. } => "too_many_tickets",
            Self::BadBootstrapKey => "bad_bootstrap_key",
            Self::BootstrapKeyFile(_) | Self::Hashing { .. } => "internal_error",
            Self::Settings(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
