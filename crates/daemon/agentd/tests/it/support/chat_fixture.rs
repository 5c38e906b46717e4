//! A daemon with an agent and a scripted vendor.

use agentd_llm::{Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::{Value, json};

use super::request::{EventStream, ServerEvent};
use super::{TestApp, TestRequest};

/// Usage that the vendor reports.
pub const TEST_USAGE: Usage = Usage {
    input_tokens: 7,
    output_tokens: 3,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
    source: UsageSource::Provider,
};

pub struct ChatFixture {
    pub app: TestApp,
    pub vendor: FakeVendor,
}

impl ChatFixture {
    /// Creates an owner, the agent `scout` and a vendor that follows the script.
    pub async fn with(script: Script) -> Self {
        Self::on(TestApp::start().await, script).await
    }

    /// Does the same on a running daemon without an owner.
    pub async fn on(mut app: TestApp, script: Script) -> Self {
        app.create_owner().await;
        let vendor = FakeVendor::start(Vendor::Openai, script).await.expect("a fake vendor");
        use_vendor(&app, &vendor).await;
        create_agent(&app, "scout").await;
        Self { app, vendor }
    }

    /// Creates a vendor that always replies with these pieces.
    pub async fn saying(pieces: &[&str]) -> Self {
        Self::with(Script::always(Reply::text(pieces.iter().copied(), TEST_USAGE))).await
    }

    pub fn send(&self, body: &Value) -> TestRequest {
        self.app.post("/api/chat/messages/stream").json(body)
    }

    /// Sends a message and reads the whole reply.
    pub async fn exchange(&self, body: &Value) -> Vec<ServerEvent> {
        self.send(body).stream().await.collect().await
    }

    pub async fn conversation(&self, id: &str) -> Value {
        self.app.get(&format!("/api/chat/conversations/{id}")).send().await.expect_status(200).json()
    }

    pub fn follow(&self, session: &str) -> TestRequest {
        self.app.get(&format!("/api/chat/sessions/{session}/stream"))
    }

    /// Returns the usage rows: source, input tokens and output tokens.
    pub async fn usage(&self) -> Vec<(String, u64, u64)> {
        let mut read = self.app.running().context().db.read().await.expect("a connection");
        let sql = "SELECT source, input_tokens, output_tokens FROM usage ORDER BY id";
        let rows = read.fetch_all(sql, agentd_store::args![]).await.expect("rows");
        rows.iter()
            .map(|row| {
                let number = |name| row.get::<u64>(name).expect("a number");
                (row.get("source").expect("a source"), number("input_tokens"), number("output_tokens"))
            })
            .collect()
    }
}

pub async fn use_vendor(app: &TestApp, vendor: &FakeVendor) {
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    app.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
}

pub async fn create_agent(app: &TestApp, name: &str) -> Value {
    let agent = json!({"svc_name": name, "user_name": "Ada", "archetype": "assistant"});
    app.post("/api/agents").json(&agent).send().await.expect_status(201).json()
}

/// Enables a chat platform; targets on it are rejected otherwise.
pub async fn enable_platform(app: &TestApp, platform: &str) {
    let settings = json!({platform: {"enabled": true}});
    app.put("/api/channels/settings").json(&settings).send().await.expect_status(200);
}

/// Reads events up to and including the `count`th token.
pub async fn read_tokens(stream: &mut EventStream, count: usize) -> Vec<ServerEvent> {
    let mut events = Vec::new();
    while events.iter().filter(|event: &&ServerEvent| event.event == "token").count() < count {
        events.push(stream.next().await.expect("next event"));
    }
    events
}

/// Returns a field of the `start` event.
pub fn started(events: &[ServerEvent], field: &str) -> String {
    assert_eq!(events[0].event, "start", "{events:?}");
    events[0].data[field].as_str().expect("an id").to_owned()
}
