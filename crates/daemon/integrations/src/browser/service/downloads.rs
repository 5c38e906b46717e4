//! Files that pages sent: kept in the folder of downloads, or moved into the workspace of the agent that acted.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentd_browser::{Download, DownloadState};
use agentd_engine::agents::AgentId;
use agentd_engine::workspaces::DOWNLOADS;
use bytes::Bytes;
use tokio::io::AsyncReadExt;

use super::{Browser, Session};
use crate::browser::model::Actor;

/// In the folder of recordings.
pub(super) const FOLDER: &str = "downloads";
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

/// Who downloads belong to, and what became of those of agents.
#[derive(Debug, Default)]
pub(super) struct Handed {
    /// Who acted last.
    actor: Actor,
    owners: HashMap<String, Actor>,
    /// A path in the workspace, or why it is not there.
    moved: HashMap<String, Result<String, String>>,
}

impl Session {
    /// From now on, downloads are those of this actor.
    pub(super) fn acts(&self, actor: &Actor) {
        let listed = self.context().downloads();
        let mut handed = self.handed.lock();
        attribute(&mut handed, &listed);
        handed.actor = actor.clone();
    }

    /// Of one that nobody has seen yet: who acted last.
    fn owner_of(&self, download: &Download) -> Actor {
        let mut handed = self.handed.lock();
        let actor = handed.actor.clone();
        handed.owners.entry(download.id.clone()).or_insert(actor).clone()
    }
}

fn attribute(handed: &mut Handed, listed: &[Download]) {
    for download in listed {
        if !handed.owners.contains_key(&download.id) {
            handed.owners.insert(download.id.clone(), handed.actor.clone());
        }
    }
    let is_listed = |id: &String| listed.iter().any(|download| download.id == *id);
    handed.owners.retain(|id, _| is_listed(id));
    handed.moved.retain(|id, _| is_listed(id));
}

impl Browser {
    /// The newest first: those of this session, and the last ones of those before.
    #[must_use]
    pub fn downloads(&self) -> Vec<KeptDownload> {
        let session = self.0.current.lock().clone();
        let now = session.map(|session| self.kept(&session)).unwrap_or_default();
        let past = self.0.past_downloads.lock();
        now.into_iter().rev().chain(past.iter().rev().cloned()).collect()
    }

    fn kept(&self, session: &Session) -> Vec<KeptDownload> {
        let root = self.0.context.data_dir.root();
        let kept = |mut download: Download| {
            let agent = match session.owner_of(&download) {
                Actor::Agent(agent) => Some(agent),
                Actor::Owner => None,
            };
            let moved = session.handed.lock().moved.get(&download.id).cloned();
            let path = match moved {
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

    /// What ended sessions sent is still listed.
    pub(super) fn keep_downloads(&self, session: &Session) {
        let mut ended = self.kept(session);
        for kept in &mut ended {
            if kept.download.state == DownloadState::Running {
                kept.download.state = DownloadState::Failed;
                kept.download.error = Some("the browser was closed".to_owned());
            }
        }
        let mut past = self.0.past_downloads.lock();
        past.extend(ended);
        let excess = past.len().saturating_sub(KEPT);
        past.drain(..excess);
    }

    /// Moves what agents downloaded into their workspaces, until the session is over.
    pub(super) async fn hand_over_downloads(self, session: Arc<Session>) {
        let over = session.over.clone();
        let work = async {
            loop {
                let is_new = |download: &Download| {
                    download.state == DownloadState::Done
                        && !session.handed.lock().moved.contains_key(&download.id)
                        && matches!(session.owner_of(download), Actor::Agent(_))
                };
                // Without one within its time, it waits again.
                let Ok(download) = session.context().wait_for_download(LONG, is_new).await else { continue };
                let Actor::Agent(agent) = session.owner_of(&download) else { continue };
                let moved = self.hand_over(&download, &agent).await;
                session.handed.lock().moved.insert(download.id, moved);
            }
        };
        tokio::select! {
            () = over.cancelled() => {}
            () = work => {}
        }
    }

    /// Moves a file into a workspace, and answers its path there.
    async fn hand_over(&self, download: &Download, agent: &AgentId) -> Result<String, String> {
        let Some(source) = &download.path else { return Err("the file is not there".to_owned()) };
        let agent = self.0.agents.get(agent.as_str()).await.map_err(|error| error.to_string())?;
        let workspace = self.0.agents.workspace(&agent).map_err(|error| error.to_string())?;
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
            let is_taken = self.0.tools.has_file(workspace, &path).await;
            if !is_taken.map_err(|error| error.to_string())? {
                return Ok(path);
            }
        }
        Err("there are too many files of that name".to_owned())
    }

    async fn copy_into(&self, source: &Path, workspace: &Path, path: &str, id: &str) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        let mut reader = tokio::fs::File::open(source).await.map_err(failed)?;
        let created = self.0.tools.create_file(workspace, path, id).await;
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
