//! Restoring stored backups.

use agentd_base::Secret;
use serde_json::json;
use tokio_util::io::ReaderStream;

use super::{Backups, failure};
use crate::backup::error::BackupError;
use crate::backup::kept::{Work, WorkKind};

impl Backups {
    /// Starts a restore in the background, which waits for running requests, including the one that started it.
    ///
    /// # Errors
    /// `NotFound`, `NotConfirmed`, `NoSecrets`, `Busy`, `OtherDaemons`.
    pub(crate) async fn restore(
        &self,
        name: String,
        confirm: &str,
        passphrase: Option<Secret>,
    ) -> Result<Work, BackupError> {
        let (kept, file) = self.open(name).await?;
        if confirm != kept.name {
            return Err(BackupError::NotConfirmed);
        }
        if passphrase.is_some() && !kept.manifest.has_secrets {
            return Err(BackupError::NoSecrets);
        }
        let turn = self.backup.begin()?;
        self.backup.require_no_other_daemons().await?;
        let work = self.start_work(self.folder()?, WorkKind::Restore, kept.name, kept.manifest.secrets).await?;
        tracing::warn!(name = work.name, "restore started");
        let (this, started) = (self.clone(), work.clone());
        tokio::spawn(async move {
            let archive = ReaderStream::with_capacity(tokio::fs::File::from_std(file), 64 * 1024);
            let restoring = {
                let backup = this.backup.clone();
                tokio::spawn(async move { backup.restore_in_turn(archive, passphrase).await })
            };
            let outcome = restoring.await.unwrap_or_else(|_| Err(BackupError::EndedUnexpectedly));
            let (event, data) = match &outcome {
                Ok(report) => ("backup.restored", json!({"name": work.name, "created_at": report.created_at})),
                Err(error) => ("backup.failed", failure(&work, error)),
            };
            match &outcome {
                Ok(_) => tracing::warn!(name = work.name, "backup restored"),
                Err(error) => tracing::error!(name = work.name, %error, "restore failed"),
            }
            this.emit(event, data).await;
            // An unfinished restore is completed, and reported, by the next start.
            if !matches!(outcome, Err(BackupError::Unfinished { .. })) {
                this.end_work(work, outcome.as_ref().map(|_| ())).await;
            }
            let mut current = this.current.lock();
            drop(turn);
            current.take();
        });
        Ok(started)
    }
}
