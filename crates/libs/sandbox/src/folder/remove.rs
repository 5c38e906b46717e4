//! Robust removal of a folder.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags, openat, unlinkat};
use rustix::io::Errno;

use super::descent::{Descent, names};
use super::open::{FolderAccess, open_file, open_folder};

/// Removes `name`, a folder from its leaves up, until about `left` names are removed. Links are removed, not followed.
/// Returns whether everything was removed.
///
/// # Errors
/// Returns an error if something belongs to another user, or the disk fails.
pub fn remove(parent: impl AsFd, name: &CStr, left: &mut usize) -> io::Result<bool> {
    let start = match open_folder(&parent, name, FolderAccess::Modify) {
        Ok(start) => start,
        Err(Errno::NOENT) => return Ok(true),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            unlink(&parent, name, AtFlags::empty())?;
            return Ok(true);
        }
        Err(error) => return Err(error.into()),
    };
    let mut descent = Descent::new(start, FolderAccess::Modify);
    while *left > 0 {
        match remove_files(descent.current(), left)? {
            Cleared::Partly => return Ok(false),
            Cleared::To(folder) => match open_folder(descent.current(), folder.as_c_str(), FolderAccess::Modify) {
                Ok(inner) => descent.enter(folder, inner)?,
                // Replaced meanwhile: inspected again.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => *left -= 1,
                Err(error) => return Err(error.into()),
            },
            Cleared::Completely if descent.is_at_start() => {
                unlink(&parent, name, AtFlags::REMOVEDIR)?;
                return Ok(true);
            }
            Cleared::Completely => {
                let folder = descent.leave()?;
                *left -= 1;
                match unlink(descent.current(), &folder, AtFlags::REMOVEDIR) {
                    // Another process still writes there, or has already removed it.
                    Ok(()) | Err(Errno::NOTEMPTY | Errno::NOENT) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
    Ok(false)
}

/// Removes a path completely. All but its last component must be trusted.
///
/// # Errors
/// Same as [`remove`].
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
    /// The folder is empty.
    Completely,
    /// A subfolder must be removed first.
    To(CString),
    /// The batch limit was reached.
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
            // Not every file system reports the type beforehand.
            Err(Errno::ISDIR) => return Ok(Cleared::To(name)),
            Err(Errno::NOENT) => {}
            outcome => outcome?,
        }
        *left -= 1;
    }
    Ok(Cleared::Completely)
}

/// Removes a name, also of an immutable file, if this process may clear that attribute.
fn unlink(folder: impl AsFd, name: &CStr, flags: AtFlags) -> Result<(), Errno> {
    match unlinkat(&folder, name, flags) {
        Err(Errno::PERM) => {}
        outcome => return outcome,
    }
    let _ = make_mutable(folder.as_fd());
    let entry = if flags.contains(AtFlags::REMOVEDIR) {
        open_folder(&folder, name, FolderAccess::Read)
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
