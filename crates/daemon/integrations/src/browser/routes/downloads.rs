//! Handler for downloads.

use agentd_browser::DownloadState;
use agentd_engine::agents::AgentId;
use agentd_web::{Caller, Json};
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::url_access::{UrlAccess, VisibleUrl};
use crate::browser::service::{Browser, DownloadEntry};

/// State of a download.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = BrowserDownloadState)]
enum StateView {
    /// In progress, or being moved into the workspace of the agent.
    Running,
    /// Complete and stored at `path`.
    Done,
    /// Cancelled, interrupted or over a size limit; see `error`.
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

/// File that a page sent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserDownload)]
pub(super) struct DownloadView {
    /// Id of the download, assigned by Chromium.
    id: String,
    /// URL of the file; scheme and host only for read-only keys.
    #[schema(value_type = String)]
    url: VisibleUrl,
    /// File name suggested by the server, without path and unsafe characters, at most 200 bytes.
    name: String,
    /// Bytes received so far; the file size once the download is complete.
    size_bytes: u64,
    /// State of the download.
    state: StateView,
    /// Path of the complete file: in the workspace of `agent_id`, otherwise relative to the data directory. Null until
    /// the download is complete.
    #[schema(required)]
    path: Option<String>,
    /// Agent whose action caused the download; null for the owner.
    #[schema(required)]
    agent_id: Option<AgentId>,
    /// Reason for the failure; null unless `state` is `failed`.
    #[schema(required)]
    error: Option<String>,
}

impl DownloadView {
    fn new(kept: DownloadEntry, access: UrlAccess) -> Self {
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

/// Downloads, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BrowserDownloadList)]
pub(super) struct DownloadList {
    /// Downloads of the current session, then of earlier sessions.
    downloads: Vec<DownloadView>,
    /// Number of listed downloads.
    total: usize,
}

/// List downloads
///
/// Returns files that pages sent, newest first; at most 100 MiB each. Lists the current session and the last 100 files
/// of earlier sessions since the daemon started. Files are not deleted.
#[utoipa::path(get, path = "/api/browser/downloads", tag = "browser", responses((status = 200, body = DownloadList)))]
pub(super) async fn list_browser_downloads(State(browser): State<Browser>, caller: Caller) -> Json<DownloadList> {
    let access = UrlAccess::from(&caller);
    let downloads: Vec<_> = browser.downloads().into_iter().map(|kept| DownloadView::new(kept, access)).collect();
    Json(DownloadList { total: downloads.len(), downloads })
}
