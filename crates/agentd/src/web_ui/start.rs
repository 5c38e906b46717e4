//! The start page: the first four steps, ready to be copied. It is there where the page was not built.

use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST};

const PAGE: &str = include_str!("start.html");

pub(super) fn start_page(headers: &HeaderMap) -> Response {
    // The host check let only our own names through; still, nothing of it is put in unescaped.
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).filter(|host| is_plain(host));
    let scheme = match headers.get("x-forwarded-proto").and_then(|scheme| scheme.to_str().ok()) {
        Some("https") => "https",
        _ => "http",
    };
    let origin = format!("{scheme}://{}", host.unwrap_or("127.0.0.1:7878"));
    let page = PAGE.replace("{{origin}}", &origin).replace("{{version}}", env!("CARGO_PKG_VERSION"));
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    ];
    (headers, page).into_response()
}

fn is_plain(host: &str) -> bool {
    host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
}
