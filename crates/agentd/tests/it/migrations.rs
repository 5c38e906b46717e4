//! The schema of the daemon: the same in both dialects, and older databases are brought up to it.

use agentd::migrations::MIGRATIONS;
use agentd_store::testing::{TestDb, describe_schema, postgres_url};
use agentd_store::{Db, Dialect, Migration, Row, StoreError, Tx, args};

fn dialects() -> Vec<Dialect> {
    [Some(Dialect::Sqlite), postgres_url().map(|_| Dialect::Postgres)].into_iter().flatten().collect()
}

#[tokio::test]
async fn both_dialects_have_the_same_schema() {
    let mut schemas = Vec::new();
    for dialect in dialects() {
        let test_db = TestDb::start_on(dialect, MIGRATIONS).await.unwrap();
        schemas.push(describe_schema(&test_db.db).await.unwrap());
        test_db.end().await.unwrap();
    }
    assert!(schemas[0].contains("hooks.id: text"), "{:#?}", schemas[0]);
    for pair in schemas.windows(2) {
        let only: Vec<_> = pair[0].symmetric_difference(&pair[1]).collect();
        assert!(only.is_empty(), "in one dialect only: {only:#?}");
    }
}

#[test]
fn scripts_are_numbered_without_a_gap_and_defer_nothing() {
    for (place, step) in MIGRATIONS.iter().enumerate() {
        assert_eq!(step.version as usize, place + 1, "{}", step.name);
        for script in [step.sqlite, step.postgres] {
            assert!(!script.to_ascii_uppercase().contains("DEFERR"), "{} defers a constraint", step.name);
        }
    }
}

/// What a new SQLite file is made with. `AGENTD_TEST_REWRITE=1` writes it, as the last step that names it leaves it.
#[tokio::test]
async fn the_schema_as_one_script_is_what_the_steps_make() {
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/sqlite_schema.sql");
    let with_it = MIGRATIONS.iter().rposition(|step| step.sqlite_schema.is_some()).unwrap();
    let one_by_one = |step: &Migration| Migration { sqlite_schema: None, ..*step };
    let steps: Vec<Migration> = MIGRATIONS[..=with_it].iter().map(one_by_one).collect();
    let made_by_steps = written_out(steps.leak()).await;
    if std::env::var_os("AGENTD_TEST_REWRITE").is_some() {
        return std::fs::write(FILE, made_by_steps).unwrap();
    }
    let script = MIGRATIONS[with_it].sqlite_schema.unwrap();
    assert!(script == made_by_steps, "the steps make something else; write it with AGENTD_TEST_REWRITE=1");
    assert_eq!(written_out(&MIGRATIONS[..=with_it]).await, made_by_steps);
}

/// A new file's schema and rows, as statements.
async fn written_out(migrations: &'static [Migration]) -> String {
    let test_db = TestDb::start_on(Dialect::Sqlite, migrations).await.unwrap();
    let mut read = test_db.db.read().await.unwrap();
    let sql = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
               ORDER BY rowid";
    let (mut text, mut tables) = (String::new(), Vec::new());
    for row in read.fetch_all(sql, args![]).await.unwrap() {
        text += &format!("{};\n", row.get::<String>("sql").unwrap());
        if row.get::<String>("type").unwrap() == "table" {
            tables.push(row.get::<String>("name").unwrap());
        }
    }
    // These two have rows of this file alone.
    for table in tables.iter().filter(|table| !matches!(table.as_str(), "schema_migrations" | "store_info")) {
        let columns = read.fetch_all(format!("SELECT name FROM pragma_table_info('{table}')"), args![]).await.unwrap();
        let columns: Vec<String> = columns.iter().map(|row| row.get("name").unwrap()).collect();
        let quoted: Vec<String> = columns.iter().map(|column| in_words(column)).collect();
        let sql = format!("SELECT {} AS row_values FROM \"{table}\"", quoted.join(" || ', ' || "));
        for row in read.fetch_all(sql, args![]).await.unwrap() {
            text += &format!("INSERT INTO {table} VALUES ({});\n", row.get::<String>("row_values").unwrap());
        }
    }
    drop(read);
    test_db.end().await.unwrap();
    text
}

