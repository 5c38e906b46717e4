//! Errors of tool servers.

use std::error::Error;

use agentd_base::{DomainError, ErrorKind, FieldProblem, Redactor};
use agentd_core::vault::VaultError;
use agentd_mcp::McpError;
use agentd_sandbox::SandboxError;
use agentd_store::StoreError;

/// Reason why a server has no session or did not answer; retained until the next attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Stable error code.
    pub code: &'static str,
    /// Message for the owner. Contains nothing of the server's error output.
    pub message: String,
    /// Whether the cause is on this machine, not in the server.
    pub is_local: bool,
    /// End of the program's error output.
    pub diagnosis: String,
}

impl Failure {
    /// Creates a failure with a cause on this machine.
    pub(super) fn local(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_local: true, diagnosis: String::new() }
    }

    /// Creates a failure of a server. Secrets are redacted because the server may echo them in its message.
    pub(super) fn of_server(error: &McpError, redactor: &Redactor) -> Self {
        let message = redactor.redact(sentence(error));
        Self { code: error.code(), message, is_local: false, diagnosis: String::new() }
    }

    pub(super) fn of_sandbox(error: &SandboxError) -> Self {
        Self::local(error.code(), sentence(error))
    }
}

/// Formats an error with its causes in one line.
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
    #[error("tool server `{id}` not found; list tool servers with GET /api/settings/skills/mcp")]
    NotFound { id: String },
    #[error("catalog entry `{id}` not found; list entries with GET /api/settings/skills/mcp/catalog")]
    UnknownEntry { id: String },
    #[error("the tool prefix `{prefix}_` is already in use by another tool server; choose another name")]
    NameTaken { prefix: String },
    #[error("tool server limit reached ({limit}); delete a tool server first")]
    TooMany { limit: usize },
    #[error("the tool server is not valid")]
    Invalid { problems: Vec<FieldProblem> },
    #[error("the tool server is disabled; set `enabled` first")]
    Disabled,
    #[error("too many concurrent tool server requests; retry later")]
    Busy,
    #[error("the tool server changed this tool after the approval was requested, so it was not run; call it again")]
    Changed,
    #[error("the daemon is shutting down")]
    GoingDown,
    #[error("{}", .0.message)]
    Failed(Failure),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("failed to read or write tool servers; retry later")]
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
            Self::Failed(failure) if failure.is_local => ErrorKind::Unavailable,
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
