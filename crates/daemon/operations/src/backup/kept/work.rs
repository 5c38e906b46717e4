//! What is being done or was done last: in a file beside the archives, since a restore replaces the database.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use agentd_base::{DomainError, ErrorKind, Timestamp};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::folder::KeptFolder;
use crate::backup::error::BackupError;
use crate::backup::model::SecretName;

const FILE: &str = "work.json";

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
    /// The daemon ended meanwhile. Nothing came of it.
    Interrupted,
}

/// Why it came to nothing, in words for people.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkFailure {
    pub code: String,
    pub message: String,
}

/// A backup or a restore, from its beginning on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    pub kind: WorkKind,
    pub state: WorkState,
    /// Of the archive.
    pub name: String,
    /// The daemon that does it.
    pub instance: String,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub failure: Option<WorkFailure>,
    /// What the restored daemon had stored as secrets.
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
            // What is broken inside is for the log.
            (BackupError::Unfinished { .. } | BackupError::Files { .. } | BackupError::FilesGone { .. }, _) => {
                error.to_string()
            }
            (_, ErrorKind::Internal) => "It failed inside the daemon, whose log says why".to_owned(),
            _ => error.to_string(),
        };
        Self { code: error.code().to_owned(), message }
    }
}

impl KeptFolder {
    /// Blocks.
    pub(crate) fn read_work(&self) -> Result<Option<Work>, BackupError> {
        match fs::read(self.path().join(FILE)) {
            // One of a newer program says nothing to this one.
            Ok(text) => Ok(serde_json::from_slice(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BackupError::files("the state of backups")(error)),
        }
    }

    /// For whoever holds the backup lock. Blocks.
    pub(crate) fn write_work(&self, work: &Work) -> Result<(), BackupError> {
        let failed = || BackupError::files("the state of backups");
        let text = serde_json::to_vec(work).map_err(|error| failed()(error.into()))?;
        let path = self.path().join(FILE);
        let fresh = path.with_extension("json.new");
        let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(no_link);
        let mut file = options.open(&fresh).map_err(failed())?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed())?;
        fs::rename(&fresh, &path).map_err(failed())?;
        File::open(self.path()).and_then(|folder| folder.sync_all()).map_err(failed())
    }

    /// Whoever holds the backup lock knows that nobody is at it any more: what stands as running was cut off. Answers
    /// what was done last. Blocks.
    pub(crate) fn settle(&self, at: Timestamp) -> Result<Option<Work>, BackupError> {
        match self.read_work()? {
            Some(work) if work.state == WorkState::Running => {
                let work = work.interrupted(at);
                self.write_work(&work)?;
                Ok(Some(work))
            }
            ended => Ok(ended),
        }
    }

    /// Before the traces of a restore are removed: whoever is killed from then on has finished it.
    pub(crate) fn note_finished_restore(&self, at: Timestamp) -> Result<(), BackupError> {
        match self.read_work()? {
            Some(work) if work.kind == WorkKind::Restore && work.state == WorkState::Running => {
                self.write_work(&work.ended(at, Ok(())))
            }
            _ => Ok(()),
        }
    }
}
