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
        "agent `{name}` has no version {version} of its instructions, or none any more; \
         GET /api/agents/{name}/versions lists those there are"
    )]
    VersionNotFound { name: String, version: u32 },
    #[error("the instructions of agent `{name}` were changed in the meantime; read them again before you replace them")]
    InstructionsChanged { name: String },
    /// No agent was named and there is not exactly one.
    #[error("name an agent: {reason}")]
    NoDefault { reason: String },
    #[error("the agent's workspace {} cannot be prepared", .path.display())]
    Workspace { path: PathBuf, source: std::io::Error },
    #[error("agents cannot be read or changed now")]
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
