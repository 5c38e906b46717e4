//! Automatic deletion of memories.

use std::time::Duration;

use serde_json::json;

use super::checker::{assert_agrees, doctor};
use super::{app, chat, remember, remembered, say, settings, stats};
use crate::support::chat_fixture::ChatFixture;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test]
async fn untouched_memories_expire_after_retention() {
    let fixture = ChatFixture::saying(&["In Oslo."]).await;
    say(&fixture.app, "My sister Anna lives in Oslo.").await;
    say(&fixture.app, "The crawler is written in Rust.").await;
    fixture.app.clock.advance(20 * DAY);
    chat(&fixture, None, "Where does my sister live?").await;
    fixture.app.run_workers().await;
    fixture.app.clock.advance(11 * DAY);
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await.len(), 2, "retained forever by default");
    settings(&fixture.app, json!({"retention_days": 30})).await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, ["My sister Anna lives in Oslo."], "recalled memories are retained");
    assert_eq!(super::search(&fixture.app, "crawler").await["total"], 0);
    fixture.app.clock.advance(31 * DAY);
    settings(&fixture.app, json!({"enabled": false})).await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await.len(), 1, "nothing is deleted while memory is disabled");
    settings(&fixture.app, json!({"enabled": true})).await;
    fixture.app.run_workers().await;
    let stats = stats(&fixture.app).await;
    assert_eq!((&stats["total_episodes"], &stats["total_entities"]), (&json!(0), &json!(0)));
}

#[tokio::test]
async fn only_automatic_memories_are_deleted_for_low_importance() {
    let fixture = ChatFixture::saying(&["All right."]).await;
    remember(&fixture.app, &json!({"content": "By hand.", "importance": 0.0, "source": "conversation"})).await;
    chat(&fixture, None, "I prefer tea.").await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, ["By hand.", "I prefer tea."]);
    settings(&fixture.app, json!({"min_importance": 1.0})).await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, ["By hand."]);
}

#[tokio::test]
async fn expired_memories_are_deleted_in_batches() {
    let app = app().await;
    for number in 0..120 {
        say(&app, &format!("Note number {number}")).await;
    }
    app.clock.advance(2 * DAY);
    settings(&app, json!({"retention_days": 1})).await;
    app.run_workers().await;
    assert_eq!(stats(&app).await["total_episodes"], 0);
    assert_eq!(super::search(&app, "note").await["total"], 0);
}

#[tokio::test]
async fn memory_of_a_deleted_agent_is_excluded_immediately() {
    let app = app().await;
    let kept = json!({"content": "Ada Lovelace uses Rust.", "source": "note", "importance": 0.5, "valence": 0.0});
    remember(&app, &kept).await;
    let before = stats(&app).await;
    let graph = async || app.get("/api/memory/graph").send().await.expect_status(200).json();
    let graph_before = graph().await;
    // More than one batch of the purge.
    for number in 0..150 {
        say(&app, &format!("Ada Lovelace uses Rust and PostgreSQL at Siemens in Munich, {number}.")).await;
    }
    assert_ne!(stats(&app).await, before);
    app.delete("/api/agents/scout").send().await.expect_status(200);
    for _ in 0..2 {
        assert_eq!(stats(&app).await, before);
        assert_eq!(graph().await, graph_before);
        let list = app.get("/api/memory/episodes").send().await.expect_status(200).json();
        assert_eq!((&list["total"], list["episodes"].as_array().map(Vec::len)), (&json!(1), Some(1)), "{list}");
        let database = app.database_url().map(str::to_owned);
        assert_agrees(&doctor(app.data_dir(), database.as_deref()).await);
        app.run_workers().await;
    }
}

/// Changed settings wake the workers.
#[tokio::test]
async fn settings_take_effect_without_waiting_for_the_interval() {
    let app = app().await;
    let wakes: Vec<_> = ["memory.remember", "memory.consolidate", "memory.forget", "memory.extract"]
        .iter()
        .map(|name| app.running().daemon.workers.wake_of(name).expect("a wake handle"))
        .collect();
    settings(&app, json!({"min_importance": 0.5})).await;
    for wake in &wakes {
        tokio::time::timeout(Duration::from_secs(60), wake.notified()).await.expect("a wake-up");
    }
    // With model extraction each new episode wakes the worker.
    settings(&app, json!({"entity_extraction": "llm"})).await;
    for wake in &wakes {
        tokio::time::timeout(Duration::from_secs(60), wake.notified()).await.expect("a wake-up");
    }
    say(&app, "Zorblax is written in Rust.").await;
    tokio::time::timeout(Duration::from_secs(60), wakes[3].notified()).await.expect("a wake-up");
}
