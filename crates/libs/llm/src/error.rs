//! Model errors, reduced to the kinds that callers and clients distinguish.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{DomainError, ErrorKind};

/// Failed model call. `Display` is the message alone.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub code: ModelErrorCode,
    /// Message for users. Contains no key, URL path or query.
    pub message: String,
    /// Wait time requested by the provider.
    pub retry_after: Option<Duration>,
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl ModelError {
    #[must_use]
    pub fn new(code: ModelErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None, source: None }
    }

    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }
}

/// Error codes of the public API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelErrorCode {
    /// Too many requests or tokens within a period.
    RateLimit,
    /// The key is missing, invalid or lacks a permission, or the account has no credit.
    Auth,
    /// The provider is temporarily out of capacity.
    Overloaded,
    /// The prompt does not fit the model; a shorter prompt would.
    ContextLength,
    /// The provider is unreachable, failed, or violated its own format.
    ProviderUnavailable,
    Timeout,
    /// The model ended without a usable answer: refused, filtered, or out of output tokens. Repeating the request would
    /// most likely have the same result.
    NoAnswer,
    /// The call was cancelled by the caller; the backends in this crate never return this code.
    Cancelled,
    /// The request was rejected, for example because of an unknown model or parameter.
    Internal,
}

impl ModelErrorCode {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimit => "rate_limit",
            Self::Auth => "auth",
            Self::Overloaded => "overloaded",
            Self::ContextLength => "context_length",
            Self::ProviderUnavailable => "provider_unavailable",
            Self::Timeout => "timeout",
            Self::NoAnswer => "no_answer",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }

    /// Whether the same request may succeed a little later.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(self, Self::RateLimit | Self::Overloaded | Self::ProviderUnavailable | Self::Timeout)
    }
}

impl fmt::Display for ModelErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl DomainError for ModelError {
    fn kind(&self) -> ErrorKind {
        match self.code {
            ModelErrorCode::RateLimit => ErrorKind::TooMany(self.retry_after.unwrap_or(Duration::from_secs(10))),
            ModelErrorCode::Internal => ErrorKind::Internal,
            _ => ErrorKind::Upstream,
        }
    }

    fn code(&self) -> &'static str {
        self.code.as_str()
    }
}
