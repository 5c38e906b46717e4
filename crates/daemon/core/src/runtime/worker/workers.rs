//! Scheduling of all workers. Each runs in a loop that updates its record; tests run them explicitly.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Clock;
use agentd_store::Db;
use tokio::sync::{Notify, OwnedRwLockWriteGuard, RwLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::Worker;
use super::idle::{poll_delay, wait_while_idle};
use crate::runtime::report::{MAX_IDLE, WorkerError, WorkerRecord, WorkerRecords};
use crate::runtime::supervise::{TaskPanics, supervise};

/// All workers of the daemon.
#[derive(Clone)]
pub struct Workers {
    all: Vec<Arc<dyn Worker>>,
    pause: WorkerPause,
    panics: TaskPanics,
    records: WorkerRecords,
    clock: Clock,
}

/// Pauses all workers. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct WorkerPause(Arc<RwLock<()>>);

impl WorkerPause {
    /// Waits until no worker is running. None starts until the returned guard is dropped.
    pub async fn begin(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.0).write_owned().await
    }
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.all.iter().map(|worker| worker.name())).finish()
    }
}

impl Workers {
    /// Creates an empty set of workers, whose panics are counted in `panics`.
    #[must_use]
    pub fn new(panics: TaskPanics, clock: Clock) -> Self {
        Self { all: Vec::new(), pause: WorkerPause::default(), panics, records: WorkerRecords::default(), clock }
    }

    /// Adds the workers of a domain.
    pub fn add(&mut self, workers: Vec<Box<dyn Worker>>) {
        for worker in workers {
            let record = WorkerRecord::new(worker.description(), worker.retention(), worker.interval());
            self.records.register(worker.name(), record);
            self.all.push(worker.into());
        }
    }

    /// Records of all workers since the daemon started.
    #[must_use]
    pub fn records(&self) -> WorkerRecords {
        self.records.clone()
    }

    /// Handle that pauses all workers, for a restore.
    #[must_use]
    pub fn pause(&self) -> WorkerPause {
        self.pause.clone()
    }

    /// Runs all workers until none has more work. For tests.
    ///
    /// # Errors
    /// The first error of a worker.
    pub async fn run_until_idle(&self) -> Result<(), WorkerError> {
        loop {
            let mut is_busy = false;
            for worker in &self.all {
                let _running = self.pause.0.read().await;
                let outcome = worker.run_once().await;
                self.records.record(worker.name(), self.clock.now(), &outcome);
                is_busy |= outcome?.has_more;
            }
            if !is_busy {
                return Ok(());
            }
        }
    }

    /// Names of workers that never become idle. For tests.
    #[must_use]
    pub fn never_idle(&self) -> Vec<&'static str> {
        let now = self.clock.now();
        let is_idle = |worker: &dyn Worker| worker.idle_until().is_some_and(|until| until > now);
        let all = self.all.iter().filter(|worker| worker.interval() < MAX_IDLE && !is_idle(&***worker));
        all.map(|worker| worker.name()).collect()
    }

    /// Worker with this name. For tests.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<dyn Worker>> {
        self.all.iter().find(|worker| worker.name() == name).cloned()
    }

    /// Notification that wakes a worker. For tests.
    #[must_use]
    pub fn wake_of(&self, name: &str) -> Option<Arc<Notify>> {
        self.find(name).and_then(|worker| worker.wake())
    }

    /// Spawns a loop for each worker. The loops end when `draining` is cancelled.
    pub fn spawn(&self, db: &Db, tracker: &TaskTracker, draining: &CancellationToken) {
        for worker in &self.all {
            let (worker, pause, signal) = (Arc::clone(worker), self.pause.clone(), draining.clone());
            let (name, db) = (worker.name(), db.clone());
            let records = self.records.clone();
            let work =
                move || run_worker(Arc::clone(&worker), db.clone(), pause.clone(), records.clone(), signal.clone());
            tracker.spawn(supervise(name, self.panics.clone(), draining.clone(), work));
        }
    }
}

/// Delay of the first pass, so that workers do not slow down the start.
const FIRST_PASS_DELAY: Duration = Duration::from_millis(250);

async fn run_worker(
    worker: Arc<dyn Worker>,
    db: Db,
    pause: WorkerPause,
    records: WorkerRecords,
    draining: CancellationToken,
) {
    const MAX_BACKOFF: Duration = Duration::from_secs(60);
    let mut failures = 0u32;
    tokio::select! {
        () = draining.cancelled() => return,
        () = tokio::time::sleep(FIRST_PASS_DELAY) => {}
    }
    loop {
        let work = async {
            let _running = pause.0.read().await;
            worker.run_once().await
        };
        let work = work.instrument(tracing::info_span!("worker", worker = worker.name()));
        let seen = db.version();
        records.mark_running(worker.name());
        let outcome = tokio::select! {
            () = draining.cancelled() => return,
            outcome = work => outcome,
        };
        records.record(worker.name(), db.clock().now(), &outcome);
        let mut found_nothing = false;
        let wait = match outcome {
            Ok(report) if report.has_more => {
                failures = 0;
                tokio::task::yield_now().await;
                continue;
            }
            Ok(_) => {
                failures = 0;
                found_nothing = true;
                worker.interval()
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                tracing::warn!(worker = worker.name(), %error, failures, "background worker failed");
                worker.interval().max(Duration::from_secs(1)).saturating_mul(failures.min(32)).min(MAX_BACKOFF)
            }
        };
        let wake = worker.wake();
        let woken = async {
            match &wake {
                Some(notify) => notify.notified().await,
                None => std::future::pending().await,
            }
        };
        let waited = async {
            if !found_nothing {
                return tokio::time::sleep(wait).await;
            }
            tokio::time::sleep(poll_delay(&*worker, db.clock().now(), wait)).await;
            if let Some(seen) = seen {
                wait_while_idle(&*worker, &db, seen, &records).await;
            }
        };
        tokio::select! {
            () = draining.cancelled() => return,
            () = woken => {}
            () = waited => {}
        }
    }
}
