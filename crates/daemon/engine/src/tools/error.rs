//! Errors of tools and tool settings.

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_core::settings::SettingsError;
use agentd_core::vault::VaultError;
use agentd_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    #[error("built-in tool `{name}` not found; list built-in tools with GET /api/settings/skills/builtin")]
    UnknownBuiltin { name: String },
    #[error("custom tool `{id}` not found; list custom tools with GET /api/settings/skills/custom")]
    NotFound { id: String },
    #[error("a tool with the name `{name}` already exists; choose another name")]
    NameTaken { name: String },
    #[error("custom tool limit reached ({limit}); delete a custom tool first")]
    TooMany { limit: usize },
    #[error("the tool is not valid")]
    Invalid { problems: Vec<FieldProblem> },
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("failed to read or write tools; retry later")]
    Store(#[from] StoreError),
}

impl DomainError for ToolsError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownBuiltin { .. } | Self::NotFound { .. } => ErrorKind::NotFound,
            Self::NameTaken { .. } | Self::TooMany { .. } => ErrorKind::Conflict,
            Self::Invalid { problems } => ErrorKind::Invalid(problems.clone()),
            Self::Settings(error) => error.kind(),
            Self::Vault(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::UnknownBuiltin { .. } | Self::NotFound { .. } => "tool_not_found",
            Self::NameTaken { .. } => "name_taken",
            Self::TooMany { .. } => "too_many_tools",
            Self::Invalid { .. } => "invalid_request",
            Self::Settings(error) => error.code(),
            Self::Vault(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
