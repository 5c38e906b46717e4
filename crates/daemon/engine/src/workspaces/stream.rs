//! Streaming writes of files.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, RenameFlags, Stat, fchmod, fstat, openat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use super::change::sync_folder;
use super::quota::{BLOCK_BYTES, Growth, require_disk_space};
use super::temporary::{lock_temporary, require_permanent_name, temporary_name};
use super::workspace::{FolderId, require_plain};
use super::write::{FILE_MODE, NEW};
use super::{Entry, EntryKind, Expected, RelativePath, Usage, Version, Workspace, WorkspaceError, WorkspaceQuota};

/// A file that is being written under a temporary name; removed if dropped before it is finished.
#[derive(Debug)]
pub struct NewFile {
    folder: OwnedFd,
    file: File,
    temporary: String,
    path: RelativePath,
    written: u64,
    /// Size of the workspace at the start, and total bytes written there by the daemon until then.
    initial_bytes: u64,
    initial_written: u64,
    /// Maximum size of the workspace during the write.
    max_bytes: u64,
    quota: WorkspaceQuota,
    folder_id: FolderId,
    is_finished: bool,
}

impl Workspace {
    /// Starts a file; creates missing parents. `mark` identifies the temporary file: a leftover with the same mark is
    /// removed.
    ///
    /// # Errors
    /// A parent is not a folder, an existing entry is not a plain file, or the workspace is full.
    pub fn create(&self, path: &RelativePath, mark: &str, quota: &WorkspaceQuota) -> Result<NewFile, WorkspaceError> {
        let Some((parent, name)) = path.split() else {
            return Err(WorkspaceError::IsFolder { path: path.to_string() });
        };
        require_permanent_name(name)?;
        let missing = self.missing_folders(&parent)?;
        let replaced = if missing > 0 { None } else { found(self.folder(&parent)?, name, path)? };
        let replaced = replaced.map(|stat| u64::try_from(stat.st_size).unwrap_or(0));
        match replaced {
            Some(_) => require_disk_space(&self.root, 0)?,
            None => self.require_capacity(quota, Growth { files: 1 + missing, bytes: 1 })?,
        }
        let Usage { held: size, bounds } = self.usage(quota)?;
        // A replaced file may reach its previous size even if the workspace is full.
        let max_bytes = bounds.bytes.max(size.bytes).saturating_add(replaced.unwrap_or(0));
        let initial_written = quota.written(&self.folder_id.path);
        let folder = self.make_folder(&parent, quota)?;
        let temporary = temporary_name(mark);
        let _ = unlinkat(&folder, &temporary, AtFlags::empty());
        let failed = |error| path.failed(error);
        let file = File::from(openat(&folder, &temporary, NEW, Mode::RUSR | Mode::WUSR).map_err(failed)?);
        lock_temporary(&file);
        let new = NewFile {
            folder,
            file,
            temporary,
            path: path.clone(),
            written: 0,
            initial_bytes: size.bytes,
            initial_written,
            max_bytes,
            quota: quota.clone(),
            folder_id: self.folder_id.clone(),
            is_finished: false,
        };
        // Counted from the start, so that concurrent writes cannot exceed the limit.
        new.quota.record_growth(&new.folder_id.path, Growth { files: u64::from(replaced.is_none()), bytes: 0 });
        self.chown_to_owner(&new.file).map_err(failed)?;
        // After the change of the owner, which clears permission bits.
        fchmod(&new.file, FILE_MODE).map_err(failed)?;
        Ok(new)
    }

    /// Verifies that the current state of a file is the expected one.
    ///
    /// # Errors
    /// The state differs.
    pub fn require(&self, path: &RelativePath, expected: &Expected) -> Result<(), WorkspaceError> {
        let (folder, _) = path.split().unwrap_or_default();
        let found = match self.folder(&folder) {
            Ok(folder) => found(folder, path.name(), path)?,
            Err(WorkspaceError::Missing { .. }) => None,
            Err(error) => return Err(error),
        };
        expected.require(found.as_ref(), path)
    }

    /// Whether the file exists.
    ///
    /// # Errors
    /// The entry is not a file.
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
    /// Appends bytes to the file.
    ///
    /// # Errors
    /// The workspace is full, the write failed, or another writer has started the same file.
    pub fn append(&mut self, piece: &[u8]) -> Result<(), WorkspaceError> {
        let more = piece.len() as u64;
        // While a program runs, no size is cached, but bytes written by the daemon are known.
        let since = || self.quota.written(&self.folder_id.path).saturating_sub(self.initial_written);
        let cached = self.quota.cached_size(&self.folder_id);
        let bytes = cached.map_or_else(|| self.initial_bytes.saturating_add(since()), |size| size.bytes);
        if bytes.saturating_add(more) > self.max_bytes && self.measure_again()?.saturating_add(more) > self.max_bytes {
            return Err(WorkspaceError::Full { limit_mb: self.quota.bounds().bytes >> 20 });
        }
        require_disk_space(&self.file, more)?;
        self.require_owned()?;
        self.file.write_all(piece).map_err(|source| self.failed(source))?;
        let before = self.written.next_multiple_of(BLOCK_BYTES);
        self.written = self.written.saturating_add(more);
        let grown = self.written.next_multiple_of(BLOCK_BYTES).saturating_sub(before);
        self.quota
            .record_growth(&self.folder_id.path, Growth { files: 0, bytes: i64::try_from(grown).unwrap_or(i64::MAX) });
        Ok(())
    }

