//! Cross-origin rules: which pages of other origins may read our answers.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderValue, Method, StatusCode};

/// The origins that are allowed, exactly as a browser writes them (`https://ui.example:8443`).
#[derive(Debug, Clone, Default)]
pub struct CorsPolicy {
    allowed: Vec<String>,
}

impl CorsPolicy {
    #[must_use]
    pub fn new(origins: impl IntoIterator<Item = String>) -> Self {
        Self { allowed: origins.into_iter().map(|origin| origin.trim_end_matches('/').to_owned()).collect() }
    }

    #[must_use]
    pub fn allows(&self, origin: &str) -> bool {
        self.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }
}

/// Second of the doors. Answers preflights itself; other requests go on, and only those of an
/// allowed origin are told that their page may read the answer.
pub async fn apply_cors(State(policy): State<Arc<CorsPolicy>>, request: Request, next: Next) -> Response {
    let Some(origin) = request.headers().get(ORIGIN).cloned() else { return next.run(request).await };
    let is_allowed = origin.to_str().is_ok_and(|origin| policy.allows(origin));
    let is_preflight =
        request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if is_preflight { StatusCode::NO_CONTENT.into_response() } else { next.run(request).await };
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if !is_allowed {
        return response;
    }
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    if is_preflight {
        headers
            .insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE, OPTIONS"));
        headers
            .insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Authorization, X-API-Key, Content-Type"));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
    } else {
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("X-Request-Id, Retry-After, Idempotency-Replayed"),
        );
    }
    response
}
