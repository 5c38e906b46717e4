//! Lock files with one holder among all processes that share a directory. The kernel releases the lock when the
//! holder exits, however that happens.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// Exclusive lock, released on drop. The file is not removed, because removal could allow two holders.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Acquires the lock; `None` if this or another process holds it.
    ///
    /// # Errors
    /// The file cannot be created or locked.
    pub fn try_acquire(path: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing is not enough: a forked child holds a copy of the descriptor until it calls `exec`.
        if let Err(error) = flock(&self.0, FlockOperation::Unlock) {
            tracing::warn!(%error, "failed to unlock lock file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_has_one_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = FileLock::try_acquire(&path).unwrap().expect("free");
        assert!(FileLock::try_acquire(&path).unwrap().is_none());
        // Simulates a forked child before `exec`.
        let copy = held.0.try_clone().unwrap();
        drop(held);
        assert!(FileLock::try_acquire(&path).unwrap().is_some());
        drop(copy);
    }
}
