//! Why a model did not answer, in the few kinds that callers and clients tell apart.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{DomainError, ErrorKind};

/// A failed call. `Display` is the message alone.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    pub code: ModelErrorCode,
    /// A sentence for people. Carries no key, no URL path and no query.
    pub message: String,
    /// When the provider said how long to wait.
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

/// The codes of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelErrorCode {
    /// Too many requests or tokens in a span of time.
    RateLimit,
    /// The key is missing, wrong or lacks a right, or its account has no credit.
    Auth,
    /// The provider has no capacity at the moment.
    Overloaded,
    /// The prompt does not fit the model; a shorter one would.
    ContextLength,
    /// The provider cannot be reached, failed, or broke its own format.
    ProviderUnavailable,
    Timeout,
    /// The model ended without an answer that is of use: refused, filtered, or out of output tokens. The same request
    /// would most likely end alike.
    NoAnswer,
    /// Somebody stopped the call; backends here never say so themselves.
    Cancelled,
    /// The request itself was refused (an unknown model, a parameter it does not take).
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

    /// Whether the same request may well succeed a little later.
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
