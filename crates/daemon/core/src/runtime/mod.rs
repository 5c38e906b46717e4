//! Runtime that all domains share: database, clock, ids, randomness, data directory, shutdown signal, workers and
//! metrics. It knows no domain.

mod backlog;
mod data_dir;
mod domain;
mod file_lock;
mod health;
mod idempotency;
mod limits;
mod live_feed;
mod metrics;
mod purge;
mod purge_worker;
mod recorder;
mod report;
mod slot;
mod supervise;
mod trusted_file;
mod work_queue;
mod worker;

use std::sync::Arc;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy};
use agentd_store::Db;
use agentd_telemetry::Tracer;
use tokio_util::sync::CancellationToken;

pub use backlog::EventBacklog;
pub use data_dir::{DataDir, DataDirError};
pub use domain::{Base, ValidateRestored};
pub use file_lock::FileLock;
pub use health::{ComponentHealth, HealthCheck, HealthStatus};
pub use idempotency::{StoredLedger, record_once, record_secret_once, record_stream_once};
pub use limits::{ConcurrencyLimit, Permit};
pub use live_feed::{FeedItem, LiveFeed};
pub use metrics::{CountBy, Family, FamilyKind, MetricList, MetricSource, Metrics, Sample, SourceError, is_fresh};
pub use purge_worker::{PurgeTask, PurgeWorker};
pub use recorder::{Latency, LatencySum, Recorded, Recorder, Series};
pub use report::{Retention, WorkerError, WorkerRecord, WorkerRecords, WorkerReport};
pub use slot::{Binding, Slot, SlotError, Slots};
pub use supervise::TaskPanics;
pub use trusted_file::{TrustedFileError, open_trusted, read_trusted};
pub use work_queue::{ItemFailure, ItemHandler, QueueWorker, WorkQueue};
pub use worker::{NextDue, Worker, WorkerPause, Workers, until_due};

/// Handles that every service needs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AppContext {
    pub db: Db,
    pub clock: Clock,
    pub ids: IdGenerator,
    pub entropy: Entropy,
    pub data_dir: Arc<DataDir>,
    /// Identifies this process as an owner of leases; generated at every start.
    pub instance: Arc<str>,
    /// Cancelled when the daemon starts to drain: streams end, workers stop claiming.
    pub draining: CancellationToken,
    pub panics: TaskPanics,
    /// Broadcasts events to the clients of the live stream.
    pub feed: LiveFeed,
    pub recorder: Recorder,
    /// Records spans for the collector, if one is configured.
    pub tracer: Tracer,
}

impl AppContext {
    /// Spawns a supervised task. The future that `work` returns runs until it ends; after a panic, `work` is called
    /// again.
    pub fn supervise<W, F>(&self, task: &'static str, work: W)
    where
        W: FnMut() -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        tokio::spawn(supervise::supervise(task, self.panics.clone(), self.draining.clone(), work));
    }
}
