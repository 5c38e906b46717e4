//! What can go wrong with providers.

use std::time::Duration;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_store::StoreError;

use crate::settings::VaultError;

#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("there is no provider `{id}`; there are: {known}")]
    Unknown { id: String, known: String },
    #[error("the model inside needs no key; put a GGUF file under models/ in the data directory to change it")]
    LocalHasNoKey,
    #[error("the provider cannot be changed like this")]
    Invalid(Vec<FieldProblem>),
    #[error("{provider} is not configured; set its key with PUT /api/providers/{provider}/key")]
    NotConfigured { provider: String },
    #[error(
        "no model is available: set a key with PUT /api/providers/{{id}}/key, or fetch the model inside with \
         `make models` (any GGUF file under models/ in the data directory will do)"
    )]
    NoModel,
    #[error("{0}")]
    LocalUnavailable(String),
    #[error(
        "today's budget of {limit} tokens is used up; it starts anew at midnight, or raise `agent.daily_token_limit`"
    )]
    DailyBudget { limit: u64, until_midnight: Duration },
    #[error("the budget of {limit} tokens is used up; raise `agent.total_token_limit` to go on")]
    TotalBudget { limit: u64 },
    #[error("prices.toml in the data directory is not valid: {0}")]
    Prices(String),
    #[error("the model inside cannot be started")]
    Spawner(#[source] std::io::Error),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DomainError for ProviderError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown { .. } => ErrorKind::NotFound,
            Self::LocalHasNoKey | Self::TotalBudget { .. } => ErrorKind::Conflict,
            Self::Invalid(fields) => ErrorKind::Invalid(fields.clone()),
            Self::NotConfigured { .. } | Self::NoModel | Self::LocalUnavailable(_) => ErrorKind::Unavailable,
            Self::DailyBudget { until_midnight, .. } => ErrorKind::TooMany(*until_midnight),
            Self::Prices(_) | Self::Spawner(_) => ErrorKind::Internal,
            Self::Vault(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_provider",
            Self::LocalHasNoKey => "local_has_no_key",
            Self::Invalid(_) => "invalid_request",
            Self::NotConfigured { .. } => "provider_not_configured",
            Self::NoModel | Self::LocalUnavailable(_) => "no_model",
            Self::DailyBudget { .. } | Self::TotalBudget { .. } => "budget_exhausted",
            Self::Prices(_) | Self::Spawner(_) => "internal_error",
            Self::Vault(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
