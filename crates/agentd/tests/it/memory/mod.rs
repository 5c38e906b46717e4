//! Memory: what is stored is found, what is forgotten is gone, and every figure is exact.

mod chaos;
mod checker;
mod clusters;
mod episodes;
mod index;
mod search;

use std::sync::Arc;

use agentd_inference::embedder::fake::FakeEmbedder;
use serde_json::{Value, json};

use crate::support::{TestApp, talk};

/// A daemon with an owner and the agents `scout` and `other`.
pub async fn app() -> TestApp {
    let mut app = TestApp::start().await;
    app.make_owner().await;
    for agent in ["scout", "other"] {
        talk::create_agent(&app, agent).await;
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

/// The answer to a search; `query` is what comes after `?q=`.
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

/// The embedder that the daemon of a test uses.
pub fn embedder(app: &TestApp) -> Arc<FakeEmbedder> {
    Arc::clone(&app.embedder)
}
