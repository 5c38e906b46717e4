//! Handlers for tabs.

use agentd_engine::agents::AgentId;
use agentd_web::{Answer, ApiError, Caller, ErrorBody, Json, OptionalJson, Path};
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::url_access::{UrlAccess, VisibleUrl};
use crate::browser::model::Actor;
use crate::browser::service::{Browser, ListedTab};

/// Open tab.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserTab)]
pub(super) struct TabView {
    /// Id of the tab, unique within the session.
    tab_id: String,
    /// URL of the tab; scheme and host only for read-only keys.
    #[schema(value_type = String)]
    url: VisibleUrl,
    /// Title of the page; may be empty.
    title: String,
    /// Whether this is the active tab of the owner, which requests without `tab_id` use.
    active: bool,
    /// Whether the page is loading or navigating.
    loading: bool,
    /// Agent whose active tab this is; null if the tab is not active for any agent.
    #[schema(required)]
    agent_id: Option<AgentId>,
}

impl TabView {
    fn new(tab: ListedTab, access: UrlAccess) -> Self {
        Self {
            tab_id: tab.info.tab_id,
            url: access.url(tab.info.url),
            title: tab.info.title,
            active: tab.is_active,
            loading: tab.info.loading,
            agent_id: tab.agent,
        }
    }
}

/// Tabs in order of opening.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserTabList)]
pub(super) struct TabList {
    /// Open tabs, at most 20; empty if no browser is running.
    tabs: Vec<TabView>,
    /// Number of open tabs.
    total: usize,
}

/// Tab to open.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = NewBrowserTab)]
pub(super) struct NewTab {
    /// URL to open; default: a blank tab.
    #[serde(default)]
    #[schema(max_length = 65_536)]
    url: Option<String>,
}

/// Result of closing a tab.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserTabClosed)]
pub(super) struct TabClosed {
    /// Always true.
    closed: bool,
}

/// List tabs
///
/// Includes popups opened by pages.
#[utoipa::path(get, path = "/api/browser/tabs", tag = "browser", responses((status = 200, body = TabList)))]
pub(super) async fn list_browser_tabs(State(browser): State<Browser>, caller: Caller) -> Json<TabList> {
    let access = UrlAccess::from(&caller);
    let tabs = browser.tabs(&Actor::Owner).await.into_iter();
    let tabs: Vec<TabView> = tabs.map(|tab| TabView::new(tab, access)).collect();
    Json(TabList { total: tabs.len(), tabs })
}

/// Open a tab
///
/// The new tab becomes the active one. At most 20 tabs. Starts the browser if necessary.
#[utoipa::path(post, path = "/api/browser/tabs", tag = "browser", request_body = Option<NewTab>,
    responses(
        (status = 201, body = TabView),
        (status = 403, body = ErrorBody, description = "`address_refused`: the address is blocked"),
        (status = 409, body = ErrorBody, description = "`too_many_tabs`, `timeout`"),
        (status = 502, body = ErrorBody, description = "`navigation_failed`: the page could not be opened; `browser_ended`"),
        (status = 503, body = ErrorBody, description = "`browser_unavailable`: Chromium not found"),
    ))]
pub(super) async fn open_browser_tab(
    State(browser): State<Browser>,
    OptionalJson(tab): OptionalJson<NewTab>,
) -> Result<(StatusCode, Json<TabView>), ApiError> {
    let opened = browser.open_tab(&Actor::Owner, tab.url).await?;
    Ok((StatusCode::CREATED, Json(TabView::new(opened, UrlAccess::Full))))
}

/// Close a tab
#[utoipa::path(delete, path = "/api/browser/tabs/{tab_id}", tag = "browser",
    params(("tab_id" = String, Path, description = "Id of the tab")),
    responses(
        (status = 200, body = TabClosed),
        (status = 404, body = ErrorBody, description = "`tab_not_found`"),
        (status = 409, body = ErrorBody, description = "`browser_not_running`: no page is open"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn close_browser_tab(State(browser): State<Browser>, Path(tab_id): Path<String>) -> Answer<TabClosed> {
    browser.close_tab(&tab_id).await?;
    Ok(Json(TabClosed { closed: true }))
}

/// Activate a tab
#[utoipa::path(put, path = "/api/browser/tabs/{tab_id}/activate", tag = "browser",
    params(("tab_id" = String, Path, description = "Id of the tab")),
    responses(
        (status = 200, body = TabView),
        (status = 404, body = ErrorBody, description = "`tab_not_found`"),
        (status = 409, body = ErrorBody, description = "`browser_not_running`: no page is open"),
        (status = 502, body = ErrorBody, description = "`browser_failed`, `browser_ended`: the browser failed"),
    ))]
pub(super) async fn activate_browser_tab(
    State(browser): State<Browser>,
    Path(tab_id): Path<String>,
) -> Answer<TabView> {
    Ok(Json(TabView::new(browser.activate_tab(&Actor::Owner, &tab_id).await?, UrlAccess::Full)))
}
