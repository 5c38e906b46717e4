//! What lies in a folder.

use rustix::fs::{AtFlags, Dir, FileType, Stat, readlinkat, statat};

use super::temporary::is_temporary_name;
use super::workspace::file_type;
use super::{RelativePath, Version, Workspace, WorkspaceError};

/// Of one folder, more entries than this are not looked at.
const MAX_ENTRIES: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    Folder,
    /// A regular file.
    File {
        bytes: u64,
        /// Whether it has other names, which may lie outside.
        has_many_names: bool,
    },
    Link {
        target: String,
    },
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: RelativePath,
    pub kind: EntryKind,
    pub version: Version,
}

/// The entries of one folder by name.
#[derive(Debug, Default)]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// How many were left out: too many, too deep, or with a name that is no text.
    pub left_out: usize,
}

impl Workspace {
    /// The entries of a folder, as they are in this moment, but for what is being written.
    ///
    /// # Errors
    /// It is not there or is no folder.
    pub fn list(&self, path: &RelativePath) -> Result<Listing, WorkspaceError> {
        let mut listing = self.list_all(path)?;
        listing.entries.retain(|entry| !is_temporary_name(entry.path.name()));
        Ok(listing)
    }

    /// The same with files that are being written, or were when their writer was killed.
    ///
    /// # Errors
    /// It is not there or is no folder.
    pub fn list_all(&self, path: &RelativePath) -> Result<Listing, WorkspaceError> {
        let folder = self.folder(path)?;
        let mut listing = Listing::default();
        for entry in Dir::read_from(&folder).map_err(|e| path.failed(e))? {
            let entry = entry.map_err(|e| path.failed(e))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let named = name.to_str().ok().filter(|name| !name.chars().any(char::is_control));
            let (Some(name), true) = (named, listing.entries.len() < MAX_ENTRIES) else {
                listing.left_out += 1;
                continue;
            };
            // Gone since the folder was read.
            let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match path.join(name) {
                Some(path) => {
                    let (kind, version) = (kind(&folder, name, &stat), Version::of(&stat));
                    listing.entries.push(Entry { path, kind, version });
                }
                None => listing.left_out += 1,
            }
        }
        listing.entries.sort_by_cached_key(|entry| entry.path.to_string());
        Ok(listing)
    }

    /// What the path stands for.
    ///
    /// # Errors
    /// It is not there.
    pub fn kind(&self, path: &RelativePath) -> Result<EntryKind, WorkspaceError> {
        if *path == RelativePath::default() { Ok(EntryKind::Folder) } else { Ok(self.entry(path)?.kind) }
    }

    /// The same as an entry of its folder.
    ///
    /// # Errors
    /// It is not there.
    pub fn entry(&self, path: &RelativePath) -> Result<Entry, WorkspaceError> {
        let Some((parent, name)) = path.split() else {
            return Err(WorkspaceError::BadPath { problem: "must name something in the workspace" });
        };
        let folder = self.folder(&parent)?;
        match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Entry { path: path.clone(), kind: kind(&folder, name, &stat), version: Version::of(&stat) }),
            Err(rustix::io::Errno::NOENT) => Err(WorkspaceError::Missing { path: path.to_string() }),
            Err(error) => Err(path.failed(error)),
        }
    }
}

fn kind(folder: impl std::os::fd::AsFd, name: &str, stat: &Stat) -> EntryKind {
    match file_type(stat) {
        FileType::Directory => EntryKind::Folder,
        FileType::RegularFile => {
            EntryKind::File { bytes: u64::try_from(stat.st_size).unwrap_or(0), has_many_names: stat.st_nlink > 1 }
        }
        FileType::Symlink => {
            let target = readlinkat(folder, name, Vec::new()).unwrap_or_default();
            let target = target.to_string_lossy().chars().filter(|c| !c.is_control()).take(200).collect();
            EntryKind::Link { target }
        }
        _ => EntryKind::Other,
    }
}
