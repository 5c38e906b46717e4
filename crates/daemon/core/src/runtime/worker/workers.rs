//! All workers of the daemon. A loop drives each and keeps its record; in tests, the test drives them.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Clock;
use agentd_store::Db;
use tokio::sync::{Notify, OwnedRwLockWriteGuard, RwLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::Worker;
use super::rest::{nap, rest};
use crate::runtime::report::{LONGEST_REST, WorkerError, WorkerRecord, WorkerRecords};
use crate::runtime::supervise::{TaskPanics, supervise};

/// Every worker of the daemon.
#[derive(Clone)]
pub struct Workers {
    all: Vec<Arc<dyn Worker>>,
    pause: WorkerPause,
    panics: TaskPanics,
    records: WorkerRecords,
    clock: Clock,
}

/// Holds all workers still. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct WorkerPause(Arc<RwLock<()>>);

impl WorkerPause {
    /// Waits until no worker is at work; none begins until the answer is dropped.
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
    /// None yet. Their panics are counted in `panics`.
    #[must_use]
    pub fn new(panics: TaskPanics, clock: Clock) -> Self {
        Self { all: Vec::new(), pause: WorkerPause::default(), panics, records: WorkerRecords::default(), clock }
    }

    /// Adds the workers of a domain.
    pub fn add(&mut self, workers: Vec<Box<dyn Worker>>) {
        for worker in workers {
            let record = WorkerRecord::new(worker.description(), worker.retention(), worker.interval());
            self.records.expect(worker.name(), record);
            self.all.push(worker.into());
        }
    }

    /// What each of them did since the daemon started.
    #[must_use]
    pub fn records(&self) -> WorkerRecords {
        self.records.clone()
    }

    /// What holds them all still, for a restore.
    #[must_use]
    pub fn pause(&self) -> WorkerPause {
        self.pause.clone()
    }

    /// Runs every worker until none has anything left to do. For tests.
    ///
    /// # Errors
    /// The first failure of a worker.
    pub async fn run_until_idle(&self) -> Result<(), WorkerError> {
        loop {
            let mut is_busy = false;
            for worker in &self.all {
                let _at_work = self.pause.0.read().await;
                let outcome = worker.run_once().await;
                self.records.note(worker.name(), self.clock.now(), &outcome);
                is_busy |= outcome?.has_more;
            }
            if !is_busy {
                return Ok(());
            }
        }
    }

    /// Those that never rest although they found nothing to do. For tests.
    #[must_use]
    pub fn restless(&self) -> Vec<&'static str> {
        let now = self.clock.now();
        let rests = |worker: &dyn Worker| worker.idle_until().is_some_and(|until| until > now);
        let all = self.all.iter().filter(|worker| worker.interval() < LONGEST_REST && !rests(&***worker));
        all.map(|worker| worker.name()).collect()
    }

    /// One of them. For tests.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<dyn Worker>> {
        self.all.iter().find(|worker| worker.name() == name).cloned()
    }

    /// What wakes a worker. For tests.
    #[must_use]
    pub fn wake_of(&self, name: &str) -> Option<Arc<Notify>> {
        self.find(name).and_then(|worker| worker.wake())
    }

    /// Starts a loop for each worker over `db`; they end when `draining` is cancelled.
    pub fn spawn(&self, db: &Db, tracker: &TaskTracker, draining: &CancellationToken) {
        for worker in &self.all {
            let (worker, pause, signal) = (Arc::clone(worker), self.pause.clone(), draining.clone());
            let (name, db) = (worker.name(), db.clone());
            let records = self.records.clone();
            let work = move || drive(Arc::clone(&worker), db.clone(), pause.clone(), records.clone(), signal.clone());
            tracker.spawn(supervise(name, self.panics.clone(), draining.clone(), work));
        }
    }
}

/// Nobody waits for the first round, and the start needs the processor for itself.
const BEFORE_FIRST_ROUND: Duration = Duration::from_millis(250);

async fn drive(
    worker: Arc<dyn Worker>,
    db: Db,
    pause: WorkerPause,
    records: WorkerRecords,
    draining: CancellationToken,
) {
    const LONGEST_PAUSE: Duration = Duration::from_secs(60);
    let mut failures = 0u32;
    tokio::select! {
        () = draining.cancelled() => return,
        () = tokio::time::sleep(BEFORE_FIRST_ROUND) => {}
    }
    loop {
        let work = async {
            let _at_work = pause.0.read().await;
            worker.run_once().await
        };
        let work = work.instrument(tracing::info_span!("worker", worker = worker.name()));
        let seen = db.version();
        records.begins(worker.name());
        let outcome = tokio::select! {
            () = draining.cancelled() => return,
            outcome = work => outcome,
        };
        records.note(worker.name(), db.clock().now(), &outcome);
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
                tracing::warn!(worker = worker.name(), %error, failures, "a background worker failed and will run again");
                worker.interval().max(Duration::from_secs(1)).saturating_mul(failures.min(32)).min(LONGEST_PAUSE)
            }
        };
        let wake = worker.wake();
        let woken = async {
            match &wake {
                Some(notify) => notify.notified().await,
                None => std::future::pending().await,
            }
        };
        let rested = async {
            if !found_nothing {
                return tokio::time::sleep(wait).await;
            }
            tokio::time::sleep(nap(&*worker, db.clock().now(), wait)).await;
            if let Some(seen) = seen {
                rest(&*worker, &db, seen, &records).await;
            }
        };
        tokio::select! {
            () = draining.cancelled() => return,
            () = woken => {}
            () = rested => {}
        }
    }
}
