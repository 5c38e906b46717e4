//! Workers and metrics of the runtime, and the trait for validation of restored rows.

use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_store::{Db, StoreError, Tx};
use agentd_telemetry::Tracer;
use futures_util::future::LocalBoxFuture;

use super::backlog::{CountEvents, EventBacklog};
use super::data_dir::DataDir;
use super::metrics::{Family, MetricList, Sample};
use super::purge::{ReadEvents, StoredResponses};
use super::purge_worker::PurgeWorker;
use super::report::{WorkerRecord, WorkerRecords};
use super::supervise::TaskPanics;
use super::worker::Worker;

/// Validates a domain's rows after an import. An archive is untrusted input.
pub trait ValidateRestored: Send + Sync {
    /// Checks the rows that were just loaded. Returns a description of the first invalid row, worded as the end of a
    /// sentence; the import is then rolled back.
    fn validate<'t>(&'t self, tx: &'t mut Tx) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>>;
}

/// Domain-independent part of the runtime.
#[derive(Debug)]
pub struct Base {
    pub db: Db,
    pub data_dir: Arc<DataDir>,
    pub backlog: EventBacklog,
    pub panics: TaskPanics,
    pub records: WorkerRecords,
    pub tracer: Tracer,
}

impl Base {
    /// Workers of the runtime.
    #[must_use]
    pub fn workers(&self) -> Vec<Box<dyn Worker>> {
        vec![
            Box::new(PurgeWorker(StoredResponses(self.db.clone()))),
            Box::new(PurgeWorker(ReadEvents(self.db.clone()))),
            Box::new(CountEvents::new(self.db.clone(), self.backlog.clone())),
        ]
    }

    /// Metrics of the runtime.
    #[must_use]
    pub fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let help = "Size of the file system of the data directory (total) and space available to the daemon (available), in bytes.";
        let family = Family::gauge("svc_disk_bytes", help).by(&["kind"]);
        metrics.read(family, &self.data_dir, async |data_dir| {
            let disk = rustix::fs::statvfs(data_dir.root())?;
            let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
            Ok(Sample::each([("total", bytes(disk.f_blocks)), ("available", bytes(disk.f_bavail))]))
        });
        if self.tracer.is_enabled() {
            let help = "Spans by outcome (sent, dropped) since the daemon started.";
            let family = Family::counter("svc_otlp_spans_total", help).by(&["outcome"]);
            metrics.read(family, &self.tracer, async |tracer| {
                let counts = tracer.counts().unwrap_or_default();
                Ok(Sample::each([("sent", counts.sent), ("dropped", counts.dropped)]))
            });
        }
        let help = "Events not yet read by hooks, capped at the backlog limit.";
        metrics.read(Family::gauge("svc_events_unread", help), &self.backlog, async |backlog| {
            Ok(Sample::one(backlog.unread()))
        });
        let help = "Panics of background workers, which are restarted. Any value above zero indicates a bug.";
        let family = Family::counter("svc_worker_panics_total", help).by(&["worker"]);
        metrics.read(family, &self.panics, async |panics| Ok(Sample::each(panics.counts())));
        let help = "Items that background workers claimed, wrote or purged since the daemon started.";
        let family = Family::counter("svc_worker_items_total", help).by(&["worker"]);
        metrics.read(family, &self.records, async |records| {
            Ok(Sample::each(count_by_worker(&records, |record| record.items)))
        });
        let help = "Failed passes of background workers since the daemon started.";
        let family = Family::counter("svc_worker_failures_total", help).by(&["worker"]);
        metrics.read(family, &self.records, async |records| {
            Ok(Sample::each(count_by_worker(&records, |record| record.failures)))
        });
        let help = "Unix time of the last successful pass of a background worker.";
        let family = Family::gauge("svc_worker_last_success_timestamp_seconds", help).by(&["worker"]);
        metrics.read(family, &self.records, async |records| {
            let ended = records.all().into_iter().filter_map(|(worker, record)| Some((worker, record.last_success?)));
            let sample = |(worker, at): (&str, Timestamp)| Sample {
                labels: vec![worker.to_owned()],
                value: at.as_micros() as f64 / 1e6,
            };
            Ok(ended.map(sample).collect())
        });
        metrics
    }
}

fn count_by_worker(
    records: &WorkerRecords,
    read: fn(&WorkerRecord) -> u64,
) -> impl Iterator<Item = (&'static str, u64)> {
    records.all().into_iter().map(move |(worker, record)| (worker, read(&record)))
}
