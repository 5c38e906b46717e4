//! The way of an approval from the question to what it says in the end, on Telegram.

use agentd_llm::ToolCall;
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use crate::channels::{Channel, STRANGER};
use crate::support::Eventually;
use crate::support::talk::COUNTED;

/// Writes a file when it may, and says so.
fn writes() -> Script {
    let call = ToolCall::new("v1", "write_file", json!({"path": "a.txt", "content": "x"}));
    Script::queue([Reply::tool_calls(vec![call], COUNTED), Reply::text(["Done."], COUNTED)])
}

pub async fn let_in(channel: &Channel, sender: i64) {
    channel.say(900 + sender, sender, "Let me in.").await;
    let open = channel.app().get("/api/channels/pairings").send().await.expect_status(200).json();
    let code = open["pairings"][0]["code"].as_str().unwrap().to_owned();
    let path = format!("/api/channels/telegram/pairings/{code}/approve");
    channel.app().post(&path).send().await.expect_status(200);
    channel.settle().await;
}

pub async fn pending(channel: &Channel) -> Vec<Value> {
    let all = channel.app().get("/api/chat/approvals?status=pending").send().await.expect_status(200).json();
    all["approvals"].as_array().unwrap().clone()
}

/// Has a turn ask somebody who was let in; answers the question.
async fn ask(channel: &Channel) -> Value {
    channel.set(json!({"tools": ["write_file"]})).await;
    let_in(channel, STRANGER).await;
    channel.post(&channel.telegram.message(1, STRANGER, "Write it down.")).await.expect_status(200);
    let mut eventually = Eventually::new();
    while pending(channel).await.is_empty() {
        channel.app().run_workers().await;
        eventually.look_again().await;
    }
    channel.app().run_workers().await;
    channel.app().run_workers().await;
    let asked = channel.telegram.sent().pop().unwrap();
    assert!(asked["text"].as_str().unwrap().contains("write_file"), "{asked}");
    asked
}

/// The fake numbers what it is sent.
fn last_message(channel: &Channel) -> i64 {
    channel.telegram.sent().len().try_into().unwrap()
}

#[tokio::test]
async fn owner_approves_with_a_button() {
    let channel = Channel::closed(writes()).await;
    let asked = ask(&channel).await;
    let message = last_message(&channel);
    let buttons = asked["reply_markup"]["inline_keyboard"].to_string();
    let id = pending(&channel).await[0]["id"].as_str().unwrap().to_owned();
    assert!(buttons.contains(&format!("approve:{id}")) && buttons.contains(&format!("reject:{id}")), "{buttons}");
    let press = channel.telegram.press(3, STRANGER, STRANGER, message, &format!("approve:{id}"));
    channel.post(&press).await.expect_status(200);
    assert_eq!(pending(&channel).await.len(), 0);
    channel.settle().await;
    assert_eq!(channel.sent().last().unwrap(), "Done.");
}

#[tokio::test]
async fn what_was_decided_is_said_though_what_came_with_it_is_stored_later() {
    let channel = Channel::closed(writes()).await;
    ask(&channel).await;
    let message = last_message(&channel);
    let id = pending(&channel).await[0]["id"].as_str().unwrap().to_owned();
    channel.refuse("And then?").await;
    // One batch, which is taken again until all of it is stored.
    for request in [
        channel.telegram.press(2, STRANGER, STRANGER, message, &format!("approve:{id}")),
        channel.telegram.message(3, STRANGER, "And then?"),
    ] {
        channel.telegram.queue_update(serde_json::from_slice(&request.body).unwrap());
    }
    channel.set(json!({"mode": "connect"})).await;
    let mut eventually = Eventually::new();
    let mut failures = 0;
    while failures < 3 {
        failures += usize::from(channel.app().running().daemon.workers.run_until_idle().await.is_err());
        eventually.look_again().await;
    }
    channel.accept().await;
    let said = || {
        let edits = channel.telegram.requests().into_iter().filter(|request| request.path == "editMessageText");
        edits.map(|request| request.body["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    while !said().iter().any(|text| text.contains("Approved by Ada")) {
        channel.app().run_workers().await;
        eventually.look_again().await;
    }
    assert!(!said().iter().any(|text| text.contains("already")), "{:?}", said());
    assert_eq!(pending(&channel).await.len(), 0);
}
