//! What pages request.

use agentd_base::Timestamp;
use agentd_browser::{NetworkRequest, RequestFilter};
use agentd_web::{Answer, Caller, ErrorBody, Json, Query};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::url_access::{UrlAccess, VisibleUrl};
use crate::browser::service::Browser;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRequest)]
pub(super) struct RequestView {
    id: String,
    method: String,
    /// Cut at 2,000 bytes. To a key that may only read: scheme and host.
    #[schema(value_type = String)]
    url: VisibleUrl,
    status: Option<u16>,
    /// `document`, `stylesheet`, `image`, `font`, `script`, `xhr`, `fetch`, `websocket` and others.
    resource_type: String,
    mime_type: Option<String>,
    /// As it came over the network, with the headers.
    size_bytes: Option<u64>,
    /// null while it is under way.
    duration_ms: Option<u64>,
    failed: bool,
    error: Option<String>,
    /// Answered by a mock.
    mocked: bool,
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

/// In the order of their sending.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserRequestList)]
pub(super) struct RequestList {
    requests: Vec<RequestView>,
    total: usize,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RequestQuery {
    /// A part of the address or, with `*`, a pattern of the whole as a mock has it. A key that may only read searches in
    /// scheme and host.
    #[param(max_length = 2_000)]
    url: Option<String>,
    #[param(minimum = 100, maximum = 599)]
    status: Option<u16>,
    /// The resource type.
    #[param(max_length = 30)]
    r#type: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserHarStarted)]
pub(super) struct HarStarted {
    /// Always true.
    recording: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserHar)]
pub(super) struct HarView {
    /// As HAR 1.2 has it. `comment` says how much was left out, if anything was.
    #[schema(value_type = Object)]
    log: Value,
}

/// The last 1,000 requests of pages, frames, workers, popups and sockets
///
/// A redirect is an entry of its own. They belong to the session: when that is closed, they are gone.
#[utoipa::path(get, path = "/api/browser/requests", tag = "browser", params(RequestQuery),
    responses((status = 200, body = RequestList)))]
pub(super) async fn list_browser_requests(
    State(browser): State<Browser>,
    caller: Caller,
    Query(query): Query<RequestQuery>,
) -> Json<RequestList> {
    let access = UrlAccess::from(&caller);
    // The filter on URLs sees what the caller sees: it must not answer questions about the rest.
    let visible = RequestFilter { url: query.url, ..RequestFilter::default() };
    let filter = RequestFilter { url: None, status: query.status, resource_type: query.r#type };
    let is_meant = visible.url_matcher();
    let found = browser.requests(&filter).into_iter().map(|request| RequestView::new(request, access));
    let requests: Vec<RequestView> = found.filter(|request| is_meant(request.url.as_str())).collect();
    Json(RequestList { total: requests.len(), requests })
}

/// Begin to record requests, with headers, timings and the bodies of texts
#[utoipa::path(post, path = "/api/browser/har/start", tag = "browser",
    responses(
        (status = 200, body = HarStarted),
        (status = 409, body = ErrorBody, description = "`har_running`: they are recorded already"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser did not do it"),
    ))]
pub(super) async fn start_browser_har(State(browser): State<Browser>) -> Answer<HarStarted> {
    browser.start_har().await?;
    Ok(Json(HarStarted { recording: true }))
}

/// End recording requests and answer them as HAR 1.2
///
/// Bodies of texts of at most 1 MiB each are in it; 5,000 requests and 32 MiB of texts in all. It holds what pages sent
/// and got, cookies and credentials among that.
#[utoipa::path(post, path = "/api/browser/har/stop", tag = "browser",
    responses(
        (status = 200, body = HarView),
        (status = 409, body = ErrorBody, description = "`har_not_running`: nothing was started"),
    ))]
pub(super) async fn stop_browser_har(State(browser): State<Browser>) -> Answer<HarView> {
    let mut har = browser.stop_har().await?;
    Ok(Json(HarView { log: har["log"].take() }))
}
