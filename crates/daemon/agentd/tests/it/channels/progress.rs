//! Turns that take long.

use std::time::Duration;

use agentd_llm::ToolCall;
use agentd_testing_llm::{Gate, Reply, Script};
use serde_json::json;

use super::{ADA, Channel, STRANGER};
use crate::support::Eventually;
use crate::support::talk::COUNTED;

impl Channel {
    /// Lets time pass in small steps, as the workers see it.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds.div_ceil(10) {
            self.app().clock.advance(Duration::from_secs(10));
            self.app().run_workers().await;
            self.app().run_workers().await;
        }
    }

    async fn begin(&self, id: i64, sender: i64) {
        self.post(&self.telegram.message(id, sender, "Do it.")).await.expect_status(200);
        let mut eventually = Eventually::new();
        while self.talk.vendor.requests().is_empty() {
            self.app().run_workers().await;
            eventually.look_again().await;
        }
    }
}

#[tokio::test]
async fn a_turn_that_takes_long_is_said_to_go_on_once() {
    let gate = Gate::new();
    let channel = Channel::with(Script::always(Reply::text(["Done."], COUNTED).gated(&gate))).await;
    channel.begin(1, ADA).await;
    channel.pass(50).await;
    assert_eq!(channel.sent(), [""; 0], "not yet");
    channel.pass(300).await;
    assert_eq!(channel.sent(), ["Still working on it."]);
    gate.open();
    channel.settle().await;
    assert_eq!(channel.sent(), ["Still working on it.", "Done."]);
    channel.say(2, ADA, "And now?").await;
    channel.pass(120).await;
    assert_eq!(channel.sent().len(), 3, "nothing is said of what is over");
}

#[tokio::test]
async fn what_waits_for_an_approval_is_not_said_to_go_on_and_what_was_approved_is() {
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
    let script = Script::queue([Reply::tool_calls(calls, COUNTED), Reply::text(["Done."], COUNTED)]);
    let channel = Channel::closed(script).await;
    let ring = json!({
        "name": "ring", "description": "Rings.", "kind": "http", "input_schema": {"type": "object"},
        "request": {"method": "POST", "url": format!("http://{address}/")},
    });
    channel.app().post("/api/settings/skills/custom").json(&ring).send().await.expect_status(201);
    channel.set(json!({"tools": ["ring"]})).await;
    super::approvals::let_in(&channel, STRANGER).await;
    let said = channel.sent().len();
    channel.begin(1, STRANGER).await;
    let mut eventually = Eventually::new();
    while super::approvals::pending(&channel).await.is_empty() {
        channel.app().run_workers().await;
        eventually.look_again().await;
    }
    channel.pass(120).await;
    assert_eq!(channel.sent().len(), said + 1, "the question alone: {:?}", channel.sent());
    let id = super::approvals::pending(&channel).await[0]["id"].as_str().unwrap().to_owned();
    let question: i64 = channel.sent().len().try_into().unwrap();
    channel
        .post(&channel.telegram.press(2, STRANGER, STRANGER, question, &format!("approve:{id}")))
        .await
        .expect_status(200);
    let mut eventually = Eventually::new();
    while channel.sent().len() < said + 2 {
        channel.pass(10).await;
        eventually.look_again_at(&channel.sent()).await;
    }
    assert_eq!(channel.sent().last().unwrap(), "Still working: running <code>ring</code>.");
    gate.open();
    channel.settle().await;
    assert_eq!(channel.sent().last().unwrap(), "Done.");
    assert_eq!(channel.sent().len(), said + 3);
}
