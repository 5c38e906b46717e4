//! Slack Socket Mode, against the fake.

use std::sync::Arc;

use agentd_chat_platforms::slack::{Slack, SlackConfig};
use agentd_chat_platforms::{Incoming, SendError};
use agentd_net::Trust;
use agentd_testing_chat_platforms::slack::{Behaviour, FakeSlack, SocketFault};
use serde_json::json;

use crate::support::{Listening, NOW, client, listen, secret, text_of, until};

fn app(fake: &FakeSlack, app_token: Option<&str>) -> Arc<Slack> {
    let config = SlackConfig {
        api_base_url: Some(fake.base_url()),
        bot_token: Some(secret("xoxb-1")),
        app_token: app_token.map(secret),
        signing_secret: None,
    };
    Arc::new(Slack::new(config, client(Trust::Owner)))
}

async fn fake() -> FakeSlack {
    FakeSlack::start("xoxb-1", "xapp-1", "signing").await.unwrap()
}

async fn connected(fake: &FakeSlack) -> Listening {
    let mut listening = listen(app(fake, Some("xapp-1")), None);
    listening.connected().await;
    listening
}

fn push(fake: &FakeSlack, number: usize) {
    fake.push(&fake.message(&format!("1795600000.{number:06}"), "U7", &format!("Number {number}."), NOW));
}

#[tokio::test]
async fn envelope_is_acknowledged_after_storage() {
    let fake = fake().await;
    let mut listening = connected(&fake).await;
    push(&fake, 1);
    let batch = listening.batch().await;
    assert_eq!((text_of(&batch), fake.acknowledged().len()), ("Number 1.", 0));
    listening.connection.acknowledge(&batch);
    until("the first", || fake.acknowledged() == ["envelope-1"]).await;
    fake.push(&fake.press("1795600000.000100", "U7", "D0DIRECT", "approve:1", NOW));
    let batch = listening.batch().await;
    assert!(matches!(batch.incoming.as_slice(), [Incoming::Decision(decision)] if decision.data == "approve:1"));
    // Other events need no storage.
    fake.push(&fake.event(&json!({"type": "reaction_added", "user": "U7"}), NOW));
    until("the third", || fake.acknowledged() == ["envelope-1", "envelope-3"]).await;
    listening.connection.acknowledge(&batch);
    until("the second", || fake.acknowledged().len() == 3).await;
    fake.socket_fault(SocketFault::Ping);
    until("a pong", || fake.pongs() == 1).await;
    assert_eq!(fake.problems(), [""; 0]);
}

#[tokio::test]
async fn unacknowledged_envelopes_are_redelivered() {
    let fake = fake().await;
    let mut listening = connected(&fake).await;
    push(&fake, 1);
    assert_eq!(text_of(&listening.batch().await), "Number 1.");
    fake.socket_fault(SocketFault::Repeat);
    let repeated = listening.batch().await;
    assert_eq!(text_of(&repeated), "Number 1.");
    fake.socket_fault(SocketFault::Drop);
    listening.ended().await;
    let mut again = connected(&fake).await;
    let batch = again.batch().await;
    assert_eq!(batch.incoming, repeated.incoming);
    again.connection.acknowledge(&batch);
    until("the acknowledgement", || fake.acknowledged() == ["envelope-1"]).await;
}

#[tokio::test]
async fn new_socket_is_opened_before_the_old_one_closes() {
    let fake = fake().await;
    let mut old = connected(&fake).await;
    fake.socket_fault(SocketFault::Leave);
    old.leaving().await;
    push(&fake, 1);
    let batch = old.batch().await;
    old.connection.acknowledge(&batch);
    until("the acknowledgement", || fake.acknowledged() == ["envelope-1"]).await;
    let mut new = connected(&fake).await;
    let ended = old.ended().await;
    assert!(ended.error.is_none(), "{ended:?}");
    push(&fake, 2);
    assert_eq!(text_of(&new.batch().await), "Number 2.");
    assert_eq!(fake.open_sockets(), (1, 2));
}

#[tokio::test]
async fn silent_socket_is_pinged_then_closed() {
    let fake = fake().await;
    let mut listening = connected(&fake).await;
    fake.socket_fault(SocketFault::Freeze);
    tokio::time::pause();
    let ended = listening.ended().await;
    assert_eq!(ended.error, Some(SendError::Later("Slack stopped responding".to_owned())));
}

#[tokio::test]
async fn reading_pauses_at_the_batch_limit() {
    let fake = fake().await;
    let mut listening = connected(&fake).await;
    for number in 1..=40 {
        push(&fake, number);
    }
    let mut batches = Vec::new();
    for _ in 0..32 {
        batches.push(listening.batch().await);
    }
    tokio::task::yield_now().await;
    assert!(listening.connection.try_next().is_none());
    batches.iter().for_each(|batch| listening.connection.acknowledge(batch));
    for number in 33..=40 {
        let batch = listening.batch().await;
        assert_eq!(text_of(&batch), format!("Number {number}."));
        listening.connection.acknowledge(&batch);
    }
    until("all of them", || fake.acknowledged().len() == 40).await;
    assert_eq!(fake.acknowledged()[39], "envelope-40");
}

#[tokio::test]
async fn connection_error_states_the_remedy() {
    let fake = fake().await;
    let refused = async |token| {
        let error = listen(app(&fake, token), None).ended().await.error.unwrap();
        let is_for_owner = matches!(error, SendError::NotSetUp(_) | SendError::Credentials(_));
        (is_for_owner, error.to_string())
    };
    for token in [None, Some("xapp-2"), Some("xoxb-1")] {
        let (is_for_owner, text) = refused(token).await;
        assert!(is_for_owner && text.contains("channels.slack.app_token"), "{text}");
        assert!(!text.contains("xapp-2") && !text.contains("xoxb"), "{text}");
    }
    let mut listening = connected(&fake).await;
    fake.socket_fault(SocketFault::Disable);
    let error = listening.ended().await.error.unwrap();
    assert!(matches!(&error, SendError::Credentials(text) if text.contains("Socket Mode")), "{error}");
    assert!(refused(Some("xapp-1")).await.1.contains("Socket Mode"));
    fake.misbehave(Behaviour::RateLimited(std::time::Duration::from_secs(7)));
    let limited = listen(app(&fake, Some("xapp-1")), None).ended().await;
    assert_eq!(limited.wait, Some(std::time::Duration::from_secs(7)));
}
