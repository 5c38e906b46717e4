//! An approval on Telegram, from the question to the edited message.

use agentd_llm::ToolCall;
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use crate::channels::{Channel, UNKNOWN_SENDER};
use crate::support::Eventually;
use crate::support::chat_fixture::TEST_USAGE;

/// Replies with a call that writes a file, then with "Done.".
fn write_file_script() -> Script {
    let call = ToolCall::new("v1", "write_file", json!({"path": "a.txt", "content": "x"}));
    Script::queue([Reply::tool_calls(vec![call], TEST_USAGE), Reply::text(["Done."], TEST_USAGE)])
}

pub async fn approve_sender(channel: &Channel, sender: i64) {
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

/// Starts a turn of an approved sender that requires approval; returns the question.
async fn ask(channel: &Channel) -> Value {
    channel.set(json!({"tools": ["write_file"]})).await;
    approve_sender(channel, UNKNOWN_SENDER).await;
    channel.post(&channel.telegram.message(1, UNKNOWN_SENDER, "Write it down.")).await.expect_status(200);
    let mut eventually = Eventually::new();
    while pending(channel).await.is_empty() {
        channel.app().run_workers().await;
        eventually.retry().await;
    }
    channel.app().run_workers().await;
    channel.app().run_workers().await;
    let asked = channel.telegram.sent().pop().unwrap();
    assert!(asked["text"].as_str().unwrap().contains("write_file"), "{asked}");
    asked
}

/// Returns the id of the last message: the fake numbers the messages that it receives.
fn last_message_id(channel: &Channel) -> i64 {
    channel.telegram.sent().len().try_into().unwrap()
}

#[tokio::test]
async fn owner_approves_with_a_button() {
    let channel = Channel::closed(write_file_script()).await;
    let asked = ask(&channel).await;
    let message = last_message_id(&channel);
    let buttons = asked["reply_markup"]["inline_keyboard"].to_string();
    let id = pending(&channel).await[0]["id"].as_str().unwrap().to_owned();
    assert!(buttons.contains(&format!("approve:{id}")) && buttons.contains(&format!("reject:{id}")), "{buttons}");
    let press = channel.telegram.press(3, UNKNOWN_SENDER, UNKNOWN_SENDER, message, &format!("approve:{id}"));
    channel.post(&press).await.expect_status(200);
    assert_eq!(pending(&channel).await.len(), 0);
    channel.settle().await;
    assert_eq!(channel.sent().last().unwrap(), "Done.");
}

#[tokio::test]
async fn decision_is_shown_although_the_rest_of_its_batch_is_stored_later() {
    let channel = Channel::closed(write_file_script()).await;
    ask(&channel).await;
    let message = last_message_id(&channel);
    let id = pending(&channel).await[0]["id"].as_str().unwrap().to_owned();
    channel.fail_inserts("And then?").await;
    // One batch of updates, which is fetched again until all of it is stored.
    for request in [
        channel.telegram.press(2, UNKNOWN_SENDER, UNKNOWN_SENDER, message, &format!("approve:{id}")),
        channel.telegram.message(3, UNKNOWN_SENDER, "And then?"),
    ] {
        channel.telegram.queue_update(serde_json::from_slice(&request.body).unwrap());
    }
    channel.set(json!({"mode": "connect"})).await;
    let mut eventually = Eventually::new();
    let mut failures = 0;
    while failures < 3 {
        failures += usize::from(channel.app().running().daemon.workers.run_until_idle().await.is_err());
        eventually.retry().await;
    }
    channel.restore_inserts().await;
    let edits = || {
        let requests = channel.telegram.requests().into_iter().filter(|request| request.path == "editMessageText");
        requests.map(|request| request.body["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    while !edits().iter().any(|text| text.contains("Approved by Ada")) {
        channel.app().run_workers().await;
        eventually.retry().await;
    }
    assert!(!edits().iter().any(|text| text.contains("already")), "{:?}", edits());
    assert_eq!(pending(&channel).await.len(), 0);
}
