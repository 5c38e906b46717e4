//! Reports of background workers, per call and since the daemon started.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Error of a worker. It is logged, and the worker runs again later.
pub type WorkerError = Box<dyn std::error::Error + Send + Sync>;

/// Result of one call of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerReport {
    /// Number of items claimed, delivered, written or purged.
    pub items: u64,
    /// Whether more work may be available immediately.
    pub has_more: bool,
}

impl WorkerReport {
    /// Nothing was done and no work is available.
    pub const IDLE: Self = Self { items: 0, has_more: false };

    /// Reports that all available items were handled.
    #[must_use]
    pub fn done(items: impl TryInto<u64>) -> Self {
        Self { items: items.try_into().unwrap_or(u64::MAX), has_more: false }
    }

    /// Reports that more work is available if any item was handled.
    #[must_use]
    pub fn more(items: impl TryInto<u64>) -> Self {
        let report = Self::done(items);
        Self { has_more: report.items > 0, ..report }
    }

    /// Reports that more work is available if a full batch was handled.
    #[must_use]
    pub fn batch(items: impl TryInto<u64>, limit: u32) -> Self {
        let report = Self::done(items);
        Self { has_more: report.items >= u64::from(limit), ..report }
    }

    /// Combines several batches with the same limit.
    #[must_use]
    pub fn batches(counts: &[u64], limit: u32) -> Self {
        counts.iter().fold(Self::IDLE, |sum, count| sum.and(Self::batch(*count, limit)))
    }

    /// Combines two reports.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { items: self.items + other.items, has_more: self.has_more || other.has_more }
    }
}

/// Retention of data that a worker deletes: `what` it is and how long it is `kept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub what: &'static str,
    pub kept: Duration,
}

/// Description and statistics of a worker since the daemon started.
#[derive(Debug, Clone)]
pub struct WorkerRecord {
    pub description: &'static str,
    pub retention: &'static [Retention],
    pub items: u64,
    pub failures: u64,
    /// Failures since the last success.
    pub failures_in_a_row: u64,
    pub last_success: Option<Timestamp>,
    /// Last error, whether or not the worker has succeeded since.
    pub last_error: Option<String>,
    pub interval: Duration,
    /// Monotonic time of the last start or end of a pass, or of the last transition to idle.
    last_seen: Instant,
    is_idle: bool,
}

/// Duration that a pass may always take, however short the interval is.
const MAX_PASS_DURATION: Duration = Duration::from_secs(300);
/// Number of intervals without activity after which a worker is late.
const LATE_AFTER_INTERVALS: u32 = 5;
/// Maximum time a worker stays idle before it runs again regardless of due work.
pub(super) const MAX_IDLE: Duration = Duration::from_secs(600);

impl WorkerRecord {
    pub(super) fn new(description: &'static str, retention: &'static [Retention], interval: Duration) -> Self {
        Self {
            description,
            retention,
            items: 0,
            failures: 0,
            failures_in_a_row: 0,
            last_success: None,
            last_error: None,
            interval,
            last_seen: Instant::now(),
            is_idle: false,
        }
    }

    /// Whether a pass has been running for several intervals, or an idle worker did not run long after [`MAX_IDLE`].
    #[must_use]
    pub fn is_late(&self, now: Instant) -> bool {
        let allowed =
            if self.is_idle { MAX_IDLE * 2 } else { (self.interval * LATE_AFTER_INTERVALS).max(MAX_PASS_DURATION) };
        now.duration_since(self.last_seen) > allowed
    }
}

/// Records of all workers by name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct WorkerRecords(Arc<Mutex<BTreeMap<&'static str, WorkerRecord>>>);

impl WorkerRecords {
    #[must_use]
    pub fn all(&self) -> Vec<(&'static str, WorkerRecord)> {
        self.0.lock().iter().map(|(worker, record)| (*worker, record.clone())).collect()
    }

    pub(super) fn register(&self, worker: &'static str, record: WorkerRecord) {
        self.0.lock().entry(worker).or_insert(record);
    }

    pub(super) fn mark_idle(&self, worker: &'static str) {
        self.touch(worker, true);
    }

    pub(super) fn mark_running(&self, worker: &'static str) {
        self.touch(worker, false);
    }

    fn touch(&self, worker: &'static str, is_idle: bool) {
        if let Some(record) = self.0.lock().get_mut(worker) {
            (record.last_seen, record.is_idle) = (Instant::now(), is_idle);
        }
    }

    pub(super) fn record(&self, worker: &'static str, now: Timestamp, outcome: &Result<WorkerReport, WorkerError>) {
        let mut records = self.0.lock();
        let Some(record) = records.get_mut(worker) else { return };
        record.last_seen = Instant::now();
        match outcome {
            Ok(report) => {
                record.items += report.items;
                record.failures_in_a_row = 0;
                record.last_success = Some(now);
            }
            Err(error) => {
                record.failures += 1;
                record.failures_in_a_row += 1;
                record.last_error = Some(error.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn worker_is_late_if_pass_hangs_but_not_while_idle() {
        let records = WorkerRecords::default();
        for (worker, seconds) in [("hung", 1), ("resting", 1), ("slow", 600)] {
            records.register(worker, WorkerRecord::new("", &[], Duration::from_secs(seconds)));
        }
        let late = || -> Vec<&str> {
            let late = records.all().into_iter().filter(|(_, record)| record.is_late(Instant::now()));
            late.map(|(worker, _)| worker).collect()
        };
        tokio::time::advance(Duration::from_secs(301)).await;
        records.mark_idle("resting");
        assert_eq!(late(), ["hung"]);
        records.record("hung", Timestamp::default(), &Ok(WorkerReport::IDLE));
        assert!(late().is_empty());
        tokio::time::advance(Duration::from_secs(1_100)).await;
        assert_eq!(late(), ["hung"]);
        records.mark_running("resting");
        tokio::time::advance(Duration::from_secs(301)).await;
        assert_eq!(late(), ["hung", "resting"], "a hanging pass is late after five minutes");
        records.mark_idle("resting");
        tokio::time::advance(Duration::from_secs(1_201)).await;
        assert_eq!(late(), ["hung", "resting"], "the idle worker did not run");
        tokio::time::advance(Duration::from_secs(1_000)).await;
        assert_eq!(late(), ["hung", "resting", "slow"]);
    }
}
