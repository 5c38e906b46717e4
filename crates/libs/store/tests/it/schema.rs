//! Migrations: both dialects agree, each step runs once, and a backup precedes every change.

use agentd_store::testing::describe_schema;
use agentd_store::{Db, Dialect, Migration, OWN_MIGRATIONS, StoreError, Tx, args};
use agentd_testing_store::TestDb;

use crate::support::dialects;

const FIRST: Migration = OWN_MIGRATIONS[0];
const SECOND: Migration = Migration {
    version: 2,
    name: "notes",
    sqlite: "CREATE TABLE notes (id TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL); \
             INSERT INTO notes (id, body) VALUES ('note_1', 'from the migration');",
    postgres: "CREATE TABLE notes (id TEXT PRIMARY KEY NOT NULL, body TEXT NOT NULL); \
               INSERT INTO notes (id, body) VALUES ('note_1', 'from the migration');",
};
const BROKEN: Migration = Migration {
    version: 3,
    name: "broken",
    sqlite: "CREATE TABLE half (id TEXT PRIMARY KEY NOT NULL); INSERT INTO nowhere VALUES (1);",
    postgres: "CREATE TABLE half (id TEXT PRIMARY KEY NOT NULL); INSERT INTO nowhere VALUES (1);",
};
static ONE: &[Migration] = &[FIRST];
static TWO: &[Migration] = &[FIRST, SECOND];
static THREE: &[Migration] = &[FIRST, SECOND, BROKEN];

#[tokio::test]
async fn both_dialects_have_the_same_schema() {
    let mut schemas = Vec::new();
    for dialect in dialects() {
        let test_db = TestDb::start_on(dialect, OWN_MIGRATIONS).await.unwrap();
        let schema = describe_schema(&test_db.db).await.unwrap();
        assert!(schema.contains("outbox.data: text"), "{schema:#?}");
        assert!(schema.contains("queue.dedup_key: text or NULL"), "{schema:#?}");
        assert!(schema.contains("unique queue(queue, dedup_key)"), "{schema:#?}");
        assert!(schema.contains("unique idempotency(credential, idempotency_key)"), "{schema:#?}");
        schemas.push(schema);
        test_db.end().await.unwrap();
    }
    for pair in schemas.windows(2) {
        let only: Vec<_> = pair[0].symmetric_difference(&pair[1]).collect();
        assert!(only.is_empty(), "in one dialect only: {only:#?}");
    }
}

#[tokio::test]
async fn older_database_is_backed_up_and_migrated() {
    for dialect in dialects() {
        let test_db = TestDb::start_on(dialect, ONE).await.unwrap();
        let backups = test_db.data_dir().join("backups");
        let filled: Result<u64, StoreError> = test_db
            .db
            .write(async |tx: &mut Tx| {
                tx.execute("INSERT INTO store_info (name, value) VALUES ('mark', 'old')", args![]).await
            })
            .await;
        filled.unwrap();
        test_db.db.close().await;
        assert!(!backups.exists(), "a new database needs no copy");

        let mut options = test_db.options().clone();
        options.migrations = TWO;
        let db = Db::open(options.clone()).await.unwrap();
        let copies: Vec<_> = std::fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(copies.len(), 1, "{copies:?}");
        let name = copies[0].file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with("before-migration-1-to-2-"), "{name}");
        let mut read = db.read().await.unwrap();
        let row = read.fetch_one("SELECT body FROM notes", args![]).await.unwrap();
        assert_eq!(row.get::<String>("body").unwrap(), "from the migration");
        drop(read);
        db.close().await;
        if dialect == Dialect::Sqlite {
            let mut old = options.clone();
            old.url = agentd_store::DatabaseUrl::Sqlite { path: copies[0].clone() };
            old.migrations = ONE;
            let old = Db::open(old).await.unwrap();
            let mut read = old.read().await.unwrap();
            assert!(matches!(read.fetch_one("SELECT body FROM notes", args![]).await, Err(StoreError::NoTable { .. })));
            let row = read.fetch_one("SELECT value FROM store_info WHERE name = 'mark'", args![]).await.unwrap();
            assert_eq!(row.get::<String>("value").unwrap(), "old");
            drop(read);
            old.close().await;
        } else {
            let text = std::fs::read_to_string(&copies[0]).unwrap();
            assert!(
                text.starts_with("{\"format\":\"agentd-dump\"") && text.ends_with("{\"end\":{\"rows\":0}}\n"),
                "{text}"
            );
        }

        // Opening again migrates and copies nothing.
        Db::open(options.clone()).await.unwrap().close().await;
        assert_eq!(std::fs::read_dir(&backups).unwrap().count(), 1);

        options.migrations = THREE;
        let failed = Db::open(options.clone()).await.unwrap_err();
        assert!(matches!(failed, StoreError::Migration { version: 3, .. }), "{failed}");
        options.migrations = TWO;
        let db = Db::open(options.clone()).await.unwrap();
        let half = db.read().await.unwrap().fetch_all("SELECT id FROM half", args![]).await;
        assert!(matches!(half, Err(StoreError::NoTable { .. })), "a failed step leaves nothing: {half:?}");
        db.close().await;

        options.migrations = ONE;
        let refused = Db::open(options).await.unwrap_err();
        assert!(matches!(refused, StoreError::NewerSchema { found: 2, known: 1 }), "{refused}");
        assert!(refused.to_string().contains("newer version"), "{refused}");
        test_db.end().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_starting_concurrently_migrate_once() {
    for dialect in dialects().into_iter().filter(|dialect| *dialect == Dialect::Postgres) {
        let test_db = TestDb::start_on(dialect, ONE).await.unwrap();
        let mut starts = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let mut options = test_db.options().clone();
            options.migrations = TWO;
            starts.spawn(async move { Db::open(options).await.unwrap().close().await });
        }
        starts.join_all().await;
        let mut read = test_db.db.read().await.unwrap();
        let rows = read.fetch_all("SELECT version FROM schema_migrations ORDER BY version", args![]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get::<u32>("version").unwrap()).collect::<Vec<_>>(), [1, 2]);
        drop(read);
        test_db.end().await.unwrap();
    }
}
