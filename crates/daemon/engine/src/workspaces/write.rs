//! Atomic writes of files.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use agentd_sandbox::folder::{FolderAccess, open_folder};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::quota::Growth;
use super::temporary::{lock_temporary, require_permanent_name, temporary_name};
use super::workspace::require_plain;
use super::{EntryKind, RelativePath, Workspace, WorkspaceError, WorkspaceQuota};

const FOLDER_MODE: Mode = Mode::RWXU.union(Mode::RGRP).union(Mode::XGRP).union(Mode::ROTH).union(Mode::XOTH);
pub(super) const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);
pub(super) const NEW: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Whether the file did not exist before.
    pub is_new: bool,
}

impl Workspace {
    /// Writes a file atomically. Missing parents are created; permissions of an existing file are kept. `mark` makes
    /// the temporary name unique: it must be new for each write.
    ///
    /// # Errors
    /// The existing entry is not a regular file with one name, the write failed, or the workspace is full.
    pub fn write(
        &self,
        path: &RelativePath,
        content: &[u8],
        mark: &str,
        quota: &WorkspaceQuota,
    ) -> Result<Written, WorkspaceError> {
        let Some((folder, name)) = path.split() else {
            return Err(WorkspaceError::IsFolder { path: path.to_string() });
        };
        require_permanent_name(name)?;
        let length = i64::try_from(content.len()).unwrap_or(i64::MAX);
        let found = match self.folder(&folder) {
            Ok(folder) => match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    require_plain(&stat, path)?;
                    Some(stat)
                }
                Err(Errno::NOENT) => None,
                Err(error) => return Err(path.failed(error)),
            },
            Err(WorkspaceError::Missing { .. }) => None,
            Err(error) => return Err(error),
        };
        let before = found.map(|stat| Mode::from_raw_mode(stat.st_mode & 0o777));
        let growth = Growth {
            files: u64::from(found.is_none()),
            bytes: found.map_or(length, |stat| length.saturating_sub(stat.st_size)),
        };
        self.require_capacity(quota, Growth { files: growth.files + self.missing_folders(&folder)?, ..growth })?;
        let folder = self.make_folder(&folder, quota)?;
        let temporary = temporary_name(mark);
        let written = self.write_temporary(&folder, &temporary, content, before.unwrap_or(FILE_MODE));
        let renamed = written.and_then(|()| Ok(renameat(&folder, &temporary, &folder, name)?));
        if let Err(source) = renamed {
            let _ = unlinkat(&folder, &temporary, AtFlags::empty());
            return Err(WorkspaceError::Io { path: path.to_string(), source });
        }
        quota.record_growth(&self.folder_id.path, growth);
        Ok(Written { is_new: before.is_none() })
    }

    fn write_temporary(&self, folder: impl AsFd, name: &str, content: &[u8], mode: Mode) -> std::io::Result<()> {
        let file = openat(folder, name, NEW, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        lock_temporary(&file);
        file.write_all(content)?;
        self.chown_to_owner(&file)?;
        // After the change of the owner, which clears permission bits.
        rustix::fs::fchmod(&file, mode)?;
        // The content must be durable before the name.
        file.sync_data()
    }

    /// Opens a folder; creates it and its parents if missing.
    ///
    /// # Errors
    /// A parent is not a folder, or the folder cannot be created.
    pub(super) fn make_folder(&self, path: &RelativePath, quota: &WorkspaceQuota) -> Result<OwnedFd, WorkspaceError> {
        let mut folder = rustix::io::fcntl_dupfd_cloexec(&self.root, 0).map_err(|e| path.failed(e))?;
        for (depth, name) in path.names().enumerate() {
            let is_new = match mkdirat(&folder, name, FOLDER_MODE) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => return Err(path.failed(error)),
            };
            folder = match open_folder(&folder, name, FolderAccess::Modify) {
                Ok(next) => next,
                Err(Errno::NOTDIR | Errno::LOOP) => return Err(self.no_folder(&folder, path, depth, name)),
                Err(error) => return Err(path.failed(error)),
            };
            if is_new {
                quota.record_growth(&self.folder_id.path, Growth { files: 1, bytes: 1 });
                self.chown_to_owner(&folder).map_err(|e| path.failed(e))?;
            }
        }
        Ok(folder)
    }

    /// Removes files of one folder, in the order of their names, until at most `keep` files with at most `keep_bytes`
    /// remain. Entries that are not regular files stay.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn prune(
        &self,
        folder: &RelativePath,
        keep: usize,
        keep_bytes: u64,
        quota: &WorkspaceQuota,
    ) -> Result<(), WorkspaceError> {
        let handle = self.folder(folder)?;
        let files = self.list(folder)?.entries.into_iter().filter_map(|entry| match entry.kind {
            EntryKind::File { bytes, .. } => Some((entry.path, bytes)),
            _ => None,
        });
        let files: Vec<(RelativePath, u64)> = files.collect();
        let mut bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        let mut count = files.len();
        for (path, size) in files {
            if count <= keep && bytes <= keep_bytes {
                break;
            }
            if let Some((_, name)) = path.split() {
                // The file may be gone already; a folder in its place is not removed.
                let _ = unlinkat(&handle, name, AtFlags::empty());
                quota.invalidate(&self.folder_id.path);
            }
            count -= 1;
            bytes = bytes.saturating_sub(size);
        }
        Ok(())
    }
}
