//! Deletion of a domain's old data in batches.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::report::{Retention, WorkerError, WorkerReport};
use super::worker::{NextDue, Worker};

/// Data that a domain deletes in batches. It needs no lease where deleting twice is deleting once.
pub trait PurgesData: Send + Sync + 'static {
    /// The name of the worker.
    const WORKER: &'static str;
    /// What the worker deletes, in one sentence for operators.
    const DESCRIPTION: &'static str;
    /// How long data is retained that is deleted by its age.
    const RETENTION: &'static [Retention] = &[];
    const INTERVAL: Duration = Duration::from_secs(60);

    /// Wakes the worker before its interval is over.
    fn wake(&self) -> Option<Arc<Notify>> {
        None
    }

    /// As [`Worker::idle_until`]; never by default, because deletions are written and expired data can wait.
    fn idle_until(&self) -> Option<Timestamp> {
        Some(NextDue::NEVER)
    }

    /// Deletes one batch.
    fn purge_batch(&self) -> impl Future<Output = Result<WorkerReport, WorkerError>> + Send;
}

/// Deletes a batch of data in each pass.
#[derive(Debug)]
pub struct PurgeWorker<T>(pub T);

impl<T: PurgesData> Worker for PurgeWorker<T> {
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
