//! The workers and metrics of the runtime itself, and how a domain validates restored rows.

use std::sync::Arc;

use agentd_base::Timestamp;
use agentd_store::{Db, StoreError, Tx};
use agentd_telemetry::Tracer;
use futures_util::future::LocalBoxFuture;

use super::backlog::{CountEvents, EventBacklog};
use super::data_dir::DataDir;
use super::metrics::{Family, MetricList, Sample};
use super::purge::{ReadEvents, StoredAnswers};
use super::purge_worker::PurgeWorker;
use super::report::{WorkerRecord, WorkerRecords};
use super::supervise::TaskPanics;
use super::worker::Worker;

/// Validates a domain's rows after an import. An archive is untrusted input.
pub trait ValidateRestored: Send + Sync {
    /// Checks the rows that were just loaded. Returns a description of the first invalid row as the end of a
    /// sentence; the import is then rolled back.
    fn validate<'t>(&'t self, tx: &'t mut Tx) -> LocalBoxFuture<'t, Result<Option<String>, StoreError>>;
}

/// What serves all domains alike.
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
    /// Workers that serve all domains alike.
    #[must_use]
    pub fn workers(&self) -> Vec<Box<dyn Worker>> {
        vec![
            Box::new(PurgeWorker(StoredAnswers(self.db.clone()))),
            Box::new(PurgeWorker(ReadEvents(self.db.clone()))),
            Box::new(CountEvents::new(self.db.clone(), self.backlog.clone())),
        ]
    }

    /// Metrics of the runtime.
    #[must_use]
    pub fn metrics(&self) -> MetricList {
        let mut metrics = MetricList::default();
        let help = "The file system of the data directory: its size (total), and what of it the daemon may still fill (available).";
        let family = Family::gauge("svc_disk_bytes", help).by(&["kind"]);
        metrics.read(family, &self.data_dir, async |data_dir| {
            let disk = rustix::fs::statvfs(data_dir.root())?;
            let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
            Ok(Sample::each([("total", bytes(disk.f_blocks)), ("available", bytes(disk.f_bavail))]))
        });
        if self.tracer.is_on() {
            let help = "Spans by what became of them (sent, dropped), since the daemon started.";
            let family = Family::counter("svc_otlp_spans_total", help).by(&["outcome"]);
            metrics.read(family, &self.tracer, async |tracer| {
                let counts = tracer.counts().unwrap_or_default();
                Ok(Sample::each([("sent", counts.sent), ("dropped", counts.dropped)]))
            });
        }
        let help = "Events that wait for the hooks that hear them, counted up to what makes requests be refused.";
        metrics.read(Family::gauge("svc_events_unread", help), &self.backlog, async |backlog| {
            Ok(Sample::one(backlog.unread()))
        });
        let help =
            "Panics of background workers, each of which began anew; more than none is a mistake in the program.";
        let family = Family::counter("svc_worker_panics_total", help).by(&["worker"]);
        metrics.read(family, &self.panics, async |panics| Ok(Sample::each(panics.counts())));
        let help = "What background workers handled: items claimed, written or purged, since the daemon started.";
        let family = Family::counter("svc_worker_items_total", help).by(&["worker"]);
        metrics.read(family, &self.records, async |records| Ok(Sample::each(each(&records, |record| record.items))));
        let help = "Passes of background workers that failed and were begun again, since the daemon started.";
        let family = Family::counter("svc_worker_failures_total", help).by(&["worker"]);
        metrics.read(family, &self.records, async |records| Ok(Sample::each(each(&records, |record| record.failures))));
        let help = "When a background worker last ended a pass without a failure.";
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

fn each(records: &WorkerRecords, read: fn(&WorkerRecord) -> u64) -> impl Iterator<Item = (&'static str, u64)> {
    records.all().into_iter().map(move |(worker, record)| (worker, read(&record)))
}
