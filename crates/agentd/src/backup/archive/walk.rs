//! Walks a folder without ever following a symlink: every step is relative to an open folder and
//! refuses links, so that something that is swapped meanwhile leads nowhere.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};

use crate::backup::model::{MAX_DEPTH, shown};

/// Something to be written. Paths are relative to what the walk began with.
pub(super) enum Found {
    Folder,
    File(File),
    Link(OsString),
    /// Not written; why.
    Skipped(&'static str),
}

/// Calls `visit` for everything below `root`, a folder before what is in it, names in order. A
/// missing `root` holds nothing.
pub(super) fn walk(root: &Path, visit: &mut dyn FnMut(&Path, Found) -> io::Result<()>) -> io::Result<()> {
    match openat(CWD, root, FOLDER, Mode::empty()) {
        Ok(folder) => walk_folder(&folder, &mut PathBuf::new(), 0, visit),
        Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Not blocking, because a pipe that took a file's place would wait for its other end.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

fn walk_folder(
    folder: &OwnedFd,
    path: &mut PathBuf,
    depth: usize,
    visit: &mut dyn FnMut(&Path, Found) -> io::Result<()>,
) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    for name in names {
        path.push(OsStr::from_bytes(name.as_bytes()));
        visit_entry(folder, &name, path, depth, visit)?;
        path.pop();
    }
    Ok(())
}

fn visit_entry(
    folder: &OwnedFd,
    name: &CStr,
    path: &mut PathBuf,
    depth: usize,
    visit: &mut dyn FnMut(&Path, Found) -> io::Result<()>,
) -> io::Result<()> {
    // What went away meanwhile was not there.
    let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory if depth >= MAX_DEPTH => visit(path, Found::Skipped("is too deep")),
        FileType::Directory => match openat(folder, name, FOLDER, Mode::empty()) {
            Ok(inner) => {
                visit(path, Found::Folder)?;
                walk_folder(&inner, path, depth + 1, visit)
            }
            Err(error) => visit(path, Found::Skipped(why(error))),
        },
        FileType::RegularFile => match openat(folder, name, FILE, Mode::empty()) {
            Ok(file) => visit(path, Found::File(File::from(file))),
            Err(error) => visit(path, Found::Skipped(why(error))),
        },
        FileType::Symlink => match readlinkat(folder, name, Vec::new()) {
            Ok(target) => visit(path, Found::Link(OsString::from_vec(target.into_bytes()))),
            Err(error) => visit(path, Found::Skipped(why(error))),
        },
        _ => visit(path, Found::Skipped("is no file, folder or link")),
    }
}

fn why(error: rustix::io::Errno) -> &'static str {
    match error {
        rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => "may not be read",
        rustix::io::Errno::NOENT => "went away meanwhile",
        rustix::io::Errno::LOOP => "became a link meanwhile",
        _ => "cannot be read",
    }
}

/// Says in the log what is left out.
pub(super) fn log_skipped(path: &Path, reason: &str) {
    tracing::warn!(path = shown(path), "left out of the backup: it {reason}");
}
