//! Ends what nobody runs any more and forgets logs a day after their end.

use std::time::Duration;

use agentd_store::Tx;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::service::Engine;
use super::{recovery, store};
use crate::ground::{Worker, WorkerError};

/// How long the log of a session is kept after its end.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
const SESSIONS_A_BATCH: u32 = 50;
const ROWS_A_BATCH: u32 = 500;

/// Keeps the sessions in order; needs no lease, because doing its work twice changes nothing.
#[derive(Debug)]
pub struct KeepSessions(pub Engine);

impl Worker for KeepSessions {
    fn name(&self) -> &'static str {
        "engine.sessions"
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<bool, WorkerError>> {
        self.run().boxed()
    }
}

impl KeepSessions {
    async fn run(&self) -> Result<bool, WorkerError> {
        let has_abandoned = recovery::interrupt_abandoned(self.0.inner()).await?;
        let has_overdue = self.0.approvals().sweep().await?;
        let has_decided = self.0.wake_decided().await?;
        Ok(self.forget_ended().await? || has_abandoned || has_overdue || has_decided)
    }

    async fn forget_ended(&self) -> Result<bool, WorkerError> {
        let ground = &self.0.inner().ground;
        let before = ground.clock.now() - KEPT;
        let ended = store::list_ended(&mut ground.db.read().await?, before, SESSIONS_A_BATCH).await?;
        if ended.is_empty() {
            return Ok(false);
        }
        ground.db.write(async move |tx: &mut Tx| store::delete_sessions(tx, &ended, ROWS_A_BATCH).await).await?;
        Ok(true)
    }
}
