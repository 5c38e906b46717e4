//! Opening of files and folders whose modes may exclude their owner.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, chmod, fchmod, fstat, open, openat};
use rustix::io::Errno;
use rustix::path::Arg;

/// Flags for opening a folder without following links.
pub const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags for opening a file: a pipe in its place must not block, and a terminal must not become the controlling one.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Purpose for which a folder is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderAccess {
    /// Reading and opening names.
    Read,
    /// Creating and removing names.
    Modify,
}

impl FolderAccess {
    fn mode(self) -> Mode {
        match self {
            Self::Read => Mode::RUSR | Mode::XUSR,
            Self::Modify => Mode::RWXU,
        }
    }
}

/// Opens a folder, extending the owner's mode if necessary.
///
/// # Errors
/// Returns an error if it does not exist, is not a folder, or belongs to another user.
pub fn open_folder<N: Arg + Copy>(parent: impl AsFd, name: N, need: FolderAccess) -> Result<OwnedFd, Errno> {
    let folder = match openat(&parent, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => reopen(&parent, name, FileType::Directory, FOLDER, Mode::RWXU)?,
        outcome => outcome?,
    };
    let mode = Mode::from_raw_mode(fstat(&folder)?.st_mode & 0o7777);
    if !mode.contains(need.mode()) {
        // A process that may act despite the mode, like root, is not stopped by a failure here.
        let _ = fchmod(&folder, mode | Mode::RWXU);
    }
    Ok(folder)
}

/// Opens a file for reading, even if its mode excludes its owner.
///
/// # Errors
/// Returns an error if it does not exist, cannot be opened without following links or blocking, or belongs to another
/// user.
pub fn open_file<N: Arg + Copy>(parent: impl AsFd, name: N) -> Result<OwnedFd, Errno> {
    match openat(&parent, name, FILE, Mode::empty()) {
        Err(Errno::ACCESS) => reopen(&parent, name, FileType::RegularFile, FILE, FILE_MODE),
        outcome => outcome,
    }
}

/// Opens a handle to the object regardless of its mode, and reopens it by that handle, so that the checked object is
/// the opened one.
fn reopen<N: Arg>(parent: impl AsFd, name: N, kind: FileType, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let handle = openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&handle)?.st_mode;
    if FileType::from_raw_mode(found) != kind {
        return Err(Errno::ACCESS);
    }
    // Such a handle does not support `fchmod`; its name under /proc refers to the same object.
    let by_handle = format!("/proc/self/fd/{}", handle.as_raw_fd());
    chmod(&by_handle, Mode::from_raw_mode(found & 0o7777) | mode).map_err(|_| Errno::ACCESS)?;
    open(&by_handle, flags.difference(OFlags::NOFOLLOW), Mode::empty())
}
