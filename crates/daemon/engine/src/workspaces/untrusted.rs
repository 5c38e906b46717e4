//! Workspace folders with untrusted files. Text read from them is untrusted, whichever tool reads it.
//!
//! Copies are not tracked: a file that an agent copies elsewhere counts as its own.

use std::sync::{Arc, OnceLock};

use super::{RelativePath, Workspace, WorkspaceError};

/// Records the source of untrusted text that a call reads while it runs, such as a downloaded file. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct UntrustedSource(Arc<OnceLock<String>>);

impl UntrustedSource {
    /// Records a source; the first one wins.
    pub fn record(&self, source: impl Into<String>) {
        let _ = self.0.set(source.into());
    }

    #[must_use]
    pub fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// Folder of long results of untrusted tools.
pub(crate) const UNTRUSTED_RESULTS: &str = ".agentd/untrusted";
/// Folder of files downloaded from web pages.
pub const DOWNLOADS: &str = "downloads";
/// Folder of attachments from chat platforms.
pub const ATTACHMENTS: &str = "attachments";

const FOLDERS: [&str; 3] = [UNTRUSTED_RESULTS, DOWNLOADS, ATTACHMENTS];

fn folders() -> impl Iterator<Item = RelativePath> {
    FOLDERS.iter().filter_map(|folder| RelativePath::parse(folder).ok())
}

/// Records a path as the source of a result if it is in an untrusted folder.
pub(crate) fn record_path(path: &RelativePath, source: &UntrustedSource) {
    if folders().any(|folder| path.starts_with(&folder) && *path != folder) {
        source.record(format!("the file {path}"));
    }
}

/// Records the first untrusted folder that is not empty: code may read the whole workspace.
pub(crate) fn record_folders(workspace: &Workspace, source: &UntrustedSource) {
    let has_files = |folder: &RelativePath| match workspace.list(folder) {
        Ok(listing) => !listing.entries.is_empty() || listing.left_out > 0,
        Err(WorkspaceError::Missing { .. }) => false,
        // A link, which code would follow, or an unreadable folder.
        Err(_) => true,
    };
    if let Some(folder) = folders().find(has_files) {
        source.record(format!("the folder {folder} of the workspace"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source_of(path: &str) -> Option<String> {
        let source = UntrustedSource::default();
        record_path(&RelativePath::parse(path).unwrap(), &source);
        source.get().map(str::to_owned)
    }

    #[test]
    fn untrusted_files_are_recognized_by_their_folder() {
        assert_eq!(source_of("downloads/a/b.txt").as_deref(), Some("the file downloads/a/b.txt"));
        assert_eq!(source_of("./.agentd//untrusted/x.txt").as_deref(), Some("the file .agentd/untrusted/x.txt"));
        for own in ["downloads", "downloads2/a", "notes/downloads/a", ".agentd/results/x.txt", "a.txt"] {
            assert_eq!(source_of(own), None, "{own}");
        }
    }

    #[test]
    fn workspace_without_untrusted_files_has_no_source() {
        let folder = tempfile::tempdir().unwrap();
        let recorded = || {
            let source = UntrustedSource::default();
            record_folders(&Workspace::open(folder.path()).unwrap(), &source);
            source.get().map(str::to_owned)
        };
        std::fs::create_dir(folder.path().join("attachments")).unwrap();
        std::fs::write(folder.path().join("own.txt"), "x").unwrap();
        assert_eq!(recorded(), None);
        std::fs::create_dir(folder.path().join("downloads")).unwrap();
        std::fs::write(folder.path().join("downloads/report.txt"), "x").unwrap();
        assert_eq!(recorded().as_deref(), Some("the folder downloads of the workspace"));
    }

    #[test]
    fn link_in_place_of_an_untrusted_folder_is_untrusted() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("attachments")).unwrap();
        let source = UntrustedSource::default();
        record_folders(&Workspace::open(folder.path()).unwrap(), &source);
        assert!(source.get().is_some());
    }
}
