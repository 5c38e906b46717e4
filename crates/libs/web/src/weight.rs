//! How much a body may weigh, checked by what its head says: a handler that takes no body never reads
//! one, and a client that asks first (`Expect: 100-continue`) is answered before it sends anything.

use axum::extract::Request;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};

use crate::error::ApiError;

/// The request, unless it says that its body is larger than `limit` bytes.
pub(crate) fn refuse_heavy(request: Request, limit: Option<usize>) -> Result<Request, ApiError> {
    if let Some(limit) = limit
        && said_length(request.headers()).is_some_and(|length| length > limit as u64)
    {
        return Err(too_large());
    }
    Ok(request)
}

/// The server has refused a length that is no number.
fn said_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

pub(crate) fn too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        "The request body is larger than this endpoint takes",
    )
}
