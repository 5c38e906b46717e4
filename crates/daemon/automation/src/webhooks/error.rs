//! Errors of inbound webhooks.

use std::time::Duration;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_core::rate_limit::{Outcome, Refusal};
use agentd_core::vault::VaultError;
use agentd_engine::agents::AgentError;
use agentd_store::StoreError;

use super::model::MAX_WEBHOOKS;
use super::signature::SignatureProblem;

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("webhook `{id}` not found; list webhooks with GET /api/webhooks")]
    NotFound { id: String },
    #[error("delivery `{id}` not found; list deliveries with GET /api/webhooks/{{id}}/deliveries")]
    DeliveryNotFound { id: String },
    #[error("the webhook is not valid")]
    Invalid { problems: Vec<FieldProblem> },
    #[error("webhook limit reached ({MAX_WEBHOOKS}); delete a webhook first")]
    TooMany,
    #[error(transparent)]
    Signature(#[from] SignatureProblem),
    #[error("the webhook is disabled; its owner must enable it first")]
    Disabled,
    #[error("this Idempotency-Key was used with another body; use a new key")]
    KeyReused,
    #[error("rate limit of the webhook reached; retry after the time in `Retry-After`")]
    TooFast { retry_after: Duration },
    #[error("rate limit of all webhooks together reached; retry after the time in `Retry-After`")]
    TooFastInAll { retry_after: Duration },
    /// The backlog of accepted requests is too large.
    #[error("{backlog}; retry after the time in `Retry-After`")]
    Overloaded { backlog: &'static str },
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("failed to read or update webhooks; retry")]
    Store(#[from] StoreError),
}

impl WebhookError {
    pub(super) fn not_found(id: &str) -> Self {
        Self::NotFound { id: id.chars().take(80).collect() }
    }

    pub(super) fn delivery_not_found(id: &str) -> Self {
        Self::DeliveryNotFound { id: id.chars().take(80).collect() }
    }

    /// Returns the outcome that is counted for the rejected request.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Signature(_) => Outcome::Unsigned,
            Self::Disabled => Outcome::Disabled,
            Self::TooFast { .. } | Self::TooFastInAll { .. } => Outcome::RateLimited,
            Self::Overloaded { .. } => Outcome::Overloaded,
            Self::NotFound { .. } | Self::Invalid { .. } | Self::KeyReused => Outcome::Invalid,
            _ => Outcome::Failed,
        }
    }

    pub(super) fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid { problems: vec![FieldProblem { field: field.to_owned(), message: message.into() }] }
    }
}

impl From<Refusal> for WebhookError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TooFast { retry_after } => Self::TooFast { retry_after },
            Refusal::TooFastInAll { retry_after } => Self::TooFastInAll { retry_after },
            Refusal::Overloaded { backlog } => Self::Overloaded { backlog },
            Refusal::Store(error) => Self::Store(error),
        }
    }
}

impl DomainError for WebhookError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::DeliveryNotFound { .. } => ErrorKind::NotFound,
            Self::Invalid { problems } => ErrorKind::Invalid(problems.clone()),
            Self::TooMany | Self::Disabled | Self::KeyReused => ErrorKind::Conflict,
            Self::Signature(_) => ErrorKind::Unauthenticated,
            Self::TooFast { retry_after } | Self::TooFastInAll { retry_after } => ErrorKind::TooMany(*retry_after),
            Self::Overloaded { .. } => ErrorKind::Unavailable,
            Self::Agent(error) => error.kind(),
            Self::Vault(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "webhook_not_found",
            Self::DeliveryNotFound { .. } => "delivery_not_found",
            Self::Invalid { .. } => "invalid_request",
            Self::TooMany => "too_many_webhooks",
            Self::Signature(problem) => problem.code(),
            Self::Disabled => "webhook_disabled",
            Self::KeyReused => "idempotency_key_reused",
            Self::TooFast { .. } | Self::TooFastInAll { .. } => "rate_limited",
            Self::Overloaded { .. } => "overloaded",
            Self::Agent(error) => error.code(),
            Self::Vault(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
