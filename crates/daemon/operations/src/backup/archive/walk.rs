//! Folder traversal that never follows symlinks: every step is relative to an open folder and rejects links, so an
//! entry swapped concurrently leads nowhere. Folders and files without permissions for the daemon are made accessible
//! first.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use agentd_sandbox::folder::{FolderAccess, open_file, open_folder};
use rustix::fs::{AtFlags, CWD, Dir, FileType, readlinkat, statat};
use rustix::io::Errno;

use crate::backup::model::{FOLDERS, MAX_DEPTH, OmittedFiles, display_path, link_fault};

/// Entry found by a traversal. Paths are relative to its root.
pub(super) enum WalkEntry {
    Folder,
    File(File),
    Link(OsString),
    /// Entry that cannot be read, with the reason.
    Unreadable(&'static str),
    /// Entry that archives never contain, with the reason.
    Excluded(&'static str),
}

/// Returns what an archive of these folders would omit.
pub(crate) fn survey(root: &Path) -> io::Result<OmittedFiles> {
    let mut left_out = OmittedFiles::default();
    for folder in FOLDERS {
        let base = PathBuf::from(folder);
        walk(&root.join(folder), &mut |path, found| {
            match found {
                WalkEntry::Unreadable(reason) => left_out.unreadable.add(&base.join(path), reason),
                WalkEntry::Excluded(reason) => left_out.excluded.add(&base.join(path), reason),
                WalkEntry::Link(target) => {
                    let path = base.join(path);
                    let fault = link_fault(&path, Path::new(&target));
                    fault.into_iter().for_each(|reason| left_out.excluded.add(&path, reason));
                }
                WalkEntry::Folder | WalkEntry::File(_) => {}
            }
            Ok(())
        })?;
    }
    Ok(left_out)
}

/// Calls `visit` for everything below `root`: a folder before its entries, entries sorted by name. A missing `root`
/// counts as empty.
pub(super) fn walk(root: &Path, visit: &mut dyn FnMut(&Path, WalkEntry) -> io::Result<()>) -> io::Result<()> {
    match open_folder(CWD, root, FolderAccess::Read) {
        Ok(folder) => walk_folder(&folder, &mut PathBuf::new(), 0, visit),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn walk_folder(
    folder: &OwnedFd,
    path: &mut PathBuf,
    depth: usize,
    visit: &mut dyn FnMut(&Path, WalkEntry) -> io::Result<()>,
) -> io::Result<()> {
    let names = match names(folder) {
        Ok(names) => names,
        Err(error) => return visit(path, WalkEntry::Unreadable(describe_errno(error))),
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
    visit: &mut dyn FnMut(&Path, WalkEntry) -> io::Result<()>,
) -> io::Result<()> {
    let kind = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| FileType::from_raw_mode(stat.st_mode));
    let opened = match kind {
        // A restore would reject it.
        Ok(_) if depth >= MAX_DEPTH => return visit(path, WalkEntry::Unreadable("is nested deeper than 100 folders")),
        Ok(FileType::Directory) => open_folder(folder, name, FolderAccess::Read).map(OpenedEntry::Folder),
        Ok(FileType::RegularFile) => open_file(folder, name).map(OpenedEntry::File),
        Ok(FileType::Symlink) => readlinkat(folder, name, Vec::new()).map(OpenedEntry::Link),
        Ok(_) => return visit(path, WalkEntry::Excluded("is not a file, folder or link")),
        Err(error) => Err(error),
    };
    match opened {
        Ok(OpenedEntry::Folder(inner)) => {
            visit(path, WalkEntry::Folder)?;
            walk_folder(&inner, path, depth + 1, visit)
        }
        Ok(OpenedEntry::File(file)) => visit(path, WalkEntry::File(File::from(file))),
        Ok(OpenedEntry::Link(target)) => visit(path, WalkEntry::Link(OsString::from_vec(target.into_bytes()))),
        // Deleted meanwhile.
        Err(Errno::NOENT) => Ok(()),
        Err(error) => visit(path, WalkEntry::Unreadable(describe_errno(error))),
    }
}

enum OpenedEntry {
    Folder(OwnedFd),
    File(OwnedFd),
    Link(CString),
}

fn describe_errno(error: Errno) -> &'static str {
    match error {
        Errno::ACCESS | Errno::PERM => "permission denied",
        Errno::LOOP | Errno::NOTDIR | Errno::INVAL => "changed its type during the backup",
        _ => "cannot be read",
    }
}

/// Logs an omitted entry.
pub(super) fn log_skipped(path: &Path, reason: &str) {
    tracing::warn!(path = display_path(path), reason, "path omitted from backup");
}
