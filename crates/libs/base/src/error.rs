//! What kinds of failure exist. Each domain has one error enum; its `kind` says which of these an
//! error is, and `agentd-web` alone turns a kind into a status and a body.

use std::time::Duration;

use serde::Serialize;

/// One bad field of a request. `field` is a dotted path (`schedule.timezone`, `jobs[2]`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct FieldProblem {
    pub field: String,
    pub message: String,
}

/// What went wrong, as far as a caller must tell cases apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// 400; every bad field at once, where fields are to blame.
    Invalid(Vec<FieldProblem>),
    /// 401
    Unauthenticated,
    /// 403
    Forbidden,
    /// 404
    NotFound,
    /// 409: the request is fine, the present state is not.
    Conflict,
    /// 409 with `Retry-After`: the same request is still being worked on.
    InProgress(Duration),
    /// 412: something else is there than the caller expects.
    PreconditionFailed,
    /// 413
    TooLarge,
    /// 415
    UnsupportedMediaType,
    /// 416
    RangeNotSatisfiable,
    /// 421
    Misdirected,
    /// 429 with `Retry-After`
    TooMany(Duration),
    /// 500; the chain is logged with an `error_id`, the answer carries the id alone.
    Internal,
    /// 502
    Upstream,
    /// 503; the message says what would turn the component on.
    Unavailable,
}

/// An error that a domain's façade returns. `Display` is the sentence that a person reads: it
/// says what to do, ends without a full stop needed, and never repeats its source.
pub trait DomainError: std::error::Error + Send + Sync + 'static {
    fn kind(&self) -> ErrorKind;

    /// Stable, `snake_case`, part of the interface.
    fn code(&self) -> &'static str;
}

/// Collects every bad field before anything is refused.
#[derive(Debug, Default)]
pub struct Problems(Vec<FieldProblem>);

impl Problems {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(FieldProblem { field: field.into(), message: message.into() });
    }

    /// Adds the problem unless `holds`.
    pub fn require(&mut self, holds: bool, field: &str, message: impl Into<String>) {
        if !holds {
            self.add(field, message);
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `Ok` when nothing was found, else every problem.
    ///
    /// # Errors
    /// The problems, in the order they were found.
    pub fn into_result(self) -> Result<(), Vec<FieldProblem>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}
