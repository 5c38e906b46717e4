//! Reading: long statements, abandoned streams, an exhausted pool.

use std::time::Duration;

use agentd_store::{Dialect, OWN_MIGRATIONS, StoreError, Tx, args};
use agentd_testing_store::TestDb;
use futures_util::StreamExt;

/// Counts to `$1`; slow for large numbers.
const SLOW_COUNT: &str = "WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < $1) \
                    SELECT COUNT(*) AS n FROM n";
const SLOW_STEPS: i64 = 2_000_000;
/// Takes several days.
const ENDLESS_STEPS: i64 = 1_000_000_000_000;

/// On the single thread of this test, a statement on the calling thread would block everything else.
#[tokio::test]
async fn long_statement_does_not_block_other_tasks() {
    let test_db = TestDb::start().await.unwrap();
    for in_snapshot in [false, true] {
        let mut read =
            if in_snapshot { test_db.db.read_snapshot().await.unwrap() } else { test_db.db.read().await.unwrap() };
        let mut ticks = 0_u32;
        let counted = {
            let count = read.fetch_one(SLOW_COUNT, args![SLOW_STEPS]);
            tokio::pin!(count);
            loop {
                tokio::select! {
                    row = &mut count => break row.unwrap().get::<i64>("n").unwrap(),
                    () = tokio::time::sleep(Duration::from_millis(2)) => ticks += 1,
                }
            }
        };
        assert_eq!(counted, SLOW_STEPS);
        assert!(ticks >= 2, "only {ticks} timer ticks while the statement ran");
        // The connection is still usable.
        assert_eq!(read.fetch_one(SLOW_COUNT, args![3]).await.unwrap().get::<i64>("n").unwrap(), 3);
    }
    test_db.end().await.unwrap();
}

#[tokio::test]
async fn snapshot_is_stable_across_a_long_statement() {
    let test_db = TestDb::start().await.unwrap();
    let mut snapshot = test_db.db.read_snapshot().await.unwrap();
    let count = "SELECT COUNT(*) AS n FROM store_info WHERE name = 'new'";
    assert_eq!(snapshot.fetch_one(count, args![]).await.unwrap().get::<i64>("n").unwrap(), 0);
    let insert = "INSERT INTO store_info (name, value) VALUES ('new', '1')";
    let added = test_db.db.write::<_, StoreError, _>(async move |tx: &mut Tx| tx.execute(insert, args![]).await);
    assert_eq!(added.await.unwrap(), 1);
    snapshot.fetch_one(SLOW_COUNT, args![SLOW_STEPS]).await.unwrap();
    assert_eq!(snapshot.fetch_one(count, args![]).await.unwrap().get::<i64>("n").unwrap(), 0);
    drop(snapshot);
    let mut read = test_db.db.read().await.unwrap();
    assert_eq!(read.fetch_one(count, args![]).await.unwrap().get::<i64>("n").unwrap(), 1);
    drop(read);
    test_db.end().await.unwrap();
}

/// An abandoned read blocks nothing, and the database can still be closed.
#[tokio::test]
async fn abandoned_read_returns_its_connection() {
    let test_db = TestDb::start_on(Dialect::Sqlite, OWN_MIGRATIONS).await.unwrap();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n";
    for _ in 0..12 {
        let mut snapshot = test_db.db.read_snapshot().await.unwrap();
        let mut rows = snapshot.fetch_stream(many, args![]).unwrap();
        assert_eq!(rows.next().await.unwrap().unwrap().get::<i64>("i").unwrap(), 1);
        drop(rows);
        assert!(matches!(snapshot.fetch_one("SELECT 1 AS n", args![]).await, Err(StoreError::Closed)));
        let mut abandoned = test_db.db.read().await.unwrap();
        let endless = abandoned.fetch_one(SLOW_COUNT, args![ENDLESS_STEPS]);
        assert!(tokio::time::timeout(Duration::from_millis(3), endless).await.is_err(), "the statement does not end");
    }
    let total = test_db.db.read_snapshot().await.unwrap().fetch_stream(many, args![]).unwrap().count().await;
    assert_eq!(total, 100_000);
    tokio::time::timeout(Duration::from_secs(10), test_db.end()).await.expect("close does not wait").unwrap();
}

#[tokio::test]
async fn reader_waits_for_a_free_connection() {
    let test_db = TestDb::start_on(Dialect::Sqlite, OWN_MIGRATIONS).await.unwrap();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(test_db.db.read().await.unwrap());
    }
    let db = test_db.db.clone();
    let waiting = tokio::spawn(async move { db.read().await.map(drop) });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiting.is_finished());
    held.pop();
    waiting.await.unwrap().unwrap();
    let db = test_db.db.clone();
    let closing = tokio::spawn(async move { db.close().await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!closing.is_finished(), "a reader is active");
    assert!(matches!(test_db.db.read().await, Err(StoreError::Closed)));
    held.clear();
    closing.await.unwrap();
}
