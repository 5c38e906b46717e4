//! Errors of agents.

use std::path::PathBuf;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("agent `{name}` not found; list agents with GET /api/agents")]
    NotFound { name: String },
    #[error("svc_name `{svc_name}` is already in use; choose another svc_name")]
    NameTaken { svc_name: String },
    #[error("the agent is not valid")]
    Invalid { problems: Vec<FieldProblem> },
    #[error("agent limit reached ({limit}); delete an agent first")]
    TooMany { limit: usize },
    #[error(
        "version {version} of the instructions of agent `{name}` not found; \
         list versions with GET /api/agents/{name}/versions"
    )]
    VersionNotFound { name: String, version: u32 },
    #[error("the instructions of agent `{name}` have changed; read them again before replacing them")]
    InstructionsChanged { name: String },
    /// No agent was named and there is not exactly one.
    #[error("no default agent: {reason}")]
    NoDefault { reason: String },
    #[error("failed to create the agent's workspace {}", .path.display())]
    Workspace { path: PathBuf, source: std::io::Error },
    #[error("failed to read or write agents; retry later")]
    Store(#[from] StoreError),
}

impl DomainError for AgentError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::VersionNotFound { .. } => ErrorKind::NotFound,
            Self::NameTaken { .. } | Self::TooMany { .. } | Self::InstructionsChanged { .. } => ErrorKind::Conflict,
            Self::Invalid { problems } => ErrorKind::Invalid(problems.clone()),
            Self::NoDefault { .. } => {
                ErrorKind::Invalid(vec![FieldProblem { field: "agent_id".to_owned(), message: self.to_string() }])
            }
            Self::Workspace { .. } => ErrorKind::Internal,
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "agent_not_found",
            Self::VersionNotFound { .. } => "version_not_found",
            Self::NameTaken { .. } => "name_taken",
            Self::Invalid { .. } => "invalid_request",
            Self::TooMany { .. } => "too_many_agents",
            Self::InstructionsChanged { .. } => "instructions_changed",
            Self::NoDefault { .. } => "agent_required",
            Self::Workspace { .. } => "internal_error",
            Self::Store(error) => error.code(),
        }
    }
}
