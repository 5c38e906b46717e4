//! Errors of monitoring, and reasons why the daemon is not ready.

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_core::auth::AuthError;
use agentd_core::settings::SettingsError;
use agentd_engine::agents::AgentError;
use agentd_engine::providers::ProviderError;
use agentd_store::StoreError;

use super::readiness::Phase;

/// Error of a monitoring request.
#[derive(Debug, thiserror::Error)]
pub enum MonitoringError {
    #[error("component `{id}` not found; known components: {known}")]
    UnknownComponent { id: String, known: String },
    #[error("the request is not valid")]
    Invalid(Vec<FieldProblem>),
    #[error(transparent)]
    Agents(#[from] AgentError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error(transparent)]
    Providers(#[from] ProviderError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl MonitoringError {
    pub(super) fn field(field: &str, message: impl Into<String>) -> Self {
        Self::Invalid(vec![FieldProblem { field: field.to_owned(), message: message.into() }])
    }
}

impl DomainError for MonitoringError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownComponent { .. } => ErrorKind::NotFound,
            Self::Invalid(problems) => ErrorKind::Invalid(problems.clone()),
            Self::Agents(error) => error.kind(),
            Self::Auth(error) => error.kind(),
            Self::Providers(error) => error.kind(),
            Self::Settings(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::UnknownComponent { .. } => "component_not_found",
            Self::Invalid(_) => "invalid_request",
            Self::Agents(error) => error.code(),
            Self::Auth(error) => error.code(),
            Self::Providers(error) => error.code(),
            Self::Settings(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}

/// Reason for a 503 response. `Display` names the cause and what the client or the operator can do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    #[error("The daemon is starting or migrating its database; retry shortly")]
    Starting,
    #[error("The daemon is shutting down: running replies are completed, new requests are rejected")]
    Draining,
    #[error("The daemon is restoring a backup; retry when the restore is complete")]
    Restoring,
    /// A critical component failed.
    #[error("{message}")]
    Component { code: &'static str, message: String },
}

impl NotReady {
    /// Returns `None` for a phase in which requests are accepted.
    #[must_use]
    pub fn from_phase(phase: Phase) -> Option<Self> {
        match phase {
            Phase::Starting => Some(Self::Starting),
            Phase::Draining => Some(Self::Draining),
            Phase::Restoring => Some(Self::Restoring),
            Phase::Ready => None,
        }
    }
}

impl DomainError for NotReady {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Unavailable
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Draining => "draining",
            Self::Restoring => "restoring",
            Self::Component { code, .. } => code,
        }
    }
}
