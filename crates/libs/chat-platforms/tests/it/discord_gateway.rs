//! Discord Gateway, against the fake.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::MockClock;
use agentd_chat_platforms::discord::{Discord, DiscordConfig};
use agentd_chat_platforms::{Incoming, SendError};
use agentd_net::Trust;
use agentd_testing_chat_platforms::discord::{APPLICATION_ID, FakeDiscord, GatewayFault};
use serde_json::json;

use crate::support::{Listening, NOW, client, listen, secret, text_of, until};

const CHANNEL: &str = "1300000000000000002";

fn app(fake: &FakeDiscord, token: Option<&str>) -> Arc<Discord> {
    let config = DiscordConfig {
        api_base_url: Some(fake.base_url()),
        application_id: Some(APPLICATION_ID.to_owned()),
        public_key: None,
        bot_token: token.map(secret),
    };
    Arc::new(Discord::new(config, client(Trust::Owner), MockClock::new(NOW).clock()))
}

async fn fake() -> FakeDiscord {
    FakeDiscord::start("bot-token").await.unwrap()
}

async fn connected(fake: &FakeDiscord) -> Listening {
    let mut listening = listen(app(fake, Some("bot-token")), None);
    listening.connected().await;
    listening
}

fn resumed(fake: &FakeDiscord, resume: Option<String>) -> Listening {
    listen(app(fake, Some("bot-token")), resume)
}

/// Pushes a direct message.
fn push(fake: &FakeDiscord, number: u64) {
    fake.push_message(
        &format!("{}", 1_500_000_000_000_000_000 + number),
        "7",
        CHANNEL,
        None,
        &format!("Number {number}."),
    );
}

/// Waits until the connection has resumed after this sequence number.
async fn stored_up_to(listening: &Listening, sequence: u64) {
    let place = format!("\"sequence\":{sequence},");
    until(&place, || listening.connection.resume().is_some_and(|resume| resume.contains(&place))).await;
}

#[tokio::test]
async fn interactions_are_answered_after_storage() {
    let fake = fake().await;
    let mut listening = connected(&fake).await;
    push(&fake, 1);
    assert_eq!(text_of(&listening.batch().await), "Number 1.");
    fake.push_message("1500000000000000002", "7", CHANNEL, Some("1"), "Hi <@1100000000000000001>");
    let batch = listening.batch().await;
    assert!(
        matches!(batch.incoming.as_slice(), [Incoming::Message(message)]
        if message.is_addressed && message.chat.is_group && message.text == "Hi"),
        "{batch:?}"
    );
    // The bot's own message and an unrelated event.
    fake.push_message("1500000000000000003", APPLICATION_ID, CHANNEL, None, "Mine.");
    fake.push_event("TYPING_START", &json!({"channel_id": CHANNEL}));
    fake.push(&fake.press("1510000000000000001", "7", CHANNEL, "1400000000000000001", "approve:1", NOW));
    let batch = listening.batch().await;
    assert!(matches!(batch.incoming.as_slice(), [Incoming::Decision(decision)] if decision.data == "approve:1"));
    let answers = || fake.requests().into_iter().filter(|request| request.path.ends_with("/callback"));
    assert_eq!(answers().count(), 0);
    for batch in [&batch, &batch, &batch] {
        listening.connection.acknowledge(batch);
    }
    until("an answer", || answers().count() == 1).await;
    assert_eq!(answers().next().unwrap().body, json!({"type": 6}));
    assert_eq!(answers().next().unwrap().path, "interactions/1510000000000000001/…/callback");
    // An unknown command is not a message but is acknowledged.
    let unknown =
        json!({"id": "1510000000000000002", "type": 2, "token": "token-of-x", "data": {"type": 3, "name": "x"}});
    fake.push_event("INTERACTION_CREATE", &unknown);
    until("another answer", || answers().count() == 2).await;
    assert_eq!(fake.problems(), [""; 0]);
}

#[tokio::test]
async fn session_resumes_after_the_last_stored_event() {
    let fake = fake().await;
    let mut listening = connected(&fake).await;
    push(&fake, 1);
    push(&fake, 2);
    let first = listening.batch().await;
    let second = listening.batch().await;
    listening.connection.acknowledge(&first);
    // READY was the first event.
    stored_up_to(&listening, 2).await;
    fake.gateway_fault(GatewayFault::Drop);
    listening.ended().await;
    push(&fake, 3);
    let mut again = resumed(&fake, listening.connection.resume());
    assert_eq!(again.batch().await.incoming, second.incoming);
    assert_eq!(text_of(&again.batch().await), "Number 3.");
    again.connected().await;
    assert_eq!(fake.sessions(), (true, 1, 1));
    // Dropped without a close frame, so that the session can be resumed.
    drop(again);
    until("the end", || !fake.sessions().0).await;
    let mut again = resumed(&fake, listening.connection.resume());
    assert_eq!(again.batch().await.incoming, second.incoming);
    assert_eq!(fake.problems(), [""; 0]);
}

