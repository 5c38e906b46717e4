//! Restoring a backup that is kept.

use agentd_base::Secret;
use serde_json::json;
use tokio_util::io::ReaderStream;

use super::{Backups, failure};
use crate::backup::error::BackupError;
use crate::backup::kept::{Work, WorkKind};

impl Backups {
    /// Begins a restore, which goes on by itself: it waits for the request that began it, too.
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
        self.backup.require_alone().await?;
        let work = self.begin_work(self.folder()?, WorkKind::Restore, kept.name, kept.manifest.secrets).await?;
        tracing::warn!(name = work.name, "a restore of a backup begins");
        let (this, begun) = (self.clone(), work.clone());
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
                Ok(_) => tracing::warn!(name = work.name, "a backup was restored"),
                Err(error) => tracing::error!(name = work.name, %error, "a restore came to nothing"),
            }
            this.emit(event, data).await;
            // What is not finished is so at the next start, which says so.
            if !matches!(outcome, Err(BackupError::Unfinished { .. })) {
                this.end_work(work, outcome.as_ref().map(|_| ())).await;
            }
            let mut under_way = this.under_way.lock();
            drop(turn);
            under_way.take();
        });
        Ok(begun)
    }
}
