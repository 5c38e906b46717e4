//! What can go wrong with tool servers.

use std::error::Error;

use agentd_base::{DomainError, ErrorKind, FieldProblem, Redactor};
use agentd_core::vault::VaultError;
use agentd_mcp::McpError;
use agentd_sandbox::SandboxError;
use agentd_store::StoreError;

/// Why there is no session with a server, or no answer; kept and shown until the next try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Stable, for programs.
    pub code: &'static str,
    /// For the owner. Holds nothing that the server wrote on its error output.
    pub message: String,
    /// The daemon lacks something, as opposed to the server.
    pub is_ours: bool,
    /// The end of what the program wrote beside the protocol.
    pub diagnosis: String,
}

impl Failure {
    /// The daemon's own shortcoming.
    pub(super) fn ours(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_ours: true, diagnosis: String::new() }
    }

    /// Of a server to which these values were given: it may repeat them in what it says of its failure.
    pub(super) fn of_server(error: &McpError, redactor: &Redactor) -> Self {
        let message = redactor.hide(sentence(error));
        Self { code: error.code(), message, is_ours: false, diagnosis: String::new() }
    }

    pub(super) fn of_sandbox(error: &SandboxError) -> Self {
        Self::ours(error.code(), sentence(error))
    }
}

/// An error with everything that caused it, in one line.
fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[derive(Debug, thiserror::Error)]
pub enum ToolServerError {
    #[error("there is no tool server `{id}`; GET /api/settings/skills/mcp lists those there are")]
    NotFound { id: String },
    #[error("there is no entry `{id}` in the catalog; GET /api/settings/skills/mcp/catalog lists those there are")]
    UnknownEntry { id: String },
    #[error("a tool server whose tools begin with `{prefix}_` is already there; choose another name")]
    NameTaken { prefix: String },
    #[error("{limit} tool servers exist already, which is the most that are kept; delete one first")]
    TooMany { limit: usize },
    #[error("the tool server is not valid")]
    Invalid { problems: Vec<FieldProblem> },
    #[error("the tool server is switched off; set `enabled` first")]
    Disabled,
    #[error("too much is asked of tool servers at once; try again in a moment")]
    Busy,
    #[error("the tool server changed this tool after its owner was asked, so nothing ran; ask for it again")]
    Changed,
    #[error("the daemon is going down")]
    GoingDown,
    #[error("{}", .0.message)]
    Failed(Failure),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("the tool servers cannot be read or changed now")]
    Store(#[from] StoreError),
}

impl DomainError for ToolServerError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::UnknownEntry { .. } => ErrorKind::NotFound,
            Self::NameTaken { .. } | Self::TooMany { .. } | Self::Disabled | Self::Changed => ErrorKind::Conflict,
            Self::Invalid { problems } => ErrorKind::Invalid(problems.clone()),
            Self::Busy => ErrorKind::TooMany(std::time::Duration::from_secs(1)),
            Self::GoingDown => ErrorKind::Unavailable,
            Self::Failed(failure) if failure.is_ours => ErrorKind::Unavailable,
            Self::Failed(_) => ErrorKind::Upstream,
            Self::Vault(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "tool_server_not_found",
            Self::UnknownEntry { .. } => "catalog_entry_not_found",
            Self::NameTaken { .. } => "name_taken",
            Self::TooMany { .. } => "too_many_tool_servers",
            Self::Invalid { .. } => "invalid_request",
            Self::Disabled => "tool_server_disabled",
            Self::Busy => "tool_servers_busy",
            Self::Changed => "tool_changed",
            Self::GoingDown => "shutting_down",
            Self::Failed(failure) => failure.code,
            Self::Vault(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}
