//! `/api/openapi.json`, and the page that shows it.

use std::sync::{Arc, OnceLock};

use agentd_web::{ApiError, ApiResult, Path};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use utoipa_swagger_ui::Config;

use super::Pages;

/// The OpenAPI document of this daemon.
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    operation_id = "get_openapi",
    tag = "service",
    responses((status = 200, description = "The document", body = serde_json::Value)),
)]
pub(super) async fn get_openapi(State(pages): State<Pages>) -> Response {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let bytes = DOCUMENT.get_or_init(|| (pages.document)().to_json().map(Bytes::from).unwrap_or_default());
    ([(CONTENT_TYPE, "application/json")], bytes.clone()).into_response()
}

/// The page that shows this document, for people
#[utoipa::path(
    get,
    path = "/api/docs",
    operation_id = "get_docs",
    tag = "service",
    responses((status = 200, description = "The page", body = String, content_type = "text/html")),
)]
pub(super) async fn show_docs() -> ApiResult<Response> {
    file("index.html")
}

pub(super) async fn show_file(Path(path): Path<String>) -> ApiResult<Response> {
    file(&path)
}

fn file(path: &str) -> ApiResult<Response> {
    // The page refers to its files by relative names, which need the folder to be named.
    let config = Arc::new(Config::from("/api/openapi.json"));
    let found = utoipa_swagger_ui::serve(path, config).ok().flatten();
    let Some(found) = found else {
        return Err(ApiError::new(StatusCode::NOT_FOUND, "not_found", "There is no such file; open /api/docs"));
    };
    let content_type =
        HeaderValue::from_str(&found.content_type).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let mut bytes = found.bytes.into_owned();
    if path == "index.html" {
        let page = String::from_utf8_lossy(&bytes)
            .replace("./", "/api/docs/")
            .replace("href=\"index.css\"", "href=\"/api/docs/index.css\"");
        bytes = page.into_bytes();
    }
    let cache = if path == "index.html" { "no-cache" } else { "public, max-age=86400" };
    Ok(([(CONTENT_TYPE, content_type), (CACHE_CONTROL, HeaderValue::from_static(cache))], bytes).into_response())
}
