//! Down into folders and up again, with one handle.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Dir, FileType, fstat};
use rustix::io::Errno;

use super::open::{Need, open_folder};

/// What tells a folder from any other.
type Identity = (u64, u64);

/// Where a walk stands.
#[derive(Debug)]
pub(super) struct Descent {
    current: OwnedFd,
    /// The folders above, up to where the walk began, each with the name that was gone into.
    above: Vec<(Identity, CString)>,
    need: Need,
}

impl Descent {
    pub(super) fn new(start: OwnedFd, need: Need) -> Self {
        Self { current: start, above: Vec::new(), need }
    }

    pub(super) fn current(&self) -> &OwnedFd {
        &self.current
    }

    pub(super) fn is_at_start(&self) -> bool {
        self.above.is_empty()
    }

    /// Goes into a folder that `open` opened.
    pub(super) fn enter(&mut self, name: CString, inner: OwnedFd) -> Result<(), Errno> {
        self.above.push((identity(&self.current)?, name));
        self.current = inner;
        Ok(())
    }

    /// Goes up by one; answers the name of the folder that was left. Fails where that was moved
    /// elsewhere meanwhile: what is above it now is none of ours.
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

/// The names in a folder but its own and its parent's, as they are read.
pub(super) fn names(folder: &OwnedFd) -> Result<impl Iterator<Item = Result<(CString, FileType), Errno>>, Errno> {
    let is_own = |name: &CStr| name == c"." || name == c"..";
    let entries = Dir::read_from(folder)?.filter_map(move |entry| match entry {
        Ok(entry) if is_own(entry.file_name()) => None,
        Ok(entry) => Some(Ok((entry.file_name().to_owned(), entry.file_type()))),
        Err(error) => Some(Err(error)),
    });
    Ok(entries)
}
