//! How long a statement may hold the thread that asked it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a statement may take from whoever else is waiting for the thread.
const INLINE: Duration = Duration::from_millis(1);

/// How long a statement may hold the thread that it runs on.
#[derive(Debug)]
pub(super) struct TimeLimit {
    epoch: Instant,
    /// Nanoseconds after `epoch`; [`NEVER`] while nothing is limited.
    until: AtomicU64,
    was_over: AtomicBool,
    /// Nobody waits any more; the connection is not used again.
    pub(super) is_abandoned: AtomicBool,
}

pub(super) const NEVER: u64 = u64::MAX;

impl TimeLimit {
    pub(super) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            until: AtomicU64::new(NEVER),
            was_over: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
        }
    }

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(NEVER - 1)
    }

    pub(super) fn begin(&self) {
        self.was_over.store(false, Ordering::Relaxed);
        self.until.store(self.now() + INLINE.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Asked by SQLite as it goes.
    pub(super) fn is_over(&self) -> bool {
        if self.is_abandoned.load(Ordering::Relaxed) {
            return true;
        }
        let until = self.until.load(Ordering::Relaxed);
        let is_over = until != NEVER && self.now() >= until;
        if is_over {
            self.was_over.store(true, Ordering::Relaxed);
        }
        is_over
    }

    /// Lifts the limit; answers whether it was met.
    pub(super) fn end(&self) -> bool {
        self.until.store(NEVER, Ordering::Relaxed);
        self.was_over.load(Ordering::Relaxed)
    }
}
