//! Limit on unread events. While the limit is reached, requests that would add events are rejected with a retry delay.
//! Running work continues, and so does everything that reduces the backlog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::Db;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::report::{WorkerError, WorkerReport};
use super::worker::{NextDue, Worker};

/// Minimum interval between counts.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// The interval is at least this many times the duration of the last count, so counting stays below 5 % of the time.
const MIN_INTERVAL_FACTOR: u32 = 20;

/// Number of events unread by the slowest consumer, as of the last count. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EventBacklog {
    unread: Arc<AtomicU64>,
    limit: u32,
}

impl EventBacklog {
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self { unread: Arc::default(), limit }
    }

    /// Number of unread events, capped at the limit.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.unread.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn is_full(&self) -> bool {
        self.unread() >= u64::from(self.limit)
    }
}

/// Counts unread events. Every daemon counts for itself.
#[derive(Debug)]
pub(super) struct CountEvents {
    db: Db,
    backlog: EventBacklog,
    last_duration: Mutex<Duration>,
}

impl CountEvents {
    #[must_use]
    pub(super) fn new(db: Db, backlog: EventBacklog) -> Self {
        Self { db, backlog, last_duration: Mutex::default() }
    }
}

impl Worker for CountEvents {
    fn name(&self) -> &'static str {
        "events.count"
    }

    fn description(&self) -> &'static str {
        "Counts unread events and limits the backlog."
    }

    fn interval(&self) -> Duration {
        COUNT_INTERVAL.max(*self.last_duration.lock() * MIN_INTERVAL_FACTOR)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // New events and consumer positions are both written to the database, which wakes the worker.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        Box::pin(async move {
            let mut read = self.db.read().await?;
            let started = Instant::now();
            let unread = read.count_unread_events(self.backlog.limit).await?;
            *self.last_duration.lock() = started.elapsed();
            let was_full = self.backlog.is_full();
            self.backlog.unread.store(unread, Ordering::Relaxed);
            if self.backlog.is_full() && !was_full {
                tracing::warn!(unread, "event backlog full; rejecting requests that add events");
            }
            Ok(WorkerReport::IDLE)
        })
    }
}
