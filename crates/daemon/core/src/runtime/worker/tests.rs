use std::sync::atomic::{AtomicU32, Ordering};

use agentd_base::Clock;
use agentd_store::{Db, Dialect, OWN_MIGRATIONS, StoreError, Tx, args};
use agentd_testing_store::TestDb;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::runtime::supervise::TaskPanics;

async fn write_row(db: &Db) {
    let write = async |tx: &mut Tx| {
        let sql = "INSERT INTO store_info (name, value) VALUES ('row', '') \
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        tx.execute(sql, args![]).await
    };
    db.write::<_, StoreError, _>(write).await.expect("a row is written");
}

async fn sqlite() -> TestDb {
    TestDb::start_on(Dialect::Sqlite, OWN_MIGRATIONS).await.expect("a database")
}

/// Worker that panics on its first run.
struct PanicsOnce {
    runs: AtomicU32,
    second: Arc<Notify>,
}

impl Worker for PanicsOnce {
    fn name(&self) -> &'static str {
        "frail"
    }

    fn description(&self) -> &'static str {
        "Fails once."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        Box::pin(async {
            assert!(self.runs.fetch_add(1, Ordering::SeqCst) > 0, "the first run fails");
            self.second.notify_one();
            Ok(WorkerReport::IDLE)
        })
    }
}

/// Worker that finds no work; nothing is due before `due`.
struct Idle {
    runs: Arc<AtomicU32>,
    due: Timestamp,
}

impl Worker for Idle {
    fn name(&self) -> &'static str {
        "resting"
    }

    fn description(&self) -> &'static str {
        "Rests."
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(5)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.due)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(WorkerReport::IDLE) })
    }
}

#[tokio::test]
async fn idle_worker_runs_after_a_write_or_when_due() {
    let test = sqlite().await;
    // The first commit includes the changes to the migrations.
    write_row(&test.db).await;
    let (runs, due) = (Arc::new(AtomicU32::new(0)), test.clock.clock().now() + Duration::from_secs(3600));
    let mut workers = Workers::new(TaskPanics::default(), test.clock.clock());
    workers.add(vec![Box::new(Idle { runs: Arc::clone(&runs), due })]);
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
    test.db.check().await.expect("a row without work is written");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(runs.load(Ordering::SeqCst), 1, "an unchanged database wakes no worker");
    write_row(&test.db).await;
    ran(2).await;
    test.clock.advance(Duration::from_secs(3600));
    ran(5).await;
    draining.cancel();
    tracker.close();
    tracker.wait().await;
}

#[tokio::test(start_paused = true)]
async fn idle_worker_runs_after_ten_minutes() {
    let test = sqlite().await;
    let (runs, due) = (Arc::new(AtomicU32::new(0)), NextDue::NEVER);
    let mut workers = Workers::new(TaskPanics::default(), test.clock.clock());
    workers.add(vec![Box::new(Idle { runs: Arc::clone(&runs), due })]);
    let (tracker, draining) = (TaskTracker::new(), CancellationToken::new());
    workers.spawn(&test.db, &tracker, &draining);
    let began = tokio::time::Instant::now();
    while runs.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let is_late = workers.records().all().iter().any(|(_, record)| record.is_late(tokio::time::Instant::now()));
        assert!(!is_late, "an idle worker is not late");
    }
    assert!((599..602).contains(&began.elapsed().as_secs()), "after {:?}", began.elapsed());
    draining.cancel();
    tracker.close();
    tracker.wait().await;
}

/// Worker with work at `due`, which reports how late it ran.
struct Punctual {
    due: Timestamp,
    clock: Clock,
    late_by: tokio::sync::mpsc::UnboundedSender<Duration>,
}

impl Worker for Punctual {
    fn name(&self) -> &'static str {
        "punctual"
    }

    fn description(&self) -> &'static str {
        "Wakes in time."
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn idle_until(&self) -> Option<Timestamp> {
        Some(self.due)
    }

    fn run_once(&self) -> BoxFuture<'_, Result<WorkerReport, WorkerError>> {
        let now = self.clock.now();
        if now >= self.due {
            self.late_by.send(now.since(self.due)).expect("the test waits");
        }
        Box::pin(async { Ok(WorkerReport::IDLE) })
    }
}

#[tokio::test]
async fn worker_runs_at_due_time_despite_long_interval() {
    let test = sqlite().await;
    let (late_by, mut was_late_by) = tokio::sync::mpsc::unbounded_channel();
    let clock = test.clock.clock();
    let due = clock.now() + Duration::from_millis(400);
    let mut workers = Workers::new(TaskPanics::default(), test.clock.clock());
    workers.add(vec![Box::new(Punctual { due, clock, late_by })]);
    let (tracker, draining) = (TaskTracker::new(), CancellationToken::new());
    workers.spawn(&test.db, &tracker, &draining);
    tokio::time::sleep(Duration::from_millis(350)).await;
    test.clock.advance(Duration::from_millis(400));
    let late = tokio::time::timeout(Duration::from_secs(30), was_late_by.recv()).await;
    assert_eq!(late.expect("runs before its interval elapses"), Some(Duration::ZERO));
    draining.cancel();
    tracker.close();
    tracker.wait().await;
}

#[test]
fn until_due_is_none_for_passed_times() {
    let now = Timestamp::parse("2026-01-05T09:00:00Z").expect("a time");
    let wait = |milliseconds: i64| until_due(Timestamp::from_micros(now.as_micros() + milliseconds * 1000), now);
    assert_eq!(wait(200), Some(Duration::from_millis(200)));
    assert_eq!((wait(1), wait(-10)), (Some(Duration::from_millis(5)), Some(Duration::from_millis(5))));
    assert_eq!(wait(-21), None);
}

#[tokio::test(start_paused = true)]
async fn worker_is_restarted_after_panic() {
    let (second, panics) = (Arc::new(Notify::new()), TaskPanics::default());
    let mut workers = Workers::new(panics.clone(), Clock::system());
    workers.add(vec![Box::new(PanicsOnce { runs: AtomicU32::new(0), second: Arc::clone(&second) })]);
    let (tracker, draining) = (TaskTracker::new(), CancellationToken::new());
    workers.spawn(&sqlite().await.db, &tracker, &draining);
    second.notified().await;
    assert_eq!(panics.counts(), [("frail", 1)]);
    draining.cancel();
    tracker.close();
    tracker.wait().await;
}
