//! Ends what nobody runs any more, lets approvals expire, and forgets logs a day after their end.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_core::runtime::{Retention, Worker, WorkerError, WorkerReport};
use agentd_store::Tx;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use crate::engine::service::Engine;
use crate::engine::session::recovery;
use crate::engine::store;

/// How long the log of a session is kept after its end.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// Sessions of a daemon that died are found at most this long after their lease has expired.
const INTERVAL: Duration = Duration::from_secs(10);
const SESSIONS_A_BATCH: u32 = 50;
const ROWS_A_BATCH: u32 = 500;

/// Keeps the sessions in order; needs no lease, because doing its work twice changes nothing.
#[derive(Debug)]
pub(super) struct SessionMaintenance(pub Engine);

impl Worker for SessionMaintenance {
    fn name(&self) -> &'static str {
        "engine.sessions"
    }

    fn description(&self) -> &'static str {
        "Recovers abandoned turns, expires approvals and deletes old session logs."
    }

    fn retention(&self) -> &'static [Retention] {
        &[Retention { what: "Logs of sessions after their end", kept: KEPT }]
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.approvals().next_look().at())
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(Arc::clone(self.0.approvals().asked()))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl SessionMaintenance {
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let abandoned = recovery::interrupt_abandoned(self.0.inner()).await?;
        let overdue = self.0.approvals().sweep().await?;
        let decided = self.0.wake_decided().await?;
        let ended = self.forget_ended().await?;
        // A conversation is blocked until what it waits for has expired. Whoever runs a turn ends without a word, so
        // while there is one this is never idle for long.
        let latest = self.is_watching().await?.then(|| self.0.inner().context.clock.now() + INTERVAL);
        let expiry = self.0.approvals().next_expiry().await?;
        self.0.approvals().next_look().note(expiry.into_iter().chain(latest).min());
        Ok(ended.and(abandoned).and(overdue).and(decided))
    }

    /// Whether there are turns that somebody runs or is to take up, or others may begin some unseen.
    async fn is_watching(&self) -> Result<bool, WorkerError> {
        let db = &self.0.inner().context.db;
        if db.version().is_none() {
            return Ok(true);
        }
        let mut read = db.read().await?;
        let is_running = !store::list_running(&mut read, 1).await?.is_empty();
        Ok(is_running || !store::parked::list_decided(&mut read, 1).await?.is_empty())
    }

    async fn forget_ended(&self) -> Result<WorkerReport, WorkerError> {
        let context = &self.0.inner().context;
        let before = context.clock.now() - KEPT;
        let ended = store::list_ended(&mut context.db.read().await?, before, SESSIONS_A_BATCH).await?;
        if ended.is_empty() {
            return Ok(WorkerReport::IDLE);
        }
        let items = ended.len();
        context.db.write(async move |tx: &mut Tx| store::delete_sessions(tx, &ended, ROWS_A_BATCH).await).await?;
        Ok(WorkerReport::more(items))
    }
}
