//! Background workers: each does one bounded piece of work a call and reports what it did.

mod rest;
mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use agentd_base::Timestamp;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

pub use workers::{WorkerPause, Workers};

use crate::runtime::report::{Retention, WorkerError, WorkerReport};

/// Idempotent and leased: a worker may be killed anywhere and run anywhere else.
pub trait Worker: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// What it does, in one sentence for operators.
    fn description(&self) -> &'static str;

    /// What it deletes, and after how long.
    fn retention(&self) -> &'static [Retention] {
        &[]
    }

    /// How long to wait at most before looking again when nothing wakes it.
    fn interval(&self) -> Duration;

    /// Wakes the worker before its interval is over.
    fn wake(&self) -> Option<Arc<Notify>> {
        None
    }

    /// Asked after a round that found nothing to do: nothing is due before this, unless something is
    /// written or [`wake`](Self::wake) tells. Until then the worker is left alone, ten minutes at most, however
    /// short its interval is, where it can be told that something was written; an idle daemon then does nothing at
    /// all. When that time comes the worker is there, however long its interval is. None: not known.
    /// [`NextDue::NEVER`]: what comes of time alone can wait for those ten minutes.
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
    /// The value while nothing is due.
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

/// How long to wait for what is due at `due`; None when that is over, so that waiting does not help.
#[must_use]
pub fn until_due(due: Timestamp, now: Timestamp) -> Option<Duration> {
    /// Timers are no finer.
    const LEAST: Duration = Duration::from_millis(5);
    /// It may have come about while nobody looked.
    const JUST_NOW: Duration = Duration::from_millis(20);
    (due > now - JUST_NOW).then(|| due.since(now).max(LEAST))
}

#[cfg(test)]
mod tests;
