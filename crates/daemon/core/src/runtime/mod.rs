//! What every domain stands on: the store, time, ids, randomness, the data directory, and the
//! signal that the daemon is going down. Also the shape of a background worker.
//!
//! Deliberately absent: anything that knows a domain.

mod backlog;
mod data_dir;
mod domain;
mod file_lock;
mod health;
mod limits;
mod live_feed;
mod metrics;
mod once;
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
pub use limits::{ConcurrencyLimit, Permit};
pub use live_feed::{FeedItem, LiveFeed};
pub use metrics::{CountBy, Family, FamilyKind, MetricList, MetricSource, Metrics, Sample, SourceError, is_fresh};
pub use once::{StoredLedger, record_once, record_secret_once, record_stream_once};
pub use purge_worker::{PurgeWorker, PurgesData};
pub use recorder::{Latency, LatencySum, Recorded, Recorder, Series};
pub use report::{Retention, WorkerError, WorkerRecord, WorkerRecords, WorkerReport};
pub use slot::{Binding, Slot, SlotError, Slots};
pub use supervise::TaskPanics;
pub use trusted_file::{TrustedFileError, open_trusted, read_trusted};
pub use work_queue::{HandlesItems, ItemFailure, QueueWorker, WorkQueue};
pub use worker::{NextDue, Worker, WorkerPause, Workers, until_due};

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct AppContext {
    pub db: Db,
    pub clock: Clock,
    pub ids: IdGenerator,
    pub entropy: Entropy,
    pub data_dir: Arc<DataDir>,
    /// Names this process in leases; new at every start.
    pub instance: Arc<str>,
    /// Cancelled when the daemon begins to drain: streams end, workers stop claiming.
    pub draining: CancellationToken,
    pub panics: TaskPanics,
    /// What whoever watches is told of.
    pub feed: LiveFeed,
    pub recorder: Recorder,
    /// Records spans for a collector, where one is configured.
    pub tracer: Tracer,
}

impl AppContext {
    /// Spawns a task that the daemon cannot do without: what `work` makes runs until it ends by itself,
    /// and is made anew after a panic.
    pub fn supervise<W, F>(&self, task: &'static str, work: W)
    where
        W: FnMut() -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        tokio::spawn(supervise::supervise(task, self.panics.clone(), self.draining.clone(), work));
    }
}
