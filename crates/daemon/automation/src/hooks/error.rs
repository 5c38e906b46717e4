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
    #[error("hook `{id}` not found; list hooks with GET /api/hooks")]
    NotFound { id: String },
    #[error("bundled hook `{id}` not found; list bundled hooks with GET /api/hooks/bundled")]
    NoSuchBundled { id: String },
    #[error("delivery `{id}` not found; completed deliveries are deleted after their retention period")]
    NoSuchDelivery { id: String },
    #[error("hook limit reached ({MAX_HOOKS}); delete a hook first")]
    TooMany,
    #[error("the delivery is {status}; only failed and dead_letter deliveries can be retried")]
    NotFailed { status: &'static str },
    #[error("the hook of this delivery was deleted; its deliveries cannot be retried")]
    Deleted,
    #[error("the hook is not an http hook; test it with POST /api/hooks/{{id}}/test")]
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
    #[error("failed to read or update hooks; retry")]
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
