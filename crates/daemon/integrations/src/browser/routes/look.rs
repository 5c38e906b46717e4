//! How the browser is, and what its pages look like.

use agentd_browser::{Area, ImageFormat, Snapshot};
use agentd_web::{Answer, ApiError, Caller, ErrorBody, Json, JsonOrNothing, Query};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::url_access::{UrlAccess, VisibleUrl};
use crate::browser::model::Actor;
use crate::browser::service::{Browser, Picture, Status};
use crate::browser::settings::BrowserBackend;

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserStatus)]
pub(super) struct StatusView {
    running: bool,
    backend: BrowserBackend,
    /// Of the active tab; null without one. To a key that may only read: scheme and host.
    #[schema(required, value_type = Option<String>)]
    current_url: Option<VisibleUrl>,
    /// How many there are.
    tabs: usize,
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

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserClosed)]
pub(super) struct ClosedView {
    /// Whether there was a browser.
    closed: bool,
}

/// A page as text.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserSnapshot)]
pub(super) struct SnapshotView {
    /// One line an element, `@1 button "Save" (disabled)`, in reading order. `@1` is its selector until the next
    /// snapshot of the tab.
    snapshot: String,
    element_count: usize,
    /// To a key that may only read: scheme and host.
    #[schema(value_type = String)]
    url: VisibleUrl,
    /// Whether there are more than the 500 that are listed.
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
    /// Headings and text as well.
    #[param(default = false)]
    full: Option<bool>,
    /// Default: the active tab.
    #[param(max_length = 64)]
    tab_id: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ScreenshotQuery {
    /// Default: the active tab.
    #[param(max_length = 64)]
    tab_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PictureFormat {
    #[default]
    Png,
    Jpeg,
}

/// What is to be drawn, and how.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = BrowserScreenshot)]
pub(super) struct ScreenshotFields {
    /// Default `png`.
    #[serde(default)]
    format: Option<PictureFormat>,
    /// Of a JPEG; default 80.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 100)]
    quality: Option<u8>,
    /// From the top of the page to its bottom, 16,384 pixels at most.
    #[serde(default)]
    full_page: Option<bool>,
    /// One element alone.
    #[serde(default)]
    #[schema(max_length = 4_096)]
    selector: Option<String>,
    /// Default: the active tab.
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

/// Whether the browser runs, and what it shows
#[utoipa::path(get, path = "/api/browser/status", tag = "browser", responses((status = 200, body = StatusView)))]
pub(super) async fn get_browser_status(State(browser): State<Browser>, caller: Caller) -> Json<StatusView> {
    Json(StatusView::new(browser.status(), browser.settings().backend, UrlAccess::from(&caller)))
}

/// Close the browser
///
/// With its tabs and cookies. The next action starts a new one.
#[utoipa::path(post, path = "/api/browser/close", tag = "browser", responses((status = 200, body = ClosedView)))]
pub(super) async fn close_browser(State(browser): State<Browser>) -> Json<ClosedView> {
    Json(ClosedView { closed: browser.close().await })
}

/// What is in the window, as PNG
#[utoipa::path(get, path = "/api/browser/screenshot", tag = "browser", params(ScreenshotQuery),
    responses(
        (status = 200, description = "The picture", content((Vec<u8> = "image/png"))),
        (status = 403, body = ErrorBody, description = "`address_refused`: tabs may not show the address"),
        (status = 404, body = ErrorBody, description = "`tab_not_found`"),
        (status = 409, body = ErrorBody, description = "`browser_not_running`: no page is open; `timeout`, \
            `dialog_open`, `tab_crashed`, `too_much`: the page does not answer, or more than can be taken"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser did not do it"),
    ))]
pub(super) async fn get_browser_screenshot(
    State(browser): State<Browser>,
    Query(query): Query<ScreenshotQuery>,
) -> Result<Response, ApiError> {
    draw(&browser, Picture { tab_id: query.tab_id, ..Picture::default() }).await
}

/// A picture of the window, the whole page, or one element
#[utoipa::path(post, path = "/api/browser/screenshot", tag = "browser", request_body = ScreenshotFields,
    responses(
        (status = 200, description = "The picture", content((Vec<u8> = "image/png"), (Vec<u8> = "image/jpeg"))),
        (status = 403, body = ErrorBody, description = "`address_refused`: tabs may not show the address"),
        (status = 404, body = ErrorBody, description = "`tab_not_found`"),
        (status = 409, body = ErrorBody, description = "`browser_not_running`: no page is open; `timeout`, \
            `dialog_open`, `tab_crashed`, `too_much`: the page does not answer, or more than can be taken; \
            `not_actionable`, `ambiguous`, `stale_ref`: of the element"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser did not do it"),
    ))]
pub(super) async fn take_browser_screenshot(
    State(browser): State<Browser>,
    JsonOrNothing(fields): JsonOrNothing<ScreenshotFields>,
) -> Result<Response, ApiError> {
    draw(&browser, fields.into()).await
}

async fn draw(browser: &Browser, picture: Picture) -> Result<Response, ApiError> {
    let media_type = match picture.format {
        ImageFormat::Png => "image/png",
        ImageFormat::Jpeg(_) => "image/jpeg",
    };
    let bytes = browser.screenshot(&Actor::Owner, &picture).await?;
    Ok(([(CONTENT_TYPE, media_type), (CACHE_CONTROL, "no-store")], bytes).into_response())
}

/// What something can be done with on a page, numbered
#[utoipa::path(get, path = "/api/browser/snapshot", tag = "browser", params(SnapshotQuery),
    responses(
        (status = 200, body = SnapshotView),
        (status = 403, body = ErrorBody, description = "`address_refused`: tabs may not show the address"),
        (status = 404, body = ErrorBody, description = "`tab_not_found`"),
        (status = 409, body = ErrorBody, description = "`browser_not_running`: no page is open; `timeout`, \
            `dialog_open`, `tab_crashed`, `too_much`: the page does not answer, or more than can be taken"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser did not do it"),
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
