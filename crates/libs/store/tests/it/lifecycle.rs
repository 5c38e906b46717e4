//! Opening, closing, crashes, and temporary outages.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Secret};
use agentd_store::{DatabaseUrl, Db, Dialect, StoreError, Tx, args};
use agentd_testing_store::{TestDb, postgres_url};

use crate::support::{count, dialects, on_each, options, put, with_things};

const CHILD_FOLDER: &str = "AGENTD_STORE_TEST_CHILD_FOLDER";

const VISITOR_PATH: &str = "AGENTD_STORE_TEST_VISITOR_PATH";

/// Helper process started by [`other_programs_see_that_the_database_is_in_use`]; not a test of its own.
#[test]
fn visitor_that_opens_the_database_exclusively() {
    let Ok(path) = std::env::var(VISITOR_PATH) else { return };
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let wanted = rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    assert!(wanted.is_err(), "the database appears unused");
}

/// A program with an older SQLite that considers itself the last user removes the log when it exits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods, reason = "the test is what spawns here")]
async fn other_programs_see_that_the_database_is_in_use() {
    let test_db = with_things(Dialect::Sqlite).await;
    let long = "x".repeat(256 * 1024);
    // Enough writes for several checkpoints.
    for number in 0..160 {
        let name = format!("{number}-{long}");
        test_db.db.write(async move |tx: &mut Tx| put(tx, &name, number).await).await.unwrap();
    }
    let visit = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lifecycle::visitor_that_opens_the_database_exclusively"])
        .env(VISITOR_PATH, test_db.path())
        .output()
        .unwrap();
    assert!(visit.status.success(), "{}", String::from_utf8_lossy(&visit.stdout));
    test_db.end().await.unwrap();
}

/// Child process that [`acknowledged_writes_survive_a_killed_daemon`] kills; not a test of its own. It writes without
/// end and prints each number once it is acknowledged.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let db = Db::open(options(folder.as_ref())).await.unwrap();
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8i64 {
            let db = db.clone();
            writers.spawn(async move {
                let first: i64 = db
                    .read()
                    .await
                    .unwrap()
                    .fetch_one("SELECT COALESCE(MAX(amount), 0) FROM things", args![])
                    .await
                    .unwrap()
                    .first()
                    .unwrap();
                for round in 1.. {
                    let number = (first / 8 + round) * 8 + writer;
                    let work = async move |tx: &mut Tx| put(tx, &number.to_string(), number).await;
                    let done = if writer % 2 == 0 { db.write(work).await } else { db.write_relaxed(work).await };
                    done.unwrap();
                    println!("\nacknowledged {number}");
                }
            });
        }
        writers.join_all().await;
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods, reason = "the test is what spawns here")]
async fn acknowledged_writes_survive_a_killed_daemon() {
    let test_db = with_things(Dialect::Sqlite).await;
    test_db.db.close().await;
    let mut acknowledged = Vec::new();
    for round in 0..5u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lifecycle::child_that_writes_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env(CHILD_FOLDER, test_db.data_dir())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let wanted = acknowledged.len() + 40 + 37 * usize::try_from(round).unwrap();
        let mut has_been_killed = false;
        for line in lines {
            // A line truncated by the kill is not an acknowledgement.
            let Ok(line) = line else { break };
            if let Some(number) = line.strip_prefix("acknowledged ").and_then(|number| number.parse::<i64>().ok()) {
                acknowledged.push((number, has_been_killed));
            }
            if acknowledged.len() >= wanted && !has_been_killed {
                child.kill().unwrap();
                has_been_killed = true;
            }
        }
        child.wait().unwrap();
        let db = Db::open(options(test_db.data_dir())).await.expect("database opens");
        let mut read = db.read().await.unwrap();
        let integrity = read.fetch_one("PRAGMA integrity_check", args![]).await.unwrap();
        assert_eq!(integrity.first::<String>().unwrap(), "ok");
        let rows = read.fetch_all("SELECT amount FROM things", args![]).await.unwrap();
        let there: std::collections::HashSet<i64> = rows.iter().map(|row| row.get("amount").unwrap()).collect();
        // The last line may be truncated, and then shows a smaller number.
        let certain = acknowledged.len() - 1;
        for (number, _) in &acknowledged[..certain] {
            assert!(there.contains(number), "{number} was acknowledged and is gone, round {round}");
        }
        drop(read);
        db.close().await;
    }
    assert!(acknowledged.len() >= 200);
}

