//! Database schema: equal in both dialects, and older databases are upgraded to it.

use agentd_core::migrations::MIGRATIONS;
use agentd_store::testing::describe_schema;
use agentd_store::{Db, Dialect, Migration, args};
use agentd_testing_store::{TestDb, postgres_url};

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
        assert!(only.is_empty(), "only in one dialect: {only:#?}");
    }
}

#[test]
fn migrations_are_numbered_without_gaps_and_defer_no_constraints() {
    for (index, step) in MIGRATIONS.iter().enumerate() {
        assert_eq!(step.version as usize, index + 1, "{}", step.name);
        for script in [step.sqlite, step.postgres] {
            assert!(!script.to_ascii_uppercase().contains("DEFERR"), "{} defers a constraint", step.name);
        }
    }
}

/// A database of version 0.1.0 as a stored dump, in the form of migrations.
const RELEASE_0_1_0: &[Migration] = &[
    Migration {
        version: 1,
        name: "store",
        sqlite: include_str!("../data/0.1.0/sqlite.sql"),
        postgres: include_str!("../data/0.1.0/postgres.sql"),
    },
    Migration { version: 2, name: "daemon", sqlite: "SELECT 1", postgres: "SELECT 1" },
];

#[tokio::test]
async fn database_of_0_1_0_is_upgraded() {
    for dialect in dialects() {
        let new = TestDb::start_on(dialect, MIGRATIONS).await.unwrap();
        let schema = describe_schema(&new.db).await.unwrap();
        new.end().await.unwrap();
        let old = TestDb::start_on(dialect, RELEASE_0_1_0).await.unwrap();
        old.db.close().await;
        let mut options = old.options().clone();
        options.migrations = MIGRATIONS;
        let db = Db::open(options).await.unwrap();
        let upgraded = describe_schema(&db).await.unwrap();
        let only: Vec<_> = schema.symmetric_difference(&upgraded).collect();
        assert!(only.is_empty(), "only in a new or only in an upgraded database: {only:#?}");
        let mut read = db.read().await.unwrap();
        let sql = "SELECT agents.svc_name, messages.content AS said, episodes.content AS remembered, settings.value \
                   FROM agents, messages, episodes, settings";
        let row = read.fetch_one(sql, args![]).await.unwrap();
        let text = |column| row.get::<String>(column).unwrap();
        assert_eq!(
            [text("svc_name"), text("said"), text("remembered")],
            ["scout", "I drink green tea.", "Ada drinks green tea."]
        );
        drop(read);
        db.close().await;
        old.end().await.unwrap();
    }
}
