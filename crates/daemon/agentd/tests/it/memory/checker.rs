//! `agentd doctor --memory` reports inconsistencies and nothing else.

#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::process::Command;
use std::time::Duration;

use agentd_base::id::IdGenerator;
use agentd_base::{Clock, Entropy, Secret};
use agentd_core::migrations::MIGRATIONS;
use agentd_store::{Args, DatabaseUrl, Db, DbOptions, StoreError, Tx};
use serde_json::{Value, json};

use super::{app, embedder, remember, say};
use crate::support::process::BINARY;
use crate::support::{TestApp, TestProcess};

/// Returns the exit status and the memory checks of the doctor: check, verdict and finding. No other check may
/// fail.
pub async fn doctor(data_dir: &std::path::Path, database_url: Option<&str>) -> (bool, Vec<(String, String, String)>) {
    let mut command = Command::new(BINARY);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("SVC_DATA_DIR", data_dir);
    if let Some(url) = database_url {
        command.env("SVC_DATABASE_URL", url);
    }
    // A free port, so that the port check succeeds.
    command.args(["doctor", "--memory", "--json", "--port", "0"]);
    let output =
        tokio::task::spawn_blocking(move || command.output().expect("run the doctor")).await.expect("join the task");
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let text = |found: &Value, field: &str| found[field].as_str().unwrap_or_default().to_owned();
    let checks = report["checks"].as_array().expect("checks");
    let of_memory: Vec<_> = checks
        .iter()
        .filter(|found| text(found, "check").starts_with("memory"))
        .map(|found| (text(found, "check"), text(found, "verdict"), text(found, "finding")))
        .collect();
    for found in checks.iter().filter(|found| found["verdict"] == "broken") {
        assert!(text(found, "check").starts_with("memory") && !text(found, "remedy").is_empty(), "{found}");
    }
    (output.status.success(), of_memory)
}

pub fn assert_agrees((is_success, findings): &(bool, Vec<(String, String, String)>)) {
    let good = findings.iter().filter(|(_, verdict, _)| verdict == "good").count();
    assert!(*is_success && good == 4 && findings.len() == 4, "{findings:#?}");
}

async fn filled() -> TestApp {
    let app = app().await;
    for number in 0..6 {
        let content = format!("Ada Lovelace uses PostgreSQL at Siemens in Munich, take {number}.");
        remember(&app, &json!({"content": content, "importance": 0.15 * f64::from(number), "valence": 0.5})).await;
        say(&app, &format!("Bob Miller lives in Paris, {number}")).await;
    }
    let gone = say(&app, "Forgotten again in Berlin").await;
    app.delete(&format!("/api/memory/episodes/{gone}")).send().await.expect_status(200);
    app
}

/// Opens the database of the daemon a second time.
async fn open(app: &TestApp) -> Db {
    let (clock, entropy) = (Clock::system(), Entropy::system());
    let address = app.database_url().map(|url| Secret::new(url.to_owned()));
    let options = DbOptions {
        url: DatabaseUrl::parse(address.as_ref(), app.data_dir()).expect("a URL"),
        data_dir: app.data_dir().to_path_buf(),
        ids: IdGenerator::new(clock.clone(), entropy.clone()),
        clock,
        entropy,
        migrations: MIGRATIONS,
    };
    Db::open(options).await.expect("open the database")
}

