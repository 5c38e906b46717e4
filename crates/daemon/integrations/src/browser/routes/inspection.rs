//! Handlers for the browser status, screenshots and snapshots.

use agentd_browser::{Area, ImageFormat, Snapshot};
use agentd_web::{Answer, ApiError, Caller, ErrorBody, Json, OptionalJson, Query};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::url_access::{UrlAccess, VisibleUrl};
use crate::browser::model::Actor;
use crate::browser::service::{Browser, Picture, Status};
use crate::browser::settings::BrowserBackend;

/// Status of the browser.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserStatus)]
pub(super) struct StatusView {
    /// Whether Chromium is running. If not, the next action starts it.
    running: bool,
    /// Configured browser backend.
    backend: BrowserBackend,
    /// URL of the active tab; null if no tab is open. Scheme and host only for read-only keys.
    #[schema(required, value_type = Option<String>)]
    current_url: Option<VisibleUrl>,
    /// Number of open tabs, at most 20.
    tabs: usize,
    /// Time since the browser was started, in seconds; 0 if it is not running.
    uptime_seconds: u64,
}

impl StatusView {
    fn new(status: Status, backend: BrowserBackend, access: UrlAccess) -> Self {
        Self {
            running: status.running,
            backend,
            current_url: status.current_url.map(|url| access.url(url)),
            tabs: status.tabs,
            uptime_seconds: status.uptime.as_secs(),
        }
    }
}

/// Result of closing the browser.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserClosed)]
pub(super) struct ClosedView {
    /// Whether a browser was running.
    closed: bool,
}

/// Page as text.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserSnapshot)]
pub(super) struct SnapshotView {
    /// One line per element in reading order, such as `@1 button "Save" (disabled)`. `@1` is its selector until the
    /// next snapshot of the tab.
    snapshot: String,
    /// Number of listed interactive elements, at most 500.
    element_count: usize,
    /// URL of the page; scheme and host only for read-only keys.
    #[schema(value_type = String)]
    url: VisibleUrl,
    /// Whether more than the listed 500 elements exist.
    truncated: bool,
}

