//! The folders that agents work in. A [`Workspace`] is reached through an open handle: nothing that is named here lies
//! outside it. [`WorkspaceFolders`] makes and removes the folders.
//!
//! Invariants
//! - A path is walked one name at a time, each opened relative to the handle of the folder before
//!   it and never through a symbolic link. So what is opened is what was checked, whatever is
//!   renamed, swapped or linked meanwhile, on every kernel alike. (`openat2` with `RESOLVE_BENEATH`
//!   would follow links that stay inside; two behaviours, one of them for old kernels, are not worth
//!   that.)
//! - Only regular files with one name are read or replaced: a second hard link may lie outside,
//!   devices and pipes do things when they are opened.
//! - A file is replaced whole or not at all: it is written beside, then renamed.
//! - Code may have closed a folder or file to its owner; the daemon opens it again.
//! - What is written does not make the workspace hold more than it may, nor fill the disk.
//! - What is made belongs to who owns the workspace, so that code in the sandbox, which may run as
//!   that user, can use it too.
//!
//! Deliberately absent: what a model is told about files (`builtin`), and waiting: everything here
//! blocks and runs on a thread that may.

mod change;
mod error;
mod folders;
mod foreign;
mod path;
mod read;
mod room;
mod stream;
mod sweep;
mod version;
mod walk;
mod write;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use agentd_sandbox::folder::{Need, open_folder};
use rustix::fs::{AtFlags, CWD, FileType, Stat, fstat, statat};
use rustix::io::Errno;

pub use error::WorkspaceError;
pub(crate) use folders::{NamesLock, WorkspaceFolders, is_workspace_name};
pub use foreign::{ATTACHMENTS, DOWNLOADS, UntrustedSource};
pub(crate) use foreign::{UNTRUSTED_RESULTS, record_folders, record_path};
pub use path::RelativePath;
pub use read::OpenFile;
pub use room::{Held, Room, Usage};
pub use stream::NewFile;
pub(crate) use sweep::sweep;
pub use version::{Expected, Version};
pub(crate) use walk::Listing;
pub use walk::{Entry, EntryKind};

use room::{BLOCK, Growth, Place};

/// The handle of an agent's folder.
#[derive(Debug)]
pub struct Workspace {
    /// By which the count of what it holds is found.
    place: Place,
    root: OwnedFd,
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
    fn folder(&self, path: &RelativePath) -> Result<OwnedFd, WorkspaceError> {
        self.folder_for(path, Need::Look)
    }

    fn folder_for(&self, path: &RelativePath, need: Need) -> Result<OwnedFd, WorkspaceError> {
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

    /// Why what `name` stands for is no folder.
    fn no_folder(&self, parent: impl AsFd, path: &RelativePath, depth: usize, name: &str) -> WorkspaceError {
        let shown = path.up_to(depth);
        match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if file_type(&stat) == FileType::Symlink => WorkspaceError::Link { path: shown },
            _ => WorkspaceError::NoFolder { path: shown },
        }
    }

    /// Hands what is new to the owner of the workspace. Only a daemon that runs as root can and
    /// must.
    fn hand_over(&self, new: impl AsFd) -> Result<(), Errno> {
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

fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// A regular file with one name, or why it is not.
fn require_plain(stat: &Stat, path: &RelativePath) -> Result<(), WorkspaceError> {
    let path = || path.to_string();
    match file_type(stat) {
        FileType::RegularFile if stat.st_nlink > 1 => Err(WorkspaceError::ManyNames { path: path() }),
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(WorkspaceError::IsFolder { path: path() }),
        FileType::Symlink => Err(WorkspaceError::Link { path: path() }),
        _ => Err(WorkspaceError::Special { path: path() }),
    }
}