#[tokio::test]
async fn heartbeats_acknowledge_stored_events_and_detect_dead_connections() {
    let fake = fake().await;
    fake.set_heartbeat_ms(150);
    let mut listening = connected(&fake).await;
    push(&fake, 1);
    let batch = listening.batch().await;
    let beats = fake.heartbeats();
    until("heartbeats", || fake.heartbeats() >= beats + 3).await;
    fake.gateway_fault(GatewayFault::Deaf);
    let ended = listening.ended().await;
    assert!(ended.error.unwrap().to_string().contains("heartbeat"));
    // No heartbeat acknowledged an unstored event.
    let mut again = resumed(&fake, listening.connection.resume());
    assert_eq!(again.batch().await.incoming, batch.incoming);
    again.connected().await;
}

#[tokio::test]
async fn gateway_opcodes_are_handled() {
    let fake = fake().await;
    let mut listening = connected(&fake).await;
    fake.gateway_fault(GatewayFault::Reconnect);
    let ended = listening.ended().await;
    assert!(ended.error.is_none() && ended.wait.is_none(), "{ended:?}");
    let mut listening = resumed(&fake, listening.connection.resume());
    listening.connected().await;
    assert_eq!(fake.sessions(), (true, 1, 1));

    fake.gateway_fault(GatewayFault::InvalidSession { can_resume: true });
    let ended = listening.ended().await;
    assert_eq!((ended.wait, ended.error), (Some(Duration::from_secs(3)), None));
    let mut listening = resumed(&fake, listening.connection.resume());
    listening.connected().await;
    assert_eq!(fake.sessions(), (true, 1, 2));

    fake.gateway_fault(GatewayFault::InvalidSession { can_resume: false });
    assert_eq!(listening.ended().await.wait, Some(Duration::from_secs(3)));
    assert_eq!(listening.connection.resume(), None);
    // An outdated resume point: the session is unknown, and a new one is started.
    let old = json!({"session_id": "gone", "url": "ws://127.0.0.1:1", "sequence": 1, "user": APPLICATION_ID,
        "token": hex::encode(&secret("bot-token").sha256()[..8])});
    let mut stale = resumed(&fake, Some(old.to_string()));
    assert_eq!(stale.ended().await.wait, Some(Duration::from_secs(3)));
    assert_eq!(stale.connection.resume(), None);
    let mut listening = resumed(&fake, None);
    listening.connected().await;
    assert_eq!(fake.sessions(), (true, 2, 2));

    fake.gateway_fault(GatewayFault::Close(4009));
    assert!(listening.ended().await.error.is_none());
    assert_eq!(listening.connection.resume(), None);
}

#[tokio::test]
async fn close_code_error_states_the_remedy() {
    let fake = fake().await;
    let refused = async |token| listen(app(&fake, token), None).ended().await;
    for (token, expected) in
        [(None, "set channels.discord.bot_token"), (Some("other"), "check channels.discord.bot_token")]
    {
        let error = refused(token).await.error.unwrap();
        assert!(matches!(error, SendError::NotSetUp(_) | SendError::Credentials(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    fake.set_message_content(false);
    let error = refused(Some("bot-token")).await.error.unwrap();
    assert!(matches!(&error, SendError::Credentials(text) if text.contains("Message Content Intent")), "{error}");
    fake.set_message_content(true);
    fake.set_sessions_left(0);
    let ended = refused(Some("bot-token")).await;
    assert_eq!(ended.wait, Some(Duration::from_secs(14_400)));
    assert!(matches!(ended.error, Some(SendError::Later(_))));
    fake.set_sessions_left(1);
    let mut listening = connected(&fake).await;
    fake.gateway_fault(GatewayFault::Close(4004));
    assert!(matches!(listening.ended().await.error, Some(SendError::Credentials(_))));
    // The resume point of another bot is ignored.
    let place = listening.connection.resume().unwrap().replace("\"token\":\"", "\"token\":\"0");
    assert!(refused(Some("bot-token")).await.error.is_some(), "no session is left");
    fake.set_sessions_left(1);
    resumed(&fake, Some(place)).connected().await;
    assert_eq!(fake.sessions(), (true, 2, 0));
}

#[tokio::test]
async fn interaction_flood_does_not_end_the_session() {
    let fake = fake().await;
    let mut listening = connected(&fake).await;
    for number in 0..1500_u64 {
        let id = 1_510_000_000_000_000_000 + number;
        fake.push_event("INTERACTION_CREATE", &json!({"id": id.to_string(), "type": 99, "token": "token-of-x"}));
    }
    push(&fake, 1);
    assert_eq!(text_of(&listening.batch().await), "Number 1.");
}
