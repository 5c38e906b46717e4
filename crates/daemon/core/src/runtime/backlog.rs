//! Events that wait to be read are bounded: while there are too many, requests that would add to them are told to come
//! back. What the daemon has begun goes on, and so does whatever helps to get rid of them.

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

/// How often they are counted, or later where counting takes long.
const COUNTED_EVERY: Duration = Duration::from_secs(1);
/// Counting takes a part of the time that is not more than this.
const SHARE_OF_COUNTING: u32 = 20;

/// How many events wait for the slowest of those who read them, as it was last counted. Cheap to clone.
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

    /// Not counted beyond the limit.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.unread.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn is_full(&self) -> bool {
        self.unread() >= u64::from(self.limit)
    }
}

/// Counts what waits. Every daemon does so for itself.
#[derive(Debug)]
pub(super) struct CountEvents {
    db: Db,
    backlog: EventBacklog,
    took: Mutex<Duration>,
}

impl CountEvents {
    #[must_use]
    pub(super) fn new(db: Db, backlog: EventBacklog) -> Self {
        Self { db, backlog, took: Mutex::default() }
    }
}

impl Worker for CountEvents {
    fn name(&self) -> &'static str {
        "count_events"
    }

    fn description(&self) -> &'static str {
        "Counts unread events and limits the backlog."
    }

    fn interval(&self) -> Duration {
        COUNTED_EVERY.max(*self.took.lock() * SHARE_OF_COUNTING)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        // Events are written, and so is how far they were read.
        Some(NextDue::NEVER)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        Box::pin(async move {
            let mut read = self.db.read().await?;
            let begun = Instant::now();
            let unread = read.count_unread_events(self.backlog.limit).await?;
            *self.took.lock() = begun.elapsed();
            let was_full = self.backlog.is_full();
            self.backlog.unread.store(unread, Ordering::Relaxed);
            if self.backlog.is_full() && !was_full {
                tracing::warn!(
                    unread,
                    "so many events wait to be read that requests which would add to them are refused"
                );
            }
            Ok(WorkerReport::IDLE)
        })
    }
}
