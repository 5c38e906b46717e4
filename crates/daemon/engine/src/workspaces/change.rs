//! Creates folders, renames and removes entries.

use std::ffi::CString;
use std::os::fd::AsFd;

use agentd_sandbox::folder::{FolderAccess, remove};
use rustix::fs::{AtFlags, FileType, RenameFlags, fsync, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::quota::Growth;
use super::temporary::require_permanent_name;
use super::workspace::file_type;
use super::{Entry, RelativePath, Workspace, WorkspaceError, WorkspaceQuota};

/// Maximum number of entries removed in one operation, in case others fill the folder concurrently.
const MAX_REMOVED_ENTRIES: usize = 10_000_000;

impl Workspace {
    /// Creates a folder and its parents; an existing one is not an error.
    ///
    /// # Errors
    /// A parent is not a folder, or the workspace is full.
    pub fn create_folder(&self, path: &RelativePath, quota: &WorkspaceQuota) -> Result<Entry, WorkspaceError> {
        let files = self.missing_folders(path)?;
        self.require_capacity(quota, Growth { files, bytes: 0 })?;
        let folder = self.make_folder(path, quota)?;
        sync_folder(&folder, path)?;
        // Makes the names of the parents durable as well.
        let mut parent = path.clone();
        for _ in 0..files {
            let Some((above, _)) = parent.split() else { break };
            sync_folder(self.folder(&above)?, &above)?;
            parent = above;
        }
        self.entry(path)
    }

    /// Moves an entry to another path; an existing entry there is not replaced.
    ///
    /// # Errors
    /// The entry or the target folder does not exist, or the new path is taken.
    pub fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<Entry, WorkspaceError> {
        let (Some((folder, name)), Some((new_folder, new_name))) = (from.split(), to.split()) else {
            return Err(WorkspaceError::BadPath { problem: "must not be the workspace itself" });
        };
        require_permanent_name(new_name)?;
        let (parent, new_parent) =
            (self.folder_for(&folder, FolderAccess::Modify)?, self.folder_for(&new_folder, FolderAccess::Modify)?);
        let missing = |error| match error {
            Errno::NOENT => WorkspaceError::Missing { path: from.to_string() },
            Errno::EXIST | Errno::NOTEMPTY => WorkspaceError::Taken { path: to.to_string() },
            Errno::INVAL => WorkspaceError::BadPath { problem: "must not be inside the folder to move" },
            error => from.failed(error),
        };
        let found = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(missing)?;
        if !matches!(file_type(&found), FileType::RegularFile | FileType::Directory | FileType::Symlink) {
            return Err(WorkspaceError::Special { path: from.to_string() });
        }
        if to.starts_with(from) {
            return Err(if to == from {
                WorkspaceError::Taken { path: to.to_string() }
            } else {
                missing(Errno::INVAL)
            });
        }
        let moved = match renameat_with(&parent, name, &new_parent, new_name, RenameFlags::NOREPLACE) {
            // Not supported by every file system; the target is then checked beforehand.
            Err(Errno::INVAL | Errno::NOSYS) => match statat(&new_parent, new_name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => renameat(&parent, name, &new_parent, new_name),
                Err(error) => Err(error),
            },
            outcome => outcome,
        };
        moved.map_err(missing)?;
        sync_folder(new_parent, to)?;
        sync_folder(parent, from)?;
        self.entry(to)
    }

    /// Removes an entry, including links and devices. A folder that is not empty is only removed with `recursive`.
    ///
    /// # Errors
    /// The entry does not exist, or is a folder that is not empty.
    pub fn remove(&self, path: &RelativePath, recursive: bool, quota: &WorkspaceQuota) -> Result<(), WorkspaceError> {
        let Some((folder, name)) = path.split() else {
            return Err(WorkspaceError::BadPath { problem: "must not be the workspace itself" });
        };
        let parent = self.folder_for(&folder, FolderAccess::Modify)?;
        let failed = |error| match error {
            Errno::NOENT => WorkspaceError::Missing { path: path.to_string() },
            Errno::NOTEMPTY | Errno::EXIST => WorkspaceError::NotEmpty { path: path.to_string() },
            error => path.failed(error),
        };
        let found = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let is_folder = file_type(&found) == FileType::Directory;
        if is_folder && recursive {
            let c_name = CString::new(name).map_err(|_| failed(Errno::INVAL))?;
            let removed = remove(&parent, &c_name, &mut { MAX_REMOVED_ENTRIES });
            // Also after a partial removal.
            quota.invalidate(&self.folder_id.path);
            let is_removed = removed.map_err(|source| WorkspaceError::Io { path: path.to_string(), source })?;
            if !is_removed {
                return Err(failed(Errno::NOTEMPTY));
            }
        } else {
            let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            unlinkat(&parent, name, flags).map_err(failed)?;
            quota.invalidate(&self.folder_id.path);
        }
        sync_folder(parent, path)
    }
}

/// Makes changes to a folder durable.
pub(super) fn sync_folder(folder: impl AsFd, path: &RelativePath) -> Result<(), WorkspaceError> {
    match fsync(folder) {
        // Not every file system supports it for folders.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(path.failed(error)),
    }
}
