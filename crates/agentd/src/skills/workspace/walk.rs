//! What lies in a folder.

use rustix::fs::{AtFlags, Dir, FileType, Stat, readlinkat, statat};

use super::write::{HALF_WRITTEN_END, HALF_WRITTEN_START};
use super::{RelativePath, Workspace, WorkspaceError, file_type};

/// Of one folder, more entries than this are not looked at.
const MAX_ENTRIES: usize = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::skills) enum EntryKind {
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
pub(in crate::skills) struct Entry {
    pub(in crate::skills) path: RelativePath,
    pub(in crate::skills) kind: EntryKind,
}

/// The entries of one folder by name.
#[derive(Debug, Default)]
pub(in crate::skills) struct Listing {
    pub(in crate::skills) entries: Vec<Entry>,
    /// Whether some were left out: too many, too deep, or with a name that is no text.
    pub(in crate::skills) is_cut: bool,
}

impl Workspace {
    /// The entries of a folder, as they are in this moment.
    ///
    /// # Errors
    /// It is not there or is no folder.
    pub(in crate::skills) fn list(&self, path: &RelativePath) -> Result<Listing, WorkspaceError> {
        let folder = self.folder(path)?;
        let mut listing = Listing::default();
        for entry in Dir::read_from(&folder).map_err(|e| path.failed(e))? {
            let entry = entry.map_err(|e| path.failed(e))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || is_half_written(name.to_bytes()) {
                continue;
            }
            let named = name.to_str().ok().filter(|name| !name.chars().any(char::is_control));
            let (Some(name), true) = (named, listing.entries.len() < MAX_ENTRIES) else {
                listing.is_cut = true;
                continue;
            };
            // Gone since the folder was read.
            let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match path.join(name) {
                Some(path) => listing.entries.push(Entry { path, kind: kind(&folder, name, &stat) }),
                None => listing.is_cut = true,
            }
        }
        listing.entries.sort_unstable_by_key(|entry| entry.path.to_string());
        Ok(listing)
    }

    /// What the path stands for.
    ///
    /// # Errors
    /// It is not there.
    pub(in crate::skills) fn kind(&self, path: &RelativePath) -> Result<EntryKind, WorkspaceError> {
        let Some((parent, name)) = path.split() else { return Ok(EntryKind::Folder) };
        let folder = self.folder(&parent)?;
        match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(kind(&folder, name, &stat)),
            Err(rustix::io::Errno::NOENT) => Err(WorkspaceError::Missing { path: path.to_string() }),
            Err(error) => Err(path.failed(error)),
        }
    }
}

/// A file that is being written, under the name that it has until it is whole.
fn is_half_written(name: &[u8]) -> bool {
    name.starts_with(HALF_WRITTEN_START.as_bytes()) && name.ends_with(HALF_WRITTEN_END.as_bytes())
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
