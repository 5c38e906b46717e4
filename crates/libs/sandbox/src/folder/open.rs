//! Opening what may have been closed to its owner.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, chmod, fchmod, fstat, open, openat};
use rustix::io::Errno;
use rustix::path::Arg;

/// Opens a folder and nothing else, without following anything.
pub const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A pipe that takes the place of a file must not make anybody wait, nor a terminal become ours.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// What is to be done in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Names are read and opened.
    Look,
    /// Names are made and removed.
    Change,
}

impl Need {
    fn mode(self) -> Mode {
        match self {
            Self::Look => Mode::RUSR | Mode::XUSR,
            Self::Change => Mode::RWXU,
        }
    }
}

/// Opens a folder for what its owner may do there if he lets himself.
///
/// # Errors
/// It is not there, is no folder, or belongs to somebody else.
pub fn open_folder<N: Arg + Copy>(parent: impl AsFd, name: N, need: Need) -> Result<OwnedFd, Errno> {
    let folder = match openat(&parent, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) => reopen(&parent, name, FileType::Directory, FOLDER, Mode::RWXU)?,
        outcome => outcome?,
    };
    let mode = Mode::from_raw_mode(fstat(&folder)?.st_mode & 0o7777);
    if !mode.contains(need.mode()) {
        // Who may in spite of the mode, as root does, is not held up by a refusal here.
        let _ = fchmod(&folder, mode | Mode::RWXU);
    }
    Ok(folder)
}

/// Opens a file for reading, also one that its owner closed.
///
/// # Errors
/// It is not there, cannot be opened without following or waiting, or belongs to somebody else.
pub fn open_file<N: Arg + Copy>(parent: impl AsFd, name: N) -> Result<OwnedFd, Errno> {
    match openat(&parent, name, FILE, Mode::empty()) {
        Err(Errno::ACCESS) => reopen(&parent, name, FileType::RegularFile, FILE, FILE_MODE),
        outcome => outcome,
    }
}

/// Takes hold of the thing itself, whatever its mode; what is opened by that handle is what was looked at.
fn reopen<N: Arg>(parent: impl AsFd, name: N, kind: FileType, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let held = openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&held)?.st_mode;
    if FileType::from_raw_mode(found) != kind {
        return Err(Errno::ACCESS);
    }
    // Such a handle takes no `fchmod`; its name under /proc stands for the same thing.
    let by_handle = format!("/proc/self/fd/{}", held.as_raw_fd());
    chmod(&by_handle, Mode::from_raw_mode(found & 0o7777) | mode).map_err(|_| Errno::ACCESS)?;
    open(&by_handle, flags.difference(OFlags::NOFOLLOW), Mode::empty())
}
