//! Responses of the proxy itself: a status, one sentence of text, and the end of the connection.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, PROXY_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;

use crate::NetError;

pub(super) type Body = Either<Full<Bytes>, Incoming>;

pub(super) fn text_response(status: StatusCode, sentence: &str) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(format!("{sentence}\n")))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // The following bytes on this connection may be the body of the refused request.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(super) fn error_response(error: &NetError) -> Response<Body> {
    let status = match error {
        _ if error.is_refusal() => StatusCode::FORBIDDEN,
        NetError::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    text_response(status, &error.to_string())
}

pub(super) fn credential_missing() -> Response<Body> {
    let mut response = text_response(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "this proxy requires a credential");
    response.headers_mut().insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"agentd\""));
    response
}
