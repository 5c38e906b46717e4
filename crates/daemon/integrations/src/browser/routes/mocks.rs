//! Answers of the owner's own, in place of a server's.

use std::collections::BTreeMap;

use agentd_browser::Mock;
use agentd_web::{Answer, ApiError, Caller, ErrorBody, Json, JsonOrNothing};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::url_access::UrlAccess;
use crate::browser::service::{Browser, invalid};

/// What requests to some addresses are answered with; they are not sent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = BrowserMock)]
pub(super) struct MockView {
    /// Of the whole address: `*` is anything without a slash, `**` anything at all. A key that may only read sees no
    /// more than scheme and host of it, no body and no values of headers.
    #[schema(min_length = 1, max_length = 2_000, example = "**/api/users/*")]
    url_pattern: String,
    /// Default 200.
    #[serde(default = "ok")]
    #[schema(minimum = 200, maximum = 599, required = false)]
    status_code: u16,
    #[serde(default)]
    #[schema(required = false)]
    body: String,
    /// Without a `content-type`, the body says which. What another site may read needs no header: the permission is
    /// added.
    #[serde(default)]
    #[schema(required = false)]
    headers: BTreeMap<String, String>,
}

fn ok() -> u16 {
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

/// In the order of their making; the last one that fits a request answers it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserMockList)]
pub(super) struct MockList {
    mocks: Vec<MockView>,
    total: usize,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = BrowserMockRemoval)]
pub(super) struct MockRemoval {
    /// As it was made; without one all mocks go.
    #[serde(default)]
    #[schema(max_length = 2_000)]
    url_pattern: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserMocksRemoved)]
pub(super) struct MocksRemoved {
    removed: usize,
}

/// What is answered in place of servers
#[utoipa::path(get, path = "/api/browser/mock", tag = "browser", responses((status = 200, body = MockList)))]
pub(super) async fn list_browser_mocks(State(browser): State<Browser>, caller: Caller) -> Json<MockList> {
    let access = UrlAccess::from(&caller);
    let mocks: Vec<MockView> = browser.mocks().iter().map(|mock| MockView::new(mock, access)).collect();
    Json(MockList { total: mocks.len(), mocks })
}

/// Answer requests in place of their server
///
/// In every tab, frame, worker and popup, those of now and later ones, until the session is closed. One with the same
/// pattern is replaced. 100 at most, with 16 MiB of bodies. Sockets are not answered.
#[utoipa::path(post, path = "/api/browser/mock", tag = "browser", request_body = MockView,
    responses(
        (status = 201, body = MockView),
        (status = 409, body = ErrorBody, description = "`too_much`: there are too many mocks, or they are too large"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser did not do it"),
    ))]
pub(super) async fn mock_browser_requests(
    State(browser): State<Browser>,
    Json(mock): Json<MockView>,
) -> Result<(StatusCode, Json<MockView>), ApiError> {
    let mock = Mock::new(mock.url_pattern, mock.status_code, mock.body, mock.headers).map_err(invalid)?;
    Ok((StatusCode::CREATED, Json(MockView::new(&*browser.add_mock(mock).await?, UrlAccess::Full))))
}

/// Remove a mock, or all
#[utoipa::path(delete, path = "/api/browser/mock", tag = "browser", request_body = MockRemoval,
    responses(
        (status = 200, body = MocksRemoved),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser did not do it"),
    ))]
pub(super) async fn delete_browser_mocks(
    State(browser): State<Browser>,
    JsonOrNothing(removal): JsonOrNothing<MockRemoval>,
) -> Answer<MocksRemoved> {
    let removed = browser.remove_mocks(removal.url_pattern.as_deref()).await?;
    Ok(Json(MocksRemoved { removed }))
}
