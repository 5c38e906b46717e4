//! Databases for tests, with a table `things`.

use std::time::Duration;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy};
use agentd_store::{DatabaseUrl, Db, DbOptions, Dialect, Event, OWN_MIGRATIONS, Seq, StoreError, Tx, args};
use agentd_testing_store::{TestDb, postgres_url};

/// Returns options for SQLite in a folder, with the system clock and entropy.
pub(crate) fn options(folder: &std::path::Path) -> DbOptions {
    let (clock, entropy) = (Clock::system(), Entropy::system());
    DbOptions {
        url: DatabaseUrl::parse(None, folder).unwrap(),
        data_dir: folder.to_owned(),
        ids: IdGenerator::new(clock.clone(), entropy.clone()),
        clock,
        entropy,
        migrations: OWN_MIGRATIONS,
    }
}

/// Returns the databases available for tests.
pub(crate) fn dialects() -> Vec<Dialect> {
    let mut dialects = vec![Dialect::Sqlite];
    if postgres_url().is_some() {
        dialects.push(Dialect::Postgres);
    }
    dialects
}

/// Runs `test` on each available database, with an empty table `things (name, amount)`.
pub(crate) async fn on_each(test: impl AsyncFn(&TestDb)) {
    for dialect in dialects() {
        let test_db = with_things(dialect).await;
        test(&test_db).await;
        test_db.end().await.unwrap();
    }
}

pub(crate) async fn with_things(dialect: Dialect) -> TestDb {
    let test_db = TestDb::start_on(dialect, OWN_MIGRATIONS).await.unwrap();
    test_db
        .db
        .write(async |tx: &mut Tx| {
            tx.execute("CREATE TABLE things (name TEXT PRIMARY KEY NOT NULL, amount BIGINT NOT NULL)", args![]).await
        })
        .await
        .map_err(|e: StoreError| e)
        .unwrap();
    test_db
}

pub(crate) async fn put(tx: &mut Tx, name: &str, amount: i64) -> Result<(), StoreError> {
    tx.execute("INSERT INTO things (name, amount) VALUES ($1, $2)", args![name, amount]).await?;
    Ok(())
}

/// Returns the first `count` events. Waits for them: on PostgreSQL an event is readable once every older transaction of
/// the server has ended, including those of other tests.
pub(crate) async fn first_events(db: &Db, count: u32) -> Vec<Event> {
    let read = async || loop {
        let events = db.read().await.unwrap().events_after(Seq::START, count).await.unwrap();
        if events.len() == count as usize {
            return events;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    tokio::time::timeout(Duration::from_secs(20), read()).await.expect("events are readable")
}

pub(crate) async fn count(db: &Db) -> i64 {
    db.read().await.unwrap().fetch_one("SELECT COUNT(*) FROM things", args![]).await.unwrap().first().unwrap()
}
