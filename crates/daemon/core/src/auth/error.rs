//! What can go wrong with credentials.

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
    #[error("The username or the password is wrong")]
    WrongCredentials,
    #[error("Too many wrong passwords for this user from this address; try again in {} s", .retry_after.as_secs().max(1))]
    TooManyFailures { retry_after: Duration },
    #[error("The password is wrong")]
    WrongPassword,
    #[error("Only a session of the web page confirms its password; API keys and session tokens need no confirmation")]
    NotPageSession,
    #[error("This login was done before and made {id}; its token was shown then and is not kept")]
    AlreadyLoggedIn { id: String },
    #[error("Too many logins are being checked at once; try again shortly")]
    Busy,
    #[error("An account exists already; log in with POST /api/auth/login")]
    AccountExists,
    /// Lost the race for the first key, or anonymous access was closed in between.
    #[error(
        "The Authorization header is missing: an API key exists by now, so this needs `Authorization: Bearer <API key>`"
    )]
    NeedsCredential,
    #[error("An API key was made before, so setup is complete; make more keys with POST /api/auth/keys")]
    KeyExists,
    #[error("The credential was revoked or has ended")]
    CredentialGone,
    #[error("There is no API key with this id, or it was revoked; GET /api/auth/keys lists those in force")]
    KeyNotFound,
    #[error("There is no session with this id, or it has ended; GET /api/auth/sessions lists those that are open")]
    SessionNotFound,
    #[error("There are {limit} API keys already; revoke some that are not used")]
    TooManyKeys { limit: i64 },
    #[error("This credential holds {limit} unused tickets; use them or let them expire")]
    TooManyTickets { limit: i64, retry_after: Duration },
    #[error(
        "SVC_BOOTSTRAP_API_KEY_FILE must hold one API key: `svc_` and at least 64 hexadecimal digits (`echo svc_$(openssl rand -hex 32)` makes one)"
    )]
    BadBootstrapKey,
    #[error("the file of SVC_BOOTSTRAP_API_KEY_FILE cannot be used")]
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
