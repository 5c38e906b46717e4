//! Walks a folder without ever following a symlink: every step is relative to an open folder and
//! refuses links, so that something that is swapped meanwhile leads nowhere. What code closed to the
//! daemon is opened again.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use agentd_sandbox::folder::{Need, open_file, open_folder};
use rustix::fs::{AtFlags, CWD, Dir, FileType, readlinkat, statat};
use rustix::io::Errno;

use crate::backup::model::{FOLDERS, LeftOut, MAX_DEPTH, fault_of_link, shown};

/// Something to be written. Paths are relative to what the walk began with.
pub(super) enum Found {
    Folder,
    File(File),
    Link(OsString),
    /// Belongs into an archive and cannot be written; why.
    Unreadable(&'static str),
    /// No archive carries it; why.
    Excluded(&'static str),
}

/// What an archive of these folders would leave out.
pub(crate) fn survey(root: &Path) -> io::Result<LeftOut> {
    let mut left_out = LeftOut::default();
    for folder in FOLDERS {
        let base = PathBuf::from(folder);
        walk(&root.join(folder), &mut |path, found| {
            match found {
                Found::Unreadable(reason) => left_out.unreadable.add(&base.join(path), reason),
                Found::Excluded(reason) => left_out.excluded.add(&base.join(path), reason),
                Found::Link(target) => {
                    let path = base.join(path);
                    let fault = fault_of_link(&path, Path::new(&target));
                    fault.into_iter().for_each(|reason| left_out.excluded.add(&path, reason));
                }
                Found::Folder | Found::File(_) => {}
            }
            Ok(())
        })?;
    }
    Ok(left_out)
}

/// Calls `visit` for everything below `root`, a folder before what is in it, names in order. A
/// missing `root` holds nothing.
pub(super) fn walk(root: &Path, visit: &mut dyn FnMut(&Path, Found) -> io::Result<()>) -> io::Result<()> {
    match open_folder(CWD, root, Need::Look) {
        Ok(folder) => walk_folder(&folder, &mut PathBuf::new(), 0, visit),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn walk_folder(
    folder: &OwnedFd,
    path: &mut PathBuf,
    depth: usize,
    visit: &mut dyn FnMut(&Path, Found) -> io::Result<()>,
) -> io::Result<()> {
    let names = match names(folder) {
        Ok(names) => names,
        Err(error) => return visit(path, Found::Unreadable(why(error))),
    };
    for name in names {
        path.push(OsStr::from_bytes(name.as_bytes()));
        visit_entry(folder, &name, path, depth, visit)?;
        path.pop();
    }
    Ok(())
}

fn names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn visit_entry(
    folder: &OwnedFd,
    name: &CStr,
    path: &mut PathBuf,
    depth: usize,
    visit: &mut dyn FnMut(&Path, Found) -> io::Result<()>,
) -> io::Result<()> {
    let kind = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let opened = match kind {
        // No restore would take it.
        Ok(_) if depth >= MAX_DEPTH => return visit(path, Found::Unreadable("lies deeper than 100 folders")),
        Ok(FileType::Directory) => open_folder(folder, name, Need::Look).map(Opened::Folder),
        Ok(FileType::RegularFile) => open_file(folder, name).map(Opened::File),
        Ok(FileType::Symlink) => readlinkat(folder, name, Vec::new()).map(Opened::Link),
        Ok(_) => return visit(path, Found::Excluded("is no file, folder or link")),
        Err(error) => Err(error),
    };
    match opened {
        Ok(Opened::Folder(inner)) => {
            visit(path, Found::Folder)?;
            walk_folder(&inner, path, depth + 1, visit)
        }
        Ok(Opened::File(file)) => visit(path, Found::File(File::from(file))),
        Ok(Opened::Link(target)) => visit(path, Found::Link(OsString::from_vec(target.into_bytes()))),
        // What went away meanwhile was not there.
        Err(Errno::NOENT) => Ok(()),
        Err(error) => visit(path, Found::Unreadable(why(error))),
    }
}

enum Opened {
    Folder(OwnedFd),
    File(OwnedFd),
    Link(CString),
}

fn why(error: Errno) -> &'static str {
    match error {
        Errno::ACCESS | Errno::PERM => "may not be read",
        Errno::LOOP | Errno::NOTDIR | Errno::INVAL => "became something else meanwhile",
        _ => "cannot be read",
    }
}

/// Says in the log what is left out.
pub(super) fn log_skipped(path: &Path, reason: &str) {
    tracing::warn!(path = shown(path), "left out of the backup: it {reason}");
}
