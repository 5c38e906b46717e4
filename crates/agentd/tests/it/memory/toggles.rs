//! The times of the settings `enabled` and `auto_store`, which were rows among the jobs before.

use agentd::migrations::MIGRATIONS;
use agentd_store::testing::{TestDb, postgres_url};
use agentd_store::{Db, Dialect, StoreError, Tx, args};

/// `name`, `on_since` and `off_since` of every row.
type Times = Vec<(String, i64, Option<i64>)>;

/// A database as it was before the times had a table of their own: a job and both settings.
async fn before() -> TestDb {
    let step = MIGRATIONS.iter().position(|step| step.name == "memory_toggles").expect("the migration");
    let dialect = if postgres_url().is_some() { Dialect::Postgres } else { Dialect::Sqlite };
    let old = TestDb::start_on(dialect, &MIGRATIONS[..step]).await.expect("a database");
    let fill = async |tx: &mut Tx| {
        let rows = [("auto_store", 5, Some(7)), ("enabled", 3, None), ("generate_episodes", 8, Some(9_i64))];
        for (name, started_at, finished_at) in rows {
            tx.execute(
                "INSERT INTO memory_jobs (name, attempt, lease_until, place, done, total, processed, created, merged, \
                 skipped, started_at, finished_at, updated_at) VALUES ($1, 0, 0, 0, 0, 0, 0, 0, 0, 0, $2, $3, 9)",
                args![name, started_at, finished_at],
            )
            .await?;
        }
        Ok(())
    };
    old.db.write::<_, StoreError, _>(fill).await.expect("written");
    old
}

async fn has_parted(db: &Db) {
    let mut read = db.read().await.expect("a connection");
    let sql = "SELECT name, on_since, off_since FROM memory_toggles ORDER BY name";
    let rows = read.fetch_all(sql, args![]).await.expect("rows");
    let toggles: Times = rows
        .iter()
        .map(|row| Ok((row.get("name")?, row.get("on_since")?, row.get("off_since")?)))
        .collect::<Result<_, StoreError>>()
        .expect("toggles");
    assert_eq!(toggles, [("auto_store".to_owned(), 5, Some(7)), ("enabled".to_owned(), 3, None)]);
    let rows = read.fetch_all("SELECT name FROM memory_jobs", args![]).await.expect("rows");
    let jobs: Vec<String> = rows.iter().map(|row| row.get("name").expect("a name")).collect();
    assert_eq!(jobs, ["generate_episodes"]);
}

#[tokio::test]
async fn a_migration_moves_the_times_out_of_the_jobs() {
    let old = before().await;
    old.db.close().await;
    let mut options = old.options().clone();
    options.migrations = MIGRATIONS;
    let db = Db::open(options).await.expect("migrated");
    has_parted(&db).await;
    db.close().await;
    old.end().await.expect("removed");
}
