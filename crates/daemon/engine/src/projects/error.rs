//! Errors of projects.

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    #[error("project `{id}` not found; list projects with GET /api/projects")]
    NotFound { id: String },
    #[error("the project is not valid")]
    Invalid { problems: Vec<FieldProblem> },
    #[error("project limit reached ({limit}); delete a project first")]
    TooMany { limit: u64 },
    #[error("failed to read or write projects; retry later")]
    Store(#[from] StoreError),
}

impl ProjectError {
    pub(super) fn not_found(id: &str) -> Self {
        Self::NotFound { id: id.chars().take(80).collect() }
    }
}

impl DomainError for ProjectError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Invalid { problems } => ErrorKind::Invalid(problems.clone()),
            Self::TooMany { .. } => ErrorKind::Conflict,
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "project_not_found",
            Self::Invalid { .. } => "invalid_request",
            Self::TooMany { .. } => "too_many_projects",
            Self::Store(error) => error.code(),
        }
    }
}
