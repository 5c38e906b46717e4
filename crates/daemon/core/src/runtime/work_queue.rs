//! Leased queues whose items are worked on beside their worker, each in a task of its own under a permit: what has
//! begun is not cut off when the workers stop.

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

/// A pass waits for work that is under way no longer than this, so that the daemon can come to rest.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Nobody may put us off for longer.
const LONGEST_DELAY: Duration = Duration::from_secs(24 * 3600);

/// A leased queue that this process works on, a number of items at once.
#[derive(Debug)]
pub struct WorkQueue {
    name: &'static str,
    permits: ConcurrencyLimit,
    /// How many items of each lane are held here.
    lanes: Arc<Mutex<HashMap<String, usize>>>,
    next_due: NextDue,
    wake: Arc<Notify>,
}

/// An item of a lane that is held here, until it is dropped.
struct InLane {
    lanes: Arc<Mutex<HashMap<String, usize>>>,
    lane: String,
}

impl Drop for InLane {
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
    /// What is enqueued from now on wakes its worker, until the daemon drains.
    #[must_use]
    pub fn new(context: &AppContext, name: &'static str, at_once: usize) -> Self {
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
            permits: ConcurrencyLimit::new(at_once),
            lanes: Arc::default(),
            next_due: NextDue::default(),
            wake,
        }
    }

    fn enter_lane(&self, lane: &str) -> InLane {
        *self.lanes.lock().entry(lane.to_owned()).or_default() += 1;
        InLane { lanes: Arc::clone(&self.lanes), lane: lane.to_owned() }
    }

    fn full_lanes(&self, limit: usize) -> Vec<String> {
        self.lanes.lock().iter().filter(|(_, held)| **held >= limit).map(|(lane, _)| lane.clone()).collect()
    }

    /// Waits until nothing of it is under way here, `limit` at most.
    pub async fn drain(&self, limit: Duration) {
        if !self.permits.drain(limit).await {
            tracing::warn!(queue = self.name, "some items are only taken up again when their leases end");
        }
    }
}

/// Why an item was not handled.
#[derive(Debug)]
pub struct ItemFailure<E> {
    pub message: String,
    /// Of the error behind it, if there is one.
    pub code: Option<&'static str>,
    /// It is known that trying again is useless, and how the item ends.
    pub end: Option<E>,
    /// How long to wait before the next attempt, where that is known.
    delay: Option<Duration>,
    is_lost_lease: bool,
}

