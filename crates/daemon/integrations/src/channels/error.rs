//! Errors of channels.

use std::time::Duration;

use agentd_automation::notify::NotifyError;
use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_chat_platforms::{Platform, Rejection, SendError};
use agentd_core::rate_limit::{Outcome, Refusal};
use agentd_core::settings::SettingsError;
use agentd_core::vault::VaultError;
use agentd_engine::engine::EngineError;
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error("chat platform `{name}` not found; use discord, slack, telegram, whatsapp, teams or google_chat")]
    UnknownPlatform { name: String },
    #[error("the channel is disabled or lacks its verification secret; change both with PUT /api/channels/settings")]
    Off,
    #[error("request verification failed: {reason}")]
    Unverified { reason: &'static str },
    #[error("{problem}")]
    Malformed { problem: String },
    /// Returned to unauthenticated callers, so it does not contain the reason.
    #[error("the keys of the platform are unavailable; retry later")]
    KeysUnavailable,
    #[error("the request is not valid")]
    Invalid { problems: Vec<FieldProblem> },
    #[error("pairing code `{code}` not found; list open codes with GET /api/channels/pairings")]
    PairingNotFound { code: String },
    #[error(
        "sender `{id}` is neither approved nor in allowed_senders; list approved ones with GET \
         /api/channels/{{platform}}/senders"
    )]
    SenderNotFound { id: String },
    #[error("too many messages from this platform; retry after the time in `Retry-After`")]
    TooFast { retry_after: Duration },
    #[error("{backlog}; retry after the time in `Retry-After`")]
    Overloaded { backlog: &'static str },
    #[error(transparent)]
    Send(#[from] SendError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Notify(#[from] NotifyError),
    #[error("failed to read or change channels")]
    Store(#[from] StoreError),
}

impl ChannelError {
    pub(super) fn unknown_platform(name: &str) -> Self {
        Self::UnknownPlatform { name: name.chars().take(80).collect() }
    }

    pub(super) fn sender_not_found(id: &str) -> Self {
        Self::SenderNotFound { id: id.chars().take(80).collect() }
    }

    pub(super) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid { problems: vec![FieldProblem { field: field.to_owned(), message: message.into() }] }
    }

    /// Returns the outcome counted for a rejected request.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Unverified { .. } => Outcome::Unsigned,
            Self::Off => Outcome::Disabled,
            Self::TooFast { .. } => Outcome::RateLimited,
            Self::Overloaded { .. } => Outcome::Overloaded,
            Self::UnknownPlatform { .. } | Self::Malformed { .. } => Outcome::Invalid,
            _ => Outcome::Failed,
        }
    }
}

impl From<Rejection> for ChannelError {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::NotSetUp => Self::Off,
            Rejection::Unverified(reason) => Self::Unverified { reason },
            Rejection::Malformed(problem) => Self::Malformed { problem },
            Rejection::Unavailable(problem) => {
                tracing::info!(problem, "failed to verify chat platform request");
                Self::KeysUnavailable
            }
        }
    }
}

impl From<Refusal> for ChannelError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TooFast { retry_after } | Refusal::TooFastInAll { retry_after } => Self::TooFast { retry_after },
            Refusal::Overloaded { backlog } => Self::Overloaded { backlog },
            Refusal::Store(error) => Self::Store(error),
        }
    }
}

impl DomainError for ChannelError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownPlatform { .. } | Self::Off | Self::PairingNotFound { .. } | Self::SenderNotFound { .. } => {
                ErrorKind::NotFound
            }
            Self::Unverified { .. } => ErrorKind::Unauthenticated,
            Self::Malformed { .. } => ErrorKind::Invalid(Vec::new()),
            Self::Invalid { problems } => ErrorKind::Invalid(problems.clone()),
            Self::TooFast { retry_after } => ErrorKind::TooMany(*retry_after),
            Self::KeysUnavailable | Self::Overloaded { .. } => ErrorKind::Unavailable,
            Self::Send(SendError::NotSetUp(_)) => ErrorKind::Conflict,
            Self::Send(_) => ErrorKind::Upstream,
            Self::Settings(error) => error.kind(),
            Self::Vault(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::Notify(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::UnknownPlatform { .. } => "unknown_platform",
            Self::Off => "channel_off",
            Self::Unverified { .. } => "bad_signature",
            Self::Malformed { .. } | Self::Invalid { .. } => "invalid_request",
            Self::KeysUnavailable => "keys_unavailable",
            Self::PairingNotFound { .. } => "pairing_not_found",
            Self::SenderNotFound { .. } => "sender_not_found",
            Self::TooFast { .. } => "rate_limited",
            Self::Overloaded { .. } => "overloaded",
            Self::Send(SendError::NotSetUp(_)) => "channel_not_set_up",
            Self::Send(_) => "platform_refused",
            Self::Settings(error) => error.code(),
            Self::Vault(error) => error.code(),
            Self::Engine(error) => error.code(),
            Self::Notify(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}

/// Parses the platform in a path.
///
/// # Errors
/// [`ChannelError::unknown_platform`].
pub(super) fn platform_of(name: &str) -> Result<Platform, ChannelError> {
    Platform::from_id(name).ok_or_else(|| ChannelError::unknown_platform(name))
}
