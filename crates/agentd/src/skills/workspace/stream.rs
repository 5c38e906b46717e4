//! Writing a file piece by piece.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use agentd_sandbox::WorkspaceBounds;
use rustix::fs::{AtFlags, Mode, fchmod, fstat, openat, renameat, statat, unlinkat};

use super::write::{FILE_MODE, HALF_WRITTEN_END, HALF_WRITTEN_START, NEW};
use super::{EntryKind, Growth, RelativePath, Workspace, WorkspaceError};

/// A file that is being written. Until it is finished it has another name; dropped before, it is gone.
#[derive(Debug)]
pub(in crate::skills) struct NewFile {
    folder: OwnedFd,
    file: File,
    beside: String,
    path: RelativePath,
    /// Bytes that the workspace has room for.
    left: u64,
    bounds: WorkspaceBounds,
    is_finished: bool,
}

impl Workspace {
    /// Begins a file; folders on the way are made. `mark` names what is not finished: what a writer that was killed left
    /// under the same mark is removed.
    ///
    /// # Errors
    /// Something on the way is no folder, it cannot be written, or the workspace is full.
    pub(in crate::skills) fn create(
        &self,
        path: &RelativePath,
        mark: &str,
        bounds: WorkspaceBounds,
    ) -> Result<NewFile, WorkspaceError> {
        let Some((parent, _)) = path.split() else {
            return Err(WorkspaceError::IsFolder { path: path.to_string() });
        };
        let held = self.require_room(bounds, Growth { files: 1, bytes: 1 })?;
        let folder = self.make_folder(&parent)?;
        let beside = format!("{HALF_WRITTEN_START}{mark}{HALF_WRITTEN_END}");
        let _ = unlinkat(&folder, &beside, AtFlags::empty());
        let failed = |error| path.failed(error);
        let file = File::from(openat(&folder, &beside, NEW, Mode::RUSR | Mode::WUSR).map_err(failed)?);
        let left = bounds.bytes.saturating_sub(held);
        let new = NewFile { folder, file, beside, path: path.clone(), left, bounds, is_finished: false };
        self.hand_over(&new.file).map_err(failed)?;
        // After the owner has changed, which takes permissions away.
        fchmod(&new.file, FILE_MODE).map_err(failed)?;
        Ok(new)
    }

    /// Whether there is such a file.
    ///
    /// # Errors
    /// Something else is there.
    pub(in crate::skills) fn has_file(&self, path: &RelativePath) -> Result<bool, WorkspaceError> {
        match self.kind(path) {
            Ok(EntryKind::File { .. }) => Ok(true),
            Ok(EntryKind::Folder) => Err(WorkspaceError::IsFolder { path: path.to_string() }),
            Ok(EntryKind::Link { .. }) => Err(WorkspaceError::Link { path: path.to_string() }),
            Ok(EntryKind::Other) => Err(WorkspaceError::Special { path: path.to_string() }),
            Err(WorkspaceError::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl NewFile {
    /// # Errors
    /// The workspace is full, or it cannot be written.
    pub(in crate::skills) fn append(&mut self, piece: &[u8]) -> Result<(), WorkspaceError> {
        let left = self.left.checked_sub(piece.len() as u64);
        self.left = left.ok_or(WorkspaceError::Full { limit_mb: self.bounds.bytes >> 20 })?;
        self.file.write_all(piece).map_err(|source| self.failed(source))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// It cannot be written, or somebody else has begun the same file meanwhile.
    pub(in crate::skills) fn finish(mut self) -> Result<(), WorkspaceError> {
        // The name must not outlive the content when the power goes.
        self.file.sync_data().map_err(|source| self.failed(source))?;
        if !self.is_there() {
            return Err(self.failed(std::io::Error::other("somebody else writes the same file")));
        }
        let name = self.path.split().map(|(_, name)| name.to_owned()).unwrap_or_default();
        let renamed = renameat(self.folder.as_fd(), &self.beside, self.folder.as_fd(), name);
        renamed.map_err(|error| self.path.failed(error))?;
        self.is_finished = true;
        Ok(())
    }

    /// Whether what stands under its present name is this file.
    fn is_there(&self) -> bool {
        let named = statat(&self.folder, &self.beside, AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(named), Ok(ours)) = (named, fstat(&self.file)) else { return false };
        (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)
    }

    fn failed(&self, source: std::io::Error) -> WorkspaceError {
        WorkspaceError::Io { path: self.path.to_string(), source }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_finished && self.is_there() {
            let _ = unlinkat(&self.folder, &self.beside, AtFlags::empty());
        }
    }
}
