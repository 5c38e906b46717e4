//! Dumps: completeness, portability between both databases, and atomic loading.

use std::sync::Arc;
use std::time::Duration;

use agentd_store::{
    Db, Dialect, ItemStatus, Migration, NewEvent, NewItem, OWN_MIGRATIONS, Read, Snapshot, StoreError, Topic, Tx, args,
};
use agentd_testing_store::TestDb;
use serde_json::json;

use crate::support::{dialects, first_events};

const EXTRA: Migration = Migration {
    version: OWN_MIGRATIONS.len() as u32 + 1,
    name: "extra",
    // The referring table comes first by name, so that a correct order is not a coincidence.
    sqlite: "CREATE TABLE parents (id TEXT PRIMARY KEY NOT NULL, amount BIGINT, share DOUBLE PRECISION, raw BLOB); \
             CREATE TABLE children (id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL REFERENCES parents (id)); \
             CREATE TABLE keepsakes (id TEXT PRIMARY KEY NOT NULL, sealed BLOB NOT NULL);",
    postgres: "CREATE TABLE parents (id TEXT PRIMARY KEY NOT NULL, amount BIGINT, share DOUBLE PRECISION, raw BYTEA); \
               CREATE TABLE children (id TEXT PRIMARY KEY NOT NULL, parent TEXT NOT NULL REFERENCES parents (id)); \
               CREATE TABLE keepsakes (id TEXT PRIMARY KEY NOT NULL, sealed BYTEA NOT NULL);",
};
/// Migration of a later version, which not every row satisfies.
const LATER: Migration = Migration {
    version: EXTRA.version + 1,
    name: "later",
    sqlite: "CREATE TABLE later (id TEXT PRIMARY KEY NOT NULL, amount BIGINT NOT NULL CHECK (amount > 0)); \
             INSERT INTO later (id, amount) SELECT id, amount FROM parents WHERE amount IS NOT NULL; \
             DROP TABLE keepsakes;",
    postgres: "CREATE TABLE later (id TEXT PRIMARY KEY NOT NULL, amount BIGINT NOT NULL CHECK (amount > 0)); \
               INSERT INTO later (id, amount) SELECT id, amount FROM parents WHERE amount IS NOT NULL; \
               DROP TABLE keepsakes;",
};
const PARENTS: Topic = Topic::new("parents");
const NEVER_TOUCHED: Topic = Topic::new("never touched");

fn migrations() -> &'static [Migration] {
    static ALL: std::sync::LazyLock<Vec<Migration>> =
        std::sync::LazyLock::new(|| OWN_MIGRATIONS.iter().copied().chain([EXTRA]).collect());
    &ALL
}

fn later_migrations() -> &'static [Migration] {
    static ALL: std::sync::LazyLock<Vec<Migration>> =
        std::sync::LazyLock::new(|| migrations().iter().copied().chain([LATER]).collect());
    &ALL
}

async fn fill(db: &Db) {
    let filled: Result<(), StoreError> = db
        .write(async |tx: &mut Tx| {
            let sql = "INSERT INTO parents (id, amount, share, raw) VALUES ($1, $2, $3, $4)";
            for number in 0..300 {
                let (amount, share) = (i64::MAX - number, 1.0 / (number + 3) as f64);
                tx.execute(sql, args![format!("parent {number}"), amount, share, vec![0u8, 200, number as u8]]).await?;
            }
            tx.execute(sql, args!["quote \" \\ \n ü 🙂", None::<i64>, f64::INFINITY, None::<Vec<u8>>]).await?;
            tx.execute("INSERT INTO children (id, parent) VALUES ('child', 'parent 7')", args![]).await?;
            tx.execute("INSERT INTO keepsakes (id, sealed) VALUES ('key', $1)", args![b"sealed".as_slice()]).await?;
            for number in 0..5 {
                tx.emit(NewEvent::new("thing.made", json!({"number": number}))).await?;
            }
            tx.enqueue(NewItem {
                queue: "mail".to_owned(),
                dedup_key: None,
                payload: json!({}),
                run_at: tx.clock().now(),
                max_attempts: 3,
            })
            .await?;
            Ok(())
        })
        .await;
    filled.unwrap();
    let mut heard = 0;
    let mut woken = db.watch_outbox();
    while heard < 3 {
        let taken: Result<usize, StoreError> = db
            .write(async move |tx: &mut Tx| {
                let events = tx.read_outbox("reader", 3 - heard).await?;
                if let Some(last) = events.last() {
                    tx.advance_cursor("reader", last.seq).await?;
                }
                Ok(events.len())
            })
            .await;
        heard += taken.unwrap() as u32;
        if heard < 3 {
            tokio::time::timeout(Duration::from_secs(20), woken.changed()).await.unwrap().unwrap();
        }
    }
    assert_eq!(db.claim("mail", "worker", 1, Duration::from_secs(60)).await.unwrap().len(), 1);
}

