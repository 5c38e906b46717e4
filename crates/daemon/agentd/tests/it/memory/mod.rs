//! Memory: storage, search, deletion and exact statistics.

mod chaos;
mod checker;
mod clusters;
mod episodes;
mod forgetting;
mod index;
mod jobs;
mod kill;
mod recall;
mod remembering;
mod repeats;
mod search;
mod tools;

use std::sync::Arc;

use agentd_testing_inference::FakeEmbedder;
use serde_json::{Value, json};

use crate::support::chat_fixture::{ChatFixture, started};
use crate::support::{TestApp, chat_fixture};

/// Starts a daemon with an owner and the agents `scout` and `other`.
pub async fn app() -> TestApp {
    let mut app = TestApp::start().await;
    app.create_owner().await;
    for agent in ["scout", "other"] {
        chat_fixture::create_agent(&app, agent).await;
    }
    app
}

pub async fn remember(app: &TestApp, episode: &Value) -> Value {
    app.post("/api/memory/episodes").json(episode).send().await.expect_status(201).json()
}

pub async fn say(app: &TestApp, content: &str) -> String {
    let episode = remember(app, &json!({"content": content, "agent_id": "scout"})).await;
    episode["id"].as_str().expect("an id").to_owned()
}

/// Returns the response of a search; `query` follows `?q=`.
pub async fn search(app: &TestApp, query: &str) -> Value {
    app.get(&format!("/api/memory/search?q={query}")).send().await.expect_status(200).json()
}

pub fn contents(answer: &Value) -> Vec<&str> {
    let results = answer["results"].as_array().expect("results");
    results.iter().map(|result| result["episode"]["content"].as_str().expect("a content")).collect()
}

pub async fn stats(app: &TestApp) -> Value {
    app.get("/api/memory/stats").send().await.expect_status(200).json()
}

/// Returns the embedder of the test daemon.
pub fn embedder(app: &TestApp) -> Arc<FakeEmbedder> {
    Arc::clone(&app.embedder)
}

pub async fn settings(app: &TestApp, change: Value) {
    app.put("/api/settings/memory").json(&change).send().await.expect_status(200);
}

/// Returns all episodes, newest first.
pub async fn episodes(app: &TestApp) -> Vec<Value> {
    let list = app.get("/api/memory/episodes?limit=100").send().await.expect_status(200).json();
    list["episodes"].as_array().expect("episodes").clone()
}

pub async fn episode(app: &TestApp, id: &str) -> Value {
    app.get(&format!("/api/memory/episodes/{id}")).send().await.expect_status(200).json()
}

/// Returns the contents of all episodes, oldest first.
pub async fn remembered(app: &TestApp) -> Vec<String> {
    let episodes = episodes(app).await;
    episodes.iter().rev().map(|episode| episode["content"].as_str().expect("a content").to_owned()).collect()
}

/// Sends a message to `scout`, in a new or existing conversation; returns the conversation id.
pub async fn chat(fixture: &ChatFixture, conversation: Option<&str>, content: &str) -> String {
    let mut message = json!({"content": content});
    match conversation {
        Some(id) => message["conversation_id"] = json!(id),
        None => message["agent_id"] = json!("scout"),
    }
    started(&fixture.exchange(&message).await, "conversation_id")
}

/// Returns the data of events of a type, oldest first.
pub async fn events(app: &TestApp, event_type: &str) -> Vec<Value> {
    let mut read = app.running().context().db.read().await.expect("a connection");
    let sql = "SELECT data FROM outbox WHERE event_type = $1 ORDER BY seq";
    let rows = read.fetch_all(sql, agentd_store::args![event_type]).await.expect("rows");
    rows.iter().map(|row| row.json::<Value>("data").expect("data")).collect()
}

/// Executes a statement on the database of the daemon.
pub async fn sql(app: &TestApp, text: &'static str, args: fn() -> agentd_store::Args) {
    let write = async move |tx: &mut agentd_store::Tx| tx.execute(text, args()).await;
    app.running().context().db.write::<_, agentd_store::StoreError, _>(write).await.expect("execute the statement");
}
