//! Messages received over connections that the daemon opens.

mod discord;
mod slack;

use std::time::Duration;

use agentd_testing_chat_platforms::telegram::Behaviour;
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{ADA, Channel};
use crate::support::chat_fixture::TEST_USAGE;
use crate::support::{Eventually, TestApp};

fn hello() -> Script {
    Script::always(Reply::text(["Hello."], TEST_USAGE))
}

/// Runs the workers until a condition is_done, without advancing the clock.
pub(super) async fn work_until(app: &TestApp, what: &str, mut is_done: impl AsyncFnMut() -> bool) {
    let mut eventually = Eventually::new();
    while !is_done().await {
        app.run_workers().await;
        eventually.retry_with(&what).await;
    }
}

/// Returns `[mode, status]` and the last error.
async fn status(app: &TestApp, platform: &str) -> (Value, String) {
    let list = app.get("/api/channels").send().await.expect_status(200).json();
    let channel_status = list["channels"]
        .as_array()
        .unwrap()
        .iter()
        .find(|channel_status| channel_status["platform"] == platform)
        .unwrap()
        .clone();
    (
        json!([channel_status["mode"], channel_status["status"]]),
        channel_status["last_error"].as_str().unwrap_or_default().to_owned(),
    )
}

async fn is_status(app: &TestApp, platform: &str, wanted: &str) -> bool {
    status(app, platform).await.0 == json!(["connect", wanted])
}

async fn set(app: &TestApp, platform: &str, fields: Value) {
    app.put("/api/channels/settings").json(&json!({ platform: fields })).send().await.expect_status(200);
}

fn update(id: i64, text: &str) -> Value {
    json!({"update_id": id, "message": {
        "message_id": id + 1_000, "date": 1_795_600_000, "text": text,
        "from": {"id": ADA, "is_bot": false, "first_name": "Ada"}, "chat": {"id": ADA, "type": "private"},
    }})
}

async fn connecting() -> Channel {
    let channel = Channel::with(hello()).await;
    channel.set(json!({"mode": "connect"})).await;
    channel
}

#[tokio::test]
async fn queued_telegram_updates_are_fetched_and_answered_once() {
    let mut channel = connecting().await;
    channel.telegram.queue_update(update(1, "One."));
    channel.telegram.queue_update(update(2, "Two."));
    let app = &channel.fixture.app;
    work_until(app, "an answer", async || {
        app.clock.advance(Duration::from_millis(50));
        channel.sent().len() == 2
    })
    .await;
    assert!(is_status(app, "telegram", "connected").await);
    // After a restart, unconfirmed updates are fetched again; known ones are ignored.
    channel.fixture.app.restart().await;
    channel.telegram.queue_update(update(2, "Two."));
    channel.telegram.queue_update(update(3, "Three."));
    let app = &channel.fixture.app;
    work_until(app, "an answer", async || channel.sent().len() == 3).await;
    channel.settle().await;
    assert_eq!((channel.sent().len(), channel.fixture.vendor.requests().len()), (3, 3));
}

#[tokio::test]
async fn unavailable_platform_is_retried() {
    let channel = Channel::with(hello()).await;
    // The first attempt and its immediate retry fail.
    channel.telegram.misbehave(Behaviour::ServerError);
    channel.telegram.misbehave(Behaviour::ServerError);
    channel.set(json!({"mode": "connect"})).await;
    let app = channel.app();
    work_until(app, "an error", async || is_status(app, "telegram", "error").await).await;
    channel.telegram.queue_update(update(1, "One."));
    work_until(app, "an answer", async || {
        app.clock.advance(Duration::from_millis(100));
        channel.sent().len() == 1
    })
    .await;
    assert!(is_status(app, "telegram", "connected").await);
    channel.set(json!({"mode": "webhook"})).await;
    channel.settle().await;
    assert_eq!(status(app, "telegram").await.0, json!(["webhook", "ready"]));
}

#[tokio::test]
async fn open_poll_does_not_block_workers() {
    let channel = connecting().await;
    let app = channel.app();
    work_until(app, "a connection", async || is_status(app, "telegram", "connected").await).await;
    // The poll stays open while a round of the workers completes.
    let round = tokio::time::timeout(Duration::from_secs(5), app.run_workers());
    round.await.expect("the round completes");
}

#[tokio::test]
async fn incomplete_connection_settings_are_rejected() {
    let app = TestApp::with_owner().await;
    for (platform, fields) in [
        ("telegram", vec!["telegram.bot_token"]),
        ("slack", vec!["slack.app_token", "slack.bot_token"]),
        ("discord", vec!["discord.bot_token"]),
    ] {
        let change = json!({ platform: {"enabled": true, "mode": "connect"} });
        let refused = app.put("/api/channels/settings").json(&change).send().await;
        let mut bad = refused.expect_error(400, "invalid_request").bad_fields();
        bad.sort();
        assert_eq!(bad, fields);
        let off = json!({ platform: {"enabled": false, "mode": "connect"} });
        app.put("/api/channels/settings").json(&off).send().await.expect_status(200);
        let mut tokens = json!({ platform: {"enabled": true, "bot_token": "1:x"} });
        if platform == "slack" {
            tokens[platform]["app_token"] = json!("xapp-1");
        }
        let saved = app.put("/api/channels/settings").json(&tokens).send().await.expect_status(200);
        assert!(!saved.text().contains("xapp-1"), "{}", saved.text());
        let cleared = json!({ platform: {"bot_token": null} });
        app.put("/api/channels/settings").json(&cleared).send().await.expect_error(400, "invalid_request");
    }
}
