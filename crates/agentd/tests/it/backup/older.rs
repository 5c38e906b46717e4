//! Archives of older programs, whose schema was another one.

use agentd_store::Dialect;
use agentd_store::testing::{TestDb, postgres_url};

use super::tampering::with_database;
use super::*;
use crate::cli::agentd;
use crate::support::TestProcess;

/// The dump of a database as it was before the times of memory's settings had a table of their own, as a program of
/// that time wrote it: one that restores nothing else, so that it has just an agent and those times.
async fn older_dump() -> Vec<u8> {
    let step = MIGRATIONS.iter().position(|step| step.name == "memory_toggles").unwrap();
    let dialect = if postgres_url().is_some() { Dialect::Postgres } else { Dialect::Sqlite };
    let old = TestDb::start_on(dialect, &MIGRATIONS[..step]).await.unwrap();
    let fill = async |tx: &mut Tx| {
        tx.execute(
            "INSERT INTO agents (id, svc_name, user_name, archetypes, evolution_choice, profile, answers, created_at, \
             updated_at) VALUES ('agent_01arz3ndektsv4rrffq69g5fav', 'scout', 'Ada', '[\"coach\"]', 'check', '{}', \
             '[]', 1, 1)",
            args![],
        )
        .await?;
        for (name, started_at) in [("auto_store", 5), ("enabled", 3)] {
            tx.execute(
                "INSERT INTO memory_jobs (name, attempt, lease_until, place, done, total, processed, created, merged, \
                 skipped, started_at, finished_at, updated_at) VALUES ($1, 0, 0, 0, 0, 0, 0, 0, 0, 0, $2, NULL, 9)",
                args![name, started_at],
            )
            .await?;
        }
        Ok(())
    };
    old.db.write::<_, StoreError, _>(fill).await.unwrap();
    let mut dump = Vec::new();
    old.db.dump(&mut dump, &["secrets"]).await.unwrap();
    old.end().await.unwrap();
    dump
}

#[tokio::test]
async fn an_older_archive_is_read_by_a_whole_daemon() {
    let dump = older_dump().await;
    let mut new = TestProcess::with_owner().await;
    new.make_agent("other").await;
    std::fs::create_dir_all(new.data_dir().join("agents/scout")).unwrap();
    std::fs::write(new.data_dir().join("agents/scout/notes.txt"), "remember").unwrap();
    let archive = agentd(&new, &["backup", "-"]).await.success().stdout;
    let path = new.folder().join("older.tar.gz");
    std::fs::write(&path, with_database(&archive, |_| dump.clone())).unwrap();
    agentd(&new, &["restore", "--yes", path.to_str().unwrap()]).await.success();

    let made = agentd(&new, &["keys", "create", "--name", "after"]).await.success();
    new.key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    new.get("/api/agents/other").send().await.expect_status(404);
    let agent = new.get("/api/agents/scout").send().await.expect_status(200).json();
    assert_eq!(agent["user_name"], "Ada");
    assert!(new.data_dir().join("agents/scout/notes.txt").exists());
    // It goes on from there, as any database does.
    new.make_agent("afterwards").await;
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
    let rows = read.fetch_all("SELECT name, on_since, off_since FROM memory_toggles ORDER BY name", args![]);
    let rows = rows.await.unwrap();
    let toggles: Vec<(String, i64, Option<i64>)> = rows
        .iter()
        .map(|row| (row.get("name").unwrap(), row.get("on_since").unwrap(), row.get("off_since").unwrap()))
        .collect();
    assert_eq!(toggles, [("auto_store".to_owned(), 5, None), ("enabled".to_owned(), 3, None)]);
    let sql = "SELECT name FROM memory_jobs WHERE name IN ('auto_store', 'enabled')";
    assert!(read.fetch_all(sql, args![]).await.unwrap().is_empty());
    drop(read);
    db.close().await;
}

/// What is wrong with it is found before the daemon is brought to rest, and is evaluated by what holds today.
#[tokio::test]
async fn an_older_archive_that_is_broken_changes_nothing() {
    let dump = String::from_utf8(older_dump().await).unwrap();
    let new = Fixture::new().await;
    new.set_mark("stays").await;
    new.write("agents/stays/file", b"stays");
    let (archive, before) = (new.archive(None).await, new.state().await);
    let rests = new.rest.rests.load(Ordering::SeqCst);
    for (from, to, said, is_at_rest) in [
        ("\"auto_store\"", "null", "a row of the table `memory_jobs`", 0),
        ("\"end\"", "\"and\"", "is not a line of a dump", 0),
        ("\"scout\"", "\"../../evil\"", "`../../evil` is no name of an agent", 1),
    ] {
        assert!(dump.contains(from), "{from} in {dump}");
        let broken = with_database(&archive, |_| dump.replace(from, to).into_bytes());
        let error = new.restore(&broken, None).await.unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
        assert_eq!(agentd_base::DomainError::code(&error), "bad_archive");
        assert_eq!((new.state().await, new.leftovers()), (before.clone(), Vec::new()));
        assert_eq!(new.rest.rests.load(Ordering::SeqCst), rests + is_at_rest);
    }
    new.restore(&with_database(&archive, |_| dump.clone().into_bytes()), None).await.unwrap();
}
