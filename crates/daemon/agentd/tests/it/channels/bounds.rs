//! Rate limits of senders, errors of platforms, and messages sent by jobs and tests.

use std::time::Duration;

use agentd_testing_chat_platforms::telegram::Behaviour;
use agentd_testing_llm::{Reply, Script};
use serde_json::json;

use super::{ADA, Channel};
use crate::support::chat_fixture::TEST_USAGE;

async fn open() -> Channel {
    Channel::with(Script::always(Reply::text(["Hello."], TEST_USAGE))).await
}

#[tokio::test]
async fn messages_of_a_flooding_sender_are_dropped_without_affecting_others() {
    let channel = open().await;
    channel.set(json!({"sender_policy": "open"})).await;
    for number in 1..=80 {
        channel.post(&channel.telegram.message(number, ADA, "/help")).await.expect_status(200);
    }
    channel.post(&channel.telegram.message(1_000, 99, "/help")).await.expect_status(200);
    channel.settle().await;
    channel.app().clock.advance(Duration::from_secs(5));
    channel.settle().await;
    let to = |chat: i64| channel.telegram.sent().iter().filter(|sent| sent["chat_id"] == chat).count();
    assert_eq!((to(ADA), to(99)), (60, 1));
    let metrics = channel.app().get("/api/metrics/prometheus").send().await.text().to_owned();
    assert!(metrics.contains("svc_channel_messages_total{outcome=\"rate_limited\"} 20"), "{metrics}");
}

#[tokio::test]
async fn message_that_could_not_be_stored_does_not_count_against_its_sender() {
    let channel = open().await;
    let message = channel.telegram.message(1, ADA, "/help");
    channel.fail_inserts("/help").await;
    // More often than the rate limit of a sender.
    for _ in 0..70 {
        assert!(channel.post(&message).await.status.is_server_error());
    }
    channel.restore_inserts().await;
    channel.post(&message).await.expect_status(200);
    channel.settle().await;
    assert_eq!(channel.sent().len(), 1);
}

#[tokio::test]
async fn rate_limit_of_a_platform_is_respected() {
    let channel = open().await;
    // The first message also fetches the name of the bot.
    channel.say(1, ADA, "/help").await;
    channel.telegram.misbehave(Behaviour::RateLimited(Duration::from_secs(20)));
    channel.say(2, ADA, "/help").await;
    let status = async || {
        let list = channel.app().get("/api/channels").send().await.expect_status(200).json();
        let channel_status = list["channels"]
            .as_array()
            .unwrap()
            .iter()
            .find(|channel_status| channel_status["platform"] == "telegram")
            .unwrap()
            .clone();
        channel_status["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status().await, "error");
    channel.app().clock.advance(Duration::from_secs(19));
    channel.settle().await;
    assert_eq!(channel.sent().len(), 2, "the platform rejected one attempt");
    channel.app().clock.advance(Duration::from_secs(2));
    channel.settle().await;
    assert_eq!((channel.sent().len(), status().await.as_str()), (3, "ready"));
}

#[tokio::test]
async fn blocked_bot_results_in_a_dead_letter() {
    let channel = open().await;
    channel.say(1, ADA, "/help").await;
    channel.telegram.misbehave(Behaviour::Blocked);
    channel.say(2, ADA, "/help").await;
    let dead = channel.app().get("/api/notifications?status=dead_letter").send().await.expect_status(200).json();
    assert_eq!((&dead["total"], &dead["notifications"][0]["platform"]), (&json!(1), &json!("telegram")), "{dead}");
}

#[tokio::test]
async fn long_answer_is_sent_in_parts_without_duplicates() {
    let text = "word ".repeat(2_000);
    let channel = Channel::with(Script::always(Reply::text([text.as_str()], TEST_USAGE))).await;
    channel.post(&channel.telegram.message(1, ADA, "Tell me a lot.")).await.expect_status(200);
    channel.app().run_workers().await;
    channel.wait_for_turns().await;
    channel.settle().await;
    let parts = channel.sent().len();
    assert!(parts >= 3, "{parts}");
    assert_eq!(channel.sent().join(" ").split_whitespace().count(), 2_000);
}

#[tokio::test]
async fn jobs_and_test_messages_reach_the_platform() {
    let channel = open().await;
    let app = channel.app();
    let sent = app.post("/api/channels/telegram/test").json(&json!({"channel": "42"})).send().await;
    assert_eq!(sent.expect_status(200).json()["ok"], true);
    assert!(channel.sent()[0].contains("this channel works"));
    app.post("/api/channels/telegram/test")
        .json(&json!({"channel": "nowhere"}))
        .send()
        .await
        .expect_error(400, "invalid_request");
    app.post("/api/channels/slack/test").json(&json!({"channel": "C1"})).send().await.expect_error(404, "channel_off");
    channel.telegram.misbehave(Behaviour::Gone);
    let refused = app.post("/api/channels/telegram/test").json(&json!({"channel": "42"})).send().await;
    refused.expect_error(502, "platform_refused");
    let job = json!({
        "name": "report", "goal": "Say how things are.", "agent_id": "scout",
        "schedule": {"type": "every", "interval": 600}, "delivery": {"channel": "telegram:42"},
    });
    let job = app.post("/api/scheduler/jobs").json(&job).send().await.expect_status(201).json();
    let trigger = format!("/api/scheduler/jobs/{}/trigger", job["id"].as_str().unwrap());
    app.post(&trigger).send().await.expect_status(202);
    channel.settle().await;
    assert!(channel.sent().last().unwrap().contains("Hello."), "{:?}", channel.sent());
}
