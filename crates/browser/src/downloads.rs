//! Downloads: written under names of our own, bounded, and moved to the caller's folder when whole.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;

use crate::cdp::Event;
use crate::registry::tell;
use crate::tab::Shared;

/// How many are remembered.
const MAX_KEPT: usize = 100;
const MAX_NAME_BYTES: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadState {
    Running,
    Done,
    Failed,
}

/// A file that a page sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Download {
    pub id: String,
    pub url: String,
    /// What the server calls it, without anything that is no name.
    pub name: String,
    pub size_bytes: u64,
    pub state: DownloadState,
    /// Where it is; set when it is whole.
    pub path: Option<PathBuf>,
    /// Why it failed.
    pub error: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Downloads {
    /// Where whole files go.
    pub(crate) directory: Option<PathBuf>,
    most_bytes: u64,
    list: watch::Sender<VecDeque<Download>>,
    /// One file is moved at a time, so that names stay distinct.
    moving: Arc<Mutex<()>>,
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
    pub(crate) fn new(directory: Option<PathBuf>, most_bytes: u64) -> Self {
        Self { directory, most_bytes, list: watch::Sender::default(), moving: Arc::default() }
    }

    pub(crate) fn list(&self) -> Vec<Download> {
        self.list.borrow().iter().cloned().collect()
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<VecDeque<Download>> {
        self.list.subscribe()
    }

    pub(crate) fn event(&self, event: &Event, shared: &Arc<Shared>) {
        if &*event.method == "Browser.downloadWillBegin" {
            let Some(begin) = event.read::<WillBegin>() else { return };
            let mut url = begin.url;
            url.truncate(url.floor_char_boundary(2_000));
            let download = Download {
                id: begin.guid,
                url,
                name: safe_name(&begin.suggested_filename),
                size_bytes: 0,
                state: DownloadState::Running,
                path: None,
                error: None,
            };
            self.list.send_modify(|list| {
                if list.len() == MAX_KEPT {
                    list.pop_front();
                }
                list.push_back(download);
            });
            return;
        }
        let Some(progress) = event.read::<Progress>() else { return };
        // A count of bytes, which the protocol writes as a number with a fraction.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a file's size is in range")]
        let received = progress.received_bytes as u64;
        let file = shared.folder.downloads().join(&progress.guid);
        match &*progress.state {
            "completed" if received <= self.most_bytes => self.keep(progress.guid, received, file),
            "inProgress" if received <= self.most_bytes => {
                self.change(&progress.guid, |download| download.size_bytes = received);
            }
            state => {
                if state == "inProgress" {
                    tell(shared, "Browser.cancelDownload", json!({"guid": progress.guid}));
                }
                let is_long = received > self.most_bytes;
                let error = if is_long {
                    format!("it is larger than {} bytes", self.most_bytes)
                } else {
                    "it was broken off".to_owned()
                };
                self.fail(&progress.guid, error);
                tokio::task::spawn_blocking(move || fs::remove_file(file));
            }
        }
    }

    /// A whole file leaves the browser's folder.
    fn keep(&self, id: String, size: u64, file: PathBuf) {
        let name = self.list.borrow().iter().find(|download| download.id == id).map(|download| download.name.clone());
        let (Some(directory), Some(name)) = (self.directory.clone(), name) else { return };
        let (list, moving) = (self.list.clone(), Arc::clone(&self.moving));
        tokio::task::spawn_blocking(move || {
            let moved = {
                let _one = moving.lock();
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
                        download.error = Some(format!("it could not be kept: {error}"));
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

/// Copies the file, because it belongs to another user and may lie on another file system.
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
    Err(io::Error::other("there are too many files of that name"))
}

/// The last part of what a server calls a file, without what would hide it or lead elsewhere.
fn safe_name(suggested: &str) -> String {
    let last = suggested.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut name: String = last.chars().filter(|c| !c.is_control() && !matches!(c, '\u{200e}'..='\u{202e}')).collect();
    name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
    let name = name.trim().trim_start_matches('.').trim_end_matches('.');
    if name.is_empty() { "download".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_lead_nowhere_else() {
        let cases = [
            ("report.pdf", "report.pdf"),
            ("../../etc/passwd", "passwd"),
            ("..\\..\\x.exe", "x.exe"),
            ("..", "download"),
            ("", "download"),
            (".bashrc", "bashrc"),
            ("a\0b\n.txt", "ab.txt"),
            ("x\u{202e}fdp.exe", "xfdp.exe"),
        ];
        for (suggested, expected) in cases {
            assert_eq!(safe_name(suggested), expected, "{suggested:?}");
        }
        assert!(safe_name(&"é".repeat(4_000)).len() <= MAX_NAME_BYTES);
    }
}
