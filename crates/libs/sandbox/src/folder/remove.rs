//! Removing a folder, whatever was done to it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags, openat, unlinkat};
use rustix::io::Errno;

use super::descent::{Descent, names};
use super::open::{Need, open_file, open_folder};

/// Removes what `name` stands for, a folder from its leaves up, until about `left` names are gone.
/// Links are removed, not followed. Answers whether all of it is gone.
///
/// # Errors
/// Something belongs to somebody else, or the disk fails.
pub fn remove(parent: impl AsFd, name: &CStr, left: &mut usize) -> io::Result<bool> {
    let start = match open_folder(&parent, name, Need::Change) {
        Ok(start) => start,
        Err(Errno::NOENT) => return Ok(true),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            unlink(&parent, name, AtFlags::empty())?;
            return Ok(true);
        }
        Err(error) => return Err(error.into()),
    };
    let mut descent = Descent::new(start, Need::Change);
    while *left > 0 {
        match remove_files(descent.current(), left)? {
            Cleared::Partly => return Ok(false),
            Cleared::To(folder) => match open_folder(descent.current(), folder.as_c_str(), Need::Change) {
                Ok(inner) => descent.enter(folder, inner)?,
                // Something else by now: looked at again.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => *left -= 1,
                Err(error) => return Err(error.into()),
            },
            Cleared::Wholly if descent.is_at_start() => {
                unlink(&parent, name, AtFlags::REMOVEDIR)?;
                return Ok(true);
            }
            Cleared::Wholly => {
                let folder = descent.leave()?;
                *left -= 1;
                match unlink(descent.current(), &folder, AtFlags::REMOVEDIR) {
                    // Somebody still writes there, or was quicker.
                    Ok(()) | Err(Errno::NOTEMPTY | Errno::NOENT) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    Ok(false)
}

/// The same for a path of which all but the last name is trusted, and to its end.
///
/// # Errors
/// As [`remove`].
pub fn remove_path(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let name = CString::new(name.as_bytes())?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = match openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        parent => parent?,
    };
    let mut left = usize::MAX;
    while !remove(&parent, &name, &mut left)? {}
    Ok(())
}

enum Cleared {
    /// It is empty.
    Wholly,
    /// Down to a folder in it.
    To(CString),
    /// There was no more to be done at a time.
    Partly,
}

fn remove_files(folder: &OwnedFd, left: &mut usize) -> Result<Cleared, Errno> {
    for entry in names(folder)? {
        let (name, kind) = entry?;
        if *left == 0 {
            return Ok(Cleared::Partly);
        }
        if kind == FileType::Directory {
            return Ok(Cleared::To(name));
        }
        match unlink(folder, &name, AtFlags::empty()) {
            // Not every file system says what it is before.
            Err(Errno::ISDIR) => return Ok(Cleared::To(name)),
            Err(Errno::NOENT) => {}
            outcome => outcome?,
        }
        *left -= 1;
    }
    Ok(Cleared::Wholly)
}

/// Also of what was made immutable, where this process may undo that.
fn unlink(folder: impl AsFd, name: &CStr, flags: AtFlags) -> Result<(), Errno> {
    match unlinkat(&folder, name, flags) {
        Err(Errno::PERM) => {}
        outcome => return outcome,
    }
    let _ = make_mutable(folder.as_fd());
    let entry = if flags.contains(AtFlags::REMOVEDIR) {
        open_folder(&folder, name, Need::Look)
    } else {
        open_file(&folder, name)
    };
    if let Ok(entry) = entry {
        let _ = make_mutable(entry);
    }
    unlinkat(folder, name, flags)
}

fn make_mutable(held: impl AsFd) -> Result<(), Errno> {
    let locks = IFlags::IMMUTABLE | IFlags::APPEND;
    let flags = ioctl_getflags(&held)?;
    if flags.intersects(locks) { ioctl_setflags(held, flags.difference(locks)) } else { Ok(()) }
}
