//! Check of the declared body size: a handler without a body never reads one, and a client that sends `Expect:
//! 100-continue` gets the response before it sends the body.

use axum::extract::Request;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};

use crate::error::ApiError;

/// Returns the request unless its declared length exceeds `limit` bytes.
pub(crate) fn check_content_length(request: Request, limit: Option<usize>) -> Result<Request, ApiError> {
    if let Some(limit) = limit
        && declared_length(request.headers()).is_some_and(|length| length > limit as u64)
    {
        return Err(too_large());
    }
    Ok(request)
}

/// Returns the declared length; the server has already rejected invalid ones.
fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

pub(crate) fn too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        "The request body exceeds the limit of this endpoint",
    )
}
