//! Listing of folders.

use rustix::fs::{AtFlags, Dir, FileType, Stat, readlinkat, statat};

use super::temporary::is_temporary_name;
use super::workspace::file_type;
use super::{RelativePath, Version, Workspace, WorkspaceError};

/// Maximum number of entries of one folder that are listed.
const MAX_ENTRIES: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    Folder,
    /// A regular file.
    File {
        bytes: u64,
        /// Whether it has other names, which may be outside.
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

/// Entries of one folder, sorted by name.
#[derive(Debug, Default)]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// Number of omitted entries: too many, too deep, or with a name that is not text.
    pub left_out: usize,
}

impl Workspace {
    /// Lists a folder without temporary files.
    ///
    /// # Errors
    /// The folder does not exist or is not a folder.
    pub fn list(&self, path: &RelativePath) -> Result<Listing, WorkspaceError> {
        let mut listing = self.list_all(path)?;
        listing.entries.retain(|entry| !is_temporary_name(entry.path.name()));
        Ok(listing)
    }

    /// Lists a folder including temporary files.
    ///
    /// # Errors
    /// The folder does not exist or is not a folder.
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
            // Deleted since the folder was read.
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

    /// Returns the kind of an entry.
    ///
    /// # Errors
    /// The entry does not exist.
    pub fn kind(&self, path: &RelativePath) -> Result<EntryKind, WorkspaceError> {
        if *path == RelativePath::default() { Ok(EntryKind::Folder) } else { Ok(self.entry(path)?.kind) }
    }

    /// Returns an entry of a folder.
    ///
    /// # Errors
    /// The entry does not exist.
    pub fn entry(&self, path: &RelativePath) -> Result<Entry, WorkspaceError> {
        let Some((parent, name)) = path.split() else {
            return Err(WorkspaceError::BadPath { problem: "must not be the workspace itself" });
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
