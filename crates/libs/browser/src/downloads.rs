//! Downloads: written under generated names, limited individually and in total, and moved to the target directory when
//! complete.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentd_base::visible::is_hidden;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;

use crate::BrowserLimits;
use crate::cdp::Event;
use crate::shared::{Shared, send};

/// Maximum number of listed downloads.
const MAX_ENTRIES: usize = 100;
const MAX_NAME_BYTES: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadState {
    Running,
    Done,
    Failed,
}

/// Downloaded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Download {
    pub id: String,
    pub url: String,
    /// File name suggested by the server, sanitized.
    pub name: String,
    pub size_bytes: u64,
    pub state: DownloadState,
    /// Location of the completed file.
    pub path: Option<PathBuf>,
    /// Reason for the failure.
    pub error: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Downloads {
    /// Directory of completed files; without it downloads are refused.
    pub(crate) directory: Option<PathBuf>,
    limits: BrowserLimits,
    /// Total size of completed files.
    completed_bytes: AtomicU64,
    list: watch::Sender<VecDeque<Download>>,
    /// Serializes moves, so that names stay unique.
    move_lock: Arc<Mutex<()>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WillBegin {
    guid: String,
    url: String,
    suggested_filename: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Progress {
    guid: String,
    received_bytes: f64,
    state: String,
}

impl Downloads {
    pub(crate) fn new(directory: Option<PathBuf>, limits: BrowserLimits) -> Self {
        let (completed_bytes, list, move_lock) = Default::default();
        Self { directory, limits, completed_bytes, list, move_lock }
    }

    pub(crate) fn list(&self) -> Vec<Download> {
        self.list.borrow().iter().cloned().collect()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<VecDeque<Download>> {
        self.list.subscribe()
    }

    pub(crate) fn event(&self, event: &Event, shared: &Arc<Shared>) {
        if &*event.method == "Browser.downloadWillBegin" {
            if let Some(begin) = event.read::<WillBegin>() {
                self.begin(begin, shared);
            }
            return;
        }
        let Some(progress) = event.read::<Progress>() else { return };
        // The protocol represents a byte count as a floating-point number.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a file's size is in range")]
        let received = progress.received_bytes as u64;
        let file = shared.folder.downloads().join(&progress.guid);
        match &*progress.state {
            "completed" if self.fits_limits(&progress.guid, received) => self.complete(progress.guid, received, file),
            "inProgress" if self.fits_limits(&progress.guid, received) => {
                self.change(&progress.guid, |download| download.size_bytes = received);
            }
            state => {
                if state == "inProgress" {
                    send(shared, "Browser.cancelDownload", json!({"guid": progress.guid}));
                }
                let BrowserLimits { download_bytes, downloads_bytes, .. } = self.limits;
                let error = if received > download_bytes {
                    format!("the file exceeds {download_bytes} bytes")
                } else if state == "canceled" {
                    "the download was cancelled".to_owned()
                } else {
                    format!(
                        "the downloads of this session exceed {downloads_bytes} bytes; close the browser to start a \
                         new session"
                    )
                };
                self.fail(&progress.guid, error);
                tokio::task::spawn_blocking(move || fs::remove_file(file));
            }
        }
    }

    fn begin(&self, begin: WillBegin, shared: &Arc<Shared>) {
        let mut url = begin.url;
        url.truncate(url.floor_char_boundary(2_000));
        let mut download = Download {
            id: begin.guid,
            url,
            name: sanitize_name(&begin.suggested_filename),
            size_bytes: 0,
            state: DownloadState::Running,
            path: None,
            error: None,
        };
        let is_running = |download: &Download| download.state == DownloadState::Running;
        let limit = self.limits.downloads;
        if self.list.borrow().iter().filter(|other| is_running(other)).count() >= limit {
            send(shared, "Browser.cancelDownload", json!({"guid": download.id}));
            download.state = DownloadState::Failed;
            download.error = Some(format!("limit of concurrent downloads reached ({limit})"));
        }
        self.list.send_modify(|list| {
            if list.len() == MAX_ENTRIES {
                // Running downloads stay listed, since they count towards the limits.
                list.remove(list.iter().position(|other| !is_running(other)).unwrap_or(0));
            }
            list.push_back(download);
        });
    }

    /// Whether a download of this size fits the limits together with all others.
    fn fits_limits(&self, id: &str, received: u64) -> bool {
        let list = self.list.borrow();
        let others = list.iter().filter(|other| other.state == DownloadState::Running && other.id != id);
        let others: u64 = others.map(|other| other.size_bytes).sum();
        let all = self.completed_bytes.load(Ordering::Relaxed) + others + received;
        received <= self.limits.download_bytes && all <= self.limits.downloads_bytes
    }

    /// Moves a completed file out of the browser's directory.
    fn complete(&self, id: String, size: u64, file: PathBuf) {
        let is_pending = |download: &&Download| download.id == id && download.state == DownloadState::Running;
        let name = self.list.borrow().iter().find(is_pending).map(|download| download.name.clone());
        let (Some(directory), Some(name)) = (self.directory.clone(), name) else {
            // It completed before it could be cancelled.
            tokio::task::spawn_blocking(move || fs::remove_file(file));
            return;
        };
        self.completed_bytes.fetch_add(size, Ordering::Relaxed);
        let (list, move_lock) = (self.list.clone(), Arc::clone(&self.move_lock));
        tokio::task::spawn_blocking(move || {
            let moved = {
                let _guard = move_lock.lock();
                move_file(&file, &directory, &name)
            };
            let _ = fs::remove_file(&file);
            list.send_modify(|list| {
                let Some(download) = list.iter_mut().find(|download| download.id == id) else { return };
                download.size_bytes = size;
                match moved {
                    Ok(path) => (download.state, download.path) = (DownloadState::Done, Some(path)),
                    Err(error) => {
                        download.state = DownloadState::Failed;
                        download.error = Some(format!("failed to store the file: {error}"));
                    }
                }
            });
        });
    }

    fn fail(&self, id: &str, error: String) {
        self.change(id, |download| {
            if download.state == DownloadState::Running {
                (download.state, download.error) = (DownloadState::Failed, Some(error));
            }
        });
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Download)) {
        self.list.send_modify(|list| {
            if let Some(download) = list.iter_mut().find(|download| download.id == id) {
                change(download);
            }
        });
    }
}

/// Copies the file, since it belongs to another user and may be on another file system.
fn move_file(file: &Path, directory: &Path, name: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
        _ => (name, String::new()),
    };
    for number in 1..=1_000 {
        let name = if number == 1 { name.to_owned() } else { format!("{stem} ({number}){extension}") };
        let path = directory.join(name);
        match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut copy) => {
                if let Err(error) = fs::File::open(file).and_then(|mut file| io::copy(&mut file, &mut copy)) {
                    let _ = fs::remove_file(&path);
                    return Err(error);
                }
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many files have the same name"))
}

/// Returns the last path component of a suggested name, without invisible characters and leading dots.
fn sanitize_name(suggested: &str) -> String {
    let last = suggested.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut name: String = last.chars().filter(|c| !is_hidden(*c) && !matches!(c, '\n' | '\t')).collect();
    name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
    let name = name.trim().trim_start_matches('.').trim_end_matches('.');
    if name.is_empty() { "download".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_sanitized() {
        let cases = [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("..\\..\\x.exe", "x.exe"),
            ("..", "download"),
            ("", "download"),
            (".bashrc", "bashrc"),
            ("a\0b\n.txt", "ab.txt"),
            ("x\u{202e}fdp.exe", "xfdp.exe"),
            ("x\u{e0041}\u{ad}\u{3164}.pdf", "x.pdf"),
        ];
        for (suggested, expected) in cases {
            assert_eq!(sanitize_name(suggested), expected, "{suggested:?}");
        }
        assert!(sanitize_name(&"é".repeat(4_000)).len() <= MAX_NAME_BYTES);
    }
}
