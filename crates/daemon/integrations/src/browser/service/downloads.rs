//! Files that pages sent: kept in the folder of downloads, or moved into the workspace of the agent that acted.

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

/// In the folder of recordings.
const FOLDER: &str = "downloads";
/// Of sessions that are closed.
const KEPT: usize = 100;
const PIECE_BYTES: usize = 1 << 20;
/// Files of one name in a workspace.
const MOST_NAMES: u32 = 1_000;
/// A wait for a download ends after this, and begins anew.
const LONG: Duration = Duration::from_secs(3_600);

/// A file that a page sent, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDownload {
    pub download: Download,
    /// Below the data directory, or in the workspace of `agent`; set when it is whole and there.
    pub path: Option<String>,
    /// Whose action led to it.
    pub agent: Option<AgentId>,
}

/// The folder of downloads, and the files of sessions that were closed.
pub(super) struct Downloads {
    agents: Agents,
    tools: Tools,
    data_dir: Arc<DataDir>,
    /// Of sessions that are closed.
    past: Mutex<Vec<KeptDownload>>,
}

impl Downloads {
    pub(super) fn new(agents: Agents, tools: Tools, data_dir: Arc<DataDir>) -> Self {
        Self { agents, tools, data_dir, past: Mutex::default() }
    }

    /// The folder of what no agent asked for, which is created if there is none.
    pub(super) fn folder(&self) -> Result<PathBuf, BrowserError> {
        let folder = self.data_dir.recordings().join(FOLDER);
        self.data_dir.make_folder(&folder).map_err(BrowserError::Folder)?;
        Ok(folder)
    }

    /// The newest first: those of the session, and the last ones of those before.
    pub(super) fn list(&self, session: Option<&Session>) -> Vec<KeptDownload> {
        let now = session.map(|session| self.kept(session)).unwrap_or_default();
        let past = self.past.lock();
        now.into_iter().rev().chain(past.iter().rev().cloned()).collect()
    }

    fn kept(&self, session: &Session) -> Vec<KeptDownload> {
        let root = self.data_dir.root();
        let kept = |mut download: Download| {
            let agent = match session.owner_of(&download) {
                Actor::Agent(agent) => Some(agent),
                Actor::Owner => None,
            };
            let path = match session.moved(&download) {
                Some(Ok(path)) => Some(path),
                Some(Err(error)) => {
                    (download.state, download.error) = (DownloadState::Failed, Some(error));
                    None
                }
                // It is on its way into the workspace.
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
            KeptDownload { download, path, agent }
        };
        session.context().downloads().into_iter().map(kept).collect()
    }

    /// Keeps the list of a session that has ended.
    pub(super) fn keep(&self, session: &Session) {
        let mut ended = self.kept(session);
        for kept in &mut ended {
            if kept.download.state == DownloadState::Running {
                kept.download.state = DownloadState::Failed;
                kept.download.error = Some("the browser was closed".to_owned());
            }
        }
        let mut past = self.past.lock();
        past.extend(ended);
        let excess = past.len().saturating_sub(KEPT);
        past.drain(..excess);
    }

    /// Moves what agents downloaded into their workspaces, until the session is over.
    pub(super) async fn hand_over(&self, session: &Session) {
        let work = async {
            loop {
                let is_new = |download: &Download| {
                    download.state == DownloadState::Done
                        && session.moved(download).is_none()
                        && matches!(session.owner_of(download), Actor::Agent(_))
                };
                // Without one within its time, it waits again.
                let Ok(download) = session.context().wait_for_download(LONG, is_new).await else { continue };
                let Actor::Agent(agent) = session.owner_of(&download) else { continue };
                session.note_moved(&download, self.move_file(&download, &agent).await);
            }
        };
        tokio::select! {
            () = session.over.cancelled() => {}
            () = work => {}
        }
    }

    /// Moves a file into a workspace, and answers its path there.
    async fn move_file(&self, download: &Download, agent: &AgentId) -> Result<String, String> {
        let Some(source) = &download.path else { return Err("the file is not there".to_owned()) };
        let agent = self.agents.get(agent.as_str()).await.map_err(|error| error.to_string())?;
        let workspace = self.agents.workspace(&agent).map_err(|error| error.to_string())?;
        let path = self.free_name(&workspace, &download.name).await?;
        self.copy_into(source, &workspace, &path, &download.id).await?;
        if let Err(error) = tokio::fs::remove_file(source).await {
            tracing::warn!(%error, "a download that was moved into a workspace stays in the folder of downloads, too");
        }
        Ok(path)
    }

    async fn free_name(&self, workspace: &Path, name: &str) -> Result<String, String> {
        let (stem, extension) = match name.rsplit_once('.') {
            Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
            _ => (name, String::new()),
        };
        for number in 1..=MOST_NAMES {
            let name = if number == 1 { name.to_owned() } else { format!("{stem} ({number}){extension}") };
            let path = format!("{DOWNLOADS}/{name}");
            let is_taken = self.tools.has_file(workspace, &path).await;
            if !is_taken.map_err(|error| error.to_string())? {
                return Ok(path);
            }
        }
        Err("there are too many files of that name".to_owned())
    }

    async fn copy_into(&self, source: &Path, workspace: &Path, path: &str, id: &str) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        let mut reader = tokio::fs::File::open(source).await.map_err(failed)?;
        let created = self.tools.create_file(workspace, path, id).await;
        let mut file = created.map_err(|error| error.to_string())?;
        loop {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            (&mut reader).take(PIECE_BYTES as u64).read_to_end(&mut piece).await.map_err(failed)?;
            if piece.is_empty() {
                return file.finish().await.map_err(|error| error.to_string());
            }
            file = file.append(Bytes::from(piece)).await.map_err(|error| error.to_string())?;
        }
    }
}
