//! Writing a file piece by piece.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, RenameFlags, Stat, fchmod, fstat, openat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::change::keep;
use super::room::{BLOCK, Growth, require_disk};
use super::temporary::{lock_temporary, require_permanent_name, temporary_name};
use super::workspace::{Place, require_plain};
use super::write::{FILE_MODE, NEW};
use super::{Entry, EntryKind, Expected, RelativePath, Room, Usage, Version, Workspace, WorkspaceError};

/// A file that is being written. Until it is finished it has another name; dropped before, it is gone.
#[derive(Debug)]
pub struct NewFile {
    folder: OwnedFd,
    file: File,
    beside: String,
    path: RelativePath,
    written: u64,
    /// What the workspace held when this was begun, and what was written there in all until then.
    held: u64,
    written_there: u64,
    /// What the workspace may hold meanwhile.
    most: u64,
    room: Room,
    place: Place,
    is_finished: bool,
}

impl Workspace {
    /// Begins a file; folders on the way are made. `mark` names what is not finished: what a writer that was killed left
    /// under the same mark is removed.
    ///
    /// # Errors
    /// Something on the way is no folder, what is there is no plain file, or the workspace is full.
    pub fn create(&self, path: &RelativePath, mark: &str, room: &Room) -> Result<NewFile, WorkspaceError> {
        let Some((parent, name)) = path.split() else {
            return Err(WorkspaceError::IsFolder { path: path.to_string() });
        };
        require_permanent_name(name)?;
        let missing = self.missing_folders(&parent)?;
        let replaced = if missing > 0 { None } else { found(self.folder(&parent)?, name, path)? };
        let replaced = replaced.map(|stat| u64::try_from(stat.st_size).unwrap_or(0));
        match replaced {
            Some(_) => require_disk(&self.root, 0)?,
            None => self.require_room(room, Growth { files: 1 + missing, bytes: 1 })?,
        }
        let Usage { held, bounds } = self.usage(room)?;
        // One that is replaced may become as long as it was, however full the workspace is.
        let most = bounds.bytes.max(held.bytes).saturating_add(replaced.unwrap_or(0));
        let written_there = room.written(&self.place.path);
        let folder = self.make_folder(&parent, room)?;
        let beside = temporary_name(mark);
        let _ = unlinkat(&folder, &beside, AtFlags::empty());
        let failed = |error| path.failed(error);
        let file = File::from(openat(&folder, &beside, NEW, Mode::RUSR | Mode::WUSR).map_err(failed)?);
        lock_temporary(&file);
        let new = NewFile {
            folder,
            file,
            beside,
            path: path.clone(),
            written: 0,
            held: held.bytes,
            written_there,
            most,
            room: room.clone(),
            place: self.place.clone(),
            is_finished: false,
        };
        // From now on, so that of many that are begun at once none is too many.
        new.room.grew(&new.place.path, Growth { files: u64::from(replaced.is_none()), bytes: 0 });
        self.hand_over(&new.file).map_err(failed)?;
        // After the owner has changed, which takes permissions away.
        fchmod(&new.file, FILE_MODE).map_err(failed)?;
        Ok(new)
    }

    /// Holds what is there against what is expected.
    ///
    /// # Errors
    /// It is something else.
    pub fn require(&self, path: &RelativePath, expected: &Expected) -> Result<(), WorkspaceError> {
        let (folder, _) = path.split().unwrap_or_default();
        let found = match self.folder(&folder) {
            Ok(folder) => found(folder, path.name(), path)?,
            Err(WorkspaceError::Missing { .. }) => None,
            Err(error) => return Err(error),
        };
        expected.require(found.as_ref(), path)
    }