impl<E> ItemFailure<E> {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: None, end: None, delay: None, is_lost_lease: false }
    }

    /// It never will be.
    pub fn last(end: E, message: impl Into<String>) -> Self {
        Self { end: Some(end), ..Self::new(message) }
    }

    /// It can be tried again after this.
    pub fn passing(delay: Duration, message: impl Into<String>) -> Self {
        Self { delay: Some(delay), ..Self::new(message) }
    }

    /// Leaves the item for another attempt, by `backoff` unless the failure says when.
    ///
    /// # Errors
    /// The store's refusal.
    pub async fn retry(&self, tx: &mut Tx, lease: &Lease, backoff: &Backoff) -> Result<(), StoreError> {
        match self.delay {
            Some(delay) => tx.fail_for(lease, &self.message, delay.min(LONGEST_DELAY)).await?,
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

/// What is done with the items of a queue.
pub trait HandlesItems: Clone + Send + Sync + 'static {
    /// What the payload of an item is.
    type Item: DeserializeOwned + Send + Sync + 'static;
    /// How an item may end without having been handled.
    type End: Send + Sync + 'static;
    /// The name of the worker.
    const WORKER: &'static str;
    /// What the worker does, in one sentence for operators.
    const DESCRIPTION: &'static str;
    /// Renewed while an item is held, so that a daemon that died holds nothing for long.
    const LEASE: Duration;
    /// Items of one lane after which no more of it are claimed here: a claim takes as many again at most.
    const LANE_LIMIT: usize = usize::MAX;

    fn context(&self) -> &AppContext;

    fn queue(&self) -> &WorkQueue;

    /// Handles an item and ends it, both in one transaction.
    fn handle(
        &self,
        lease: &Lease,
        item: &Self::Item,
    ) -> impl Future<Output = Result<(), ItemFailure<Self::End>>> + Send;

    /// Writes down that an item was not handled, and whether it is tried again.
    fn record_failure(
        &self,
        tx: &mut Tx,
        lease: &Lease,
        item: &Self::Item,
        failure: &ItemFailure<Self::End>,
    ) -> impl Future<Output = Result<(), StoreError>>;

    /// Does something while the lease is kept; it is dropped where that is lost.
    fn hold<T: Send, E: From<StoreError> + Send>(
        &self,
        lease: &Lease,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> impl Future<Output = Result<T, E>> + Send {
        lease::hold(&self.context().db, lease, Self::LEASE, work)
    }

    /// Ends an item about which nothing is left to do.
    fn complete(&self, lease: &Lease) -> impl Future<Output = Result<(), ItemFailure<Self::End>>> + Send {
        let held = lease.clone();
        async move { Ok(self.context().db.write(async move |tx: &mut Tx| tx.complete(&held).await).await?) }
    }
}

/// Claims what is due in a queue, and has it handled.
#[derive(Debug)]
pub struct QueueWorker<H>(pub H);

impl<H: HandlesItems> Worker for QueueWorker<H> {
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

impl<H: HandlesItems> QueueWorker<H> {
    /// Claims as many due items as there are permits, begins to handle each, and waits until a permit is free again.
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
                let claimed = context.db.claim_outside(queue.name, &context.instance, limit, H::LEASE, full).await?;
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
                    tokio::spawn(trace::within(trace, work).instrument(span));
                }
            }
        }
        // A claim that was bounded by the limit of lanes may have left some for which there are permits.
        if items >= H::LANE_LIMIT as u64 && queue.permits.free() > 0 {
            return Ok(WorkerReport::more(items));
        }
        Ok(WorkerReport { items, has_more: queue.permits.settle(Some(&queue.wake), LONGEST_WAIT).await })
    }
}

async fn attempt<H: HandlesItems>(handler: &H, lease: Lease) {
    let recorded = match lease.payload::<H::Item>() {
        Ok(item) => match handler.handle(&lease, &item).await {
            Err(failure) if !failure.is_lost_lease => record(handler, lease, item, failure).await.map_err(Into::into),
            handled => handled,
        },
        Err(error) => bury(handler, lease, error.to_string()).await.map_err(Into::into),
    };
    match recorded {
        Ok(()) => {}
        Err(failure) if failure.is_lost_lease => {
            tracing::warn!(worker = H::WORKER, "another daemon has taken over what was being done here");
        }
        Err(failure) => {
            tracing::warn!(worker = H::WORKER, error = failure.message, "what came of an item could not be stored");
        }
    }
}

/// What cannot be read now never can.
async fn bury<H: HandlesItems>(handler: &H, lease: Lease, error: String) -> Result<(), StoreError> {
    tracing::warn!(item = %lease.id, worker = H::WORKER, error, "an item cannot be read and is given up");
    handler.context().db.write(async move |tx: &mut Tx| tx.bury(&lease, &error).await).await
}

async fn record<H: HandlesItems>(
    handler: &H,
    lease: Lease,
    item: H::Item,
    failure: ItemFailure<H::End>,
) -> Result<(), StoreError> {
    let (here, db) = (handler.clone(), &handler.context().db);
    // That the daemon goes down has nothing to do with the item.
    if handler.context().draining.is_cancelled() {
        return db.write(async move |tx: &mut Tx| tx.release(&lease).await).await;
    }
    db.write(async move |tx: &mut Tx| here.record_failure(tx, &lease, &item, &failure).await).await
}
