//! Restores that were cut off: finished or forgotten at the next start.

use std::sync::Arc;
use std::time::Duration;

use agentd_core::runtime::FileLock;

use super::Backup;
use super::threads::blocking;
use crate::backup::error::BackupError;
use crate::backup::journal::{Leftover, find_leftover, has_traces, remove_abandoned};

/// How soon a start looks again whether another daemon's restore is over.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What a start does while another daemon on the same data directory backs up or restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhileBusy {
    /// A daemon has time: it is unready meanwhile.
    Wait,
    /// A command says so and ends.
    Refuse,
}

impl Backup {
    /// Finishes or forgets a restore that was cut off. Called at every start, before anything else
    /// works on the data; whether there was one to finish.
    ///
    /// # Errors
    /// Files cannot be moved or secrets not be stored; the next start tries again. `Busy` when
    /// another daemon is at it and this one shall not wait.
    pub async fn finish_interrupted(&self, while_busy: WhileBusy) -> Result<bool, BackupError> {
        // What another daemon begins from here on finds this one as one that runs already.
        if !has_traces(&self.data_dir) {
            return Ok(false);
        }
        let _turn = self.await_turn(while_busy).await?;
        match find_leftover(&self.data_dir, &self.db.database_id().await?)? {
            Leftover::Nothing => {
                let data_dir = Arc::clone(&self.data_dir);
                blocking(move || {
                    remove_abandoned(&data_dir);
                    Ok(false)
                })
                .await
            }
            Leftover::ToForget(waiting) => {
                tracing::warn!("a restore was cut off before it changed anything; the old state stands");
                blocking(move || waiting.remove()).await?;
                Ok(false)
            }
            Leftover::ToFinish(waiting) => {
                tracing::warn!("a restore was cut off; it is finished now");
                self.follow_database(&waiting).await?;
                self.forget(waiting).await?;
                Ok(true)
            }
        }
    }

    async fn await_turn(&self, while_busy: WhileBusy) -> Result<FileLock, BackupError> {
        let mut is_told = false;
        loop {
            match self.begin() {
                Err(BackupError::Busy) if while_busy == WhileBusy::Wait => {}
                outcome => return outcome,
            }
            if !std::mem::replace(&mut is_told, true) {
                tracing::warn!("another daemon on this data directory restores or backs up; waiting for its end");
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}
