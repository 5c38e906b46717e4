//! The handle of a workspace, and walking to what lies in it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use agentd_sandbox::folder::{Need, open_folder};
use rustix::fs::{AtFlags, CWD, FileType, Stat, fstat, statat};
use rustix::io::Errno;

use super::{RelativePath, WorkspaceError};

/// The folder of a workspace; another may take its place under the same path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) identity: (u64, u64),
}

/// The handle of an agent's folder.
#[derive(Debug)]
pub struct Workspace {
    /// By which the count of what it holds is found.
    pub(super) place: Place,
    pub(super) root: OwnedFd,
    /// Of the folder itself: who owns what is made in it.
    owner: (u32, u32),
}

impl Workspace {
    /// # Errors
    /// The folder is not there, or is none.
    pub fn open(folder: &Path) -> Result<Self, WorkspaceError> {
        let failed = |source: Errno| WorkspaceError::Io { path: ".".to_owned(), source: source.into() };
        // Code that works here needs all of it, too.
        let root = open_folder(CWD, folder, Need::Change).map_err(failed)?;
        let stat = fstat(&root).map_err(failed)?;
        Ok(Self {
            place: Place { path: folder.to_path_buf(), identity: (stat.st_dev, stat.st_ino) },
            root,
            owner: (stat.st_uid, stat.st_gid),
        })
    }

    /// The handle of a folder below, or of the workspace itself.
    pub(super) fn folder(&self, path: &RelativePath) -> Result<OwnedFd, WorkspaceError> {
        self.folder_for(path, Need::Look)
    }

    pub(super) fn folder_for(&self, path: &RelativePath, need: Need) -> Result<OwnedFd, WorkspaceError> {
        let mut folder = rustix::io::fcntl_dupfd_cloexec(&self.root, 0).map_err(|e| path.failed(e))?;
        for (depth, name) in path.names().enumerate() {
            folder = match open_folder(&folder, name, need) {
                Ok(next) => next,
                Err(Errno::NOENT) => return Err(WorkspaceError::Missing { path: path.up_to(depth) }),
                // Which of the two it says for a link depends on the file system.
                Err(Errno::NOTDIR | Errno::LOOP) => return Err(self.no_folder(&folder, path, depth, name)),
                Err(error) => return Err(path.failed(error)),
            };
        }
        Ok(folder)
    }

    /// How many folders of this path are still to be made.
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

    /// Why what `name` stands for is no folder.
    pub(super) fn no_folder(&self, parent: impl AsFd, path: &RelativePath, depth: usize, name: &str) -> WorkspaceError {
        let shown = path.up_to(depth);
        match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if file_type(&stat) == FileType::Symlink => WorkspaceError::Link { path: shown },
            _ => WorkspaceError::NoFolder { path: shown },
        }
    }

    /// Hands what is new to the owner of the workspace. Only a daemon that runs as root can and
    /// must.
    pub(super) fn hand_over(&self, new: impl AsFd) -> Result<(), Errno> {
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

/// A regular file with one name, or why it is not.
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
