//! Conversion of an [`ErrorKind`] to a status and a body.

use std::error::Error;
use std::time::Duration;

use agentd_base::{DomainError, ErrorKind, FieldProblem};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

/// Body of every error response.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct ErrorBody {
    /// Human-readable message with the problem and how to fix it.
    pub error: String,
    /// Stable error code in `snake_case`.
    pub code: String,
    /// All invalid fields of the request.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(required = false)]
    pub fields: Vec<FieldProblem>,
    /// Id of the log entry that contains the cause; only with status 500.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub error_id: Option<String>,
}

/// Error response.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    body: Box<ErrorBody>,
    retry_after: Option<Duration>,
    cookies: Vec<HeaderValue>,
}

pub type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    #[must_use]
    pub fn new(status: StatusCode, code: &str, error: impl Into<String>) -> Self {
        Self {
            status,
            body: Box::new(ErrorBody {
                error: error.into(),
                code: code.to_owned(),
                fields: Vec::new(),
                error_id: None,
            }),
            retry_after: None,
            cookies: Vec::new(),
        }
    }

    /// Creates a 400 response with every invalid field. The message repeats the first one.
    #[must_use]
    pub fn invalid(fields: Vec<FieldProblem>) -> Self {
        let error = match fields.as_slice() {
            [] => "The request is not valid".to_owned(),
            [only] => format!("{}: {}", only.field, only.message),
            [first, rest @ ..] => {
                format!("{}: {} (and {} more, see `fields`)", first.field, first.message, rest.len())
            }
        };
        let mut api_error = Self::new(StatusCode::BAD_REQUEST, "invalid_request", error);
        api_error.body.fields = fields;
        api_error
    }

    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Adds `Set-Cookie` headers to the response.
    pub(crate) fn with_cookies(mut self, cookies: Vec<HeaderValue>) -> Self {
        self.cookies = cookies;
        self
    }

    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    #[must_use]
    pub fn code(&self) -> &str {
        &self.body.code
    }

    /// Returns the names of the invalid fields, in order.
    #[must_use]
    pub fn bad_fields(&self) -> Vec<&str> {
        self.body.fields.iter().map(|problem| problem.field.as_str()).collect()
    }

    /// Creates a 500 response. Logs the whole error chain under an id that is part of the response.
    #[must_use]
    pub fn internal(cause: &(dyn Error + 'static)) -> Self {
        let error_id = new_error_id();
        let mut chain = cause.to_string();
        let mut source = cause.source();
        while let Some(next) = source {
            chain.push_str(": ");
            chain.push_str(&next.to_string());
            source = next.source();
        }
        tracing::error!(error_id, cause = chain, "request failed");
        Self::internal_with_id(error_id)
    }

    pub(crate) fn internal_with_id(error_id: String) -> Self {
        let mut api_error = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            format!("Internal error; see {error_id} in the daemon's log"),
        );
        api_error.body.error_id = Some(error_id);
        api_error
    }
}

/// Generates an id that is unique enough to find a log line. Does not use an id generator, because errors can occur
/// where none is available.
pub(crate) fn new_error_id() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(COUNTER.fetch_add(1, Ordering::Relaxed));
    format!("err_{:016x}", hasher.finish())
}

impl<E: DomainError> From<E> for ApiError {
    fn from(error: E) -> Self {
        let status = match error.kind() {
            ErrorKind::Internal => return Self::internal(&error),
            ErrorKind::Invalid(fields) => {
                if fields.is_empty() {
                    return Self::new(StatusCode::BAD_REQUEST, error.code(), error.to_string());
                }
                let mut api_error = Self::invalid(fields);
                api_error.body.code = error.code().to_owned();
                return api_error;
            }
            ErrorKind::InProgress(after) => {
                return Self::new(StatusCode::CONFLICT, error.code(), error.to_string()).with_retry_after(after);
            }
            ErrorKind::TooMany(after) => {
                return Self::new(StatusCode::TOO_MANY_REQUESTS, error.code(), error.to_string())
                    .with_retry_after(after);
            }
            ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
            ErrorKind::Forbidden => StatusCode::FORBIDDEN,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ErrorKind::RangeNotSatisfiable => StatusCode::RANGE_NOT_SATISFIABLE,
            ErrorKind::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            ErrorKind::Upstream => StatusCode::BAD_GATEWAY,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.code(), error.to_string())
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.body).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        for cookie in self.cookies {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
        if let Some(after) = self.retry_after {
            // Rounded up to whole seconds, so that a client that waits exactly this long is not too early.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        }
        response
    }
}
