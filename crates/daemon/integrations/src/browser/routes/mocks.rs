//! Handlers for mocked responses.

use std::collections::BTreeMap;

use agentd_browser::Mock;
use agentd_web::{Answer, ApiError, Caller, ErrorBody, Json, OptionalJson};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::url_access::UrlAccess;
use crate::browser::service::{Browser, invalid};

/// Mocked response. Requests to matching URLs are answered with it instead of being sent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = BrowserMock)]
pub(super) struct MockView {
    /// Pattern of the whole URL, 1 to 2,000 characters: `*` matches anything except slashes, `**` anything. Read-only
    /// keys receive only its scheme and host, and no body or header values.
    #[schema(min_length = 1, max_length = 2_000, example = "**/api/users/*")]
    url_pattern: String,
    /// Status code of the response, 200 to 599; default 200.
    #[serde(default = "default_status_code")]
    #[schema(minimum = 200, maximum = 599, required = false)]
    status_code: u16,
    /// Body of the response; empty by default. The bodies and headers of all mocks may have 16 MiB in total.
    #[serde(default)]
    #[schema(required = false)]
    body: String,
    /// Response headers, at most 100 with 16 KiB in total; default: none. The `content-type` is derived from the body
    /// if omitted, and CORS headers are added.
    #[serde(default)]
    #[schema(required = false)]
    headers: BTreeMap<String, String>,
}

fn default_status_code() -> u16 {
    200
}

impl MockView {
    fn new(mock: &Mock, access: UrlAccess) -> Self {
        let headers = mock.headers.iter().map(|(name, value)| (name.clone(), access.hidden(value.clone())));
        Self {
            url_pattern: access.url(mock.url_pattern.clone()).into_string(),
            status_code: mock.status_code,
            body: access.hidden(mock.body.clone()),
            headers: headers.collect(),
        }
    }
}

/// Mocks in order of creation; if several match a request, the newest one answers it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserMockList)]
pub(super) struct MockList {
    /// Active mocks, at most 100.
    mocks: Vec<MockView>,
    /// Number of active mocks.
    total: usize,
}

/// Mocks to delete.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = BrowserMockRemoval)]
pub(super) struct MockRemoval {
    /// Pattern of the mock to delete, exactly as it was created; default: all mocks.
    #[serde(default)]
    #[schema(max_length = 2_000)]
    url_pattern: Option<String>,
}

/// Result of deleting mocks.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserMocksRemoved)]
pub(super) struct MocksRemoved {
    /// Number of deleted mocks; 0 if no mock has the pattern.
    removed: usize,
}

/// List mocks
#[utoipa::path(get, path = "/api/browser/mock", tag = "browser", responses((status = 200, body = MockList)))]
pub(super) async fn list_browser_mocks(State(browser): State<Browser>, caller: Caller) -> Json<MockList> {
    let access = UrlAccess::from(&caller);
    let mocks: Vec<MockView> = browser.mocks().iter().map(|mock| MockView::new(mock, access)).collect();
    Json(MockList { total: mocks.len(), mocks })
}

/// Mock requests
///
/// Answers matching requests of all current and later tabs, frames, workers and popups until the session is closed. A
/// mock with the same pattern is replaced. At most 100 mocks with 16 MiB of bodies and headers in total can be active.
/// WebSockets are not mocked.
#[utoipa::path(post, path = "/api/browser/mock", tag = "browser", request_body = MockView,
    responses(
        (status = 201, body = MockView),
        (status = 409, body = ErrorBody, description = "`limit_exceeded`: too many mocks, or they are too large"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn mock_browser_requests(
    State(browser): State<Browser>,
    Json(mock): Json<MockView>,
) -> Result<(StatusCode, Json<MockView>), ApiError> {
    let mock = Mock::new(mock.url_pattern, mock.status_code, mock.body, mock.headers).map_err(invalid)?;
    Ok((StatusCode::CREATED, Json(MockView::new(&*browser.add_mock(mock).await?, UrlAccess::Full))))
}

/// Delete mocks
///
/// Deletes one mock by its pattern, or all.
#[utoipa::path(delete, path = "/api/browser/mock", tag = "browser", request_body = Option<MockRemoval>,
    responses(
        (status = 200, body = MocksRemoved),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn delete_browser_mocks(
    State(browser): State<Browser>,
    OptionalJson(removal): OptionalJson<MockRemoval>,
) -> Answer<MocksRemoved> {
    let removed = browser.remove_mocks(removal.url_pattern.as_deref()).await?;
    Ok(Json(MocksRemoved { removed }))
}
