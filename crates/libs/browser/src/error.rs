//! Browser errors, each with a stable code and a message that a user can act on.

use std::sync::Arc;

use crate::cdp::CdpError;

#[derive(Debug, Clone, thiserror::Error)]
pub enum BrowserError {
    #[error("the browser is unavailable: {0}")]
    Unavailable(String),
    #[error("the browser exited ({0}); the next action starts a new one")]
    Ended(Arc<str>),
    #[error("{0}")]
    Invalid(String),
    #[error("`{selector}` matches {count} elements; use a selector that matches one")]
    Ambiguous { selector: String, count: usize },
    #[error("`{selector}` was not actionable within {waited_ms} ms: {missing}")]
    NotActionable { selector: String, missing: String, waited_ms: u64 },
    #[error("`{selector}` {what}; take a new snapshot")]
    StaleRef { selector: String, what: &'static str },
    #[error("{url} could not be opened: {reason}")]
    Navigation {
        url: String,
        /// Address that failed; after redirects it differs from `url`.
        failed_url: String,
        reason: String,
    },
    #[error("the tab navigated to a blocked `{scheme}:` URL; permitted are {}", crate::address::PERMITTED)]
    AddressRefused { scheme: String },
    #[error("timed out after {waited_ms} ms while waiting for {what}")]
    Timeout { what: String, waited_ms: u64 },
    #[error("a dialog ({kind}: {message:?}) is open; answer it with `handle_dialog`")]
    DialogOpen { kind: String, message: String },
    #[error("tab `{0}` not found; list tabs with GET /api/browser/tabs")]
    NoTab(String),
    #[error("the tab crashed; close it or navigate to another page")]
    TabCrashed,
    #[error("tab limit reached ({limit}); close a tab first")]
    TooManyTabs { limit: usize },
    #[error("{0}")]
    LimitExceeded(String),
    #[error("file rejected: {0}")]
    File(String),
    #[error("{0}")]
    Protocol(String),
}

impl BrowserError {
    /// Stable error code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "browser_unavailable",
            Self::Ended(_) => "browser_ended",
            Self::Invalid(_) => "invalid_action",
            Self::Ambiguous { .. } => "ambiguous",
            Self::NotActionable { .. } => "not_actionable",
            Self::StaleRef { .. } => "stale_ref",
            Self::Navigation { .. } => "navigation_failed",
            Self::AddressRefused { .. } => "address_refused",
            Self::Timeout { .. } => "timeout",
            Self::DialogOpen { .. } => "dialog_open",
            Self::NoTab(_) => "tab_not_found",
            Self::TabCrashed => "tab_crashed",
            Self::TooManyTabs { .. } => "too_many_tabs",
            Self::LimitExceeded(_) => "limit_exceeded",
            Self::File(_) => "file_refused",
            Self::Protocol(_) => "browser_failed",
        }
    }
}

impl From<CdpError> for BrowserError {
    fn from(error: CdpError) -> Self {
        match error {
            CdpError::Ended(reason) => Self::Ended(reason),
            CdpError::Timeout { method, limit } => {
                Self::Timeout { what: format!("the response of the browser to {method}"), waited_ms: millis(limit) }
            }
            CdpError::TooLong { .. } => Self::LimitExceeded("the response of the page is too large".to_owned()),
            CdpError::Refused { .. } | CdpError::Form { .. } => Self::Protocol(error.to_string()),
        }
    }
}

pub(crate) fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
