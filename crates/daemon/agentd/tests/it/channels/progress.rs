//! Progress messages during long turns.

use std::time::Duration;

use agentd_llm::ToolCall;
use agentd_testing_llm::{Gate, Reply, Script};
use serde_json::json;

use super::{ADA, Channel, UNKNOWN_SENDER};
use crate::support::Eventually;
use crate::support::chat_fixture::TEST_USAGE;

impl Channel {
    /// Advances the clock in small steps and runs the workers after each.
    async fn advance(&self, seconds: u64) {
        for _ in 0..seconds.div_ceil(10) {
            self.app().clock.advance(Duration::from_secs(10));
            self.app().run_workers().await;
            self.app().run_workers().await;
        }
    }

    async fn begin(&self, id: i64, sender: i64) {
        self.post(&self.telegram.message(id, sender, "Do it.")).await.expect_status(200);
        let mut eventually = Eventually::new();
        while self.fixture.vendor.requests().is_empty() {
            self.app().run_workers().await;
            eventually.retry().await;
        }
    }
}

#[tokio::test]
async fn progress_of_a_long_turn_is_reported_once() {
    let gate = Gate::new();
    let channel = Channel::with(Script::always(Reply::text(["Done."], TEST_USAGE).gated(&gate))).await;
    channel.begin(1, ADA).await;
    channel.advance(50).await;
    assert_eq!(channel.sent(), [""; 0], "too early");
    channel.advance(300).await;
    assert_eq!(channel.sent(), ["Still working on it."]);
    gate.open();
    channel.settle().await;
    assert_eq!(channel.sent(), ["Still working on it.", "Done."]);
    channel.say(2, ADA, "And now?").await;
    channel.advance(120).await;
    assert_eq!(channel.sent().len(), 3, "completed turns are not reported");
}

#[tokio::test]
async fn progress_is_not_reported_while_waiting_for_approval() {
    let gate = Gate::new();
    let service = {
        let gate = gate.clone();
        move || {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                "rung"
            }
        }
    };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(service)).await });
    let calls = vec![ToolCall::new("v1", "ring", json!({}))];
    let script = Script::queue([Reply::tool_calls(calls, TEST_USAGE), Reply::text(["Done."], TEST_USAGE)]);
    let channel = Channel::closed(script).await;
    let ring = json!({
        "name": "ring", "description": "Rings.", "kind": "http", "input_schema": {"type": "object"},
        "request": {"method": "POST", "url": format!("http://{address}/")},
    });
    channel.app().post("/api/settings/skills/custom").json(&ring).send().await.expect_status(201);
    channel.set(json!({"tools": ["ring"]})).await;
    super::approvals::approve_sender(&channel, UNKNOWN_SENDER).await;
    let sent_before = channel.sent().len();
    channel.begin(1, UNKNOWN_SENDER).await;
    let mut eventually = Eventually::new();
    while super::approvals::pending(&channel).await.is_empty() {
        channel.app().run_workers().await;
        eventually.retry().await;
    }
    channel.advance(120).await;
    assert_eq!(channel.sent().len(), sent_before + 1, "only the question is sent: {:?}", channel.sent());
    let id = super::approvals::pending(&channel).await[0]["id"].as_str().unwrap().to_owned();
    let question: i64 = channel.sent().len().try_into().unwrap();
    channel
        .post(&channel.telegram.press(2, UNKNOWN_SENDER, UNKNOWN_SENDER, question, &format!("approve:{id}")))
        .await
        .expect_status(200);
    let mut eventually = Eventually::new();
    while channel.sent().len() < sent_before + 2 {
        channel.advance(10).await;
        eventually.retry_with(&channel.sent()).await;
    }
    assert_eq!(channel.sent().last().unwrap(), "Still working: running <code>ring</code>.");
    gate.open();
    channel.settle().await;
    assert_eq!(channel.sent().last().unwrap(), "Done.");
    assert_eq!(channel.sent().len(), sent_before + 3);
}
