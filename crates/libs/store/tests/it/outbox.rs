//! Outbox: no event is lost, delivered twice, or inserted behind a cursor.

use std::time::Duration;

use agentd_store::{Args, CursorStart, Dialect, Event, NewEvent, Seq, StoreError, Tx, args};
use serde_json::json;

use crate::support::{count, on_each, put};

async fn emit(db: &agentd_store::Db, number: i64) {
    db.write(async move |tx: &mut Tx| tx.emit(NewEvent::new("thing.made", json!({"number": number}))).await)
        .await
        .unwrap();
}

fn numbers(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.data["number"].as_i64().unwrap()).collect()
}

/// Takes up to `limit` events for `consumer` and advances its cursor in one transaction.
async fn take(db: &agentd_store::Db, consumer: &'static str, limit: u32) -> Vec<i64> {
    let taken: Result<_, StoreError> = db
        .write(async move |tx: &mut Tx| {
            let events = tx.read_outbox(consumer, limit).await?;
            if let Some(last) = events.last() {
                tx.advance_cursor(consumer, last.seq).await?;
            }
            Ok(numbers(&events))
        })
        .await;
    taken.unwrap()
}

/// Takes exactly `count` events. On a shared PostgreSQL server other transactions delay them.
async fn take_exactly(db: &agentd_store::Db, consumer: &'static str, count: usize) -> Vec<i64> {
    let mut woken = db.watch_outbox();
    let mut heard = Vec::new();
    loop {
        heard.extend(take(db, consumer, u32::try_from(count - heard.len()).unwrap()).await);
        if heard.len() == count {
            return heard;
        }
        tokio::time::timeout(Duration::from_secs(20), woken.changed()).await.expect("watcher is woken").unwrap();
    }
}

#[tokio::test]
async fn consumers_have_independent_cursors() {
    on_each(async |test_db| {
        let db = &test_db.db;
        for number in 0..5 {
            emit(db, number).await;
        }
        assert_eq!(take_exactly(db, "a", 3).await, [0, 1, 2]);
        assert_eq!(take_exactly(db, "a", 2).await, [3, 4]);
        let unread = async |most| db.read().await.unwrap().count_unread_events(most).await.unwrap();
        assert_eq!(unread(100).await, 0);
        assert_eq!(take_exactly(db, "b", 2).await, [0, 1]);
        assert_eq!((unread(100).await, unread(2).await), (3, 2), "of the slowest");
        db.write(async |tx: &mut Tx| tx.ensure_cursor("late", CursorStart::Now).await).await.unwrap();
        db.write(async |tx: &mut Tx| tx.ensure_cursor("a", CursorStart::Beginning).await).await.unwrap();
        emit(db, 5).await;
        assert_eq!(take_exactly(db, "a", 1).await, [5], "an existing cursor stays");
        let late = take(db, "late", 9).await;
        assert_eq!(late.last(), Some(&5));
        assert!(late.len() == 1 || db.dialect() == Dialect::Postgres, "{late:?}");

        db.write(async |tx: &mut Tx| tx.advance_cursor("a", Seq::START).await).await.unwrap();
        assert!(take(db, "a", 9).await.is_empty(), "a cursor never goes back");
        let mut read = db.read().await.unwrap();
        let all = read.events_after(Seq::START, 100).await.unwrap();
        assert_eq!(numbers(&all), [0, 1, 2, 3, 4, 5]);
        assert!(
            all.is_sorted_by_key(|event| event.seq) && all.iter().all(|event| event.id.as_str().starts_with("evt_"))
        );
        assert_eq!(read.last_seq().await.unwrap(), all[5].seq);
        assert_eq!(all[5].seq.to_string().parse::<Seq>().unwrap(), all[5].seq);
    })
    .await;
}

