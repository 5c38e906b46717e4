//! Classification of failures. Each domain has one error enum whose `kind` returns one of these kinds; only
//! `agentd-web` turns a kind into a status and a body.

use std::time::Duration;

use serde::Serialize;

/// Invalid field of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct FieldProblem {
    /// Dotted path of the field, such as `schedule.timezone` or `jobs[2]`.
    pub field: String,
    /// Problem of the value, written as a continuation of the field name, such as `must be between 1 and 200`.
    pub message: String,
}

/// Category of an error, as far as callers must distinguish it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// 400; lists every invalid field, if fields are the cause.
    Invalid(Vec<FieldProblem>),
    /// 401
    Unauthenticated,
    /// 403
    Forbidden,
    /// 404
    NotFound,
    /// 409: the request is valid but conflicts with the current state.
    Conflict,
    /// 409 with `Retry-After`: the same request is still being processed.
    InProgress(Duration),
    /// 412: the resource's current version is not the one the client expects.
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
    /// 500; the chain is logged with an `error_id`, and the response contains only the id.
    Internal,
    /// 502
    Upstream,
    /// 503; the message says how to enable the component.
    Unavailable,
}

/// Error returned by a domain's façade. `Display` is the message shown to the user: it says what to do, does not end
/// with a full stop and does not repeat its source.
pub trait DomainError: std::error::Error + Send + Sync + 'static {
    fn kind(&self) -> ErrorKind;

    /// Stable code in `snake_case`, part of the public API.
    fn code(&self) -> &'static str;
}

/// Collects every invalid field before a request is rejected.
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

    /// Adds the problem unless `holds` is true.
    pub fn require(&mut self, holds: bool, field: &str, message: impl Into<String>) {
        if !holds {
            self.add(field, message);
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `Ok` if there are no problems.
    ///
    /// # Errors
    /// Returns all problems, in the order they were added.
    pub fn into_result(self) -> Result<(), Vec<FieldProblem>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}
