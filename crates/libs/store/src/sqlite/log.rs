//! The log, and what is on the disk of it.
//!
//! A kernel tells of a sync that failed once, and then takes what it could not write for clean: the next sync succeeds
//! and leaves a gap. What stands in the log behind a gap is not found after a power cut, commits included that were
//! synced and acknowledged since; relaxed commits, which nobody had synced before, are what gaps are made of. So before
//! anything is committed after a failure, or after a start that finds a log, the whole log is written again as it is,
//! and synced.

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

pub(super) const CHECKPOINT: &str = "PRAGMA wal_checkpoint(PASSIVE)";
const PIECE_BYTES: usize = 1 << 20;

/// Writes the log again. The caller holds the lock for writing, so that nobody adds to it meanwhile.
pub(super) fn write_again(database: &Path) -> Result<(), StoreError> {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    let written = match File::options().read(true).write(true).open(PathBuf::from(path)) {
        Ok(log) => write_whole(&log),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    written.map_err(|error| StoreError::Unavailable {
        reason: "writing its log again failed".to_owned(),
        source: Some(Arc::new(error)),
    })
}

fn write_whole(log: &File) -> io::Result<()> {
    if log.metadata()?.len() == 0 {
        return Ok(());
    }
    let (mut piece, mut at) = (vec![0; PIECE_BYTES], 0);
    loop {
        let length = log.read_at(&mut piece, at)?;
        if length == 0 {
            return log.sync_all();
        }
        log.write_all_at(&piece[..length], at)?;
        at += length as u64;
    }
}

/// Closing the connection copies nothing back: half of it might get there, with a gap in what would make it good.
pub(super) fn keep_at_close(connection: &Connection) {
    if let Err(error) = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true) {
        tracing::debug!(%error, "the log is copied back when the database is closed");
    }
}

/// Copies the log back; answers whether the log can still be relied on.
pub(super) fn copy_back(connection: &Connection, copy: impl FnOnce(&Connection) -> Result<(), StoreError>) -> bool {
    let Err(error) = copy(connection) else { return true };
    tracing::warn!(error = &error as &dyn std::error::Error, "copying the log back failed");
    let is_reliable = !error.is_unavailable() || error.is_busy();
    if !is_reliable {
        keep_at_close(connection);
    }
    is_reliable
}

/// Copies the log back beside the commits, on a thread of its own, which answers as [`copy_back`].
pub(super) fn start_checkpoint(path: PathBuf) -> io::Result<JoinHandle<bool>> {
    let copy = move || match direct::open(&path) {
        Ok(connection) => copy_back(&connection, |connection| direct::control(connection, CHECKPOINT)),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "no connection for copying the log back");
            true
        }
    };
    std::thread::Builder::new().name("store-checkpoint".to_owned()).spawn(copy)
}
