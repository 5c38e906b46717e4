//! Errors of alerts.

use agentd_automation::hooks::HookError;
use agentd_automation::notify::NotifyError;
use agentd_automation::scheduler::SchedulerError;
use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_core::vault::VaultError;
use agentd_engine::providers::ProviderError;
use agentd_store::StoreError;

use super::model::{AlertState, MAX_ALERTS};

#[derive(Debug, thiserror::Error)]
pub enum AlertError {
    #[error("the alert is not valid")]
    Invalid(Vec<FieldProblem>),
    #[error("alert `{id}` not found; list alerts with GET /api/monitoring/alerts")]
    NotFound { id: String },
    #[error("an alert in the state `{}` cannot be {action}", .state.as_str())]
    WrongState { state: AlertState, action: &'static str },
    #[error("alert limit reached ({MAX_ALERTS}); delete an alert first")]
    TooMany,
    #[error(transparent)]
    Notify(#[from] NotifyError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Hooks(#[from] HookError),
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    #[error(transparent)]
    Providers(#[from] ProviderError),
    #[error("alerts cannot be read or stored; retry shortly")]
    Store(#[from] StoreError),
}

impl AlertError {
    pub(super) fn not_found(id: &str) -> Self {
        Self::NotFound { id: id.chars().take(80).collect() }
    }
}

impl DomainError for AlertError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(problems) => ErrorKind::Invalid(problems.clone()),
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::WrongState { .. } | Self::TooMany => ErrorKind::Conflict,
            Self::Notify(error) => error.kind(),
            Self::Vault(error) => error.kind(),
            Self::Hooks(error) => error.kind(),
            Self::Scheduler(error) => error.kind(),
            Self::Providers(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_request",
            Self::NotFound { .. } => "alert_not_found",
            Self::WrongState { .. } => "wrong_state",
            Self::TooMany => "too_many_alerts",
            Self::Notify(error) => error.code(),
            Self::Vault(error) => error.code(),
            Self::Hooks(error) => error.code(),
            Self::Scheduler(error) => error.code(),
            Self::Providers(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
