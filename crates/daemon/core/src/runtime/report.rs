//! What background workers did: of one call, and since the daemon started.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

/// What a worker failed with; it is logged, and the worker runs again later.
pub type WorkerError = Box<dyn std::error::Error + Send + Sync>;

/// What one call of a worker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerReport {
    /// Items it handled: claimed, delivered, written, purged.
    pub items: u64,
    /// There may be more to do at once.
    pub has_more: bool,
}

impl WorkerReport {
    /// Nothing was done, and there is nothing to do.
    pub const IDLE: Self = Self { items: 0, has_more: false };

    /// All there was.
    #[must_use]
    pub fn done(items: impl TryInto<u64>) -> Self {
        Self { items: items.try_into().unwrap_or(u64::MAX), has_more: false }
    }

    /// There is more where any of it was done.
    #[must_use]
    pub fn more(items: impl TryInto<u64>) -> Self {
        let report = Self::done(items);
        Self { has_more: report.items > 0, ..report }
    }

    /// There is more where a whole batch was done.
    #[must_use]
    pub fn batch(items: impl TryInto<u64>, limit: u32) -> Self {
        let report = Self::done(items);
        Self { has_more: report.items >= u64::from(limit), ..report }
    }

    /// Several batches of one limit.
    #[must_use]
    pub fn batches(counts: &[u64], limit: u32) -> Self {
        counts.iter().fold(Self::IDLE, |sum, count| sum.and(Self::batch(*count, limit)))
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { items: self.items + other.items, has_more: self.has_more || other.has_more }
    }
}

/// What a worker deletes, and how long it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub what: &'static str,
    pub kept: Duration,
}

/// A worker, and what it did since the daemon started.
#[derive(Debug, Clone)]
pub struct WorkerRecord {
    pub description: &'static str,
    pub retention: &'static [Retention],
    pub items: u64,
    pub failures: u64,
    /// Failures since it last succeeded.
    pub failures_in_a_row: u64,
    pub last_success: Option<Timestamp>,
    /// What it failed with last, whether or not it has succeeded since.
    pub last_error: Option<String>,
    pub interval: Duration,
    /// When it last began or ended a pass, or began to rest. Not by the clock, which may be set.
    seen: Instant,
    is_resting: bool,
}

/// A pass may take so long, however often there is one.
const LONG_PASS: Duration = Duration::from_secs(300);
/// Intervals in which a worker should have been seen.
const LATE_AFTER: u32 = 5;
/// After so long a worker that rests begins a pass, whether or not anything calls for it.
pub(super) const LONGEST_REST: Duration = Duration::from_secs(600);

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
            seen: Instant::now(),
            is_resting: false,
        }
    }

    /// Whether a pass has not come to its end for several intervals, or was not begun long after the longest rest.
    #[must_use]
    pub fn is_late(&self, now: Instant) -> bool {
        let allowed = if self.is_resting { LONGEST_REST * 2 } else { (self.interval * LATE_AFTER).max(LONG_PASS) };
        now.duration_since(self.seen) > allowed
    }
}

/// The record of every worker by its name: as many as there are workers. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct WorkerRecords(Arc<Mutex<BTreeMap<&'static str, WorkerRecord>>>);

impl WorkerRecords {
    #[must_use]
    pub fn all(&self) -> Vec<(&'static str, WorkerRecord)> {
        self.0.lock().iter().map(|(worker, record)| (*worker, record.clone())).collect()
    }

    pub(super) fn expect(&self, worker: &'static str, record: WorkerRecord) {
        self.0.lock().entry(worker).or_insert(record);
    }

    /// It is left alone until something calls for it.
    pub(super) fn rests(&self, worker: &'static str) {
        self.see(worker, true);
    }

    pub(super) fn begins(&self, worker: &'static str) {
        self.see(worker, false);
    }

    fn see(&self, worker: &'static str, is_resting: bool) {
        if let Some(record) = self.0.lock().get_mut(worker) {
            (record.seen, record.is_resting) = (Instant::now(), is_resting);
        }
    }

    pub(super) fn note(&self, worker: &'static str, now: Timestamp, outcome: &Result<WorkerReport, WorkerError>) {
        let mut records = self.0.lock();
        let Some(record) = records.get_mut(worker) else { return };
        record.seen = Instant::now();
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
    async fn late_is_who_ends_no_pass_and_not_who_rests() {
        let records = WorkerRecords::default();
        for (worker, seconds) in [("hung", 1), ("resting", 1), ("slow", 600)] {
            records.expect(worker, WorkerRecord::new("", &[], Duration::from_secs(seconds)));
        }
        let late = || -> Vec<&str> {
            let late = records.all().into_iter().filter(|(_, record)| record.is_late(Instant::now()));
            late.map(|(worker, _)| worker).collect()
        };
        tokio::time::advance(Duration::from_secs(301)).await;
        records.rests("resting");
        assert_eq!(late(), ["hung"]);
        records.note("hung", Timestamp::default(), &Ok(WorkerReport::IDLE));
        assert!(late().is_empty());
        tokio::time::advance(Duration::from_secs(1_100)).await;
        assert_eq!(late(), ["hung"]);
        records.begins("resting");
        tokio::time::advance(Duration::from_secs(301)).await;
        assert_eq!(late(), ["hung", "resting"], "a pass that hangs is seen, however long rests may be");
        records.rests("resting");
        tokio::time::advance(Duration::from_secs(1_201)).await;
        assert_eq!(late(), ["hung", "resting"], "nothing woke it");
        tokio::time::advance(Duration::from_secs(1_000)).await;
        assert_eq!(late(), ["hung", "resting", "slow"]);
    }
}
