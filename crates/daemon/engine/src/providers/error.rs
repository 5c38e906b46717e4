//! Errors of model selection, budgets and provider changes.

use std::time::Duration;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_core::settings::SettingsError;
use agentd_core::vault::VaultError;
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("provider `{id}` not found; known providers: {known}")]
    Unknown { id: String, known: String },
    #[error("the built-in model has no key; select its file with `local_model` of PUT /api/settings/agent")]
    LocalHasNoKey,
    #[error("the provider is not valid")]
    Invalid(Vec<FieldProblem>),
    #[error("no model available: {reason}")]
    NoModel { reason: String },
    #[error(
        "daily token budget exhausted ({limit} tokens), or too little of it remains for this call; wait until \
         midnight, or raise daily_token_limit with PUT /api/settings/agent"
    )]
    DailyBudget { limit: u64, retry_after: Duration },
    #[error(
        "total token budget exhausted ({limit} tokens), or too little of it remains for this call; raise \
         total_token_limit with PUT /api/settings/agent"
    )]
    TotalBudget { limit: u64 },
    #[error(
        "daily token budget of the agent exhausted ({limit} tokens), or too little of it remains for this call; wait \
         until midnight, or raise daily_token_limit of its profile with PATCH /api/agents/{{name}}"
    )]
    AgentBudget { limit: u64, retry_after: Duration },
    #[error("the remaining token budget is reserved for calls in progress; retry later, or raise the limit")]
    BudgetReserved { retry_after: Duration },
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ProviderError {
    pub(super) fn no_model(reason: impl Into<String>) -> Self {
        Self::NoModel { reason: reason.into() }
    }

    /// Whether a budget rejected the call.
    #[must_use]
    pub fn is_budget(&self) -> bool {
        matches!(
            self,
            Self::DailyBudget { .. }
                | Self::TotalBudget { .. }
                | Self::AgentBudget { .. }
                | Self::BudgetReserved { .. }
        )
    }
}

impl DomainError for ProviderError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown { .. } => ErrorKind::NotFound,
            Self::LocalHasNoKey | Self::TotalBudget { .. } => ErrorKind::Conflict,
            Self::Invalid(problems) => ErrorKind::Invalid(problems.clone()),
            Self::NoModel { .. } => ErrorKind::Unavailable,
            Self::DailyBudget { retry_after, .. }
            | Self::AgentBudget { retry_after, .. }
            | Self::BudgetReserved { retry_after } => ErrorKind::TooMany(*retry_after),
            Self::Settings(error) => error.kind(),
            Self::Vault(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "unknown_provider",
            Self::LocalHasNoKey => "no_key_needed",
            Self::Invalid(_) => "invalid_request",
            Self::NoModel { .. } => "no_model",
            Self::DailyBudget { .. }
            | Self::TotalBudget { .. }
            | Self::AgentBudget { .. }
            | Self::BudgetReserved { .. } => "budget_exhausted",
            Self::Settings(error) => error.code(),
            Self::Vault(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
