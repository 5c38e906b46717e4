//! Files that pages sent.

use agentd_browser::{Download, DownloadState};

use super::{Browser, Session};

/// In the folder of recordings.
pub(super) const FOLDER: &str = "downloads";
/// Of sessions that are closed.
const KEPT: usize = 100;

/// A file that a page sent, and where it is below the data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptDownload {
    pub download: Download,
    /// Set when it is whole.
    pub path: Option<String>,
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
        let kept = |download: Download| {
            let path = download.path.as_ref().and_then(|path| path.strip_prefix(root).ok());
            KeptDownload { path: path.map(|path| path.to_string_lossy().into_owned()), download }
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
}
