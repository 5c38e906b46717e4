//! Background workers of this daemon.

use agentd_core::runtime::WorkerRecord;
use tokio::time::Instant;

use super::Monitoring;
use crate::monitoring::model::{RetentionView, WorkerList, WorkerView};

impl Monitoring {
    /// Returns all workers by name with their activity since this daemon started.
    #[must_use]
    pub fn list_workers(&self) -> WorkerList {
        let now = Instant::now();
        let workers = self.sources.records.all().into_iter().map(|(name, record)| view(name, &record, now));
        WorkerList { workers: workers.collect() }
    }
}

fn view(name: &'static str, record: &WorkerRecord, now: Instant) -> WorkerView {
    let retention = record
        .retention
        .iter()
        .map(|retention| RetentionView { what: retention.what, kept_seconds: retention.kept.as_secs() });
    WorkerView {
        name,
        description: record.description,
        interval_seconds: record.interval.as_secs_f64(),
        is_late: record.is_late(now),
        items: record.items,
        failures: record.failures,
        failures_in_a_row: record.failures_in_a_row,
        last_success_at: record.last_success,
        retention: retention.collect(),
    }
}
