//! Traversal into folders and back up with a single handle.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Dir, FileType, fstat};
use rustix::io::Errno;

use super::open::{FolderAccess, open_folder};

/// Device and inode number of a folder.
type Identity = (u64, u64);

/// Current position of a traversal.
#[derive(Debug)]
pub(super) struct Descent {
    current: OwnedFd,
    /// Parent folders up to the start, each with the name that was entered.
    above: Vec<(Identity, CString)>,
    need: FolderAccess,
}

impl Descent {
    pub(super) fn new(start: OwnedFd, need: FolderAccess) -> Self {
        Self { current: start, above: Vec::new(), need }
    }

    pub(super) fn current(&self) -> &OwnedFd {
        &self.current
    }

    pub(super) fn is_at_start(&self) -> bool {
        self.above.is_empty()
    }

    /// Enters a folder that the caller opened.
    pub(super) fn enter(&mut self, name: CString, inner: OwnedFd) -> Result<(), Errno> {
        self.above.push((identity(&self.current)?, name));
        self.current = inner;
        Ok(())
    }

    /// Goes up one level and returns the name of the folder that was left. Fails if that folder was moved meanwhile,
    /// since its parent is now another folder.
    pub(super) fn leave(&mut self) -> Result<CString, Errno> {
        let (expected, name) = self.above.pop().ok_or(Errno::NOENT)?;
        let parent = open_folder(&self.current, c"..", self.need)?;
        if identity(&parent)? != expected {
            return Err(Errno::STALE);
        }
        self.current = parent;
        Ok(name)
    }
}

fn identity(folder: impl AsFd) -> Result<Identity, Errno> {
    let stat = fstat(folder)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Returns the names in a folder, except for its own and its parent's.
pub(super) fn names(folder: &OwnedFd) -> Result<impl Iterator<Item = Result<(CString, FileType), Errno>>, Errno> {
    let is_own = |name: &CStr| name == c"." || name == c"..";
    let entries = Dir::read_from(folder)?.filter_map(move |entry| match entry {
        Ok(entry) if is_own(entry.file_name()) => None,
        Ok(entry) => Some(Ok((entry.file_name().to_owned(), entry.file_type()))),
        Err(error) => Some(Err(error)),
    });
    Ok(entries)
}
