//! Web UI as built by `make ui` and compressed at build time.
//!
//! Links can be shared: every path without another route serves the UI, which reads the path itself. Files under
//! `assets/` have a content hash in their name and are cached permanently.

use std::io::Read;

use agentd_base::sha256;
use agentd_web::ApiError;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HOST,
    IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

struct PageFile {
    /// Path of the file, such as `assets/index-3fa1.js`.
    name: &'static str,
    /// Content, compressed with gzip.
    packed: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Served if the daemon was built without the UI.
const START_PAGE: &str = include_str!("start.html");
const INDEX: &str = "index.html";
const ASSETS: &str = "assets/";
/// First path segments that never serve the UI.
const RESERVED_SEGMENTS: [&str; 6] = ["api", "health", "v1", "mcp", "assets", ".well-known"];
/// Forbids inline code, evaluation and other origins, so that model output cannot run or leak what the page shows.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
                      media-src 'self' blob:; connect-src 'self'; font-src 'self'; worker-src 'self'; \
                      manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Get the web UI
///
/// Also served for every path outside `/api`, `/health`, `/v1` and `/mcp`. If the daemon was built without the UI, a
/// plain page with the first steps is returned.
#[utoipa::path(
    get,
    path = "/",
    operation_id = "get_page",
    tag = "service",
    responses(
        (status = 200, description = "HTML page", body = String, content_type = "text/html"),
        (status = 304, description = "Unchanged since `If-None-Match`"),
    ),
)]
pub(super) async fn get_page(headers: HeaderMap) -> Response {
    show_page(FILES, &headers)
}

/// Returns the response for a request without a route; `None` if it does not ask for the UI.
#[must_use]
pub fn page_of(request: &Request) -> Option<Response> {
    find_page(FILES, request)
}

fn find_page(files: &[PageFile], request: &Request) -> Option<Response> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let path = request.uri().path().strip_prefix('/')?;
    if let Some(file) = files.iter().find(|file| file.name == path) {
        return Some(send(file, request.headers()));
    }
    let first = path.split('/').next().unwrap_or_default();
    (!RESERVED_SEGMENTS.contains(&first) && accepts_html(request.headers()))
        .then(|| show_page(files, request.headers()))
}

/// Returns whether the client accepts HTML. Clients that ask for JSON get a 404 instead of the UI.
fn accepts_html(headers: &HeaderMap) -> bool {
    let Some(accepted) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else { return true };
    accepted.contains("text/html") || accepted.contains("*/*")
}

fn show_page(files: &[PageFile], headers: &HeaderMap) -> Response {
    match files.iter().find(|file| file.name == INDEX) {
        Some(index) => send(index, headers),
        None => start_page(headers),
    }
}

fn start_page(headers: &HeaderMap) -> Response {
    // The host check only admits the daemon's own names; `is_plain` still keeps markup out of the page.
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).filter(|host| is_plain(host));
    let scheme = match headers.get("x-forwarded-proto").and_then(|scheme| scheme.to_str().ok()) {
        Some("https") => "https",
        _ => "http",
    };
    let origin = format!("{scheme}://{}", host.unwrap_or("127.0.0.1:7878"));
    let page = START_PAGE.replace("{{origin}}", &origin).replace("{{version}}", env!("CARGO_PKG_VERSION"));
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

fn send(file: &PageFile, headers: &HeaderMap) -> Response {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    // A weak tag, because compressed and uncompressed responses share it.
    let tag = format!("W/\"{}\"", hex::encode(&sha256(file.packed)[..12]));
    let is_asset = file.name.starts_with(ASSETS);
    let cached = if is_asset { "public, max-age=31536000, immutable" } else { "no-cache" };
    let head = [
        (CONTENT_TYPE, content_type(file.name)),
        (CACHE_CONTROL, cached),
        (ETAG, tag.as_str()),
        (VARY, "accept-encoding"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    if text(IF_NONE_MATCH).split(',').any(|known| known.trim() == tag) {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    if text(ACCEPT_ENCODING).split(',').any(|coding| coding.trim().eq_ignore_ascii_case("gzip")) {
        return (head, [(CONTENT_ENCODING, "gzip")], file.packed).into_response();
    }
    let mut content = Vec::new();
    match GzDecoder::new(file.packed).read_to_end(&mut content) {
        Ok(_) => (head, content).into_response(),
        Err(error) => ApiError::internal(&error).into_response(),
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use axum::body::Body;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http_body_util::BodyExt;

    use super::*;

    fn packed(content: &str) -> &'static [u8] {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(content.as_bytes()).unwrap();
        packer.finish().unwrap().leak()
    }

    fn files() -> Vec<PageFile> {
        let file = |name, content| PageFile { name, packed: packed(content) };
        vec![
            file("index.html", "<div id=page>"),
            file("assets/index-1a.js", "run()"),
            file("manifest.webmanifest", "{}"),
        ]
    }

    fn get(path: &str, headers: &[(&str, &str)]) -> Option<Response> {
        let request = Request::get(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        find_page(&files(), &request.body(Body::empty()).unwrap())
    }

    fn header(response: &Response, name: &str) -> String {
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    async fn text(response: Response) -> String {
        String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn unknown_paths_serve_the_ui_and_files_are_found() {
        for path in ["/", "/chat/conv_1", "/agents/ada/files/notes.md", "/index.html", "/apiary"] {
            let page = get(path, &[("accept", "text/html,*/*;q=0.8")]).unwrap();
            assert_eq!(header(&page, "cache-control"), "no-cache", "{path}");
            assert_eq!(header(&page, "content-type"), "text/html; charset=utf-8");
            assert!(header(&page, "content-security-policy").starts_with("default-src 'none'; script-src 'self'; "));
            assert_eq!(text(page).await, "<div id=page>");
        }
        let script = get("/assets/index-1a.js", &[]).unwrap();
        assert_eq!(header(&script, "cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(header(&script, "content-type"), "text/javascript; charset=utf-8");
        assert_eq!(text(script).await, "run()");
        assert_eq!(header(&get("/manifest.webmanifest", &[]).unwrap(), "cache-control"), "no-cache");
    }

    #[test]
    fn reserved_paths_and_json_clients_do_not_get_the_ui() {
        for path in ["/assets/index-0b.js", "/api/nothing", "/api", "/v1/models", "/mcp", "/health/x", "/.well-known/x"]
        {
            assert!(get(path, &[]).is_none(), "{path}");
        }
        assert!(get("/agents", &[("accept", "application/json")]).is_none());
        let post = Request::post("/chat").body(Body::empty()).unwrap();
        assert!(find_page(&files(), &post).is_none());
    }

    #[tokio::test]
    async fn files_are_sent_compressed_and_only_if_modified() {
        let packed = get("/", &[("accept-encoding", "br, gzip")]).unwrap();
        assert_eq!(header(&packed, "content-encoding"), "gzip");
        let tag = header(&packed, "etag");
        let known = get("/chat", &[("if-none-match", &format!("\"x\", {tag}"))]).unwrap();
        assert_eq!((known.status(), header(&known, "etag")), (StatusCode::NOT_MODIFIED, tag));
        assert_eq!(text(known).await, "");
        assert_eq!(get("/", &[("if-none-match", "\"x\"")]).unwrap().status(), StatusCode::OK);
    }

    #[test]
    fn ui_size_is_limited() {
        let weight: usize = FILES.iter().map(|file| file.packed.len()).sum();
        assert!(weight <= 1_500_000, "the page has {weight} bytes");
    }
}
