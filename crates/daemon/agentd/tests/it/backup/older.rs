//! Archives of earlier versions, with an earlier schema.

use agentd_store::Dialect;
use agentd_testing_store::{TestDb, postgres_url};

use super::tampering::with_database;
use super::*;
use crate::cli::agentd;
use crate::support::TestProcess;

/// Returns a dump of a database that has only the first migration, the earliest schema.
async fn older_dump() -> Vec<u8> {
    let dialect = if postgres_url().is_some() { Dialect::Postgres } else { Dialect::Sqlite };
    let old = TestDb::start_on(dialect, &MIGRATIONS[..1]).await.unwrap();
    let fill = async |tx: &mut Tx| {
        let sql = "INSERT INTO cursors (consumer, tx_id, seq, updated_at) VALUES ('older', 0, 7, 1)";
        tx.execute(sql, args![]).await
    };
    old.db.write::<_, StoreError, _>(fill).await.unwrap();
    let mut dump = Vec::new();
    old.db.dump(&mut dump, &["secrets"]).await.unwrap();
    old.end().await.unwrap();
    dump
}

#[tokio::test]
async fn older_archive_is_restored_and_migrated() {
    let dump = older_dump().await;
    let mut new = TestProcess::with_owner().await;
    new.create_agent("other").await;
    let archive = agentd(&new, &["backup", "-"]).await.success().stdout;
    let path = new.folder().join("older.tar.gz");
    std::fs::write(&path, with_database(&archive, |_| dump.clone())).unwrap();
    agentd(&new, &["restore", "--yes", path.to_str().unwrap()]).await.success();

    let made = agentd(&new, &["keys", "create", "--name", "after"]).await.success();
    new.key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    new.get("/api/agents/other").send().await.expect_status(404);
    new.create_agent("afterwards").await;
    new.terminate().await;
    let address = new.database_url().map(|url| Secret::new(url.to_owned()));
    let clock = agentd_base::Clock::system();
    let db = Db::open(DbOptions {
        url: DatabaseUrl::parse(address.as_ref(), &new.data_dir()).unwrap(),
        data_dir: new.data_dir(),
        ids: IdGenerator::new(clock.clone(), Entropy::system()),
        clock,
        entropy: Entropy::system(),
        migrations: MIGRATIONS,
    })
    .await
    .unwrap();
    let mut read = db.read().await.unwrap();
    let sql = "SELECT 1 FROM cursors WHERE consumer = 'older'";
    assert!(read.fetch_optional(sql, args![]).await.unwrap().is_some());
    drop(read);
    db.close().await;
}

#[tokio::test]
async fn invalid_older_archive_changes_nothing() {
    let dump = String::from_utf8(older_dump().await).unwrap();
    let new = Fixture::new().await;
    new.set_mark("stays").await;
    new.write("agents/stays/file", b"stays");
    let (archive, before) = (new.archive(None).await, new.state().await);
    let quiesce_count = new.rest.quiesce_count.load(Ordering::SeqCst);
    for (from, to, expected) in
        [("\"older\"", "null", "a row of the table `cursors`"), ("\"end\"", "\"and\"", "is not a line of a dump")]
    {
        assert!(dump.contains(from), "{from} in {dump}");
        let broken = with_database(&archive, |_| dump.replace(from, to).into_bytes());
        let error = new.restore(&broken, None).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(agentd_base::DomainError::code(&error), "bad_archive");
        assert_eq!((new.state().await, new.leftovers()), (before.clone(), Vec::new()));
        assert_eq!(new.rest.quiesce_count.load(Ordering::SeqCst), quiesce_count);
    }
    new.restore(&with_database(&archive, |_| dump.clone().into_bytes()), None).await.unwrap();
}
