//! Time limit of statements on the calling thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum time of a statement on the calling thread.
const INLINE_LIMIT: Duration = Duration::from_millis(1);

/// Time limit checked by SQLite's progress handler.
#[derive(Debug)]
pub(super) struct TimeLimit {
    epoch: Instant,
    /// Nanoseconds after `epoch`; [`NEVER`] if there is no limit.
    until: AtomicU64,
    was_over: AtomicBool,
    /// The caller is gone; the connection is not used again.
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
        self.until.store(self.now() + INLINE_LIMIT.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Whether to interrupt the statement; called by SQLite's progress handler.
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

    /// Lifts the limit; returns whether it was exceeded.
    pub(super) fn end(&self) -> bool {
        self.until.store(NEVER, Ordering::Relaxed);
        self.was_over.load(Ordering::Relaxed)
    }
}
