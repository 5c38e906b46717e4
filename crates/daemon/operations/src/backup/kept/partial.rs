//! Partially written archive. Its name is not a valid archive name, and it is locked while it is written. Leftovers of
//! a killed daemon can therefore be distinguished from files that another daemon is writing.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use agentd_core::runtime::FileLock;
use rustix::fs::{FlockOperation, flock};
use tokio::io::AsyncWriteExt;

use super::folder::BackupFolder;
use crate::backup::archive::DiskGuard;
use crate::backup::error::BackupError;

const EXTENSION: &str = ".partial";
const FILE_DESCRIPTION: &str = "the backup";

/// Deleted on drop, unless it was renamed to its final name.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    file: tokio::fs::File,
    disk_guard: DiskGuard,
    /// Maximum size.
    limit: u64,
    written: u64,
    is_kept: bool,
}

impl Partial {
    /// Creates the file.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(crate) fn create(folder: &BackupFolder, id: &str, limit: u64) -> Result<Self, BackupError> {
        let path = folder.path().join(format!(".{id}{EXTENSION}"));
        let disk_guard = DiskGuard::of(folder.path()).map_err(BackupError::files(FILE_DESCRIPTION))?;
        let file = tokio::fs::File::from_std(create_locked(&path).map_err(BackupError::files(FILE_DESCRIPTION))?);
        Ok(Self { path, file, disk_guard, limit, written: 0, is_kept: false })
    }

    /// Writes bytes to the archive.
    ///
    /// # Errors
    /// The disk is full or the limit is reached.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.written += bytes.len() as u64;
        if self.written > self.limit {
            return Err(BackupError::Full);
        }
        self.disk_guard.take(bytes.len() as u64).map_err(BackupError::files(FILE_DESCRIPTION))?;
        self.file.write_all(bytes).await.map_err(BackupError::files(FILE_DESCRIPTION))
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Reopens the written data at its beginning.
    pub(crate) async fn reopen(&mut self) -> Result<fs::File, BackupError> {
        self.file.flush().await.map_err(BackupError::files(FILE_DESCRIPTION))?;
        fs::File::open(&self.path).map_err(BackupError::files(FILE_DESCRIPTION))
    }

    /// Syncs the file and renames it to its final name.
    pub(crate) async fn keep(mut self, name: &str) -> Result<(), BackupError> {
        self.file.flush().await.map_err(BackupError::files(FILE_DESCRIPTION))?;
        self.file.sync_all().await.map_err(BackupError::files(FILE_DESCRIPTION))?;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::rename(&self.path, folder.join(name)).map_err(BackupError::files(FILE_DESCRIPTION))?;
        self.is_kept = true;
        fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(BackupError::files(FILE_DESCRIPTION))
    }
}

/// Retries if a concurrent cleanup removed the file between creation and locking.
fn create_locked(path: &Path) -> io::Result<fs::File> {
    loop {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "failed to remove partial backup");
        }
    }
}

/// Removes partial archives of killed daemons. Blocks.
pub(crate) fn remove_abandoned_parts(folder: &BackupFolder) {
    let entries = fs::read_dir(folder.path()).into_iter().flatten().flatten();
    let is_partial = |name: &str| name.starts_with('.') && name.ends_with(EXTENSION);
    let is_part = |entry: &fs::DirEntry| {
        entry.file_name().to_str().is_some_and(is_partial) && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    for entry in entries.filter(is_part) {
        let path = entry.path();
        // A file that is still being written is locked.
        if let Ok(Some(_abandoned)) = FileLock::try_acquire(&path)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "failed to remove abandoned partial backup");
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::runtime::DataDir;

    use super::*;

    #[tokio::test]
    async fn only_abandoned_partial_archives_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = BackupFolder::open(&DataDir::open(&root.path().join("data")).unwrap()).unwrap();
        let mut partial = Partial::create(&folder, "one", 10).unwrap();
        partial.write(b"12345").await.unwrap();
        fs::write(folder.path().join(".two.partial"), "left").unwrap();
        fs::write(folder.path().join("before-migration-1-to-2.db"), "the store's").unwrap();
        remove_abandoned_parts(&folder);
        let names = || {
            let mut names: Vec<_> =
                fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(), [".one.partial", "before-migration-1-to-2.db"]);
        assert!(matches!(partial.write(b"678901").await, Err(BackupError::Full)));
        drop(partial);
        assert_eq!(names(), ["before-migration-1-to-2.db"]);
        let mut partial = Partial::create(&folder, "one", 10).unwrap();
        partial.write(b"12345").await.unwrap();
        partial.keep("one.tar.gz").await.unwrap();
        assert_eq!(names(), ["before-migration-1-to-2.db", "one.tar.gz"]);
    }
}
