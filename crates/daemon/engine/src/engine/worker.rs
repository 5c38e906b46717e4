//! Background maintenance of sessions: ends abandoned turns, expires approvals and deletes old logs.

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

/// Retention of a session's log after its end.
const LOG_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// Poll interval. Sessions of a crashed daemon are found at most this long after their lease expired.
const INTERVAL: Duration = Duration::from_secs(10);
const SESSION_BATCH_SIZE: u32 = 50;
const ROW_BATCH_SIZE: u32 = 500;

/// Maintains sessions. Needs no lease because its work is idempotent.
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
        &[Retention { what: "Logs of sessions after their end", kept: LOG_RETENTION }]
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.approvals().next_sweep().at())
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(Arc::clone(self.0.approvals().requested()))
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
        let ended = self.delete_ended().await?;
        // A conversation is blocked until its approval expires. A crashed process gives no notice, so this worker is
        // never idle for long while a turn runs.
        let latest = self.must_poll().await?.then(|| self.0.inner().context.clock.now() + INTERVAL);
        let expiry = self.0.approvals().next_expiry().await?;
        self.0.approvals().next_sweep().note(expiry.into_iter().chain(latest).min());
        Ok(ended.and(abandoned).and(overdue).and(decided))
    }

    /// Whether turns run or are ready to resume, or whether another process may start some unnoticed.
    async fn must_poll(&self) -> Result<bool, WorkerError> {
        let db = &self.0.inner().context.db;
        if db.version().is_none() {
            return Ok(true);
        }
        let mut read = db.read().await?;
        let is_running = !store::list_running(&mut read, 1).await?.is_empty();
        Ok(is_running || !store::parked::list_decided(&mut read, 1).await?.is_empty())
    }

    async fn delete_ended(&self) -> Result<WorkerReport, WorkerError> {
        let context = &self.0.inner().context;
        let before = context.clock.now() - LOG_RETENTION;
        let ended = store::list_ended(&mut context.db.read().await?, before, SESSION_BATCH_SIZE).await?;
        if ended.is_empty() {
            return Ok(WorkerReport::IDLE);
        }
        let items = ended.len();
        context.db.write(async move |tx: &mut Tx| store::delete_sessions(tx, &ended, ROW_BATCH_SIZE).await).await?;
        Ok(WorkerReport::more(items))
    }
}
