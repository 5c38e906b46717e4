//! Background workers: each does one bounded piece of work a call and says whether there may be
//! more. In the daemon a loop drives each; in tests the test does.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::Db;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, OwnedRwLockWriteGuard, RwLock};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::supervise::{TaskPanics, supervise};

/// What a worker failed with; it is logged, and the worker runs again later.
pub type WorkerError = Box<dyn std::error::Error + Send + Sync>;

/// Idempotent and leased: a worker may be killed anywhere and run anywhere else.
pub trait Worker: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// How long to wait at most before looking again when nothing wakes it.
    fn interval(&self) -> Duration;

    /// Wakes the worker before its interval is over.
    fn wake(&self) -> Option<Arc<Notify>> {
        None
    }

    /// Asked after a round that found nothing to do: nothing is due before this, unless something is
    /// written. Until then the worker is left alone, however short its interval is, where it can be told
    /// whether something was written; an idle daemon then does nothing at all. When that time comes the worker is
    /// there, however long its interval is. None: not known.
    fn idle_until(&self) -> Option<Timestamp> {
        None
    }

    /// Does one bounded piece of work; `true` when there may be more at once.
    fn run_once(&self) -> BoxFuture<'_, Result<bool, WorkerError>>;
}

/// Every worker of the daemon.
#[derive(Clone, Default)]
pub struct Workers {
    all: Vec<Arc<dyn Worker>>,
    pause: WorkerPause,
    panics: TaskPanics,
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
    pub fn new(panics: TaskPanics) -> Self {
        Self { panics, ..Self::default() }
    }

    pub fn add(&mut self, worker: impl Worker) {
        self.all.push(Arc::new(worker));
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
                is_busy |= worker.run_once().await?;
            }
            if !is_busy {
                return Ok(());
            }
        }
    }

    /// What wakes a worker. For tests.
    #[must_use]
    pub fn wake_of(&self, name: &str) -> Option<Arc<Notify>> {
        self.all.iter().find(|worker| worker.name() == name).and_then(|worker| worker.wake())
    }

    /// Starts a loop for each worker over `db`; they end when `draining` is cancelled.
    pub fn spawn(&self, db: &Db, tracker: &TaskTracker, draining: &CancellationToken) {
        for worker in &self.all {
            let (worker, pause, signal) = (Arc::clone(worker), self.pause.clone(), draining.clone());
            let (name, db) = (worker.name(), db.clone());
            let work = move || drive(Arc::clone(&worker), db.clone(), pause.clone(), signal.clone());
            tracker.spawn(supervise(name, self.panics.clone(), draining.clone(), work));
        }
    }
}

/// Nobody waits for the first round, and the start needs the processor for itself.
const BEFORE_FIRST_ROUND: Duration = Duration::from_millis(250);

async fn drive(worker: Arc<dyn Worker>, db: Db, pause: WorkerPause, draining: CancellationToken) {
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
        let seen = db.version();
        let outcome = tokio::select! {
            () = draining.cancelled() => return,
            outcome = work => outcome,
        };
        let (mut may_rest, mut has_failed) = (false, false);
        let wait = match outcome {
            Ok(true) => {
                failures = 0;
                tokio::task::yield_now().await;
                continue;
            }
            Ok(false) => {
                failures = 0;
                may_rest = seen.is_some();
                worker.interval()
            }
            Err(error) => {
                has_failed = true;
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
            let nap = |longest| if has_failed { longest } else { nap(&*worker, db.clock().now(), longest) };
            tokio::time::sleep(nap(wait)).await;
            let is_idle = || worker.idle_until().is_some_and(|until| until > db.clock().now());
            while may_rest && db.version() == seen && is_idle() {
                tokio::time::sleep(nap(worker.interval())).await;
            }
        };
        tokio::select! {
            () = draining.cancelled() => return,
            () = woken => {}
            () = rested => {}
        }
    }
}

/// How long to sleep before looking again: `longest`, but not past the time when something is due.
fn nap(worker: &dyn Worker, now: Timestamp, longest: Duration) -> Duration {
    worker.idle_until().and_then(|due| until_due(due, now)).map_or(longest, |wait| wait.min(longest))
}

