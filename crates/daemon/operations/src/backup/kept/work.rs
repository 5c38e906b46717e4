//! State of the running or last operation. It is stored in a file next to the archives, because a restore replaces the
//! database.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use agentd_base::{DomainError, ErrorKind, Timestamp};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::folder::BackupFolder;
use crate::backup::error::BackupError;
use crate::backup::model::SecretName;

const FILE_NAME: &str = "work.json";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    Backup,
    Restore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkState {
    Running,
    Done,
    Failed,
    /// The daemon stopped before the operation completed, so it had no effect.
    Interrupted,
}

/// Reason for a failure, as shown to the user.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkFailure {
    pub code: String,
    pub message: String,
}

/// Backup or restore operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    pub kind: WorkKind,
    pub state: WorkState,
    /// Name of the archive.
    pub name: String,
    /// Daemon that runs the operation.
    pub instance: String,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub failure: Option<WorkFailure>,
    /// Names of the secrets of the restored daemon.
    pub secrets: Vec<SecretName>,
}

impl Work {
    pub(crate) fn ended(self, at: Timestamp, outcome: Result<(), &BackupError>) -> Self {
        let state = if outcome.is_ok() { WorkState::Done } else { WorkState::Failed };
        Self { state, ended_at: Some(at), failure: outcome.err().map(WorkFailure::of), ..self }
    }

    pub(crate) fn interrupted(self, at: Timestamp) -> Self {
        Self { state: WorkState::Interrupted, ended_at: Some(at), ..self }
    }
}

impl WorkFailure {
    fn of(error: &BackupError) -> Self {
        let message = match (error, error.kind()) {
            // Internal errors are only logged.
            (BackupError::Unfinished { .. } | BackupError::Files { .. } | BackupError::FilesGone { .. }, _) => {
                error.to_string()
            }
            (_, ErrorKind::Internal) => "Internal error; see the daemon's log".to_owned(),
            _ => error.to_string(),
        };
        Self { code: error.code().to_owned(), message }
    }
}

impl BackupFolder {
    /// Reads the state. Blocks.
    pub(crate) fn read_work(&self) -> Result<Option<Work>, BackupError> {
        match fs::read(self.path().join(FILE_NAME)) {
            // A state of a newer version is ignored.
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BackupError::files("the state of backups")(error)),
        }
    }

    /// Writes the state; requires the backup lock. Blocks.
    pub(crate) fn write_work(&self, work: &Work) -> Result<(), BackupError> {
        let failed = || BackupError::files("the state of backups");
        let text = serde_json::to_vec(work).map_err(|error| failed()(error.into()))?;
        let path = self.path().join(FILE_NAME);
        let temporary = path.with_extension("json.new");
        let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(no_link);
        let mut file = options.open(&temporary).map_err(failed())?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed())?;
        fs::rename(&temporary, &path).map_err(failed())?;
        File::open(self.path()).and_then(|folder| folder.sync_all()).map_err(failed())
    }

    /// Marks a running operation as interrupted: the caller holds the backup lock, so no daemon is running it. Returns
    /// the last operation. Blocks.
    pub(crate) fn settle_interrupted(&self, at: Timestamp) -> Result<Option<Work>, BackupError> {
        match self.read_work()? {
            Some(work) if work.state == WorkState::Running => {
                let work = work.interrupted(at);
                self.write_work(&work)?;
                Ok(Some(work))
            }
            ended => Ok(ended),
        }
    }

    /// Marks the restore as finished. Called before its files are removed, so a daemon killed later has completed it.
    pub(crate) fn mark_restore_finished(&self, at: Timestamp) -> Result<(), BackupError> {
        match self.read_work()? {
            Some(work) if work.kind == WorkKind::Restore && work.state == WorkState::Running => {
                self.write_work(&work.ended(at, Ok(())))
            }
            _ => Ok(()),
        }
    }
}
