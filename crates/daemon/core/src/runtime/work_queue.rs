//! Leased work queues. Each claimed item is handled in its own task under a permit, so stopping the workers does not
//! cancel items in progress.

use std::collections::HashMap;
use std::error::Error;
use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Backoff, DomainError, ErrorKind, Timestamp, trace};
use agentd_store::{Lease, StoreError, Tx};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tracing::Instrument as _;

use super::AppContext;
use super::limits::ConcurrencyLimit;
use super::report::{WorkerError, WorkerReport};
use super::worker::{NextDue, Worker};
use crate::lease;

/// Maximum time that a pass waits for running items, so that workers can be paused.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Maximum retry delay; longer delays requested by a remote service are capped.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(24 * 3600);

/// Leased queue that this process works on, with a limit on concurrent items.
#[derive(Debug)]
pub struct WorkQueue {
    name: &'static str,
    permits: ConcurrencyLimit,
    /// Number of items of each lane that this process holds.
    lanes: Arc<Mutex<HashMap<String, usize>>>,
    next_due: NextDue,
    wake: Arc<Notify>,
}

/// Counts an item of a lane until dropped.
struct LaneGuard {
    lanes: Arc<Mutex<HashMap<String, usize>>>,
    lane: String,
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock();
        if let Some(held) = lanes.get_mut(&self.lane) {
            *held -= 1;
            if *held == 0 {
                lanes.remove(&self.lane);
            }
        }
    }
}

impl WorkQueue {
    /// Creates the queue `name` with up to `concurrency` concurrent items. Enqueued items wake the worker until the
    /// daemon drains.
    #[must_use]
    pub fn new(context: &AppContext, name: &'static str, concurrency: usize) -> Self {
        let wake = Arc::new(Notify::new());
        let (mut enqueued, draining) = (context.db.watch_queue(name), context.draining.clone());
        let woken = Arc::clone(&wake);
        tokio::spawn(draining.run_until_cancelled_owned(async move {
            while enqueued.changed().await.is_ok() {
                woken.notify_one();
            }
        }));
        Self {
            name,
            permits: ConcurrencyLimit::new(concurrency),
            lanes: Arc::default(),
            next_due: NextDue::default(),
            wake,
        }
    }

    fn enter_lane(&self, lane: &str) -> LaneGuard {
        *self.lanes.lock().entry(lane.to_owned()).or_default() += 1;
        LaneGuard { lanes: Arc::clone(&self.lanes), lane: lane.to_owned() }
    }

    fn full_lanes(&self, limit: usize) -> Vec<String> {
        self.lanes.lock().iter().filter(|(_, held)| **held >= limit).map(|(lane, _)| lane.clone()).collect()
    }

    /// Waits until no item is running in this process, up to `limit`.
    pub async fn drain(&self, limit: Duration) {
        if !self.permits.drain(limit).await {
            tracing::warn!(
                queue = self.name,
                "queue not drained in time; remaining items resume after their leases expire"
            );
        }
    }
}

/// Failure to handle an item.
#[derive(Debug)]
pub struct ItemFailure<E> {
    pub message: String,
    /// Code of the underlying error, if any.
    pub code: Option<&'static str>,
    /// Final state of the item if the failure is permanent.
    pub end: Option<E>,
    /// Delay before the next attempt, if known.
    delay: Option<Duration>,
    is_lost_lease: bool,
}

impl<E> ItemFailure<E> {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: None, end: None, delay: None, is_lost_lease: false }
    }

    /// Creates a permanent failure: the item is not retried.
    pub fn permanent(end: E, message: impl Into<String>) -> Self {
        Self { end: Some(end), ..Self::new(message) }
    }

    /// Creates a temporary failure: the item is retried after `delay`.
    pub fn retry_after(delay: Duration, message: impl Into<String>) -> Self {
        Self { delay: Some(delay), ..Self::new(message) }
    }

    /// Schedules another attempt after the delay of the failure, or by `backoff` if it has none.
    ///
    /// # Errors
    /// `StoreError` if the item cannot be updated.
    pub async fn retry(&self, tx: &mut Tx, lease: &Lease, backoff: &Backoff) -> Result<(), StoreError> {
        match self.delay {
            Some(delay) => tx.fail_for(lease, &self.message, delay.min(MAX_RETRY_DELAY)).await?,
            None => tx.fail(lease, &self.message, backoff).await?,
        };
        Ok(())
    }
}

