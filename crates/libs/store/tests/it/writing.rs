//! Transactions: isolation, cancelled callers, panics and rejected statements.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentd_store::{Read, Snapshot, StoreError, Topic, Tx, args};

use crate::support::{count, on_each, put};

const THINGS: Topic = Topic::new("things");

fn assert_send<T: Send>(value: T) -> T {
    value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_closure_does_not_affect_its_batch() {
    on_each(async |test_db| {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..200i64 {
            let db = test_db.db.clone();
            tasks.spawn(assert_send(async move {
                let result = db
                    .write(async move |tx: &mut Tx| {
                        put(tx, &format!("thing {number}"), number).await?;
                        match number % 4 {
                            0 => Err(StoreError::NoRow),
                            // A duplicate name, which the database rejects.
                            1 => put(tx, &format!("thing {number}"), number).await,
                            2 => panic!("as planned"),
                            _ => Ok(()),
                        }
                    })
                    .await;
                (number, result)
            }));
        }
        while let Some(joined) = tasks.join_next().await {
            let (number, result) = joined.unwrap();
            match number % 4 {
                0 => assert!(matches!(result, Err(StoreError::NoRow)), "{result:?}"),
                1 => assert!(matches!(result, Err(StoreError::Unique { .. })), "{result:?}"),
                2 => assert!(
                    matches!(&result, Err(StoreError::Panicked { message }) if message == "as planned"),
                    "{result:?}"
                ),
                _ => assert!(result.is_ok(), "{result:?}"),
            }
        }
        assert_eq!(count(&test_db.db).await, 50);
    })
    .await;
}

#[tokio::test]
async fn ignored_statement_failure_prevents_commit() {
    on_each(async |test_db| {
        let result: Result<(), StoreError> = test_db
            .db
            .write(async |tx: &mut Tx| {
                put(tx, "one", 1).await?;
                assert!(put(tx, "one", 2).await.unwrap_err().is_unique_violation());
                assert!(matches!(put(tx, "two", 2).await, Err(StoreError::Aborted)));
                Ok(())
            })
            .await;
        assert!(matches!(result, Err(StoreError::Aborted)), "{result:?}");
        assert_eq!(count(&test_db.db).await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_completes_after_the_caller_is_cancelled() {
    on_each(async |test_db| {
        let (begun, wait_for_begin) = tokio::sync::oneshot::channel();
        let (go, wait_for_go) = tokio::sync::oneshot::channel::<()>();
        let gates = std::sync::Mutex::new(Some((begun, wait_for_go)));
        let db = test_db.db.clone();
        let caller = tokio::spawn(async move {
            db.write(async move |tx: &mut Tx| {
                put(tx, "left behind", 1).await?;
                let taken = gates.lock().unwrap().take();
                if let Some((begun, wait_for_go)) = taken {
                    begun.send(()).unwrap();
                    wait_for_go.await.unwrap();
                }
                put(tx, "left behind too", 2).await
            })
            .await
        });
        wait_for_begin.await.unwrap();
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        go.send(()).unwrap();
        test_db.db.write(async |tx: &mut Tx| put(tx, "next", 3).await).await.unwrap();
        test_db.db.close().await;
        let again = agentd_store::Db::open(test_db.options().clone()).await.unwrap();
        assert_eq!(count(&again).await, 3);
        again.close().await;
    })
    .await;
}

#[tokio::test]
async fn nested_transaction_is_rejected() {
    on_each(async |test_db| {
        let inner = test_db.db.clone();
        let result: Result<(), StoreError> = test_db
            .db
            .write(async move |_: &mut Tx| inner.write(async |tx: &mut Tx| put(tx, "inner", 1).await).await)
            .await;
        assert!(matches!(result, Err(StoreError::Nested)), "{result:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_increments_are_all_counted() {
    on_each(async |test_db| {
        test_db.db.write(async |tx: &mut Tx| put(tx, "counter", 0).await).await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for worker in 0..16 {
            let db = test_db.db.clone();
            tasks.spawn(async move {
                for _ in 0..10 {
                    let work = async |tx: &mut Tx| {
                        // Read and write are separate statements, so that only a serializable order gives the sum.
                        let row = tx.fetch_one("SELECT amount FROM things WHERE name = $1", args!["counter"]).await?;
                        let amount: i64 = row.get("amount")?;
                        tx.execute("UPDATE things SET amount = $1 WHERE name = $2", args![amount + 1, "counter"]).await
                    };
                    let result: Result<u64, StoreError> =
                        if worker % 2 == 0 { db.write(work).await } else { db.write_relaxed(work).await };
                    assert_eq!(result.unwrap(), 1);
                }
            });
        }
        while let Some(joined) = tasks.join_next().await {
            joined.unwrap();
        }
        let mut read = test_db.db.read().await.unwrap();
        let row = read.fetch_one("SELECT amount FROM things", args![]).await.unwrap();
        assert_eq!(row.get::<i64>("amount").unwrap(), 160);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_is_never_older_than_an_acknowledged_write() {
    on_each(async |test_db| {
        test_db.db.write(async |tx: &mut Tx| put(tx, "counter", 0).await).await.unwrap();
        let loads = Arc::new(AtomicUsize::new(0));
        let snapshot = Arc::new(Snapshot::<i64>::new(&test_db.db, &[THINGS]));
        let acknowledged = Arc::new(std::sync::atomic::AtomicI64::new(0));
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let (snapshot, acknowledged, loads) =
                (Arc::clone(&snapshot), Arc::clone(&acknowledged), Arc::clone(&loads));
            readers.spawn(assert_send(async move {
                loop {
                    let at_least = acknowledged.load(Ordering::SeqCst);
                    let loads = Arc::clone(&loads);
                    let seen = snapshot
                        .get(async move |read: &mut Read| {
                            loads.fetch_add(1, Ordering::SeqCst);
                            read.fetch_one("SELECT amount FROM things", args![]).await?.get::<i64>("amount")
                        })
                        .await
                        .unwrap();
                    assert!(*seen >= at_least, "saw {seen}, {at_least} was acknowledged");
                    if *seen == 300 {
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            }));
        }
        for number in 1..=300i64 {
            let result: Result<u64, StoreError> = test_db
                .db
                .write(async move |tx: &mut Tx| {
                    tx.touch(THINGS);
                    tx.execute("UPDATE things SET amount = $1", args![number]).await
                })
                .await;
            result.unwrap();
            acknowledged.store(number, Ordering::SeqCst);
        }
        while let Some(joined) = readers.join_next().await {
            joined.unwrap();
        }
        let before = loads.load(Ordering::SeqCst);
        for _ in 0..10 {
            let loads = Arc::clone(&loads);
            let result: Result<_, StoreError> = snapshot
                .get(async move |_: &mut Read| {
                    loads.fetch_add(1, Ordering::SeqCst);
                    Ok(-1)
                })
                .await;
            assert_eq!(*result.unwrap(), 300);
        }
        assert_eq!(loads.load(Ordering::SeqCst), before, "nothing changed, so nothing is loaded");
    })
    .await;
}

#[tokio::test]
async fn each_write_class_gets_its_durability() {
    on_each(async |test_db| {
        let level = async |tx: &mut Tx| {
            let sql = tx.dialect().pick("PRAGMA synchronous", "SHOW synchronous_commit");
            let row = tx.fetch_one(sql, args![]).await?;
            Ok::<_, StoreError>(match row.first::<i64>() {
                Ok(2) => "full".to_owned(),
                Ok(_) => "relaxed".to_owned(),
                Err(_) if row.first::<String>()? == "on" => "full".to_owned(),
                Err(_) => "relaxed".to_owned(),
            })
        };
        for _ in 0..2 {
            assert_eq!(test_db.db.write(level).await.unwrap(), "full");
            assert_eq!(test_db.db.write_relaxed(level).await.unwrap(), "relaxed");
        }
    })
    .await;
}