/// Waits until reopening the index processes no earlier changes. On PostgreSQL this waits for all older
/// transactions of the
/// server, including those of concurrent tests.
async fn settle(app: &TestApp) {
    if app.database_url().is_none() {
        return;
    }
    let db = open(app).await;
    let unsettled = "SELECT COUNT(*) FROM changes WHERE tx_id >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint";
    let settled = async || loop {
        let count: i64 = db.read().await?.fetch_one(unsettled, Args::new()).await?.first()?;
        if count == 0 {
            return Ok::<_, StoreError>(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    tokio::time::timeout(Duration::from_secs(60), settled())
        .await
        .expect("end of older transactions")
        .expect("count the changes");
    db.close().await;
    app.get("/api/memory/search?q=Ada&mode=keyword").send().await.expect_status(200);
}

/// Changes rows directly in the database.
async fn tamper(app: &TestApp, statements: &'static [&'static str]) {
    let db = open(app).await;
    let changed = db
        .write(async move |tx: &mut Tx| {
            for statement in statements {
                assert!(tx.execute(*statement, Args::new()).await? > 0, "{statement} changes nothing");
            }
            Ok::<_, StoreError>(())
        })
        .await;
    changed.expect("change the rows");
    db.close().await;
}

#[tokio::test]
async fn doctor_reports_nothing_on_consistent_memory() {
    let mut app = filled().await;
    // One episode without a vector, and one in several parts.
    let missing = agentd_inference::LocalError::new(agentd_inference::LocalErrorCode::ModelMissing, "none");
    embedder(&app).set_failure(Some(missing));
    say(&app, "Stored without its meaning").await;
    embedder(&app).set_failure(None);
    say(&app, &"A long story of many words. ".repeat(200)).await;
    let database = app.database_url().map(str::to_owned);
    // The doctor asks the running daemon through its socket.
    assert_agrees(&doctor(app.data_dir(), database.as_deref()).await);
    app.stop().await;
    assert_agrees(&doctor(app.data_dir(), database.as_deref()).await);
    // The check itself changes nothing.
    assert_agrees(&doctor(app.data_dir(), database.as_deref()).await);
    app.try_start().await.expect("start the daemon");
    app.run_workers().await;
    assert_agrees(&doctor(app.data_dir(), database.as_deref()).await);
}

#[tokio::test]
async fn doctor_reports_every_inconsistency() {
    let cases: &[(&[&str], &str, &str)] = &[
        (
            &["UPDATE memory_counts SET amount = amount + 1 WHERE kind = 'episodes'"],
            "memory figures",
            "`episodes` is 13, expected 12",
        ),
        (
            &["DELETE FROM memory_counts WHERE kind = 'episodes_of_importance' AND name = '7'"],
            "memory figures",
            "of `7` is 0, expected 1",
        ),
        (
            &["INSERT INTO memory_counts (kind, name, amount) VALUES ('episodes_of_source', 'nowhere', 2)"],
            "memory figures",
            "of `nowhere` is 2, expected 0",
        ),
        (&["UPDATE entities SET mentions = mentions + 1 WHERE name = 'PostgreSQL'"], "memory graph", "PostgreSQL"),
        (&["UPDATE entity_relations SET weight = weight + 1"], "memory graph", "relations have wrong weights"),
        (&["UPDATE episode_relations SET weight = weight + 1"], "memory graph", "relations have wrong weights"),
        (
            &["UPDATE episodes SET embedding_model = NULL WHERE number = 2"],
            "memory vectors",
            "1 episodes have vectors without a model",
        ),
        (
            &["UPDATE episodes SET content = 'Other words, and fewer' WHERE number = 2"],
            "memory index",
            "1 episodes have different terms in the search index: rows 2",
        ),
        (
            &["UPDATE episodes SET occurred_at = occurred_at + 1 WHERE number IN (2, 3)"],
            "memory index",
            "2 episodes have a different agent, source or date in the search index: rows 2, 3",
        ),
        (
            &["DELETE FROM episode_vectors WHERE episode = 4"],
            "memory index",
            "1 episodes have different vectors in the search index: rows 4",
        ),
        (
            &[
                "UPDATE episode_vectors SET vector = (SELECT vector FROM episode_vectors WHERE episode = 1 AND part = 0) \
                 WHERE episode = 2",
            ],
            "memory index",
            "1 episodes have different vectors in the search index: rows 2",
        ),
        (
            &[
                "DELETE FROM episode_vectors WHERE episode = 12",
                "DELETE FROM episode_entities WHERE episode = 12",
                "DELETE FROM episode_relations WHERE episode = 12",
                "DELETE FROM episode_facts WHERE episode = 12",
                "DELETE FROM episodes WHERE number = 12",
            ],
            "memory index",
            "1 search index entries have no episode: rows 12",
        ),
        (
            &["INSERT INTO episodes (id, source, content, topics, importance, valence, access_count, extraction, \
               occurred_at, created_at, updated_at, touched_at) VALUES ('ep_stranger', 'manual', 'Unheard', '[]', 0, 0, 0, 1, 1, 1, 1, 1)"],
            "memory index",
            "1 episodes are missing from the search index",
        ),
    ];
    for (statements, check, says) in cases {
        let mut app = filled().await;
        app.run_workers().await;
        settle(&app).await;
        let database = app.database_url().map(str::to_owned);
        app.stop().await;
        tamper(&app, statements).await;
        let (is_success, findings) = doctor(app.data_dir(), database.as_deref()).await;
        let broken =
            findings.iter().find(|(of, verdict, what)| of == check && verdict == "broken" && what.contains(says));
        assert!(!is_success && broken.is_some(), "{statements:?} must be reported as `{says}`: {findings:#?}");
    }
}

#[tokio::test]
async fn damaged_index_is_rebuilt_and_consistent() {
    let mut app = filled().await;
    app.run_workers().await;
    let database = app.database_url().map(str::to_owned);
    app.stop().await;
    let folder = app.data_dir().join("index/0");
    for entry in std::fs::read_dir(folder).expect("the index") {
        let path = entry.expect("a file").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vectors-")) {
            let mut bytes = std::fs::read(&path).expect("readable");
            let last = bytes.len() - 1;
            bytes[last] ^= 0x55;
            std::fs::write(&path, bytes).expect("written");
        }
    }
    let (is_success, findings) = doctor(app.data_dir(), database.as_deref()).await;
    let is_reported =
        findings.iter().any(|(_, verdict, what)| verdict == "warning" && what.contains("the index was rebuilt"));
    assert!(is_success && is_reported && findings.len() == 5, "{findings:#?}");
    app.try_start().await.expect("start the daemon");
    assert_agrees(&doctor(app.data_dir(), database.as_deref()).await);
}

#[tokio::test]
async fn doctor_before_the_first_start_changes_nothing() {
    let process = TestProcess::stopped().await;
    if process.database_url().is_some() {
        return;
    }
    let (is_success, findings) = doctor(&process.data_dir(), None).await;
    assert!(is_success && findings.len() == 1 && findings[0].1 == "warning", "{findings:#?}");
    assert!(!process.data_dir().exists(), "the check creates no files");
}