async fn dump(db: &Db, exclude: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    db.dump(&mut bytes, exclude).await.unwrap();
    bytes
}

/// Returns the lines without the header, whose time differs, and without the queue, whose leases are released.
fn contents(dump: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(dump).unwrap();
    text.lines().skip(1).filter(|line| !line.contains("item_")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dump_is_portable_between_databases() {
    for from in dialects() {
        for to in dialects() {
            let source = TestDb::start_on(from, migrations()).await.unwrap();
            let target = TestDb::start_on(to, migrations()).await.unwrap();
            fill(&source.db).await;
            let original = dump(&source.db, &[]).await;

            // Both databases use the same entropy, so only the time distinguishes their ids.
            target.clock.advance(Duration::from_secs(1));
            // The target is not empty and has a watcher.
            let old: Result<(), StoreError> = target
                .db
                .write(async |tx: &mut Tx| {
                    tx.touch(PARENTS);
                    tx.emit(NewEvent::new("old", json!({}))).await?;
                    tx.execute("INSERT INTO parents (id) VALUES ('old')", args![]).await?;
                    tx.execute("INSERT INTO children (id, parent) VALUES ('old child', 'old')", args![]).await?;
                    Ok(())
                })
                .await;
            old.unwrap();
            let parents = Arc::new(Snapshot::<i64>::new(&target.db, &[PARENTS]));
            let untouched = Arc::new(Snapshot::<i64>::new(&target.db, &[NEVER_TOUCHED]));
            assert_eq!(counted(&parents).await, 1);
            assert_eq!(counted(&untouched).await, 1);
            let old_id = target.db.database_id().await.unwrap();

            let summary = target.db.load(&mut original.as_slice()).await.unwrap();
            assert_eq!(summary.rows, 301 + 1 + 1 + 5 + 1 + 1, "parents, children, keepsakes, events, items, cursors");
            assert_eq!(counted(&parents).await, 301);
            assert_eq!(counted(&untouched).await, 301);
            assert_ne!(target.db.database_id().await.unwrap(), old_id);
            assert_eq!(contents(&dump(&target.db, &[]).await), contents(&original));

            let stats = target.db.read().await.unwrap().queue_stats("mail").await.unwrap();
            assert_eq!((stats.pending, stats.leased), (1, 0), "leases do not travel");
            // The reader continues at its position, and new events follow the old ones.
            target
                .db
                .write(async |tx: &mut Tx| tx.emit(NewEvent::new("thing.made", json!({"number": 5}))).await)
                .await
                .unwrap();
            let mut numbers = Vec::new();
            while numbers.len() < 3 {
                let taken: Result<Vec<_>, StoreError> = target
                    .db
                    .write(async |tx: &mut Tx| {
                        let events = tx.read_outbox("reader", 9).await?;
                        if let Some(last) = events.last() {
                            tx.advance_cursor("reader", last.seq).await?;
                        }
                        Ok(events)
                    })
                    .await;
                numbers.extend(taken.unwrap().iter().map(|event| event.data["number"].as_i64().unwrap()));
            }
            assert_eq!(numbers, [3, 4, 5]);
            source.end().await.unwrap();
            target.end().await.unwrap();
        }
    }
}

async fn counted(snapshot: &Snapshot<i64>) -> i64 {
    let value: Result<_, StoreError> = snapshot
        .get(async |read: &mut Read| read.fetch_one("SELECT COUNT(*) FROM parents", args![]).await?.first::<i64>())
        .await;
    *value.unwrap()
}

/// Returns the expected error text for the line of `row` if it violates a constraint.
fn violation_text(dump: &str, row: &str) -> String {
    let lines: Vec<&str> = dump.lines().collect();
    let index = lines.iter().position(|line| line.starts_with('[') && line.contains(row)).expect("the row is there");
    let table = lines[..index].iter().rev().find_map(|line| line.split("\"name\":\"").nth(1)).expect("its table");
    let table = table.split('"').next().expect("its name");
    format!("line {}, a row of the table `{table}`, cannot be stored: a row", index + 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_dump_changes_nothing() {
    for dialect in dialects() {
        let test_db = TestDb::start_on(dialect, migrations()).await.unwrap();
        fill(&test_db.db).await;
        let good = dump(&test_db.db, &[]).await;
        let text = String::from_utf8(good.clone()).unwrap();
        let schema = format!("\"schema_version\":{}", migrations().len());
        let last_line = text.trim_end().rfind('\n').unwrap();
        let bad: Vec<(&str, String)> = vec![
            ("header of a dump", String::new()),
            ("header of a dump", "{\"hello\":1}\n".to_owned()),
            ("newer version", text.replacen("\"format_version\":1", "\"format_version\":2", 1)),
            ("newer version", text.replacen(&schema, "\"schema_version\":99", 1)),
            ("older schema", text.replacen(&schema, "\"schema_version\":1", 1)),
            ("header of a dump", text.replacen(&schema, "\"schema_version\":0", 1)),
            ("truncated", text[..text.len() / 2].to_owned()),
            ("truncated", text[..=last_line].to_owned()),
            ("rows", text.replacen("[\"child\"", "[\"child 1\",\"parent 7\"]\n[\"child 2\"", 1)),
            ("unknown table", text.replacen("\"name\":\"children\"", "\"name\":\"strangers\"", 1)),
            ("columns", text.replacen("\"columns\":[\"id\",\"parent\"]", "\"columns\":[\"parent\",\"id\"]", 1)),
            ("valid value", text.replacen("[\"child\"", "[17", 1)),
            ("not a line", text.replacen("[\"child\"", "\u{0}[\"child\"", 1)),
            ("comes after", format!("{text}[]\n")),
            ("references a missing", text.replacen("\"parent 7\"]", "\"nobody\"]", 1)),
        ];
        // A constraint violation names the line, the table and the constraint.
        let breaking = [
            ("parent 7\"]", text.replacen("\"parent 7\"]", "\"nobody\"]", 1)),
            ("\"parent 299\"", text.replacen("\"parent 299\"", "\"parent 298\"", 1)),
            ("[\"child\"", text.replacen("[\"child\",\"parent 7\"]", "[\"child\",null]", 1)),
            ("\"mail\"", text.replacen("\"leased\"", "\"lost\"", 1)),
        ];
        let breaking = breaking.map(|(row, changed)| (violation_text(&text, row), changed));
        let bad = bad.into_iter().map(|(reason, changed)| (reason.to_owned(), changed)).chain(breaking);
        let before = contents(&good);
        for (reason, dump_text) in bad {
            let refused = test_db.db.load(&mut dump_text.as_bytes()).await.unwrap_err();
            assert!(refused.to_string().contains(&reason), "`{refused}` where `{reason}` was expected");
            assert!(matches!(refused, StoreError::Dump { .. }), "{refused}");
            assert_eq!(contents(&dump(&test_db.db, &[]).await), before, "after `{refused}`");
        }
        let item = test_db.db.read().await.unwrap().queue_stats("mail").await.unwrap();
        assert_eq!(item.leased, 1);
        test_db.end().await.unwrap();
    }
}

#[tokio::test]
async fn excluded_table_is_omitted_and_emptied() {
    for dialect in dialects() {
        let test_db = TestDb::start_on(dialect, migrations()).await.unwrap();
        fill(&test_db.db).await;
        let bytes = dump(&test_db.db, &["keepsakes"]).await;
        assert!(!String::from_utf8_lossy(&bytes).contains("keepsakes"));
        test_db.db.load(&mut bytes.as_slice()).await.unwrap();
        let mut read = test_db.db.read().await.unwrap();
        assert_eq!(read.fetch_one("SELECT COUNT(*) FROM keepsakes", args![]).await.unwrap().first::<i64>().unwrap(), 0);
        assert_eq!(read.fetch_one("SELECT COUNT(*) FROM outbox", args![]).await.unwrap().first::<i64>().unwrap(), 5);
        drop(read);
        assert_eq!(first_events(&test_db.db, 5).await.len(), 5, "what was loaded can be read again");
        if dialect == Dialect::Sqlite {
            let purged: Result<u64, StoreError> = test_db
                .db
                .write(async |tx: &mut Tx| {
                    let now = tx.clock().now();
                    tx.purge_queue("mail", ItemStatus::Pending, now, 9).await
                })
                .await;
            assert_eq!(purged.unwrap(), 0, "only what has ended is purged");
        }
        test_db.end().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_dump_is_upgraded_to_the_current_schema() {
    for from in dialects() {
        for to in dialects() {
            let old = TestDb::start_on(from, migrations()).await.unwrap();
            fill(&old.db).await;
            let original = dump(&old.db, &[]).await;
            let new = TestDb::start_on(to, later_migrations()).await.unwrap();
            let scratch = new.data_dir().join("scratch");
            let mut upgraded = Vec::new();
            assert!(new.db.upgrade_dump(&mut original.as_slice(), &mut upgraded, &scratch).await.unwrap());
            new.db.load(&mut upgraded.as_slice()).await.unwrap();
            let kept = |line: &String| !line.contains("keepsakes") && !line.contains("\"key\"");
            let before: Vec<String> = contents(&original).into_iter().filter(kept).collect();
            let after = contents(&dump(&new.db, &[]).await);
            for line in before.iter().filter(|line| !line.starts_with("{\"end\"")) {
                assert!(after.contains(line), "{line} from {from:?} in {to:?}");
            }
            let mut read = new.db.read().await.unwrap();
            let sql = "SELECT COUNT(*) FROM later l JOIN parents p ON p.id = l.id AND p.amount = l.amount";
            assert_eq!(read.fetch_one(sql, args![]).await.unwrap().first::<i64>().unwrap(), 300);
            drop(read);
            assert_eq!(first_events(&new.db, 5).await.len(), 5);

            // A dump of the current schema is left unchanged.
            let present = dump(&new.db, &[]).await;
            let mut untouched = Vec::new();
            assert!(!new.db.upgrade_dump(&mut present.as_slice(), &mut untouched, &scratch).await.unwrap());
            assert!(untouched.is_empty());
            old.end().await.unwrap();
            new.end().await.unwrap();
        }
    }
}

#[tokio::test]
async fn older_dump_with_invalid_rows_is_rejected() {
    let old = TestDb::start_on(Dialect::Sqlite, migrations()).await.unwrap();
    fill(&old.db).await;
    let text = String::from_utf8(dump(&old.db, &[]).await).unwrap();
    let new = TestDb::start_on(Dialect::Sqlite, later_migrations()).await.unwrap();
    let known = later_migrations().len();
    for (from, to, reason) in [
        (
            i64::MAX.to_string(),
            "-1".to_owned(),
            format!("do not match the current schema: migration {known} (later) failed"),
        ),
        ("\"parent 7\"]".to_owned(), "\"nobody\"]".to_owned(), violation_text(&text, "parent 7\"]")),
        (format!("\"schema_version\":{}", known - 1), format!("\"schema_version\":{}", known + 1), "newer".to_owned()),
        (format!("\"schema_version\":{}", known - 1), "\"schema_version\":1".to_owned(), "unknown table".to_owned()),
    ] {
        assert!(text.contains(&from), "{from}");
        let scratch = new.data_dir().join(format!("scratch {to}"));
        let mut upgraded = Vec::new();
        let changed = text.replacen(&from, &to, 1);
        let refused = new.db.upgrade_dump(&mut changed.as_bytes(), &mut upgraded, &scratch).await.unwrap_err();
        assert!(matches!(refused, StoreError::Dump { .. }) && refused.to_string().contains(&reason), "{refused}");
        assert!(upgraded.is_empty());
    }
    old.end().await.unwrap();
    new.end().await.unwrap();
}
