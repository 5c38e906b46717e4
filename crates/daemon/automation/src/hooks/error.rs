//! Errors of hook management. Failures of an action are part of its delivery or execution record instead.

use std::error::Error;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_core::vault::VaultError;
use agentd_engine::agents::AgentError;
use agentd_engine::engine::EngineError;
use agentd_store::StoreError;

use super::model::MAX_HOOKS;
use crate::notify::NotifyError;

/// Maximum length of a stored error, in bytes.
const MAX_ERROR_BYTES: usize = 2_000;

#[derive(Debug, thiserror::Error)]
pub enum HookError {
    #[error("there is no hook `{id}`; GET /api/hooks lists those there are")]
    NotFound { id: String },
    #[error("there is no bundled hook `{id}`; GET /api/hooks/bundled lists those there are")]
    NoSuchBundled { id: String },
    #[error("the hook has no delivery `{id}`; what has ended is kept for a bounded time")]
    NoSuchDelivery { id: String },
    #[error("{MAX_HOOKS} hooks exist already, which is the most that are kept; delete one first")]
    TooMany,
    #[error("the delivery is {status}; only a failed or dead_letter one can be retried")]
    NotFailed { status: &'static str },
    #[error("the hook of this delivery was deleted, so it cannot be sent any more; make a new hook for what comes")]
    Deleted,
    #[error("only http hooks deliver; POST /api/hooks/{{id}}/test runs any hook")]
    NotHttp,
    #[error("the hook is not valid")]
    Invalid { problems: Vec<FieldProblem> },
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Notify(#[from] NotifyError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("the hooks cannot be read or changed now")]
    Store(#[from] StoreError),
}

impl HookError {
    #[must_use]
    pub(super) fn not_found(id: &str) -> Self {
        Self::NotFound { id: id.chars().take(80).collect() }
    }
}

impl DomainError for HookError {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } | Self::NoSuchBundled { .. } | Self::NoSuchDelivery { .. } => ErrorKind::NotFound,
            Self::TooMany | Self::NotFailed { .. } | Self::Deleted | Self::NotHttp => ErrorKind::Conflict,
            Self::Invalid { problems } => ErrorKind::Invalid(problems.clone()),
            Self::Agent(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::Notify(error) => error.kind(),
            Self::Vault(error) => error.kind(),
            Self::Store(error) => error.kind(),
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } | Self::NoSuchBundled { .. } => "hook_not_found",
            Self::NoSuchDelivery { .. } => "delivery_not_found",
            Self::TooMany => "too_many_hooks",
            Self::NotFailed { .. } => "delivery_not_failed",
            Self::Deleted => "hook_deleted",
            Self::NotHttp => "hook_not_http",
            Self::Invalid { .. } => "invalid_request",
            Self::Agent(error) => error.code(),
            Self::Engine(error) => error.code(),
            Self::Notify(error) => error.code(),
            Self::Vault(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }
}

/// Formats an error and its sources as one line.
pub(super) fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text = format!("{text}: {message}");
        }
        source = cause.source();
    }
    truncate_error(text)
}

/// Truncates an error text for storage and replaces NUL characters, which the database cannot store.
pub(super) fn truncate_error(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_ERROR_BYTES));
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}
