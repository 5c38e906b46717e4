//! Stored responses: single winner, expiry and limits.

use std::sync::Arc;
use std::time::Duration;

use agentd_store::{Db, Recorder, StoreError, StoredResponse, Tx};

use crate::support::{count, on_each, put};

fn recorder(key: &str) -> Recorder<i64> {
    Recorder::new(
        "key_1",
        key,
        "POST /api/things",
        [7; 32],
        Arc::new(|amount: &i64| StoredResponse::Answer { status: 201, body: format!("{{\"amount\":{amount}}}") }),
    )
}

async fn make(db: &Db, recorder: Recorder<i64>, amount: i64) -> Result<(), StoreError> {
    db.write(async move |tx: &mut Tx| {
        put(tx, &format!("thing {amount}"), amount).await?;
        recorder.record(tx, &amount).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_of_concurrent_requests_with_the_same_key_commits() {
    on_each(async |test_db| {
        let mut racers = tokio::task::JoinSet::new();
        for amount in 0..12 {
            let db = test_db.db.clone();
            racers.spawn(async move { make(&db, recorder("once"), amount).await.map(|()| amount) });
        }
        let (won, lost): (Vec<_>, Vec<_>) = racers.join_all().await.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1);
        assert!(lost.iter().all(|result| matches!(result, Err(StoreError::IdempotencyConflict))), "{lost:?}");
        assert_eq!(count(&test_db.db).await, 1, "the losers' changes are gone");
        let winner = won.into_iter().next().unwrap().unwrap();
        let stored = test_db.db.read().await.unwrap().find_response("key_1", "once").await.unwrap().unwrap();
        assert_eq!(stored.answer, StoredResponse::Answer { status: 201, body: format!("{{\"amount\":{winner}}}") });
        assert_eq!((stored.method_and_path.as_str(), stored.body_hash), ("POST /api/things", [7; 32]));
        assert_eq!(test_db.db.read().await.unwrap().find_response("key_2", "once").await.unwrap(), None);
        make(&test_db.db, Recorder::none(), 100).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn record_expires_after_a_day() {
    on_each(async |test_db| {
        let db = &test_db.db;
        make(db, recorder("daily"), 1).await.unwrap();
        test_db.clock.advance(Duration::from_secs(24 * 3600));
        assert!(matches!(make(db, recorder("daily"), 2).await, Err(StoreError::IdempotencyConflict)));
        test_db.clock.advance(Duration::from_secs(1));
        assert_eq!(db.read().await.unwrap().find_response("key_1", "daily").await.unwrap(), None);
        make(db, recorder("daily"), 3).await.unwrap();
        test_db.clock.advance(Duration::from_secs(2 * 24 * 3600));
        let purged: Result<u64, StoreError> = db.write(async |tx: &mut Tx| tx.purge_responses(10).await).await;
        assert_eq!(purged.unwrap(), 1);
    })
    .await;
}

#[tokio::test]
async fn secret_responses_store_only_an_id_and_oldest_are_trimmed() {
    on_each(async |test_db| {
        let db = &test_db.db;
        let secret = Recorder::new(
            "key_1",
            "secret",
            "POST /api/auth/keys",
            [1; 32],
            Arc::new(|amount: &i64| StoredResponse::AlreadyDone { id: format!("key_{amount}") }),
        );
        make(db, secret, 1).await.unwrap();
        for amount in 2..8 {
            test_db.clock.advance(Duration::from_millis(1));
            make(db, recorder(&format!("{amount}")), amount).await.unwrap();
        }
        let mut read = db.read().await.unwrap();
        let stored = read.find_response("key_1", "secret").await.unwrap().unwrap();
        assert_eq!(stored.answer, StoredResponse::AlreadyDone { id: "key_1".to_owned() });
        let trimmed: Result<u64, StoreError> = db.write(async |tx: &mut Tx| tx.trim_responses("key_1", 5).await).await;
        assert_eq!(trimmed.unwrap(), 2);
        assert_eq!(read.find_response("key_1", "secret").await.unwrap(), None);
        assert_eq!(read.find_response("key_1", "2").await.unwrap(), None);
        assert!(read.find_response("key_1", "3").await.unwrap().is_some());
    })
    .await;
}
