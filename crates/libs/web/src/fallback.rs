//! Responses without a handler: unknown paths, wrong methods, panics.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::StatusCode;

use crate::error::{ApiError, new_error_id};

#[must_use]
pub fn not_found() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "not_found", "Path not found; list the endpoints with GET /api/openapi.json")
}

/// Creates the 405 response; the router adds the `Allow` header.
#[must_use]
pub fn method_not_allowed() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "Method not allowed; the header `Allow` lists the allowed methods",
    )
}

/// Turns a panic of a handler into a 500 response with an id that is also logged.
pub async fn catch_panic(request: Request, next: Next) -> Response {
    AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|panic| panicked(&*panic))
}

pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Response {
    let error_id = new_error_id();
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    tracing::error!(error_id, message, "a request handler panicked");
    ApiError::internal_with_id(error_id).into_response()
}
