//! Albums: several attachments sent as one message.

use std::time::Duration;

use agentd_chat_platforms::WebhookRequest;
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{ADA, Channel, UNKNOWN_SENDER, hook, settle};
use crate::support::chat_fixture::TEST_USAGE;

const GROUP: i64 = -100;

async fn channel() -> Channel {
    Channel::with(Script::always(Reply::text(["I see."], TEST_USAGE))).await
}

/// Returns a request with a part of the album `a`.
fn part(channel: &Channel, request: &WebhookRequest, number: u32, more: Value) -> WebhookRequest {
    let mut fields = json!({"media_group_id": "a", "document": {"file_id": format!("f{number}"), "file_name": format!("{number}.pdf")}});
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    channel.replaced(request, &fields)
}

fn album_parts(channel: &Channel) -> [WebhookRequest; 3] {
    let photo =
        |number: u32, more: Value| part(channel, &channel.telegram.message(i64::from(number), ADA, "x"), number, more);
    [photo(1, json!({"caption": "Compare these."})), photo(2, json!({})), photo(3, json!({}))]
}

async fn count(channel: &Channel, sql: &'static str) -> u64 {
    let mut read = channel.app().running().context().db.read().await.unwrap();
    read.fetch_one(sql, agentd_store::args![]).await.unwrap().get("n").unwrap()
}

#[tokio::test]
async fn album_is_one_turn_with_all_its_files() {
    let mut channel = channel().await;
    let parts = album_parts(&channel);
    for part in &parts {
        channel.post(part).await.expect_status(200);
    }
    channel.settle().await;
    assert_eq!(channel.fixture.vendor.requests().len(), 0, "more parts may follow");
    channel.app().clock.advance(Duration::from_secs(2));
    channel.settle().await;
    assert_eq!((channel.sent(), channel.fixture.vendor.requests().len()), (vec!["I see.".to_owned()], 1));
    let prompt = channel.model_requests().pop().unwrap();
    assert!(["Compare these.", "1.pdf", "2.pdf", "3.pdf"].iter().all(|expected| prompt.contains(expected)), "{prompt}");
    for part in &parts {
        channel.post(part).await.expect_status(200);
    }
    channel.app().clock.advance(Duration::from_secs(10));
    channel.fixture.app.restart().await;
    channel.settle().await;
    assert_eq!((channel.sent().len(), channel.fixture.vendor.requests().len()), (1, 1), "repeated parts are ignored");
    channel.say(9, ADA, "And now?").await;
    assert_eq!(channel.sent().len(), 2);
}

#[tokio::test]
async fn late_part_is_a_separate_message() {
    let channel = channel().await;
    let [first, second, third] = album_parts(&channel);
    channel.post(&first).await.expect_status(200);
    channel.app().clock.advance(Duration::from_millis(800));
    channel.settle().await;
    assert_eq!(channel.fixture.vendor.requests().len(), 0);
    channel.post(&second).await.expect_status(200);
    channel.app().clock.advance(Duration::from_millis(900));
    channel.settle().await;
    assert_eq!(channel.fixture.vendor.requests().len(), 0, "each part restarts the waiting time");
    channel.app().clock.advance(Duration::from_millis(200));
    channel.settle().await;
    assert_eq!(channel.fixture.vendor.requests().len(), 1);
    channel.post(&third).await.expect_status(200);
    channel.app().clock.advance(Duration::from_secs(2));
    channel.settle().await;
    let prompts = channel.model_requests();
    assert!(prompts.len() == 2 && prompts[1].contains("3.pdf"), "{prompts:#?}");
    assert_eq!(channel.sent().len(), 2);
}

