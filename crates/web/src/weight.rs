//! How much a body may weigh, judged by what its head says: a handler that takes no body never reads
//! one, and a client that asks first (`Expect: 100-continue`) is answered before it sends anything.

use axum::body::Body;
use axum::extract::Request;
use futures_util::StreamExt;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, StatusCode};

use crate::error::ApiError;

/// So much of a body that is refused is read all the same: a client that is still sending when its
/// connection closes may never see the answer.
const READ_IN_VAIN: u64 = 16 * 1024 * 1024;

/// The request, unless it says that its body is larger than `limit` bytes.
pub(crate) async fn refuse_heavy(request: Request, limit: usize) -> Result<Request, ApiError> {
    let Some(length) = said_length(request.headers()).filter(|length| *length > limit as u64) else {
        return Ok(request);
    };
    if length <= READ_IN_VAIN && !request.headers().contains_key(EXPECT) {
        read_in_vain(request.into_body()).await;
    }
    Err(too_large())
}

/// The server has refused a length that is no number.
fn said_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

async fn read_in_vain(body: Body) {
    let mut pieces = body.into_data_stream();
    while let Some(Ok(_)) = pieces.next().await {}
}

pub(crate) fn too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        "The request body is larger than this endpoint takes",
    )
}
