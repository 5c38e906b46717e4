//! Cross-origin rules: the origins whose pages may read responses.

use axum::extract::Request;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method};

/// Allowed origins, exactly as a browser sends them (`https://ui.example:8443`).
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

/// Whether the request is a CORS preflight.
pub(crate) fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(ORIGIN)
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

impl CorsPolicy {
    /// Adds the CORS headers for `origin` if it is allowed.
    pub(crate) fn add_headers(&self, origin: HeaderValue, is_preflight: bool, headers: &mut HeaderMap) {
        headers.append(VARY, HeaderValue::from_static("Origin"));
        if !origin.to_str().is_ok_and(|origin| self.allows(origin)) {
            return;
        }
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        if is_preflight {
            headers.insert(
                ACCESS_CONTROL_ALLOW_METHODS,
                HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE, OPTIONS"),
            );
            headers.insert(
                ACCESS_CONTROL_ALLOW_HEADERS,
                HeaderValue::from_static("Authorization, X-API-Key, Content-Type"),
            );
            headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("3600"));
        } else {
            headers.insert(
                ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static("X-Request-Id, Retry-After, Idempotency-Replayed"),
            );
        }
    }
}