    fn measure_again(&self) -> Result<u64, WorkspaceError> {
        let workspace = Workspace::open(&self.folder_id.path)?;
        if workspace.folder_id == self.folder_id {
            workspace.count(&self.quota).map(|size| size.bytes)
        } else {
            Ok(u64::MAX)
        }
    }

    /// Publishes the file under its name with the permissions of the replaced file. `expected` is verified immediately
    /// before.
    ///
    /// # Errors
    /// The write failed, the state differs from `expected`, or another writer has started the same file.
    pub fn finish(mut self, expected: &Expected) -> Result<Entry, WorkspaceError> {
        // The content must be durable before the name.
        self.file.sync_data().map_err(|source| self.failed(source))?;
        self.require_owned()?;
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
        self.quota.record_growth(&self.folder_id.path, Growth { files: 0, bytes: before.saturating_neg() });
        sync_folder(&self.folder, &self.path)?;
        // Read from the open file: another file may have the name by now.
        let stat = fstat(&self.file).map_err(failed)?;
        let kind = EntryKind::File { bytes: self.written, has_many_names: false };
        Ok(Entry { path: self.path.clone(), kind, version: Version::of(&stat) })
    }

    fn rename(&self, name: &str, must_be_new: bool) -> Result<(), Errno> {
        let folder = self.folder.as_fd();
        if must_be_new {
            match renameat_with(folder, &self.temporary, folder, name, RenameFlags::NOREPLACE) {
                // Not supported by every file system.
                Err(Errno::INVAL | Errno::NOSYS) => {}
                outcome => return outcome,
            }
        }
        renameat(folder, &self.temporary, folder, name)
    }

    /// Whether the temporary name still refers to this file.
    fn is_owned(&self) -> bool {
        let named = statat(&self.folder, &self.temporary, AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(named), Ok(ours)) = (named, fstat(&self.file)) else { return false };
        (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)
    }

    fn require_owned(&self) -> Result<(), WorkspaceError> {
        let others = || WorkspaceError::WrittenByOthers { path: self.path.to_string() };
        if self.is_owned() { Ok(()) } else { Err(others()) }
    }

    fn failed(&self, source: std::io::Error) -> WorkspaceError {
        WorkspaceError::Io { path: self.path.to_string(), source }
    }
}

/// Returns the plain file of this name, if it exists.
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
        if self.is_owned() {
            let _ = unlinkat(&self.folder, &self.temporary, AtFlags::empty());
        }
        self.quota.invalidate(&self.folder_id.path);
    }
}

#[cfg(test)]
mod tests {
    use agentd_sandbox::WorkspaceBounds;

    use super::*;

    fn quota() -> WorkspaceQuota {
        WorkspaceQuota::new(|| WorkspaceBounds { bytes: 1 << 20, files: 10 })
    }

    fn begin(workspace: &Workspace, quota: &WorkspaceQuota, name: &str) -> NewFile {
        workspace.create(&RelativePath::parse_file(name).unwrap(), name, quota).unwrap()
    }

    #[test]
    fn small_chunks_are_not_overcounted() {
        let folder = tempfile::tempdir().unwrap();
        let (quota, workspace) = (quota(), Workspace::open(folder.path()).unwrap());
        let mut file = begin(&workspace, &quota, "a");
        for _ in 0..1_000 {
            file.append(&[b'x'; 1_001]).unwrap();
        }
        let size = quota.cached_size(&workspace.folder_id).unwrap();
        assert!((1_001_000..1_010_000).contains(&size.bytes), "{size:?}");
        let entry = file.finish(&Expected::Nothing).unwrap();
        assert_eq!(entry, workspace.entry(&RelativePath::parse_file("a").unwrap()).unwrap());
    }

    /// While a program runs, only bytes written by the daemon are known.
    #[test]
    fn concurrent_writes_share_the_quota() {
        for runs in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (quota, workspace) = (quota(), Workspace::open(folder.path()).unwrap());
            let _running = runs.then(|| quota.track_program(folder.path()));
            let (mut first, mut second) = (begin(&workspace, &quota, "a"), begin(&workspace, &quota, "b"));
            first.append(&vec![b'x'; 600 << 10]).unwrap();
            let refused = second.append(&vec![b'x'; 600 << 10]).unwrap_err();
            assert!(matches!(refused, WorkspaceError::Full { .. }), "{refused}");
            // Space of an abandoned file is available to others.
            drop(first);
            second.append(&vec![b'x'; 600 << 10]).unwrap();
            second.finish(&Expected::Anything).unwrap();
        }
    }

    #[test]
    fn replaced_writer_fails_with_its_next_chunk() {
        let folder = tempfile::tempdir().unwrap();
        let (quota, workspace) = (quota(), Workspace::open(folder.path()).unwrap());
        let (mut first, mut second) = (begin(&workspace, &quota, "a"), begin(&workspace, &quota, "a"));
        assert!(matches!(first.append(b"x").unwrap_err(), WorkspaceError::WrittenByOthers { .. }));
        drop(first);
        second.append(b"y").unwrap();
        second.finish(&Expected::Anything).unwrap();
        assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"y");
    }
}
