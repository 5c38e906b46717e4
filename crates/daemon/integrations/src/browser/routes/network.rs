//! Handlers for network requests of pages.

use agentd_base::Timestamp;
use agentd_browser::{NetworkRequest, RequestFilter};
use agentd_web::{Answer, Caller, ErrorBody, Json, Query};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::url_access::{UrlAccess, VisibleUrl};
use crate::browser::service::Browser;

/// Network request of a page, frame or worker.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRequest)]
pub(super) struct RequestView {
    /// Id of the request, unique within the session.
    id: String,
    /// HTTP method, such as `GET`.
    method: String,
    /// URL, truncated to 2,000 bytes; scheme and host only for read-only keys.
    #[schema(value_type = String)]
    url: VisibleUrl,
    /// HTTP status code of the response; null if there is no response.
    status: Option<u16>,
    /// Resource type: `document`, `stylesheet`, `image`, `font`, `script`, `xhr`, `fetch`, `websocket` and others.
    resource_type: String,
    /// MIME type of the response, such as `text/html`; null if unknown.
    mime_type: Option<String>,
    /// Transferred size with headers in bytes; null until the response is complete.
    size_bytes: Option<u64>,
    /// Duration in milliseconds; null while the request is in progress.
    duration_ms: Option<u64>,
    /// Whether the request failed without a complete response. A response with an error status is not a failure.
    failed: bool,
    /// Reason for the failure; null if the request did not fail.
    error: Option<String>,
    /// Whether a mock answered the request.
    mocked: bool,
    /// Time at which the request was sent (RFC 3339, UTC).
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl RequestView {
    fn new(request: NetworkRequest, access: UrlAccess) -> Self {
        Self {
            id: request.id,
            method: request.method,
            url: access.url(request.url),
            status: request.status,
            resource_type: request.resource_type,
            mime_type: request.mime_type,
            size_bytes: request.size_bytes,
            duration_ms: request.duration_ms,
            failed: request.failed,
            error: request.error,
            mocked: request.mocked,
            at: request.at,
        }
    }
}

/// Requests in the order in which they were sent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRequestList)]
pub(super) struct RequestList {
    /// Matching requests, at most 1,000.
    requests: Vec<RequestView>,
    /// Number of matching requests.
    total: usize,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RequestQuery {
    /// Part of the URL, or a pattern of the whole URL with `*` as in mocks; default: all URLs. Read-only keys match
    /// scheme and host only.
    #[param(max_length = 2_000)]
    url: Option<String>,
    /// Status code of the response, 100 to 599; default: any, and requests without a response.
    #[param(minimum = 100, maximum = 599)]
    status: Option<u16>,
    /// Resource type, such as `document` or `xhr`; default: all types.
    #[param(max_length = 30)]
    r#type: Option<String>,
}

/// Result of starting a HAR recording.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserHarStarted)]
pub(super) struct HarStarted {
    /// Always true.
    recording: bool,
}

/// Recorded requests as HAR 1.2.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserHar)]
pub(super) struct HarView {
    /// Log in HAR 1.2 format. `comment` states how much was omitted, if anything.
    #[schema(value_type = Object)]
    log: Value,
}

/// List network requests
///
/// Returns the last 1,000 requests of pages, frames, workers, popups and sockets. Redirects are separate entries. The
/// list is deleted when the session is closed.
#[utoipa::path(get, path = "/api/browser/requests", tag = "browser", params(RequestQuery),
    responses((status = 200, body = RequestList)))]
pub(super) async fn list_browser_requests(
    State(browser): State<Browser>,
    caller: Caller,
    Query(query): Query<RequestQuery>,
) -> Json<RequestList> {
    let access = UrlAccess::from(&caller);
    // The URL filter matches only what the caller can see, so that it reveals nothing else.
    let visible = RequestFilter { url: query.url, ..RequestFilter::default() };
    let filter = RequestFilter { url: None, status: query.status, resource_type: query.r#type };
    let is_meant = visible.url_matcher();
    let found = browser.requests(&filter).into_iter().map(|request| RequestView::new(request, access));
    let requests: Vec<RequestView> = found.filter(|request| is_meant(request.url.as_str())).collect();
    Json(RequestList { total: requests.len(), requests })
}

/// Start HAR recording
///
/// Records requests with headers, timings and text bodies.
#[utoipa::path(post, path = "/api/browser/har/start", tag = "browser",
    responses(
        (status = 200, body = HarStarted),
        (status = 409, body = ErrorBody, description = "`har_running`: a recording is already running"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn start_browser_har(State(browser): State<Browser>) -> Answer<HarStarted> {
    browser.start_har().await?;
    Ok(Json(HarStarted { recording: true }))
}

/// Stop HAR recording
///
/// Returns the requests as HAR 1.2. Includes text bodies of up to 1 MiB each, up to 5,000 requests, and 32 MiB in
/// total. The log contains everything pages sent and received, including cookies and credentials.
#[utoipa::path(post, path = "/api/browser/har/stop", tag = "browser",
    responses(
        (status = 200, body = HarView),
        (status = 409, body = ErrorBody, description = "`har_not_running`: no recording is running"),
    ))]
pub(super) async fn stop_browser_har(State(browser): State<Browser>) -> Answer<HarView> {
    let mut har = browser.stop_har().await?;
    Ok(Json(HarView { log: har["log"].take() }))
}