#[tokio::test]
async fn second_daemon_on_the_same_data_directory_is_rejected() {
    let test_db = with_things(Dialect::Sqlite).await;
    let refused = Db::open(test_db.options().clone()).await.unwrap_err();
    let me = std::process::id();
    assert!(matches!(&refused, StoreError::AlreadyRunning { pid: Some(pid), .. } if *pid == me), "{refused}");
    assert!(refused.to_string().contains(&format!("process {me}")), "{refused}");
    test_db.db.check().await.unwrap();
    for name in ["agentd.db", "agentd.db-wal"] {
        let mode = std::fs::metadata(test_db.data_dir().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name} is its owner's alone");
    }
    test_db.db.close().await;
    let again = Db::open(test_db.options().clone()).await.unwrap();
    // The handle is dropped, not closed: the lock is released once the writer has stopped.
    drop(again);
    let mut tries = 0;
    let third = loop {
        match Db::open(test_db.options().clone()).await {
            Ok(db) => break db,
            Err(StoreError::AlreadyRunning { .. }) if tries < 1000 => tries += 1,
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    third.close().await;
}

/// At any time one reader is active, but none reads for long.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn log_stays_bounded_with_permanent_readers() {
    const BYTES: usize = 64 << 10;
    const MAX_LOG_BYTES: u64 = 96 << 20;
    let test_db = with_things(Dialect::Sqlite).await;
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let db = test_db.db.clone();
        readers.spawn(async move {
            let sql = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) \
                       SELECT COUNT(*), (SELECT COUNT(*) FROM things) FROM n";
            loop {
                db.read().await.unwrap().fetch_one(sql, args![]).await.unwrap();
            }
        });
    }
    let log = test_db.data_dir().join("agentd.db-wal");
    let (mut largest, name) = (0, "x".repeat(BYTES));
    for number in 0..1_500i64 {
        let name = format!("{number} {name}");
        let written: Result<(), StoreError> =
            test_db.db.write_relaxed(async move |tx: &mut Tx| put(tx, &name, number).await).await;
        written.unwrap();
        largest = largest.max(std::fs::metadata(&log).unwrap().len());
    }
    readers.shutdown().await;
    assert!(largest < MAX_LOG_BYTES, "{largest} bytes of log for {} of content", 1_500 * BYTES);
    test_db.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_finishes_queued_jobs_and_rejects_new_ones() {
    on_each(async |test_db| {
        let mut writers = tokio::task::JoinSet::new();
        for number in 0..100 {
            let db = test_db.db.clone();
            writers.spawn(async move {
                let done: Result<(), StoreError> =
                    db.write(async move |tx: &mut Tx| put(tx, &number.to_string(), number).await).await;
                done
            });
        }
        while count(&test_db.db).await == 0 {
            tokio::task::yield_now().await;
        }
        test_db.db.close().await;
        let results = writers.join_all().await;
        let kept = results.iter().filter(|result| result.is_ok()).count();
        assert!(results.iter().all(|result| matches!(result, Ok(()) | Err(StoreError::Closed))), "{results:?}");
        assert!(matches!(test_db.db.read().await, Err(StoreError::Closed)));
        let late: Result<(), StoreError> = test_db.db.write(async |_: &mut Tx| Ok(())).await;
        assert!(matches!(late, Err(StoreError::Closed)));
        let again = Db::open(test_db.options().clone()).await.unwrap();
        assert_eq!(count(&again).await, i64::try_from(kept).unwrap());
        again.close().await;
    })
    .await;
}

#[tokio::test]
async fn full_disk_is_reported_as_unavailable_and_recovers() {
    let test_db = with_things(Dialect::Sqlite).await;
    let db = &test_db.db;
    // SQLite's own limit on the file gives the same result code as a full disk.
    let bound: Result<(), StoreError> = db
        .write(async |tx: &mut Tx| {
            tx.execute("PRAGMA max_page_count = 1", args![]).await?;
            Ok(())
        })
        .await;
    bound.unwrap();
    let big = async |tx: &mut Tx| put(tx, &"x".repeat(1_000_000), 1).await;
    let full = db.write(big).await.unwrap_err();
    assert!(full.is_unavailable() && full.to_string().contains("is full"), "{full}");
    assert_eq!(count(db).await, 0);
    let freed: Result<(), StoreError> = db
        .write(async |tx: &mut Tx| {
            tx.execute("PRAGMA max_page_count = 1000000", args![]).await?;
            Ok(())
        })
        .await;
    freed.unwrap();
    db.write(big).await.unwrap();
    db.check().await.unwrap();
    assert_eq!(count(db).await, 1);
    test_db.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_to_postgres_are_replaced() {
    for dialect in dialects().into_iter().filter(|dialect| *dialect == Dialect::Postgres) {
        let test_db = with_things(dialect).await;
        for round in 0..5 {
            // Opens several connections of the pool.
            let checks = tokio::join!(test_db.db.check(), test_db.db.check(), test_db.db.check());
            assert!(round > 0 || matches!(checks, (Ok(()), Ok(()), Ok(()))), "{checks:?}");
            cut_connections(&test_db).await;
            let written: Result<(), StoreError> =
                test_db.db.write(async move |tx: &mut Tx| put(tx, &format!("{round}"), round).await).await;
            written.unwrap();
            let mut watch = test_db.db.watch(agentd_store::Topic::new("any"));
            // The listener's connection is closed too; after its reconnect everything counts as changed.
            tokio::time::timeout(Duration::from_secs(20), watch.changed()).await.expect("listener reconnects").unwrap();
        }
        test_db.db.check().await.unwrap();
        assert_eq!(count(&test_db.db).await, 5);
        test_db.end().await.unwrap();
    }
}

/// Terminates the server side of every connection of this database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_survive_lost_connections() {
    for dialect in dialects().into_iter().filter(|dialect| *dialect == Dialect::Postgres) {
        let test_db = with_things(dialect).await;
        for _ in 0..3 {
            let mut held = Vec::new();
            for _ in 0..7 {
                let mut read = test_db.db.read().await.unwrap();
                read.fetch_one("SELECT 1", args![]).await.unwrap();
                held.push(read);
            }
            // One connection is closed while in use, the others while idle.
            let mut read = held.pop().unwrap();
            drop(held);
            cut_connections(&test_db).await;
            let row = read.fetch_one("SELECT COUNT(*) FROM things WHERE name = $1", args!["none"]).await.unwrap();
            assert_eq!(row.first::<i64>().unwrap(), 0);
            drop(read);
            for _ in 0..10 {
                assert_eq!(count(&test_db.db).await, 0);
            }
            cut_connections(&test_db).await;
            test_db.db.read_snapshot().await.unwrap().fetch_all("SELECT name FROM things", args![]).await.unwrap();
        }
        test_db.end().await.unwrap();
    }
}

