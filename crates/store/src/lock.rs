//! The data directory, and one daemon in it: an advisory lock that the kernel gives back however the holder ends.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use crate::StoreError;

/// Creates a folder, and those above it, that its owner alone may look into.
pub(crate) fn create_private_folder(path: &Path) -> Result<(), StoreError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|e| StoreError::io("creating", path, e))
}

/// Held for as long as the writer lives.
#[derive(Debug)]
pub(crate) struct DataDirLock {
    file: File,
}

impl DataDirLock {
    /// Takes `agentd.lock` in `data_dir` and writes this process's id into it.
    pub(crate) fn take(data_dir: &Path) -> Result<Self, StoreError> {
        let path = data_dir.join("agentd.lock");
        let failed = |source| StoreError::io("locking", &path, source);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
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
        // Closing is not enough: a child that was just forked holds a copy until it runs its program.
        if let Err(error) = flock(&self.file, FlockOperation::Unlock) {
            tracing::warn!(%error, "the lock of the data directory could not be given back");
        }
    }
}
