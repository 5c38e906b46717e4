//! Files that pages sent.

use agentd_browser::DownloadState;
use agentd_engine::agents::AgentId;
use agentd_web::{Caller, Json};
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::url_access::{UrlAccess, VisibleUrl};
use crate::browser::service::{Browser, KeptDownload};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = BrowserDownloadState)]
enum StateView {
    Running,
    Done,
    Failed,
}

impl From<DownloadState> for StateView {
    fn from(state: DownloadState) -> Self {
        match state {
            DownloadState::Running => Self::Running,
            DownloadState::Done => Self::Done,
            DownloadState::Failed => Self::Failed,
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserDownload)]
pub(super) struct DownloadView {
    id: String,
    /// To a key that may only read: scheme and host.
    #[schema(value_type = String)]
    url: VisibleUrl,
    /// What the server calls it, without what would lead elsewhere.
    name: String,
    size_bytes: u64,
    state: StateView,
    /// Where it is once it is whole: in the workspace of the agent, else below the data directory.
    #[schema(required)]
    path: Option<String>,
    /// The agent whose action led to it; null: the owner's.
    #[schema(required)]
    agent_id: Option<AgentId>,
    #[schema(required)]
    error: Option<String>,
}

impl DownloadView {
    fn new(kept: KeptDownload, access: UrlAccess) -> Self {
        let download = kept.download;
        Self {
            id: download.id,
            url: access.url(download.url),
            name: download.name,
            size_bytes: download.size_bytes,
            state: download.state.into(),
            path: kept.path,
            agent_id: kept.agent,
            error: download.error,
        }
    }
}

/// The newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserDownloadList)]
pub(super) struct DownloadList {
    downloads: Vec<DownloadView>,
    total: usize,
}

/// Files that pages sent, the newest first
///
/// At most 100 MiB each. Those of this browser, and the last 100 of those before, as long as the daemon runs; the files
/// stay.
#[utoipa::path(get, path = "/api/browser/downloads", tag = "browser", responses((status = 200, body = DownloadList)))]
pub(super) async fn list_browser_downloads(State(browser): State<Browser>, caller: Caller) -> Json<DownloadList> {
    let access = UrlAccess::from(&caller);
    let downloads: Vec<_> = browser.downloads().into_iter().map(|kept| DownloadView::new(kept, access)).collect();
    Json(DownloadList { total: downloads.len(), downloads })
}
