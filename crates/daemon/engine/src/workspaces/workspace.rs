//! Handle of a workspace, and resolution of paths in it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use agentd_sandbox::folder::{FolderAccess, open_folder};
use rustix::fs::{AtFlags, CWD, FileType, Stat, fstat, statat};
use rustix::io::Errno;

use super::{RelativePath, WorkspaceError};

/// Identity of a workspace folder; another may replace it under the same path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FolderId {
    pub(super) path: PathBuf,
    pub(super) identity: (u64, u64),
}

/// Handle of an agent's folder.
#[derive(Debug)]
pub struct Workspace {
    /// Key of the cached size.
    pub(super) folder_id: FolderId,
    pub(super) root: OwnedFd,
    /// Owner of the folder, and thus of new entries.
    owner: (u32, u32),
}

impl Workspace {
    /// Opens the workspace in a folder.
    ///
    /// # Errors
    /// The folder does not exist or is not a folder.
    pub fn open(folder: &Path) -> Result<Self, WorkspaceError> {
        let failed = |source: Errno| WorkspaceError::Io { path: ".".to_owned(), source: source.into() };
        // Code that runs here needs full access as well.
        let root = open_folder(CWD, folder, FolderAccess::Modify).map_err(failed)?;
        let stat = fstat(&root).map_err(failed)?;
        Ok(Self {
            folder_id: FolderId { path: folder.to_path_buf(), identity: (stat.st_dev, stat.st_ino) },
            root,
            owner: (stat.st_uid, stat.st_gid),
        })
    }

    /// Opens a folder below, or the workspace itself.
    pub(super) fn folder(&self, path: &RelativePath) -> Result<OwnedFd, WorkspaceError> {
        self.folder_for(path, FolderAccess::Read)
    }

    pub(super) fn folder_for(&self, path: &RelativePath, need: FolderAccess) -> Result<OwnedFd, WorkspaceError> {
        let mut folder = rustix::io::fcntl_dupfd_cloexec(&self.root, 0).map_err(|e| path.failed(e))?;
        for (depth, name) in path.names().enumerate() {
            folder = match open_folder(&folder, name, need) {
                Ok(next) => next,
                Err(Errno::NOENT) => return Err(WorkspaceError::Missing { path: path.up_to(depth) }),
                // The error for a link depends on the file system.
                Err(Errno::NOTDIR | Errno::LOOP) => return Err(self.no_folder(&folder, path, depth, name)),
                Err(error) => return Err(path.failed(error)),
            };
        }
        Ok(folder)
    }

    /// Returns the number of folders of this path that do not exist.
    pub(super) fn missing_folders(&self, path: &RelativePath) -> Result<u64, WorkspaceError> {
        let (mut missing, mut path) = (0, path.clone());
        loop {
            match self.folder(&path) {
                Ok(_) => return Ok(missing),
                Err(WorkspaceError::Missing { .. }) => missing += 1,
                Err(error) => return Err(error),
            }
            let Some((above, _)) = path.split() else { return Ok(missing) };
            path = above;
        }
    }

    /// Returns the reason why `name` is not a folder.
    pub(super) fn no_folder(&self, parent: impl AsFd, path: &RelativePath, depth: usize, name: &str) -> WorkspaceError {
        let shown = path.up_to(depth);
        match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if file_type(&stat) == FileType::Symlink => WorkspaceError::Link { path: shown },
            _ => WorkspaceError::NoFolder { path: shown },
        }
    }

    /// Changes the owner of a new entry to the owner of the workspace. Only a daemon that runs as root can and must do
    /// this.
    pub(super) fn chown_to_owner(&self, new: impl AsFd) -> Result<(), Errno> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let stat = fstat(&new)?;
        if (stat.st_uid, stat.st_gid) == self.owner {
            return Ok(());
        }
        let (user, group) = (rustix::fs::Uid::from_raw(self.owner.0), rustix::fs::Gid::from_raw(self.owner.1));
        rustix::fs::fchown(new, Some(user), Some(group))
    }
}

pub(super) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Verifies that an entry is a regular file with one name.
pub(super) fn require_plain(stat: &Stat, path: &RelativePath) -> Result<(), WorkspaceError> {
    let path = || path.to_string();
    match file_type(stat) {
        FileType::RegularFile if stat.st_nlink > 1 => Err(WorkspaceError::ManyNames { path: path() }),
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(WorkspaceError::IsFolder { path: path() }),
        FileType::Symlink => Err(WorkspaceError::Link { path: path() }),
        _ => Err(WorkspaceError::Special { path: path() }),
    }
}
