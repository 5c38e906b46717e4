//! Recovery of interrupted restores at the next start.

use std::sync::Arc;
use std::time::Duration;

use agentd_core::runtime::FileLock;

use super::Backup;
use super::threads::blocking;
use crate::backup::error::BackupError;
use crate::backup::journal::{Leftover, find_leftover, has_traces, remove_abandoned};

/// Interval at which a start checks whether another daemon's restore has finished.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Behavior of a start while another daemon on the same data directory backs up or restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhileBusy {
    /// Wait; the daemon is not ready meanwhile.
    Wait,
    /// Fail with an error, for commands.
    Refuse,
}

impl Backup {
    /// Completes or discards an interrupted restore; returns whether one was completed. Called at every start before
    /// anything else uses the data.
    ///
    /// # Errors
    /// Files cannot be moved or secrets cannot be stored; the next start tries again. `Busy` if another daemon works on
    /// backups and this one must not wait.
    pub async fn finish_interrupted(&self, while_busy: WhileBusy) -> Result<bool, BackupError> {
        // Another daemon that starts a restore later sees this daemon as running.
        if !has_traces(&self.data_dir) {
            return Ok(false);
        }
        let _turn = self.wait_for_lock(while_busy).await?;
        match find_leftover(&self.data_dir, &self.db.database_id().await?)? {
            Leftover::Nothing => {
                let data_dir = Arc::clone(&self.data_dir);
                blocking(move || {
                    remove_abandoned(&data_dir);
                    Ok(false)
                })
                .await
            }
            Leftover::Discard(waiting) => {
                tracing::warn!("discarding interrupted restore; nothing was changed");
                blocking(move || waiting.remove()).await?;
                Ok(false)
            }
            Leftover::Finish(waiting) => {
                tracing::warn!("completing interrupted restore");
                self.apply_files_and_secrets(&waiting).await?;
                self.finish(waiting).await?;
                Ok(true)
            }
        }
    }

    async fn wait_for_lock(&self, while_busy: WhileBusy) -> Result<FileLock, BackupError> {
        let mut is_logged = false;
        loop {
            match self.begin() {
                Err(BackupError::Busy) if while_busy == WhileBusy::Wait => {}
                outcome => return outcome,
            }
            if !std::mem::replace(&mut is_logged, true) {
                tracing::warn!("waiting for a backup or restore of another daemon");
            }
            tokio::time::sleep(LOCK_POLL_INTERVAL).await;
        }
    }
}
