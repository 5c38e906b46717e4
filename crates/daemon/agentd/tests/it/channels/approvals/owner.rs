//! The owner of a platform: assignment, change, and removal.

use agentd_chat_platforms::Platform;
use agentd_testing_chat_platforms::FakePress;
use serde_json::{Value, json};

use super::{Bench, MEMBER, OWNER, UNKNOWN_SENDER, says, writes};
use crate::channels::settle;

async fn senders(bench: &Bench) -> Value {
    let path = format!("/api/channels/{}/senders", bench.platform());
    bench.app().get(&path).send().await.expect_status(200).json()
}

/// Returns the ids of the listed senders, each with whether it is the owner, and the id of the owner.
async fn owners(bench: &Bench) -> (Vec<(String, bool)>, Value) {
    let all = senders(bench).await;
    let sender = |view: &Value| (view["id"].as_str().unwrap().to_owned(), view["is_owner"].as_bool().unwrap());
    (all["senders"].as_array().unwrap().iter().map(sender).collect(), all["owner_id"].clone())
}

fn id(number: u32) -> Value {
    json!(number.to_string())
}

#[tokio::test]
async fn first_approved_sender_becomes_the_owner_and_is_notified() {
    let bench = Bench::start(Platform::Telegram, []).await;
    assert_eq!(owners(&bench).await, (vec![("7".to_owned(), true), ("8".to_owned(), false)], id(OWNER)));
    bench.expect_sent("You are the owner of this channel", 1).await;
    bench.expect_sent("You have been approved", 2).await;
}

#[tokio::test]
async fn owner_can_be_changed_and_cleared() {
    let bench = Bench::start(Platform::Telegram, [writes("x"), says("Done.")]).await;
    let question = bench.ask().await;
    let changed = bench.set_owner(&id(MEMBER)).await.expect_status(200).json();
    assert_eq!(changed, json!({"platform": "telegram", "owner_id": "8"}));
    assert_eq!(owners(&bench).await, (vec![("7".to_owned(), false), ("8".to_owned(), true)], id(MEMBER)));
    bench.set_owner(&id(UNKNOWN_SENDER)).await.expect_error(404, "sender_not_found");
    assert_eq!(senders(&bench).await["owner_id"], id(MEMBER));
    let cleared = bench.set_owner(&Value::Null).await.expect_status(200).json();
    assert_eq!(cleared, json!({"platform": "telegram", "owner_id": null}));
    for sender in [OWNER, MEMBER] {
        bench.press(sender, OWNER, &question.message_id, &question.approve()).await;
        bench.say(sender, OWNER, &format!("approve {}", question.code)).await;
    }
    assert_eq!((bench.pending().await.len(), bench.written()), (1, None), "no sender decides without an owner");
    // Approving another sender does not assign a new owner.
    bench.pair(UNKNOWN_SENDER).await;
    assert_eq!(senders(&bench).await["owner_id"], Value::Null);
    bench.set_owner(&id(MEMBER)).await.expect_status(200);
    bench.press(MEMBER, OWNER, &question.message_id, &question.approve()).await;
    assert_eq!((bench.pending().await.len(), bench.written().as_deref()), (0, Some("x")));
}

#[tokio::test]
async fn removed_owner_cannot_decide() {
    let bench = Bench::start(Platform::Telegram, [writes("x"), says("Done.")]).await;
    let question = bench.ask().await;
    bench.app().delete("/api/channels/telegram/senders/7").send().await.expect_status(200);
    assert_eq!(owners(&bench).await, (vec![("8".to_owned(), false)], Value::Null));
    bench.press(OWNER, OWNER, &question.message_id, &question.approve()).await;
    assert_eq!(bench.pending().await.len(), 1);
    // A sender that is approved again does not become the owner again.
    bench.pair(OWNER).await;
    assert_eq!(senders(&bench).await["owner_id"], Value::Null);
    for sender in [OWNER, MEMBER] {
        bench.app().delete(&format!("/api/channels/telegram/senders/{sender}")).send().await.expect_status(200);
    }
    bench.pair(UNKNOWN_SENDER).await;
    assert_eq!(
        senders(&bench).await["owner_id"],
        id(UNKNOWN_SENDER),
        "the first sender approved after all were removed"
    );
}

#[tokio::test]
async fn allowed_sender_can_be_the_owner_while_allowed() {
    for policy in ["allowlist", "open"] {
        let bench = Bench::unpaired(Platform::Telegram, [writes("x"), says("Done.")]).await;
        bench.set(json!({"sender_policy": policy, "allowed_senders": ["7", "8"]})).await;
        assert_eq!(owners(&bench).await, (vec![], Value::Null), "{policy}: no owner is assigned automatically");
        bench.set_owner(&id(UNKNOWN_SENDER)).await.expect_error(404, "sender_not_found");
        bench.set_owner(&id(OWNER)).await.expect_status(200);
        assert_eq!(owners(&bench).await, (vec![], id(OWNER)), "{policy}");
        let question = bench.ask().await;
        for sender in [MEMBER, UNKNOWN_SENDER] {
            bench.press(sender, OWNER, &question.message_id, &question.approve()).await;
        }
        bench.set(json!({"allowed_senders": ["8"]})).await;
        assert_eq!(senders(&bench).await["owner_id"], Value::Null, "{policy}");
        bench.press(OWNER, OWNER, &question.message_id, &question.approve()).await;
        assert_eq!((bench.pending().await.len(), bench.written()), (1, None), "{policy}");
        bench.set(json!({"allowed_senders": ["7"]})).await;
        bench.press(OWNER, OWNER, &question.message_id, &question.approve()).await;
        assert_eq!((bench.pending().await.len(), bench.written().as_deref()), (0, Some("x")), "{policy}");
    }
}

#[tokio::test]
async fn owner_request_is_validated() {
    let bench = Bench::start(Platform::Telegram, []).await;
    let put = |path: &str| bench.app().put(path);
    put("/api/channels/irc/owner").json(&json!({"sender_id": "7"})).send().await.expect_error(404, "unknown_platform");
    for wrong in [json!({}), json!({"sender_id": 7}), json!({"sender_id": ""})] {
        put("/api/channels/telegram/owner").json(&wrong).send().await.expect_error(400, "invalid_request");
    }
    assert_eq!(senders(&bench).await["owner_id"], id(OWNER));
    bench.set_owner(&id(OWNER)).await.expect_status(200);
    let slack = put("/api/channels/slack/owner").json(&json!({"sender_id": "7"})).send().await;
    slack.expect_error(404, "sender_not_found");
}

#[tokio::test]
async fn button_presses_of_a_sender_are_rate_limited() {
    let bench = Bench::start(Platform::Telegram, [writes("x"), says("Done.")]).await;
    let question = bench.ask().await;
    bench.app().clock.advance(std::time::Duration::from_secs(60));
    let data = question.approve();
    for number in 0..80 {
        let press = FakePress {
            chat: OWNER,
            sender: MEMBER,
            number: 1_000 + number,
            message_id: &question.message_id,
            data: &data,
        };
        bench.receive(&bench.fake.press(&press, bench.app().clock.clock().now())).await;
    }
    settle(bench.app()).await;
    let metrics = bench.app().get("/api/metrics/prometheus").send().await.text().to_owned();
    assert!(metrics.contains("svc_channel_messages_total{outcome=\"rate_limited\"} 20"), "{metrics}");
    bench.expect_sent("Only the owner of this channel", 1).await;
    bench.press(OWNER, OWNER, &question.message_id, &data).await;
    assert_eq!((bench.pending().await.len(), bench.written().as_deref()), (0, Some("x")));
}
