//! Deletion of a domain's old data in batches.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::report::{Retention, WorkerError, WorkerReport};
use super::worker::{NextDue, Worker};

/// Data that a domain deletes in batches. Deletion is idempotent, so it needs no lease.
pub trait PurgeTask: Send + Sync + 'static {
    /// Name of the worker.
    const WORKER: &'static str;
    /// Deleted data, in one sentence for operators.
    const DESCRIPTION: &'static str;
    /// Retention periods of data that is deleted by age.
    const RETENTION: &'static [Retention] = &[];
    const INTERVAL: Duration = Duration::from_secs(60);

    /// Notification that wakes the worker before its interval elapses.
    fn wake(&self) -> Option<Arc<Notify>> {
        None
    }

    /// See [`Worker::idle_until`]. Defaults to [`NextDue::NEVER`]: deletions are database writes, and expired data can
    /// wait.
    fn idle_until(&self) -> Option<Timestamp> {
        Some(NextDue::NEVER)
    }

    /// Deletes one batch.
    fn purge_batch(&self) -> impl Future<Output = Result<WorkerReport, WorkerError>> + Send;
}

/// Worker that deletes one batch per pass.
#[derive(Debug)]
pub struct PurgeWorker<T>(pub T);

impl<T: PurgeTask> Worker for PurgeWorker<T> {
    fn name(&self) -> &'static str {
        T::WORKER
    }

    fn description(&self) -> &'static str {
        T::DESCRIPTION
    }

    fn retention(&self) -> &'static [Retention] {
        T::RETENTION
    }

    fn interval(&self) -> Duration {
        T::INTERVAL
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        self.0.wake()
    }

    fn idle_until(&self) -> Option<Timestamp> {
        self.0.idle_until()
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.0.purge_batch().boxed()
    }
}
