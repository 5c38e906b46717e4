//! The schema of the daemon: the same in both dialects, and older databases are brought up to it.

use agentd::migrations::MIGRATIONS;
use agentd_store::testing::{TestDb, describe_schema, postgres_url};
use agentd_store::{Db, Dialect, StoreError, Tx, args};

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