async fn cut_connections(test_db: &TestDb) {
    let cut: Result<(), StoreError> = test_db
        .db
        .write(async |tx: &mut Tx| {
            tx.fetch_all(
                "SELECT pg_terminate_backend(l.pid) AS cut FROM pg_stat_activity l \
                 WHERE l.pid <> pg_backend_pid() AND l.application_name = \
                 (SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid())",
                args![],
            )
            .await?;
            Ok(())
        })
        .await;
    cut.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_receive_each_others_changes() {
    const AGENTS: agentd_store::Topic = agentd_store::Topic::new("agents");
    for dialect in dialects().into_iter().filter(|dialect| *dialect == Dialect::Postgres) {
        let test_db = with_things(dialect).await;
        let mut other = test_db.options().clone();
        other.ids = IdGenerator::new(Clock::system(), Entropy::system());
        let other = Db::open(other).await.unwrap();
        let snapshot = agentd_store::Snapshot::<i64>::new(&other, &[AGENTS]);
        let mut heard = other.watch(AGENTS);
        for number in 1..=20 {
            let written: Result<(), StoreError> = test_db
                .db
                .write(async move |tx: &mut Tx| {
                    tx.touch(AGENTS);
                    put(tx, &number.to_string(), number).await
                })
                .await;
            written.unwrap();
            // Exact without waiting for a notification.
            let seen: Result<_, StoreError> = snapshot
                .get(async |read: &mut agentd_store::Read| {
                    read.fetch_one("SELECT COUNT(*) FROM things", args![]).await?.first::<i64>()
                })
                .await;
            assert_eq!(*seen.unwrap(), number);
            tokio::time::timeout(Duration::from_secs(20), heard.changed()).await.expect("change is received").unwrap();
        }
        other.close().await;
        test_db.end().await.unwrap();
    }
}

#[test]
fn database_urls_are_parsed_and_never_printed() {
    let folder = std::path::Path::new("/data");
    let parse = |text: &str| DatabaseUrl::parse(Some(&Secret::new(text.to_owned())), folder);
    assert!(
        matches!(DatabaseUrl::parse(None, folder), Ok(DatabaseUrl::Sqlite { path }) if path == folder.join("agentd.db"))
    );
    assert!(matches!(parse("sqlite:other.db"), Ok(DatabaseUrl::Sqlite { path }) if path == folder.join("other.db")));
    assert!(
        matches!(parse("sqlite:///abs.db"), Ok(DatabaseUrl::Sqlite { path }) if path == std::path::Path::new("/abs.db"))
    );
    assert!(matches!(parse("postgres://u:p@h/d"), Ok(DatabaseUrl::Postgres(_))));
    for (url, shown) in [
        ("sqlite:other.db", "SQLite /data/other.db"),
        ("postgres://user:hunter2@host:5432/db?sslmode=require", "PostgreSQL host:5432/db"),
        ("postgres:///db?host=/run&password=hunter2@x", "PostgreSQL /db"),
    ] {
        assert_eq!(parse(url).unwrap().to_string(), shown);
    }
    let refused = parse("mysql://user:hunter2@host/db").unwrap_err();
    assert!(!format!("{refused} {refused:?}").contains("hunter2"));
    assert!(postgres_url().is_none_or(|url| !url.is_empty()));
}
