//! Lock on the data directory: an advisory lock that the kernel releases however its holder ends.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::StoreError;

/// Creates a directory and its parents, accessible by the owner only.
pub(crate) fn create_private_folder(path: &Path) -> Result<(), StoreError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|e| StoreError::io("creating", path, e))
}

/// Held while the writer runs.
#[derive(Debug)]
pub(crate) struct DataDirLock {
    file: File,
}

/// Attempts to take over the lock of a killed daemon: ten seconds in total.
const LOCK_ATTEMPTS: u32 = 500;
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Whether a process with this id exists.
fn process_exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

impl DataDirLock {
    /// Takes `agentd.lock` in `data_dir` and writes this process's id into it. A child process spawned just before the
    /// daemon was killed holds a copy of the lock until it exits, so this waits for it.
    pub(crate) async fn take(data_dir: &Path) -> Result<Self, StoreError> {
        for _ in 0..LOCK_ATTEMPTS {
            match Self::try_take(data_dir) {
                Err(StoreError::AlreadyRunning { pid: Some(pid), .. }) if !process_exists(pid) => {
                    tokio::time::sleep(LOCK_RETRY_INTERVAL).await;
                }
                taken => return taken,
            }
        }
        Self::try_take(data_dir)
    }

    fn try_take(data_dir: &Path) -> Result<Self, StoreError> {
        let path = data_dir.join("agentd.lock");
        let failed = |source| StoreError::io("locking", &path, source);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(StoreError::AlreadyRunning { path: data_dir.to_owned(), pid });
            }
            Err(error) => return Err(failed(error.into())),
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { file })
    }
}

impl Drop for DataDirLock {
    fn drop(&mut self) {
        // Closing is not enough: a child that was just forked holds a copy until it executes its program.
        if let Err(error) = flock(&self.file, FlockOperation::Unlock) {
            tracing::warn!(%error, "failed to release the data directory lock");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lock_of_a_killed_daemon_is_awaited() {
        let folder = tempfile::tempdir().unwrap();
        let lock = DataDirLock::take(folder.path()).await.unwrap();
        // The holder is alive, so the lock is refused immediately.
        let refused = DataDirLock::take(folder.path()).await.unwrap_err();
        assert!(matches!(refused, StoreError::AlreadyRunning { pid: Some(_), .. }), "{refused}");
        // No process has this id.
        std::fs::write(folder.path().join("agentd.lock"), i32::MAX.to_string()).unwrap();
        let again = DataDirLock::take(folder.path());
        let ends = async {
            tokio::task::yield_now().await;
            drop(lock);
        };
        let (again, ()) = tokio::join!(again, ends);
        again.unwrap();
    }
}