/// What shows a column's value as SQL; the time at which a row was made is when the script is run.
fn in_words(column: &str) -> String {
    const NOW: &str = "'CAST(strftime(''%s'', ''now'') AS BIGINT) * 1000000'";
    if matches!(column, "created_at" | "updated_at") { NOW.to_owned() } else { format!("quote(\"{column}\")") }
}

/// Agents that were there before their instructions had versions have a first one.
#[tokio::test]
async fn instructions_that_were_there_are_the_first_version() {
    let before = MIGRATIONS.iter().position(|step| step.name == "evolution").unwrap();
    for dialect in dialects() {
        let test_db = TestDb::start_on(dialect, &MIGRATIONS[..before]).await.unwrap();
        let agents = [
            ("agent_1", r#"{"instructions":"Be \"brief\".\nUse metres.","x":1}"#, None),
            ("agent_2", "{}", None),
            ("agent_3", r#"{"instructions":"gone"}"#, Some(9_i64)),
        ];
        let filled: Result<(), StoreError> = test_db
            .db
            .write(async move |tx: &mut Tx| {
                for (id, profile, deleted_at) in agents {
                    tx.execute(
                        "INSERT INTO agents (id, svc_name, user_name, archetypes, evolution_choice, profile, answers, \
                         created_at, updated_at, deleted_at) VALUES ($1, $1, 'Ada', '[]', 'check', $2, '[]', 5, 7, $3)",
                        args![id, profile, deleted_at],
                    )
                    .await?;
                }
                Ok(())
            })
            .await;
        filled.unwrap();
        test_db.db.close().await;
        let mut options = test_db.options().clone();
        options.migrations = MIGRATIONS;
        let db = Db::open(options).await.unwrap();
        let mut read = db.read().await.unwrap();
        let sql = "SELECT agent_id, version, instructions, source, created_at FROM agent_versions ORDER BY agent_id";
        let rows = read.fetch_all(sql, args![]).await.unwrap();
        let found: Vec<(String, i64, String, String, i64)> = rows
            .iter()
            .map(|row| {
                let text = |column| row.get::<String>(column).unwrap();
                let number = |column| row.get::<i64>(column).unwrap();
                (text("agent_id"), number("version"), text("instructions"), text("source"), number("created_at"))
            })
            .collect();
        let version = |id: &str, text: &str| (id.to_owned(), 1, text.to_owned(), "created".to_owned(), 5);
        assert_eq!(found, [version("agent_1", "Be \"brief\".\nUse metres."), version("agent_2", "")]);
        drop(read);
        db.close().await;
        test_db.end().await.unwrap();
    }
}

/// Databases of before have an owner for each platform: the sender who was approved first.
#[tokio::test]
async fn earliest_approved_sender_of_a_platform_becomes_its_owner() {
    let before = MIGRATIONS.iter().position(|step| step.name == "channel_owners").unwrap();
    for dialect in dialects() {
        let test_db = TestDb::start_on(dialect, &MIGRATIONS[..before]).await.unwrap();
        let senders = [
            ("slack", "U2", 5_i64),
            ("slack", "U1", 6),
            ("telegram", "9", 4),
            ("telegram", "8", 3),
            ("telegram", "7", 3),
        ];
        let filled: Result<(), StoreError> = test_db
            .db
            .write(async move |tx: &mut Tx| {
                for (platform, sender, approved_at) in senders {
                    let sql = "INSERT INTO channel_senders (platform, sender_id, sender_name, approved_at) \
                               VALUES ($1, $2, 'Ada', $3)";
                    tx.execute(sql, args![platform, sender, approved_at]).await?;
                }
                Ok(())
            })
            .await;
        filled.unwrap();
        test_db.db.close().await;
        let mut options = test_db.options().clone();
        options.migrations = MIGRATIONS;
        let db = Db::open(options).await.unwrap();
        let mut read = db.read().await.unwrap();
        let rows = read.fetch_all("SELECT platform, sender_id FROM channel_owners ORDER BY platform", args![]).await;
        let owner = |row: &Row| (row.get("platform").unwrap(), row.get("sender_id").unwrap());
        let owners: Vec<(String, String)> = rows.unwrap().iter().map(owner).collect();
        assert_eq!(owners, [("slack".to_owned(), "U2".to_owned()), ("telegram".to_owned(), "7".to_owned())]);
        drop(read);
        db.close().await;
        test_db.end().await.unwrap();
    }
}