#[tokio::test]
async fn event_of_a_rolled_back_transaction_is_not_visible() {
    on_each(async |test_db| {
        let failed: Result<(), StoreError> = test_db
            .db
            .write(async |tx: &mut Tx| {
                tx.emit(NewEvent::new("thing.made", json!({"number": 1})).for_agent("bob")).await?;
                Err(StoreError::NoRow)
            })
            .await;
        failed.unwrap_err();
        assert!(take(&test_db.db, "a", 9).await.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlapping_writers_never_commit_behind_a_cursor() {
    on_each(async |test_db| {
        let db = &test_db.db;
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..8i64 {
            let db = db.clone();
            writers.spawn(async move {
                for round in 0..15 {
                    let number = writer * 100 + round;
                    let made: Result<(), StoreError> = db
                        .write(async move |tx: &mut Tx| {
                            put(tx, &format!("{number}"), number).await?;
                            tx.emit(NewEvent::new("thing.made", json!({"number": number}))).await?;
                            // Keeps the transaction open after its number was assigned, as a slow one does.
                            if writer == 0 && tx.dialect() == Dialect::Postgres {
                                tx.fetch_one("SELECT 1 AS one FROM pg_sleep(0.02)", Args::new()).await?;
                            }
                            Ok(())
                        })
                        .await;
                    made.unwrap();
                }
            });
        }
        let mut woken = db.watch_outbox();
        let mut heard = Vec::new();
        while heard.len() < 120 {
            let more = take(db, "a", 7).await;
            if more.is_empty() {
                // Woken, not polled: this also proves that a late commit causes another wake-up.
                tokio::time::timeout(Duration::from_secs(20), woken.changed())
                    .await
                    .expect("watcher is woken")
                    .unwrap();
            }
            heard.extend(more);
        }
        writers.join_all().await;
        assert!(take(db, "a", 100).await.is_empty());
        for writer in 0..8 {
            let own: Vec<i64> = heard.iter().copied().filter(|number| number / 100 == writer).collect();
            assert_eq!(own, (0..15).map(|round| writer * 100 + round).collect::<Vec<_>>(), "in the order of commits");
        }
        assert_eq!(count(db).await, 120);
    })
    .await;
}

#[tokio::test]
async fn pruning_waits_for_the_slowest_consumer() {
    on_each(async |test_db| {
        let db = &test_db.db;
        for number in 0..6 {
            emit(db, number).await;
        }
        assert_eq!(take_exactly(db, "fast", 6).await.len(), 6);
        assert_eq!(take_exactly(db, "slow", 4).await.len(), 4);
        test_db.clock.advance(Duration::from_secs(3600));
        let bound = db.clock().now();
        emit(db, 6).await;
        let prune = async |limit| {
            db.write(async move |tx: &mut Tx| tx.prune_outbox(bound, limit).await).await.map_err(|e: StoreError| e)
        };
        assert_eq!(prune(3).await.unwrap(), 3);
        assert_eq!(prune(3).await.unwrap(), 1, "the fifth is not read by all");
        db.write(async |tx: &mut Tx| tx.delete_cursor("slow").await).await.unwrap();
        assert_eq!(prune(3).await.unwrap(), 2, "the seventh is too new");
        assert_eq!(take_exactly(db, "fast", 1).await, [6]);
        let left = db.read().await.unwrap().fetch_all("SELECT id FROM outbox", args![]).await.unwrap();
        assert_eq!(left.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn events_from_another_server_are_renumbered() {
    on_each(async |test_db| {
        if test_db.db.dialect() == Dialect::Sqlite {
            return;
        }
        for number in 0..6 {
            emit(&test_db.db, number).await;
        }
        assert_eq!(take_exactly(&test_db.db, "a", 4).await, [0, 1, 2, 3]);
        let id = test_db.db.database_id().await.unwrap();
        let moved: Result<(), StoreError> = test_db
            .db
            .write(async |tx: &mut Tx| {
                // Simulates the numbers of a server with a higher transaction counter.
                tx.execute("UPDATE outbox SET tx_id = tx_id + 4000000000000", args![]).await?;
                tx.execute("UPDATE cursors SET tx_id = tx_id + 4000000000000", args![]).await?;
                Ok(())
            })
            .await;
        moved.unwrap();
        assert!(take(&test_db.db, "a", 9).await.is_empty());
        test_db.db.close().await;
        let db = agentd_store::Db::open(test_db.options().clone()).await.unwrap();
        emit(&db, 6).await;
        assert_eq!(take_exactly(&db, "a", 3).await, [4, 5, 6]);
        assert_ne!(db.database_id().await.unwrap(), id);
        db.close().await;
    })
    .await;
}