    /// Whether there is such a file.
    ///
    /// # Errors
    /// Something else is there.
    pub fn has_file(&self, path: &RelativePath) -> Result<bool, WorkspaceError> {
        match self.kind(path) {
            Ok(EntryKind::File { .. }) => Ok(true),
            Ok(EntryKind::Folder) => Err(WorkspaceError::IsFolder { path: path.to_string() }),
            Ok(EntryKind::Link { .. }) => Err(WorkspaceError::Link { path: path.to_string() }),
            Ok(EntryKind::Other) => Err(WorkspaceError::Special { path: path.to_string() }),
            Err(WorkspaceError::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl NewFile {
    /// # Errors
    /// The workspace is full, it cannot be written, or somebody else has begun the same file meanwhile.
    pub fn append(&mut self, piece: &[u8]) -> Result<(), WorkspaceError> {
        let more = piece.len() as u64;
        // While a program runs no count is kept; what the daemon itself wrote since is known all the same.
        let since = || self.room.written(&self.place.path).saturating_sub(self.written_there);
        let held = self.room.kept(&self.place).map_or_else(|| self.held.saturating_add(since()), |held| held.bytes);
        if held.saturating_add(more) > self.most && self.counted_anew()?.saturating_add(more) > self.most {
            return Err(WorkspaceError::Full { limit_mb: self.room.bounds().bytes >> 20 });
        }
        require_disk(&self.file, more)?;
        self.require_there()?;
        self.file.write_all(piece).map_err(|source| self.failed(source))?;
        let before = self.written.next_multiple_of(BLOCK);
        self.written = self.written.saturating_add(more);
        let grown = self.written.next_multiple_of(BLOCK).saturating_sub(before);
        self.room.grew(&self.place.path, Growth { files: 0, bytes: i64::try_from(grown).unwrap_or(i64::MAX) });
        Ok(())
    }

    fn counted_anew(&self) -> Result<u64, WorkspaceError> {
        let workspace = Workspace::open(&self.place.path)?;
        if workspace.place == self.place { workspace.count(&self.room).map(|held| held.bytes) } else { Ok(u64::MAX) }
    }

    /// Gives the file its name, and the permissions of the one that it replaces. What is there is held against
    /// `expected` at the last moment.
    ///
    /// # Errors
    /// It cannot be written, something else is there than was expected, or somebody else has begun the same file
    /// meanwhile.
    pub fn finish(mut self, expected: &Expected) -> Result<Entry, WorkspaceError> {
        // The name must not outlive the content when the power goes.
        self.file.sync_data().map_err(|source| self.failed(source))?;
        self.require_there()?;
        let name = self.path.name().to_owned();
        let failed = |error| self.path.failed(error);
        let replaced = found(&self.folder, &name, &self.path)?;
        expected.require(replaced.as_ref(), &self.path)?;
        if let Some(stat) = &replaced {
            fchmod(&self.file, Mode::from_raw_mode(stat.st_mode & 0o777)).map_err(failed)?;
        }
        match self.rename(&name, *expected == Expected::Nothing) {
            Err(Errno::EXIST) => return Err(WorkspaceError::Exists { path: self.path.to_string() }),
            outcome => outcome.map_err(failed)?,
        }
        self.is_finished = true;
        let before = replaced.as_ref().map_or(0, |stat| stat.st_size);
        self.room.grew(&self.place.path, Growth { files: 0, bytes: before.saturating_neg() });
        keep(&self.folder, &self.path)?;
        // Of this very file: by now another may have its name.
        let stat = fstat(&self.file).map_err(failed)?;
        let kind = EntryKind::File { bytes: self.written, has_many_names: false };
        Ok(Entry { path: self.path.clone(), kind, version: Version::of(&stat) })
    }

    fn rename(&self, name: &str, must_be_new: bool) -> Result<(), Errno> {
        let folder = self.folder.as_fd();
        if must_be_new {
            match renameat_with(folder, &self.beside, folder, name, RenameFlags::NOREPLACE) {
                // Not every file system can.
                Err(Errno::INVAL | Errno::NOSYS) => {}
                outcome => return outcome,
            }
        }
        renameat(folder, &self.beside, folder, name)
    }

    /// Whether what stands under its present name is this file.
    fn is_there(&self) -> bool {
        let named = statat(&self.folder, &self.beside, AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(named), Ok(ours)) = (named, fstat(&self.file)) else { return false };
        (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)
    }

    fn require_there(&self) -> Result<(), WorkspaceError> {
        let others = || WorkspaceError::WrittenByOthers { path: self.path.to_string() };
        if self.is_there() { Ok(()) } else { Err(others()) }
    }

    fn failed(&self, source: std::io::Error) -> WorkspaceError {
        WorkspaceError::Io { path: self.path.to_string(), source }
    }
}

/// The plain file of this name, if there is one.
fn found(folder: impl AsFd, name: &str, path: &RelativePath) -> Result<Option<Stat>, WorkspaceError> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => require_plain(&stat, path).map(|()| Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(path.failed(error)),
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        if self.is_there() {
            let _ = unlinkat(&self.folder, &self.beside, AtFlags::empty());
        }
        self.room.shrank(&self.place.path);
    }
}

#[cfg(test)]
mod tests {
    use agentd_sandbox::WorkspaceBounds;

    use super::*;

    fn room() -> Room {
        Room::new(|| WorkspaceBounds { bytes: 1 << 20, files: 10 })
    }

    fn begin(workspace: &Workspace, room: &Room, name: &str) -> NewFile {
        workspace.create(&RelativePath::parse_file(name).unwrap(), name, room).unwrap()
    }

    #[test]
    fn small_pieces_take_no_more_than_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (room, workspace) = (room(), Workspace::open(folder.path()).unwrap());
        let mut file = begin(&workspace, &room, "a");
        for _ in 0..1_000 {
            file.append(&[b'x'; 1_001]).unwrap();
        }
        let held = room.kept(&workspace.place).unwrap();
        assert!((1_001_000..1_010_000).contains(&held.bytes), "{held:?}");
        let entry = file.finish(&Expected::Nothing).unwrap();
        assert_eq!(entry, workspace.entry(&RelativePath::parse_file("a").unwrap()).unwrap());
    }

    /// While a program runs, nothing is known of what the workspace holds but what the daemon itself writes.
    #[test]
    fn files_that_are_written_at_once_share_what_is_left() {
        for runs in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (room, workspace) = (room(), Workspace::open(folder.path()).unwrap());
            let _running = runs.then(|| room.runs_in(folder.path()));
            let (mut first, mut second) = (begin(&workspace, &room, "a"), begin(&workspace, &room, "b"));
            first.append(&vec![b'x'; 600 << 10]).unwrap();
            let refused = second.append(&vec![b'x'; 600 << 10]).unwrap_err();
            assert!(matches!(refused, WorkspaceError::Full { .. }), "{refused}");
            // What one that was given up took is there for others.
            drop(first);
            second.append(&vec![b'x'; 600 << 10]).unwrap();
            second.finish(&Expected::Anything).unwrap();
        }
    }

    #[test]
    fn who_was_overtaken_is_told_with_the_next_piece() {
        let folder = tempfile::tempdir().unwrap();
        let (room, workspace) = (room(), Workspace::open(folder.path()).unwrap());
        let (mut first, mut second) = (begin(&workspace, &room, "a"), begin(&workspace, &room, "a"));
        assert!(matches!(first.append(b"x").unwrap_err(), WorkspaceError::WrittenByOthers { .. }));
        drop(first);
        second.append(b"y").unwrap();
        second.finish(&Expected::Anything).unwrap();
        assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"y");
    }
}