impl SnapshotView {
    fn new(snapshot: Snapshot, access: UrlAccess) -> Self {
        Self {
            snapshot: snapshot.snapshot,
            element_count: snapshot.element_count,
            url: access.url(snapshot.url),
            truncated: snapshot.truncated,
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct SnapshotQuery {
    /// Whether to include headings and text; default false.
    #[param(default = false)]
    full: Option<bool>,
    /// Tab to capture; default: the active tab.
    #[param(max_length = 64)]
    tab_id: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ScreenshotQuery {
    /// Tab to capture; default: the active tab.
    #[param(max_length = 64)]
    tab_id: Option<String>,
}

/// Image format of a screenshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PictureFormat {
    #[default]
    Png,
    Jpeg,
}

/// Options of a screenshot.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = BrowserScreenshot)]
pub(super) struct ScreenshotFields {
    /// Image format: `png` or `jpeg`; default `png`.
    #[serde(default)]
    format: Option<PictureFormat>,
    /// JPEG quality, 1 to 100; default 80. Ignored for PNG.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    quality: Option<u8>,
    /// Whether to capture the whole page, at most 16,384 pixels high; default false. Ignored with `selector`.
    #[serde(default)]
    full_page: Option<bool>,
    /// Selector of a single element to capture; default: the viewport.
    #[serde(default)]
    #[schema(max_length = 4_096)]
    selector: Option<String>,
    /// Tab to capture; default: the active tab.
    #[serde(default)]
    #[schema(max_length = 64)]
    tab_id: Option<String>,
}

impl From<ScreenshotFields> for Picture {
    fn from(fields: ScreenshotFields) -> Self {
        let format = match fields.format.unwrap_or_default() {
            PictureFormat::Png => ImageFormat::Png,
            PictureFormat::Jpeg => ImageFormat::Jpeg(fields.quality.unwrap_or(80)),
        };
        let area = match (fields.selector, fields.full_page) {
            (Some(selector), _) => Area::Element(selector),
            (None, Some(true)) => Area::FullPage,
            (None, _) => Area::Viewport,
        };
        Self { tab_id: fields.tab_id, format, area }
    }
}

/// Get browser status
#[utoipa::path(get, path = "/api/browser/status", tag = "browser", responses((status = 200, body = StatusView)))]
pub(super) async fn get_browser_status(State(browser): State<Browser>, caller: Caller) -> Json<StatusView> {
    Json(StatusView::new(browser.status(), browser.settings().backend, UrlAccess::from(&caller)))
}

/// Close the browser
///
/// Closes all tabs and deletes cookies. The next action starts a new browser.
#[utoipa::path(post, path = "/api/browser/close", tag = "browser", responses((status = 200, body = ClosedView)))]
pub(super) async fn close_browser(State(browser): State<Browser>) -> Json<ClosedView> {
    Json(ClosedView { closed: browser.close().await })
}

/// Get a viewport screenshot
///
/// Returns the viewport as PNG.
#[utoipa::path(get, path = "/api/browser/screenshot", tag = "browser", params(ScreenshotQuery),
    responses(
        (status = 200, description = "The screenshot", content((Vec<u8> = "image/png"))),
        (status = 403, body = ErrorBody, description = "`address_refused`: the address is blocked"),
        (status = 404, body = ErrorBody, description = "`tab_not_found`"),
        (status = 409, body = ErrorBody, description = "`browser_not_running`: no page is open; `timeout`, \
            `dialog_open`, `tab_crashed`, `limit_exceeded`: the page does not respond or is too large"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn get_browser_screenshot(
    State(browser): State<Browser>,
    Query(query): Query<ScreenshotQuery>,
) -> Result<Response, ApiError> {
    screenshot_response(&browser, Picture { tab_id: query.tab_id, ..Picture::default() }).await
}

/// Take a screenshot
///
/// Captures the viewport, the whole page, or one element.
#[utoipa::path(post, path = "/api/browser/screenshot", tag = "browser", request_body = Option<ScreenshotFields>,
    responses(
        (status = 200, description = "The screenshot", content((Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"))),
        (status = 403, body = ErrorBody, description = "`address_refused`: the address is blocked"),
        (status = 404, body = ErrorBody, description = "`tab_not_found`"),
        (status = 409, body = ErrorBody, description = "`browser_not_running`: no page is open; `timeout`, \
            `dialog_open`, `tab_crashed`, `limit_exceeded`: the page does not respond or is too large; \
            `not_actionable`, `ambiguous`, `stale_ref`: the element cannot be captured"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn take_browser_screenshot(
    State(browser): State<Browser>,
    OptionalJson(fields): OptionalJson<ScreenshotFields>,
) -> Result<Response, ApiError> {
    screenshot_response(&browser, fields.into()).await
}

async fn screenshot_response(browser: &Browser, picture: Picture) -> Result<Response, ApiError> {
    let media_type = match picture.format {
        ImageFormat::Png => "image/png",
        ImageFormat::Jpeg(_) => "image/jpeg",
    };
    let bytes = browser.screenshot(&Actor::Owner, &picture).await?;
    Ok(([(CONTENT_TYPE, media_type), (CACHE_CONTROL, "no-store")], bytes).into_response())
}

/// Get a page snapshot
///
/// Returns the interactive elements of the page as numbered lines.
#[utoipa::path(get, path = "/api/browser/snapshot", tag = "browser", params(SnapshotQuery),
    responses(
        (status = 200, body = SnapshotView),
        (status = 403, body = ErrorBody, description = "`address_refused`: the address is blocked"),
        (status = 404, body = ErrorBody, description = "`tab_not_found`"),
        (status = 409, body = ErrorBody, description = "`browser_not_running`: no page is open; `timeout`, \
            `dialog_open`, `tab_crashed`, `limit_exceeded`: the page does not respond or is too large"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn get_browser_snapshot(
    State(browser): State<Browser>,
    caller: Caller,
    Query(query): Query<SnapshotQuery>,
) -> Answer<SnapshotView> {
    let full = query.full.unwrap_or_default();
    let snapshot = browser.snapshot(&Actor::Owner, query.tab_id.as_deref(), full).await?;
    Ok(Json(SnapshotView::new(snapshot, UrlAccess::from(&caller))))
}
