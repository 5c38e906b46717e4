//! What can go wrong with the browser.

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use agentd_net::NetError;

use crate::agents::AgentError;

#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    #[error("no page is open; POST /api/browser/action with `goto` opens one")]
    NotRunning,
    #[error("the request is not valid")]
    Invalid { problems: Vec<FieldProblem> },
    #[error("{0} (for the browser, `ssrf_allowlist` and `ssrf_blocklist` of its own settings hold as well)")]
    Refused(NetError),
    #[error("the proxy in front of the browser cannot be started: {0}")]
    Proxy(#[from] agentd_net::ProxyError),
    #[error("the file cannot be used: {0}")]
    File(String),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("a folder for files of the browser cannot be made")]
    Folder(#[source] std::io::Error),
    #[error(transparent)]
    Browser(#[from] agentd_browser::BrowserError),
}

impl DomainError for BrowserError {
    fn kind(&self) -> ErrorKind {
        use agentd_browser::BrowserError as Inner;
        match self {
            Self::Invalid { problems } => ErrorKind::Invalid(problems.clone()),
            Self::Refused(_) => ErrorKind::Forbidden,
            Self::NotRunning => ErrorKind::Conflict,
            Self::Proxy(_) => ErrorKind::Unavailable,
            Self::Folder(_) => ErrorKind::Internal,
            Self::File(_) => ErrorKind::Invalid(Vec::new()),
            Self::Agent(error) => error.kind(),
            Self::Browser(error) => match error {
                Inner::Unavailable(_) => ErrorKind::Unavailable,
                Inner::Invalid(_) | Inner::File(_) => ErrorKind::Invalid(Vec::new()),
                Inner::NoTab(_) => ErrorKind::NotFound,
                Inner::Ended(_) | Inner::Navigation { .. } | Inner::Protocol(_) => ErrorKind::Upstream,
                Inner::Ambiguous { .. }
                | Inner::NotActionable { .. }
                | Inner::StaleRef { .. }
                | Inner::Timeout { .. }
                | Inner::DialogOpen { .. }
                | Inner::TabCrashed
                | Inner::TooManyTabs { .. } => ErrorKind::Conflict,
            },
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotRunning => "browser_not_running",
            Self::Invalid { .. } => "invalid_request",
            Self::Refused(_) => "address_refused",
            Self::Proxy(_) => "browser_unavailable",
            Self::Folder(_) => "internal_error",
            Self::File(_) => "file_refused",
            Self::Agent(error) => error.code(),
            Self::Browser(error) => error.code(),
        }
    }
}
