//! OpenAPI document, and the Swagger UI that displays it.

use std::io::Read;
use std::sync::{Arc, OnceLock};

use agentd_core::parts::Detached;
use agentd_core::runtime::{Slot, Slots};
use agentd_web::{ApiError, ApiResult, Path};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, VARY};
use http::{HeaderMap, StatusCode};
use utoipa::openapi::OpenApi;

const PAGE: &str = include_str!("documentation.html");
const INITIALIZER: &str = include_str!("documentation.js");
const SCRIPT: &str = "text/javascript; charset=utf-8";
/// Swagger UI sets styles through the CSSOM and uses icons from `data:` URLs; it needs nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const CACHED: &str = "public, max-age=86400";

/// Files of Swagger UI with their content types, compressed at build time.
const FILES: [(&str, &str, &[u8]); 2] = [
    ("swagger-ui.css", "text/css; charset=utf-8", include_bytes!(concat!(env!("OUT_DIR"), "/swagger-ui.css.gz"))),
    ("swagger-ui-bundle.js", SCRIPT, include_bytes!(concat!(env!("OUT_DIR"), "/swagger-ui-bundle.js.gz"))),
];

/// Builds the OpenAPI document of the daemon.
pub type DescribeApi = dyn Fn() -> OpenApi + Send + Sync;

/// Documentation pages. The document is built on first request, so that it does not delay the start of the daemon.
#[derive(Debug, Clone)]
pub struct Pages {
    describe: Slot<DescribeApi>,
    document: Arc<OnceLock<Bytes>>,
}

impl Pages {
    pub fn new(slots: &mut Slots) -> Detached<Self> {
        Detached::new(Self { describe: slots.create(), document: Arc::default() })
    }

    /// Returns the document as JSON.
    fn document(&self) -> Bytes {
        let json = || Some(Bytes::from(self.describe.get()?().to_json().ok()?));
        self.document.get_or_init(|| json().unwrap_or_default()).clone()
    }
}

/// Get the OpenAPI document
#[utoipa::path(
    get,
    path = "/api/openapi.json",
    operation_id = "get_openapi",
    tag = "service",
    responses((status = 200, description = "The document", body = serde_json::Value)),
)]
pub(super) async fn get_openapi(State(pages): State<Pages>) -> Response {
    ([(CONTENT_TYPE, "application/json")], pages.document()).into_response()
}

/// Get the API documentation
#[utoipa::path(
    get,
    path = "/api/docs",
    operation_id = "get_docs",
    tag = "service",
    responses((status = 200, description = "HTML page", body = String, content_type = "text/html")),
)]
pub(super) async fn show_docs() -> Response {
    let head =
        [(CONTENT_TYPE, "text/html; charset=utf-8"), (CACHE_CONTROL, "no-cache"), (CONTENT_SECURITY_POLICY, POLICY)];
    (head, PAGE).into_response()
}

pub(super) async fn show_file(Path(file): Path<String>, headers: HeaderMap) -> ApiResult<Response> {
    if file == "index.html" {
        return Ok(show_docs().await);
    }
    if file == "swagger-initializer.js" {
        return Ok(([(CONTENT_TYPE, SCRIPT), (CACHE_CONTROL, CACHED)], INITIALIZER).into_response());
    }
    let Some((_, content_type, packed)) = FILES.iter().find(|(name, ..)| *name == file) else {
        return Err(ApiError::new(StatusCode::NOT_FOUND, "not_found", "File not found; open /api/docs"));
    };
    let head = [(CONTENT_TYPE, *content_type), (CACHE_CONTROL, CACHED), (VARY, "accept-encoding")];
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepted.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("gzip")) {
        return Ok((head, [(CONTENT_ENCODING, "gzip")], *packed).into_response());
    }
    let mut content = Vec::new();
    GzDecoder::new(*packed).read_to_end(&mut content).map_err(|error| ApiError::internal(&error))?;
    Ok((head, content).into_response())
}