impl<E, F: DomainError> From<F> for ItemFailure<E> {
    fn from(error: F) -> Self {
        let is_lost_lease = successors(Some(&error as &(dyn Error + 'static)), |&error| error.source())
            .any(|error| matches!(error.downcast_ref(), Some(StoreError::LostLease { .. })));
        let delay = match error.kind() {
            ErrorKind::TooMany(after) | ErrorKind::InProgress(after) => Some(after),
            _ => None,
        };
        Self { code: Some(error.code()), delay, is_lost_lease, ..Self::new(error.to_string()) }
    }
}

/// Handler of the items of a queue.
pub trait ItemHandler: Clone + Send + Sync + 'static {
    /// Payload of an item.
    type Item: DeserializeOwned + Send + Sync + 'static;
    /// Final state of an item that failed permanently.
    type End: Send + Sync + 'static;
    /// Name of the worker.
    const WORKER: &'static str;
    /// Description of the worker, in one sentence for operators.
    const DESCRIPTION: &'static str;
    /// Lease duration. The lease is renewed while an item is handled, so items of a crashed daemon become available
    /// soon.
    const LEASE: Duration;
    /// Number of held items of one lane from which this process claims no more of that lane. One claim can exceed it by
    /// up to the same number.
    const LANE_LIMIT: usize = usize::MAX;

    fn context(&self) -> &AppContext;

    fn queue(&self) -> &WorkQueue;

    /// Handles an item and completes it in the same transaction.
    fn handle(
        &self,
        lease: &Lease,
        item: &Self::Item,
    ) -> impl Future<Output = Result<(), ItemFailure<Self::End>>> + Send;

    /// Records a failure and whether the item is retried.
    fn record_failure(
        &self,
        tx: &mut Tx,
        lease: &Lease,
        item: &Self::Item,
        failure: &ItemFailure<Self::End>,
    ) -> impl Future<Output = Result<(), StoreError>>;

    /// Runs `work` while renewing the lease, and cancels it if the lease is lost.
    fn run_until_lost<T: Send, E: From<StoreError> + Send>(
        &self,
        lease: &Lease,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> impl Future<Output = Result<T, E>> + Send {
        lease::run_until_lost(&self.context().db, lease, Self::LEASE, work)
    }

    /// Completes an item that needs no further work.
    fn complete(&self, lease: &Lease) -> impl Future<Output = Result<(), ItemFailure<Self::End>>> + Send {
        let held = lease.clone();
        async move { Ok(self.context().db.write(async move |tx: &mut Tx| tx.complete(&held).await).await?) }
    }
}

/// Worker that claims due items of a queue and spawns their handlers.
#[derive(Debug)]
pub struct QueueWorker<H>(pub H);

impl<H: ItemHandler> Worker for QueueWorker<H> {
    fn name(&self) -> &'static str {
        H::WORKER
    }

    fn description(&self) -> &'static str {
        H::DESCRIPTION
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.0.queue().next_due.at())
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(Arc::clone(&self.0.queue().wake))
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.run().boxed()
    }
}

impl<H: ItemHandler> QueueWorker<H> {
    /// Claims one due item per free permit, spawns a task for each, and waits until a permit is free again.
    async fn run(&self) -> Result<WorkerReport, WorkerError> {
        let (context, queue) = (self.0.context(), self.0.queue());
        let mut items = 0;
        let free = queue.permits.free();
        if !context.draining.is_cancelled() {
            let due = context.db.read().await?.next_due(queue.name).await?;
            queue.next_due.note(due);
            if free > 0 && due.is_some_and(|due| due <= context.clock.now()) {
                let limit = u32::try_from(free.min(H::LANE_LIMIT)).unwrap_or(1);
                let full = queue.full_lanes(H::LANE_LIMIT);
                let claimed =
                    context.db.claim_excluding_lanes(queue.name, &context.instance, limit, H::LEASE, full).await?;
                for lease in claimed {
                    items += 1;
                    let lane = lease.lane().map(|lane| queue.enter_lane(lane));
                    let (handler, permit, trace) = (self.0.clone(), queue.permits.take(), lease.trace);
                    let trace_id = trace.map(|trace| tracing::field::display(trace.trace_id));
                    let span = tracing::info_span!("claim", item = %lease.id, trace_id);
                    let work = async move {
                        attempt(&handler, lease).await;
                        drop(lane);
                        drop(permit);
                    };
                    tokio::spawn(trace::with_context(trace, work).instrument(span));
                }
            }
        }
        // A claim bounded by the lane limit may have left due items although permits are free.
        if items >= H::LANE_LIMIT as u64 && queue.permits.free() > 0 {
            return Ok(WorkerReport::more(items));
        }
        Ok(WorkerReport { items, has_more: queue.permits.settle(Some(&queue.wake), MAX_WAIT).await })
    }
}

async fn attempt<H: ItemHandler>(handler: &H, lease: Lease) {
    let recorded = match lease.payload::<H::Item>() {
        Ok(item) => match handler.handle(&lease, &item).await {
            Err(failure) if !failure.is_lost_lease => {
                record_failure(handler, lease, item, failure).await.map_err(Into::into)
            }
            handled => handled,
        },
        Err(error) => dead_letter(handler, lease, error.to_string()).await.map_err(Into::into),
    };
    match recorded {
        Ok(()) => {}
        Err(failure) if failure.is_lost_lease => {
            tracing::warn!(worker = H::WORKER, "lease lost; another daemon took over the item");
        }
        Err(failure) => {
            tracing::warn!(worker = H::WORKER, error = failure.message, "failed to record the result of an item");
        }
    }
}

/// Dead-letters an item whose payload cannot be decoded; a retry would fail as well.
async fn dead_letter<H: ItemHandler>(handler: &H, lease: Lease, error: String) -> Result<(), StoreError> {
    tracing::warn!(item = %lease.id, worker = H::WORKER, error, "undecodable item dead-lettered");
    handler.context().db.write(async move |tx: &mut Tx| tx.dead_letter(&lease, &error).await).await
}

async fn record_failure<H: ItemHandler>(
    handler: &H,
    lease: Lease,
    item: H::Item,
    failure: ItemFailure<H::End>,
) -> Result<(), StoreError> {
    let (here, db) = (handler.clone(), &handler.context().db);
    // A failure during shutdown is not counted against the item.
    if handler.context().draining.is_cancelled() {
        return db.write(async move |tx: &mut Tx| tx.release(&lease).await).await;
    }
    db.write(async move |tx: &mut Tx| here.record_failure(tx, &lease, &item, &failure).await).await
}
