//! Errors of the setup wizard, mostly those of the domains behind its steps.

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_core::auth::AuthError;
use agentd_core::settings::SettingsError;
use agentd_engine::agents::AgentError;
use agentd_engine::providers::ProviderError;
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("the provider is not valid")]
    Invalid(Vec<FieldProblem>),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DomainError for SetupError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(problems) => ErrorKind::Invalid(problems.clone()),
            Self::Auth(error) => error.kind(),
            Self::Provider(error) => error.kind(),
            Self::Agent(error) => error.kind(),
            Self::Settings(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid_request",
            Self::Auth(error) => error.code(),
            Self::Provider(error) => error.code(),
            Self::Agent(error) => error.code(),
            Self::Settings(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