#[tokio::test]
async fn waiting_for_parts_is_limited_to_five_seconds() {
    let channel = channel().await;
    for number in 1..=9_u32 {
        let request = channel.telegram.message(i64::from(number), ADA, "x");
        channel.post(&part(&channel, &request, number, json!({}))).await.expect_status(200);
        channel.app().clock.advance(Duration::from_millis(700));
        channel.settle().await;
        assert_eq!(channel.fixture.vendor.requests().len(), usize::from(number >= 8), "{number}");
    }
    let prompt = channel.model_requests().swap_remove(0);
    assert!(prompt.contains("8.pdf") && !prompt.contains("9.pdf"), "{prompt}");
}

#[tokio::test]
async fn large_album_is_split_into_messages_of_ten_parts() {
    let channel = channel().await;
    for number in 1..=12_u32 {
        let request = channel.telegram.message(i64::from(number), ADA, "x");
        channel.post(&part(&channel, &request, number, json!({}))).await.expect_status(200);
    }
    for _ in 0..4 {
        channel.app().clock.advance(Duration::from_secs(2));
        channel.settle().await;
    }
    let prompts = channel.model_requests();
    assert!(prompts.len() == 2 && prompts[0].contains("10.pdf") && !prompts[0].contains("11.pdf"), "{prompts:#?}");
    assert!(prompts[1].contains("11.pdf") && prompts[1].contains("12.pdf"));
}

#[tokio::test]
async fn album_in_a_group_is_answered_when_one_part_mentions_the_agent() {
    let channel = channel().await;
    let photo = |number: u32, sender: i64, more: Value| {
        let request = channel.telegram.group_message(i64::from(number), sender, GROUP, "x");
        part(&channel, &request, number, more)
    };
    let mention =
        json!({"caption": "@Fake_Bot compare", "caption_entities": [{"type": "mention", "offset": 0, "length": 9}]});
    for request in [photo(1, ADA, json!({})), photo(2, ADA, mention), photo(3, ADA, json!({}))] {
        channel.post(&request).await.expect_status(200);
    }
    channel.app().clock.advance(Duration::from_secs(2));
    channel.settle().await;
    let prompts = channel.model_requests();
    assert!(
        prompts.len() == 1 && ["1.pdf", "2.pdf", "3.pdf"].iter().all(|file| prompts[0].contains(file)),
        "{prompts:#?}"
    );
    assert_eq!(
        channel.telegram.sent()[0]["reply_parameters"]["message_id"],
        1002,
        "the part with the mention is answered"
    );
    // Albums without a mention or of unknown senders are not stored.
    let others = json!({"media_group_id": "b"});
    for request in [photo(4, ADA, others.clone()), photo(5, ADA, others.clone()), photo(6, UNKNOWN_SENDER, others)] {
        channel.post(&request).await.expect_status(200);
    }
    channel.app().clock.advance(Duration::from_secs(2));
    channel.settle().await;
    assert_eq!((channel.model_requests().len(), channel.sent().len()), (1, 1));
    assert_eq!(count(&channel, "SELECT COUNT(*) AS n FROM channel_messages").await, 3);
    assert_eq!(
        count(&channel, "SELECT COUNT(*) AS n FROM outbox WHERE event_type = 'channel.message.received'").await,
        1
    );
}

#[tokio::test]
async fn parts_that_reach_different_replicas_are_one_turn() {
    let channel = channel().await;
    let Some(replica) = channel.app().replica().await else { return };
    let [first, second, third] = album_parts(&channel);
    channel.post(&first).await.expect_status(200);
    hook(&replica, "telegram", &second).send().await.expect_status(200);
    channel.post(&third).await.expect_status(200);
    for app in [&replica, channel.app(), &replica] {
        channel.app().clock.advance(Duration::from_secs(2));
        replica.clock.advance(Duration::from_secs(2));
        settle(app).await;
    }
    let prompts = channel.model_requests();
    assert!(
        prompts.len() == 1 && ["1.pdf", "2.pdf", "3.pdf"].iter().all(|file| prompts[0].contains(file)),
        "{prompts:#?}"
    );
    assert_eq!(channel.sent(), ["I see."]);
}
