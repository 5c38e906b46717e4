//! A lock file: one holder among all processes that share a folder. The kernel gives it back
//! however the holder ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// Held until it is dropped. The file stays: removing it could let two holders in.
#[derive(Debug)]
pub struct FileLock(File);

impl FileLock {
    /// Takes the lock if nobody holds it, in this process or another.
    ///
    /// # Errors
    /// The file cannot be made or locked at all.
    pub fn try_take(path: &Path) -> io::Result<Option<Self>> {
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
        // Closing is not enough: a child that was just forked holds a copy until it runs its program.
        if let Err(error) = flock(&self.0, FlockOperation::Unlock) {
            tracing::warn!(%error, "a lock file could not be unlocked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_one_holder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = FileLock::try_take(&path).unwrap().expect("free");
        assert!(FileLock::try_take(&path).unwrap().is_none());
        // As a child would that has not run its program yet.
        let copy = held.0.try_clone().unwrap();
        drop(held);
        assert!(FileLock::try_take(&path).unwrap().is_some());
        drop(copy);
    }
}
