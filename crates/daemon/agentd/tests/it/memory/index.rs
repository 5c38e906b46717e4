//! The search index is derived data and can always be rebuilt.

use std::path::PathBuf;

use serde_json::json;

use super::checker::{assert_agrees, doctor};
use super::{app, contents, remember, say, search};
use crate::support::TestApp;

fn files(app: &TestApp) -> Vec<PathBuf> {
    let folder = app.data_dir().join("index/0");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the index").map(|entry| entry.expect("a file").path()).collect();
    files.retain(|path| path.file_name().is_some_and(|name| name != "lock"));
    files.sort();
    files
}

async fn filled() -> TestApp {
    let app = app().await;
    for number in 0..50 {
        say(&app, &format!("Whale number {number} of the northern sea")).await;
    }
    app
}

async fn assert_whole(app: &TestApp) {
    for mode in ["keyword", "semantic"] {
        assert_eq!(search(app, &format!("northern+whale&mode={mode}")).await["total"], 50, "{mode}");
    }
    assert_eq!(contents(&search(app, "17&mode=keyword").await), ["Whale number 17 of the northern sea"]);
}

#[tokio::test]
async fn restart_finds_all_episodes() {
    let mut app = filled().await;
    app.restart().await;
    assert_whole(&app).await;
    let id = say(&app, "One more").await;
    app.delete(&format!("/api/memory/episodes/{id}")).send().await.expect_status(200);
    app.restart().await;
    assert_whole(&app).await;
}

#[tokio::test]
async fn missing_truncated_or_corrupt_index_files_are_rebuilt() {
    let mut app = filled().await;
    app.run_workers().await;
    let count = files(&app).len();
    assert!(count > 1, "the index is on the disk");
    for position in 0..count {
        for damage in ["remove", "cut", "flip"] {
            app.stop().await;
            let path = files(&app)[position.min(files(&app).len() - 1)].clone();
            let mut bytes = std::fs::read(&path).expect("readable");
            match damage {
                "remove" => std::fs::remove_file(&path).expect("removed"),
                "cut" => {
                    bytes.truncate(bytes.len() / 2);
                    std::fs::write(&path, bytes).expect("written");
                }
                _ => {
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 0x55;
                    std::fs::write(&path, bytes).expect("written");
                }
            }
            app.try_start().await.expect("start the daemon");
            assert_whole(&app).await;
        }
    }
}

/// The first query detects the damage and triggers a rebuild.
#[tokio::test]
async fn index_damage_at_runtime_is_repaired_by_any_query() {
    let app = filled().await;
    let id = super::episodes(&app).await[0]["id"].as_str().expect("an id").to_owned();
    let questions = [
        "search?q=northern+whale&mode=semantic".to_owned(),
        "search?q=northern+whale".to_owned(),
        format!("episodes/{id}/related"),
    ];
    for question in &questions {
        for kind in ["text-", "vectors-", ".fine"] {
            app.run_workers().await;
            let is_meant = |path: &PathBuf| {
                let name = path.file_name().expect("a name").to_string_lossy().into_owned();
                name.contains(kind) && (kind == ".fine" || !name.ends_with(".fine"))
            };
            let damaged: Vec<PathBuf> = files(&app).into_iter().filter(is_meant).collect();
            assert!(!damaged.is_empty(), "{kind}");
            for path in &damaged {
                let length = std::fs::metadata(path).expect("a file").len();
                let file = std::fs::File::options().write(true).open(path).expect("writable");
                file.set_len(length / 2).expect("cut");
            }
            let answer = app.get(&format!("/api/memory/{question}")).send().await.expect_status(200).json();
            if question.starts_with("search") {
                assert_eq!((&answer["total"], &answer["degraded"]), (&json!(50), &json!(false)), "{question} {kind}");
            } else {
                assert!(!answer["related"].as_array().expect("a list").is_empty(), "{question} {kind}");
            }
            assert_whole(&app).await;
        }
    }
}

/// The index is written, cleared and filled concurrently, and then reopened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writes_and_index_builds_lose_nothing() {
    let mut app = app().await;
    {
        let is_done = std::sync::atomic::AtomicBool::new(false);
        let write = async {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                app.run_workers().await;
            }
        };
        let change = async {
            for round in 0..12 {
                let notes = (0..10).map(|number| store_note(&app, round, number));
                futures_util::future::join_all(notes).await;
                if round < 11 {
                    app.delete("/api/settings/memory/data").send().await.expect_status(200);
                }
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        };
        tokio::join!(write, change);
    }
    for _ in 0..2 {
        for mode in ["keyword", "semantic"] {
            assert_eq!(search(&app, &format!("narwhal&mode={mode}")).await["total"], 10, "{mode}");
        }
        let database = app.database_url().map(str::to_owned);
        assert_agrees(&doctor(app.data_dir(), database.as_deref()).await);
        app.restart().await;
    }
}

async fn store_note(app: &TestApp, round: usize, number: usize) {
    say(app, &format!("Narwhal {number} of round {round}")).await;
}

#[tokio::test]
async fn large_memory_of_a_deleted_agent_is_removed_completely() {
    let mut app = app().await;
    for number in 0..30 {
        say(&app, &format!("Narwhal {number}")).await;
    }
    remember(&app, &json!({"content": "Narwhal of the other", "agent_id": "other"})).await;
    app.delete("/api/agents/scout").send().await.expect_status(200);
    assert_eq!(search(&app, "narwhal").await["total"], 1);
    app.run_workers().await;
    app.restart().await;
    assert_eq!(search(&app, "narwhal").await["total"], 1);
    let database = app.database_url().map(str::to_owned);
    assert_agrees(&doctor(app.data_dir(), database.as_deref()).await);
}
