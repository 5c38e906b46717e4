//! Background workers. Each call does one bounded piece of work and reports the result.

mod idle;
mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

pub use workers::{WorkerPause, Workers};

use crate::runtime::report::{Retention, WorkerError, WorkerReport};

/// Background worker. Its work is idempotent and leased: it may be killed at any point and continue in another process.
pub trait Worker: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// Description in one sentence for operators.
    fn description(&self) -> &'static str;

    /// Data that the worker deletes by age, with the retention periods.
    fn retention(&self) -> &'static [Retention] {
        &[]
    }

    /// Maximum time between two passes unless the worker is idle; see [`Self::idle_until`].
    fn interval(&self) -> Duration;

    /// Notification that wakes the worker before its interval elapses.
    fn wake(&self) -> Option<Arc<Notify>> {
        None
    }

    /// Time at which work is next due, asked after a pass that found none. `None` means unknown: the worker polls at
    /// its interval.
    ///
    /// Until that time the worker is not run, however short its interval is, unless the database is written or
    /// [`wake`](Self::wake) notifies it. An idle daemon therefore does nothing. An idle worker still runs every ten
    /// minutes. At the due time it runs, however long its interval is. [`NextDue::NEVER`] means that work becomes due
    /// only through writes, or can wait for the ten minutes. If the database does not report writes, the worker polls
    /// at its interval.
    fn idle_until(&self) -> Option<Timestamp> {
        None
    }

    /// Does one bounded piece of work.
    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>>;
}

/// The time at which work is next due, as last reported by its worker. Initially the epoch, so that the first check is
/// immediate.
#[derive(Debug, Default)]
pub struct NextDue(AtomicI64);

impl NextDue {
    /// Value while nothing is due.
    pub const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

    /// Stores the time; `None` means that nothing is due.
    pub fn note(&self, at: Option<Timestamp>) {
        self.0.store(at.unwrap_or(Self::NEVER).as_micros(), Ordering::Relaxed);
    }

    #[must_use]
    pub fn at(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// Time to wait until `due`; `None` if it has passed, so that waiting does not help.
#[must_use]
pub fn until_due(due: Timestamp, now: Timestamp) -> Option<Duration> {
    /// Shortest wait, because timers are not more precise.
    const MIN_WAIT: Duration = Duration::from_millis(5);
    /// Tolerance: work that became due this recently may not have been noticed yet.
    const TOLERANCE: Duration = Duration::from_millis(20);
    (due > now - TOLERANCE).then(|| due.since(now).max(MIN_WAIT))
}

#[cfg(test)]
mod tests;
