//! What can go wrong: whatever the domains behind the steps say.

use agentd_base::{DomainError, ErrorKind};

use crate::agents::AgentError;
use crate::auth::AuthError;
use crate::providers::ProviderError;
use crate::settings::SettingsError;

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Provider(#[from] ProviderError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl DomainError for SetupError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Auth(error) => error.kind(),
            Self::Provider(error) => error.kind(),
            Self::Agent(error) => error.kind(),
            Self::Settings(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Auth(error) => error.code(),
            Self::Provider(error) => error.code(),
            Self::Agent(error) => error.code(),
            Self::Settings(error) => error.code(),
        }
    }
}