/// How long to wait for what is due at `due`; None when that is over, so that waiting does not help.
#[must_use]
pub fn until_due(due: Timestamp, now: Timestamp) -> Option<Duration> {
    /// Timers are no finer.
    const LEAST: Duration = Duration::from_millis(5);
    /// It may have come about while nobody looked.
    const JUST_NOW: Duration = Duration::from_millis(20);
    (due > now - JUST_NOW).then(|| due.since(now).max(LEAST))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use agentd_store::testing::TestDb;
    use agentd_store::{Dialect, OWN_MIGRATIONS, StoreError, Tx};

    use super::*;

    async fn sqlite() -> TestDb {
        TestDb::start_on(Dialect::Sqlite, OWN_MIGRATIONS).await.expect("a database")
    }

    /// Goes wrong on its first run.
    struct Frail {
        runs: AtomicU32,
        second: Arc<Notify>,
    }

    impl Worker for Frail {
        fn name(&self) -> &'static str {
            "frail"
        }

        fn interval(&self) -> Duration {
            Duration::from_secs(1)
        }

        fn run_once(&self) -> BoxFuture<'_, Result<bool, WorkerError>> {
            Box::pin(async {
                assert!(self.runs.fetch_add(1, Ordering::SeqCst) > 0, "the first run goes wrong");
                self.second.notify_one();
                Ok(false)
            })
        }
    }

    /// Finds nothing, and nothing is due within the hour.
    struct Resting {
        runs: Arc<AtomicU32>,
        due: Timestamp,
    }

    impl Worker for Resting {
        fn name(&self) -> &'static str {
            "resting"
        }

        fn interval(&self) -> Duration {
            Duration::from_millis(5)
        }

        fn idle_until(&self) -> Option<Timestamp> {
            Some(self.due)
        }

        fn run_once(&self) -> BoxFuture<'_, Result<bool, WorkerError>> {
            self.runs.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Ok(false) })
        }
    }

    #[tokio::test]
    async fn a_worker_rests_until_something_is_written_or_due() {
        let test = sqlite().await;
        // What the migrations changed counts with the first commit.
        test.db.check().await.expect("a row is written");
        let (runs, due) = (Arc::new(AtomicU32::new(0)), test.clock.clock().now() + Duration::from_secs(3600));
        let mut workers = Workers::new(TaskPanics::default());
        workers.add(Resting { runs: Arc::clone(&runs), due });
        let (tracker, draining) = (TaskTracker::new(), CancellationToken::new());
        workers.spawn(&test.db, &tracker, &draining);
        let ran = async |times: u32| {
            while runs.load(Ordering::SeqCst) < times {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        ran(1).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        test.db.write(async |_: &mut Tx| Ok::<_, StoreError>(())).await.expect("nothing was written");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(runs.load(Ordering::SeqCst), 1, "what changes nothing wakes nobody");
        test.db.check().await.expect("a row is written");
        ran(2).await;
        test.clock.advance(Duration::from_secs(3600));
        ran(5).await;
        draining.cancel();
        tracker.close();
        tracker.wait().await;
    }

    /// Nothing to do before a time, which it notes when it runs.
    struct Punctual {
        due: Timestamp,
        clock: agentd_base::Clock,
        late_by: tokio::sync::mpsc::UnboundedSender<Duration>,
    }

    impl Worker for Punctual {
        fn name(&self) -> &'static str {
            "punctual"
        }

        fn interval(&self) -> Duration {
            Duration::from_secs(3600)
        }

        fn idle_until(&self) -> Option<Timestamp> {
            Some(self.due)
        }

        fn run_once(&self) -> BoxFuture<'_, Result<bool, WorkerError>> {
            let now = self.clock.now();
            if now >= self.due {
                self.late_by.send(now.since(self.due)).expect("the test waits");
            }
            Box::pin(async { Ok(false) })
        }
    }

    #[tokio::test]
    async fn a_worker_is_there_when_something_is_due() {
        let test = sqlite().await;
        let (late_by, mut was_late_by) = tokio::sync::mpsc::unbounded_channel();
        let clock = test.clock.clock();
        let due = clock.now() + Duration::from_millis(400);
        let mut workers = Workers::new(TaskPanics::default());
        workers.add(Punctual { due, clock, late_by });
        let (tracker, draining) = (TaskTracker::new(), CancellationToken::new());
        workers.spawn(&test.db, &tracker, &draining);
        tokio::time::sleep(Duration::from_millis(350)).await;
        test.clock.advance(Duration::from_millis(400));
        let late = tokio::time::timeout(Duration::from_secs(30), was_late_by.recv()).await;
        assert_eq!(late.expect("its interval is not waited for"), Some(Duration::ZERO));
        draining.cancel();
        tracker.close();
        tracker.wait().await;
    }

    #[test]
    fn what_is_over_is_not_waited_for() {
        let now = Timestamp::parse("2026-01-05T09:00:00Z").expect("a time");
        let wait = |milliseconds: i64| until_due(Timestamp::from_micros(now.as_micros() + milliseconds * 1000), now);
        assert_eq!(wait(200), Some(Duration::from_millis(200)));
        assert_eq!((wait(1), wait(-10)), (Some(Duration::from_millis(5)), Some(Duration::from_millis(5))));
        assert_eq!(wait(-21), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_panicked_works_again() {
        let (second, panics) = (Arc::new(Notify::new()), TaskPanics::default());
        let mut workers = Workers::new(panics.clone());
        workers.add(Frail { runs: AtomicU32::new(0), second: Arc::clone(&second) });
        let (tracker, draining) = (TaskTracker::new(), CancellationToken::new());
        workers.spawn(&sqlite().await.db, &tracker, &draining);
        second.notified().await;
        assert_eq!(panics.counts(), [("frail", 1)]);
        draining.cancel();
        tracker.close();
        tracker.wait().await;
    }
}
