//! Why turns could not be shown.

use agentd_base::{DomainError, ErrorKind};
use agentd_store::StoreError;

use crate::agents::AgentError;

#[derive(Debug, thiserror::Error)]
pub enum ProactiveError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("turns that agents began by themselves cannot be read now")]
    Store(#[from] StoreError),
}

impl DomainError for ProactiveError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Agent(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Agent(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
