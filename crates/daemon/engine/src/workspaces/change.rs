//! Making folders, giving another name, removing.

use std::ffi::CString;
use std::os::fd::AsFd;

use agentd_sandbox::folder::{Need, remove};
use rustix::fs::{AtFlags, FileType, RenameFlags, fsync, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::room::Growth;
use super::temporary::require_permanent_name;
use super::workspace::file_type;
use super::{Entry, RelativePath, Room, Workspace, WorkspaceError};

/// Of a folder that others fill while it is removed, no more is removed at a time.
const MOST_REMOVED: usize = 10_000_000;

impl Workspace {
    /// Makes a folder and those on the way; one that is there already is fine.
    ///
    /// # Errors
    /// Something on the way is no folder, or the workspace is full.
    pub fn create_folder(&self, path: &RelativePath, room: &Room) -> Result<Entry, WorkspaceError> {
        let files = self.missing_folders(path)?;
        self.require_room(room, Growth { files, bytes: 0 })?;
        let folder = self.make_folder(path, room)?;
        keep(&folder, path)?;
        // So that the names on the way survive as well.
        let mut parent = path.clone();
        for _ in 0..files {
            let Some((above, _)) = parent.split() else { break };
            keep(self.folder(&above)?, &above)?;
            parent = above;
        }
        self.entry(path)
    }

    /// Gives something another path; what is at that path already stays.
    ///
    /// # Errors
    /// It is not there, the folder that it is to be in is not there, or the new path is taken.
    pub fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<Entry, WorkspaceError> {
        let (Some((folder, name)), Some((new_folder, new_name))) = (from.split(), to.split()) else {
            return Err(WorkspaceError::BadPath { problem: "must name something in the workspace" });
        };
        require_permanent_name(new_name)?;
        let (parent, new_parent) =
            (self.folder_for(&folder, Need::Change)?, self.folder_for(&new_folder, Need::Change)?);
        let missing = |error| match error {
            Errno::NOENT => WorkspaceError::Missing { path: from.to_string() },
            Errno::EXIST | Errno::NOTEMPTY => WorkspaceError::Taken { path: to.to_string() },
            Errno::INVAL => WorkspaceError::BadPath { problem: "must not lie in the folder that is moved" },
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
            // Not every file system can; then what is there is looked at before.
            Err(Errno::INVAL | Errno::NOSYS) => match statat(&new_parent, new_name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => renameat(&parent, name, &new_parent, new_name),
                Err(error) => Err(error),
            },
            outcome => outcome,
        };
        moved.map_err(missing)?;
        keep(new_parent, to)?;
        keep(parent, from)?;
        self.entry(to)
    }

    /// Removes what a path stands for, links and devices included; a folder only if it is empty, or with what is in it.
    ///
    /// # Errors
    /// It is not there, or it is a folder that is not empty.
    pub fn remove(&self, path: &RelativePath, recursive: bool, room: &Room) -> Result<(), WorkspaceError> {
        let Some((folder, name)) = path.split() else {
            return Err(WorkspaceError::BadPath { problem: "must name something in the workspace" });
        };
        let parent = self.folder_for(&folder, Need::Change)?;
        let failed = |error| match error {
            Errno::NOENT => WorkspaceError::Missing { path: path.to_string() },
            Errno::NOTEMPTY | Errno::EXIST => WorkspaceError::NotEmpty { path: path.to_string() },
            error => path.failed(error),
        };
        let found = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        let is_folder = file_type(&found) == FileType::Directory;
        if is_folder && recursive {
            let c_name = CString::new(name).map_err(|_| failed(Errno::INVAL))?;
            let removed = remove(&parent, &c_name, &mut { MOST_REMOVED });
            // Also of a folder that is gone in part.
            room.shrank(&self.place.path);
            let is_gone = removed.map_err(|source| WorkspaceError::Io { path: path.to_string(), source })?;
            if !is_gone {
                return Err(failed(Errno::NOTEMPTY));
            }
        } else {
            let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            unlinkat(&parent, name, flags).map_err(failed)?;
            room.shrank(&self.place.path);
        }
        keep(parent, path)
    }
}

/// What was changed in a folder is there after a power cut, too.
pub(super) fn keep(folder: impl AsFd, path: &RelativePath) -> Result<(), WorkspaceError> {
    match fsync(folder) {
        // Not every file system knows it of folders.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(path.failed(error)),
    }
}
