//! Writing a file piece by piece.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use agentd_sandbox::folder::Space;
use rustix::fs::{AtFlags, Mode, RenameFlags, Stat, fchmod, fstat, openat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::change::keep;
use super::write::{FILE_MODE, HALF_WRITTEN_END, HALF_WRITTEN_START, NEW};
use super::{EntryKind, Expected, Growth, Place, RelativePath, Room, Usage, Workspace, WorkspaceError, require_plain};

/// A file that is being written. Until it is finished it has another name; dropped before, it is gone.
#[derive(Debug)]
pub struct NewFile {
    folder: OwnedFd,
    file: File,
    beside: String,
    path: RelativePath,
    /// Bytes that the workspace had room for when this was begun, and what it may hold meanwhile: others write, too.
    left: u64,
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
        let missing = self.missing_folders(&parent)?;
        let replaced = if missing > 0 { None } else { found(self.folder(&parent)?, name, path)? };
        let replaced = replaced.map(|stat| u64::try_from(stat.st_size).unwrap_or(0));
        match replaced {
            Some(_) => self.require_disk()?,
            None => self.require_room(room, Growth { files: 1 + missing, bytes: 1 })?,
        }
        let Usage { held, bounds } = self.usage(room)?;
        // One that is replaced may become as long as it was, however full the workspace is.
        let most = bounds.bytes.max(held.bytes).saturating_add(replaced.unwrap_or(0));
        let left = most.saturating_sub(held.bytes);
        let folder = self.make_folder(&parent, room)?;
        let beside = format!("{HALF_WRITTEN_START}{mark}{HALF_WRITTEN_END}");
        let _ = unlinkat(&folder, &beside, AtFlags::empty());
        let failed = |error| path.failed(error);
        let file = File::from(openat(&folder, &beside, NEW, Mode::RUSR | Mode::WUSR).map_err(failed)?);
        let (room, place) = (room.clone(), self.place.clone());
        let new = NewFile { folder, file, beside, path: path.clone(), left, most, room, place, is_finished: false };
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
    /// The workspace is full, or it cannot be written.
    pub fn append(&mut self, piece: &[u8]) -> Result<(), WorkspaceError> {
        let more = piece.len() as u64;
        let left = self.room.kept(&self.place).map_or(self.left, |held| self.most.saturating_sub(held.bytes));
        if more > left {
            return Err(WorkspaceError::Full { limit_mb: self.room.bounds().bytes >> 20 });
        }
        if let Some(shortage) = Space::at(&self.file).ok().and_then(|space| space.shortage()) {
            return Err(WorkspaceError::DiskShort(shortage));
        }
        self.file.write_all(piece).map_err(|source| self.failed(source))?;
        self.left = self.left.saturating_sub(more);
        self.room.grew(&self.place.path, Growth { files: 0, bytes: i64::try_from(more).unwrap_or(i64::MAX) });
        Ok(())
    }

    /// Gives the file its name, and the permissions of the one that it replaces. What is there is held against
    /// `expected` at the last moment.
    ///
    /// # Errors
    /// It cannot be written, something else is there than was expected, or somebody else has begun the same file
    /// meanwhile.
    pub fn finish(mut self, expected: &Expected) -> Result<(), WorkspaceError> {
        // The name must not outlive the content when the power goes.
        self.file.sync_data().map_err(|source| self.failed(source))?;
        if !self.is_there() {
            return Err(WorkspaceError::WrittenByOthers { path: self.path.to_string() });
        }
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
        keep(&self.folder, &self.path)
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
