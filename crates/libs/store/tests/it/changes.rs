//! Change logs: immediate visibility, completeness, and detection of readers that are too late.

use std::time::Duration;

use agentd_store::{ChangeLog, Db, Dialect, Seq, StoreError, Tx};

use crate::support::on_each;

const THINGS: ChangeLog = ChangeLog::new("things");
const OTHERS: ChangeLog = ChangeLog::new("others");

async fn log(db: &Db, log: ChangeLog, row: Option<i64>) {
    db.write(async move |tx: &mut Tx| tx.log_change(log, row).await).await.unwrap();
}

/// Returns the rows after a position, read in pages, and the new position.
async fn read_changes(db: &Db, after: Seq, limit: u32) -> (Vec<Option<i64>>, Seq) {
    let (mut rows, mut position) = (Vec::new(), after);
    let mut next = Some(after);
    while let Some(after) = next {
        let page =
            db.read().await.unwrap().changes_after(THINGS, after, limit).await.unwrap().expect("changes are retained");
        rows.extend(page.changes.iter().map(|change| change.row));
        position = position.max(page.position);
        next = page.more_after;
    }
    (rows, position)
}

#[tokio::test]
async fn log_changes_records_many_rows() {
    on_each(async |test_db| {
        let db = &test_db.db;
        let rows: Vec<i64> = (1..=1_201).collect();
        let logged = rows.clone();
        db.write(async move |tx: &mut Tx| tx.log_changes(THINGS, &logged).await).await.unwrap();
        db.write(async move |tx: &mut Tx| tx.log_changes(THINGS, &[]).await).await.unwrap();
        log(db, OTHERS, Some(7)).await;
        let expected: Vec<Option<i64>> = rows.into_iter().map(Some).collect();
        assert_eq!(read_changes(db, Seq::START, 100).await.0, expected);
    })
    .await;
}

#[tokio::test]
async fn log_is_readable_from_any_position() {
    on_each(async |test_db| {
        let db = &test_db.db;
        for row in 1..=5 {
            log(db, THINGS, Some(row)).await;
            log(db, OTHERS, Some(row * 100)).await;
        }
        log(db, THINGS, None).await;
        let all = [Some(1), Some(2), Some(3), Some(4), Some(5), None];
        for limit in [1, 2, 3, 100] {
            assert_eq!(read_changes(db, Seq::START, limit).await.0, all);
        }
        // Other transactions on a shared server may delay the settling of the last changes.
        let position = loop {
            let (_, position) = read_changes(db, Seq::START, 100).await;
            if read_changes(db, position, 100).await.0.is_empty() {
                break position;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert_eq!(db.read().await.unwrap().last_change(THINGS).await.unwrap(), position);
        log(db, THINGS, Some(9)).await;
        assert_eq!(read_changes(db, position, 100).await.0, [Some(9)]);
        let failed: Result<(), StoreError> = db
            .write(async |tx: &mut Tx| {
                tx.log_change(THINGS, Some(10)).await?;
                Err(StoreError::NoRow)
            })
            .await;
        failed.unwrap_err();
        assert_eq!(read_changes(db, position, 100).await.0, [Some(9)]);
    })
    .await;
}

#[tokio::test]
async fn change_behind_an_open_transaction_is_visible_but_not_passed() {
    on_each(async |test_db| {
        let db = &test_db.db;
        if db.dialect() == Dialect::Sqlite {
            return;
        }
        let (entered, has_entered) = tokio::sync::oneshot::channel();
        let (finish, may_finish) = tokio::sync::oneshot::channel::<()>();
        let slots = std::sync::Mutex::new(Some((entered, may_finish)));
        let slow = {
            let db = db.clone();
            tokio::spawn(async move {
                db.write(async move |tx: &mut Tx| {
                    tx.log_change(THINGS, Some(1)).await?;
                    let taken = slots.lock().unwrap().take();
                    if let Some((entered, may_finish)) = taken {
                        let _ = entered.send(());
                        let _ = may_finish.await;
                    }
                    Ok::<_, StoreError>(())
                })
                .await
            })
        };
        has_entered.await.unwrap();
        let fast = Db::open(test_db.options().clone()).await.unwrap();
        log(&fast, THINGS, Some(2)).await;
        let (rows, position) = read_changes(db, Seq::START, 100).await;
        assert_eq!(rows, [Some(2)], "seen though not final");
        finish.send(()).unwrap();
        slow.await.unwrap().unwrap();
        let (mut rows, _) = read_changes(db, position, 100).await;
        rows.sort_unstable();
        assert_eq!(rows, [Some(1), Some(2)], "the slow one is not missed");
        fast.close().await;
    })
    .await;
}

#[tokio::test]
async fn reader_behind_the_pruned_range_starts_over() {
    on_each(async |test_db| {
        let db = &test_db.db;
        for row in 1..=4 {
            log(db, THINGS, Some(row)).await;
        }
        let later = db.clock().now() + Duration::from_secs(60);
        assert_eq!(prune(db, db.clock().now() - Duration::from_secs(60), 9).await, 0, "nothing is old enough");
        while prune(db, later, 3).await == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let mut read = db.read().await.unwrap();
        assert!(read.changes_after(THINGS, Seq::START, 9).await.unwrap().is_none());
        let position = read.last_change(THINGS).await.unwrap();
        assert!(position > Seq::START);
        assert!(read.changes_after(THINGS, position, 9).await.unwrap().is_some());
    })
    .await;
}

async fn prune(db: &Db, before: agentd_base::Timestamp, limit: u32) -> u64 {
    db.write(async move |tx: &mut Tx| tx.prune_changes(THINGS, before, limit).await).await.unwrap()
}
