//! Write-ahead log and its state on disk.
//!
//! A kernel reports a failed sync once and then treats the unwritten pages as clean: the next sync succeeds and leaves
//! a gap. After a power failure, log entries behind a gap are not found, including commits that were synced and
//! acknowledged later. Gaps consist of relaxed commits, which had not been synced before. So before the first commit
//! after a failure, or after a start that finds a log, the whole log is rewritten unchanged and synced.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::direct;
use crate::StoreError;

pub(super) const PASSIVE_CHECKPOINT: &str = "PRAGMA wal_checkpoint(PASSIVE)";
const CHUNK_BYTES: usize = 1 << 20;

/// Rewrites the log. The caller holds the write lock, so that no entry is added meanwhile.
pub(super) fn rewrite(database: &Path) -> Result<(), StoreError> {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    let written = match File::options().read(true).write(true).open(PathBuf::from(path)) {
        Ok(log) => rewrite_file(&log),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    written.map_err(|error| StoreError::Unavailable {
        reason: "rewriting the write-ahead log failed".to_owned(),
        source: Some(Arc::new(error)),
    })
}

fn rewrite_file(log: &File) -> io::Result<()> {
    if log.metadata()?.len() == 0 {
        return Ok(());
    }
    let (mut chunk, mut at) = (vec![0; CHUNK_BYTES], 0);
    loop {
        let length = log.read_at(&mut chunk, at)?;
        if length == 0 {
            return log.sync_all();
        }
        log.write_all_at(&chunk[..length], at)?;
        at += length as u64;
    }
}

/// Disables the checkpoint at close, which could be partial and leave a gap in the log that would repair it.
pub(super) fn disable_checkpoint_on_close(connection: &Connection) {
    if let Err(error) = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        tracing::debug!(%error, "failed to disable the checkpoint on close");
    }
}

/// Checkpoints the log; returns whether the log is still reliable.
pub(super) fn checkpoint(connection: &Connection, copy: impl FnOnce(&Connection) -> Result<(), StoreError>) -> bool {
    let Err(error) = copy(connection) else { return true };
    tracing::warn!(error = &error as &dyn std::error::Error, "checkpoint failed");
    let is_reliable = !error.is_unavailable() || error.is_busy();
    if !is_reliable {
        disable_checkpoint_on_close(connection);
    }
    is_reliable
}

/// Checkpoints the log concurrently with commits on its own thread; the result is that of [`checkpoint`].
pub(super) fn start_checkpoint(path: PathBuf) -> io::Result<JoinHandle<bool>> {
    let copy = move || match direct::open(&path) {
        Ok(connection) => checkpoint(&connection, |connection| direct::control(connection, PASSIVE_CHECKPOINT)),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to open a connection for the checkpoint");
            true
        }
    };
    std::thread::Builder::new().name("store-checkpoint".to_owned()).spawn(copy)
}
