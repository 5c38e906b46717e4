//! A file that is not whole yet. It has a name that is none of an archive, and is locked as long as somebody writes it:
//! so what a killed daemon left is told from what another one is writing.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use agentd_core::runtime::FileLock;
use rustix::fs::{FlockOperation, flock};
use tokio::io::AsyncWriteExt;

use super::folder::KeptFolder;
use crate::backup::archive::Room;
use crate::backup::error::BackupError;

const ENDING: &str = ".partial";
const WHAT: &str = "the backup";

/// Removed when it is dropped, unless it was kept.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    file: tokio::fs::File,
    room: Room,
    /// How much it may become.
    limit: u64,
    written: u64,
    is_kept: bool,
}

impl Partial {
    /// # Errors
    /// The file cannot be made.
    pub(crate) fn create(folder: &KeptFolder, id: &str, limit: u64) -> Result<Self, BackupError> {
        let path = folder.path().join(format!(".{id}{ENDING}"));
        let room = Room::of(folder.path()).map_err(BackupError::files(WHAT))?;
        let file = tokio::fs::File::from_std(create_locked(&path).map_err(BackupError::files(WHAT))?);
        Ok(Self { path, file, room, limit, written: 0, is_kept: false })
    }

    /// # Errors
    /// There is no room, on the disk or in the limit.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.written += bytes.len() as u64;
        if self.written > self.limit {
            return Err(BackupError::Full);
        }
        self.room.take(bytes.len() as u64).map_err(BackupError::files(WHAT))?;
        self.file.write_all(bytes).await.map_err(BackupError::files(WHAT))
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Everything that was written, from its beginning.
    pub(crate) async fn reopen(&mut self) -> Result<fs::File, BackupError> {
        self.file.flush().await.map_err(BackupError::files(WHAT))?;
        fs::File::open(&self.path).map_err(BackupError::files(WHAT))
    }

    /// Gives the file its name, once all of it is on the disk.
    pub(crate) async fn keep(mut self, name: &str) -> Result<(), BackupError> {
        self.file.flush().await.map_err(BackupError::files(WHAT))?;
        self.file.sync_all().await.map_err(BackupError::files(WHAT))?;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::rename(&self.path, folder.join(name)).map_err(BackupError::files(WHAT))?;
        self.is_kept = true;
        fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(BackupError::files(WHAT))
    }
}

/// Whoever tidies up between the two steps takes the file for an abandoned one, and removes it.
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
            tracing::warn!(path = %self.path.display(), %error, "a part of a backup could not be removed");
        }
    }
}

/// Removes what killed daemons were writing. Blocks.
pub(crate) fn remove_abandoned_parts(folder: &KeptFolder) {
    let entries = fs::read_dir(folder.path()).into_iter().flatten().flatten();
    let is_partial = |name: &str| name.starts_with('.') && name.ends_with(ENDING);
    let is_part = |entry: &fs::DirEntry| {
        entry.file_name().to_str().is_some_and(is_partial) && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    for entry in entries.filter(is_part) {
        let path = entry.path();
        // Whoever writes it holds its lock.
        if let Ok(Some(_abandoned)) = FileLock::try_take(&path)
            && let Err(error) = fs::remove_file(&path)
        {
            tracing::warn!(path = %path.display(), %error, "what a killed daemon left of a backup could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::runtime::DataDir;

    use super::*;

    #[tokio::test]
    async fn what_is_being_written_is_left_alone_and_what_was_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = KeptFolder::open(&DataDir::open(&root.path().join("data")).unwrap()).unwrap();
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
