//! Downloads: stored in the downloads folder, or moved into the workspace of the agent whose action caused them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentd_browser::{Download, DownloadState};
use agentd_core::runtime::DataDir;
use agentd_engine::agents::{AgentId, Agents};
use agentd_engine::tools::Tools;
use agentd_engine::workspaces::DOWNLOADS;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt;

use super::session::Session;
use crate::browser::error::BrowserError;
use crate::browser::model::Actor;

/// Name of the folder within the recordings folder.
const DOWNLOADS_FOLDER: &str = "downloads";
/// Maximum number of listed downloads of closed sessions.
const MAX_PAST_DOWNLOADS: usize = 100;
const CHUNK_BYTES: usize = 1 << 20;
/// Maximum number of files with the same name in a workspace.
const MAX_SAME_NAMES: u32 = 1_000;
/// Duration of one wait for a download, which is then repeated.
const WAIT_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Downloaded file and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownloadEntry {
    pub download: Download,
    /// Path relative to the data directory, or in the workspace of `agent`; set when the file is complete and in place.
    pub path: Option<String>,
    /// Agent whose action caused it.
    pub agent: Option<AgentId>,
}

/// Downloads folder, and the list of closed sessions.
pub(super) struct Downloads {
    agents: Agents,
    tools: Tools,
    data_dir: Arc<DataDir>,
    /// Downloads of closed sessions.
    past: Mutex<Vec<DownloadEntry>>,
}

impl Downloads {
    pub(super) fn new(agents: Agents, tools: Tools, data_dir: Arc<DataDir>) -> Self {
        Self { agents, tools, data_dir, past: Mutex::default() }
    }

    /// Returns the folder for downloads without an agent; creates it if necessary.
    pub(super) fn folder(&self) -> Result<PathBuf, BrowserError> {
        let folder = self.data_dir.recordings().join(DOWNLOADS_FOLDER);
        self.data_dir.make_folder(&folder).map_err(BrowserError::Folder)?;
        Ok(folder)
    }

    /// Returns downloads, newest first: those of the session, and the last ones of earlier sessions.
    pub(super) fn list(&self, session: Option<&Session>) -> Vec<DownloadEntry> {
        let now = session.map(|session| self.stored_downloads(session)).unwrap_or_default();
        let past = self.past.lock();
        now.into_iter().rev().chain(past.iter().rev().cloned()).collect()
    }

    fn stored_downloads(&self, session: &Session) -> Vec<DownloadEntry> {
        let root = self.data_dir.root();
        let entry = |mut download: Download| {
            let agent = match session.owner_of(&download) {
                Actor::Agent(agent) => Some(agent),
                Actor::Owner => None,
            };
            let path = match session.move_result(&download) {
                Some(Ok(path)) => Some(path),
                Some(Err(error)) => {
                    (download.state, download.error) = (DownloadState::Failed, Some(error));
                    None
                }
                // Still being moved into the workspace.
                None if agent.is_some() => {
                    if download.state == DownloadState::Done {
                        download.state = DownloadState::Running;
                    }
                    None
                }
                None => {
                    let path = download.path.as_ref().and_then(|path| path.strip_prefix(root).ok());
                    path.map(|path| path.to_string_lossy().into_owned())
                }
            };
            DownloadEntry { download, path, agent }
        };
        session.context().downloads().into_iter().map(entry).collect()
    }

    /// Retains the list of an ended session.
    pub(super) fn archive(&self, session: &Session) {
        let mut ended = self.stored_downloads(session);
        for entry in &mut ended {
            if entry.download.state == DownloadState::Running {
                entry.download.state = DownloadState::Failed;
                entry.download.error = Some("the browser was closed".to_owned());
            }
        }
        let mut past = self.past.lock();
        past.extend(ended);
        let excess = past.len().saturating_sub(MAX_PAST_DOWNLOADS);
        past.drain(..excess);
    }

    /// Moves downloads of agents into their workspaces until the session ends.
    pub(super) async fn move_to_workspaces(&self, session: &Session) {
        let work = async {
            loop {
                let is_new = |download: &Download| {
                    download.state == DownloadState::Done
                        && session.move_result(download).is_none()
                        && matches!(session.owner_of(download), Actor::Agent(_))
                };
                // Timed out; waits again.
                let Ok(download) = session.context().wait_for_download(WAIT_TIMEOUT, is_new).await else { continue };
                let Actor::Agent(agent) = session.owner_of(&download) else { continue };
                session.record_moved(&download, self.move_file(&download, &agent).await);
            }
        };
        tokio::select! {
            () = session.ended_token.cancelled() => {}
            () = work => {}
        }
    }

    /// Moves a file into a workspace and returns its path there.
    async fn move_file(&self, download: &Download, agent: &AgentId) -> Result<String, String> {
        let Some(source) = &download.path else { return Err("the downloaded file is missing".to_owned()) };
        let agent = self.agents.get(agent.as_str()).await.map_err(|error| error.to_string())?;
        let workspace = self.agents.workspace(&agent).map_err(|error| error.to_string())?;
        let path = self.find_free_path(&workspace, &download.name).await?;
        self.copy_into(source, &workspace, &path, &download.id).await?;
        if let Err(error) = tokio::fs::remove_file(source).await {
            tracing::warn!(%error, "failed to remove moved download from the downloads folder");
        }
        Ok(path)
    }

    async fn find_free_path(&self, workspace: &Path, name: &str) -> Result<String, String> {
        let (stem, extension) = match name.rsplit_once('.') {
            Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
            _ => (name, String::new()),
        };
        for number in 1..=MAX_SAME_NAMES {
            let name = if number == 1 { name.to_owned() } else { format!("{stem} ({number}){extension}") };
            let path = format!("{DOWNLOADS}/{name}");
            let is_taken = self.tools.has_file(workspace, &path).await;
            if !is_taken.map_err(|error| error.to_string())? {
                return Ok(path);
            }
        }
        Err("too many files have the same name".to_owned())
    }

    async fn copy_into(&self, source: &Path, workspace: &Path, path: &str, id: &str) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        let mut reader = tokio::fs::File::open(source).await.map_err(failed)?;
        let created = self.tools.create_file(workspace, path, id).await;
        let mut file = created.map_err(|error| error.to_string())?;
        loop {
            let mut piece = Vec::with_capacity(CHUNK_BYTES);
            (&mut reader).take(CHUNK_BYTES as u64).read_to_end(&mut piece).await.map_err(failed)?;
            if piece.is_empty() {
                return file.finish().await.map_err(|error| error.to_string());
            }
            file = file.append(Bytes::from(piece)).await.map_err(|error| error.to_string())?;
        }
    }
}
