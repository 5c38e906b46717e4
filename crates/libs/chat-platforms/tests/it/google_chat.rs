//! Google Chat webhooks and API, against the fake.

use std::time::Duration;

use agentd_base::{MockClock, Secret};
use agentd_chat_platforms::google_chat::{GoogleChat, GoogleChatConfig};
use agentd_chat_platforms::{
    Address, ChatPlatform, Decision, Incoming, IncomingMessage, Outgoing, Received, Rejection, SendError,
    WebhookAnswer, WebhookRequest,
};
use agentd_net::Trust;
use agentd_testing_chat_platforms::google_chat::{Behaviour, FakeGoogleChat, check_markup};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{NOW, buttons, client};

/// Maximum length of a rendered part, in bytes.
const MAX_TEXT: usize = 16_000;

/// URL at which the fake calls the app.
const ADDRESS: &str = "https://agent.example/hooks/google_chat";
const MINUTE: Duration = Duration::from_secs(60);

fn adapter(config: GoogleChatConfig, clock: &MockClock) -> GoogleChat {
    GoogleChat::new(config, client(Trust::Owner), clock.clock())
}

async fn running() -> (FakeGoogleChat, GoogleChat, MockClock) {
    let clock = MockClock::new(NOW);
    let fake = FakeGoogleChat::start(clock.clock()).await.unwrap();
    let chat = adapter(fake.config(), &clock);
    (fake, chat, clock)
}

async fn received(chat: &GoogleChat, request: &WebhookRequest) -> Vec<Incoming> {
    let received = chat.receive(request, NOW).await.unwrap();
    assert_eq!(received.answer, WebhookAnswer::json(&json!({})));
    received.incoming
}

async fn message(chat: &GoogleChat, request: &WebhookRequest) -> IncomingMessage {
    match received(chat, request).await.as_slice() {
        [Incoming::Message(message)] => message.clone(),
        other => panic!("{other:?}"),
    }
}

fn is_unverified(answer: &Result<Received, Rejection>) -> bool {
    matches!(answer, Err(Rejection::Unverified(_)))
}

#[tokio::test]
async fn direct_message_is_read() {
    let (fake, chat, _) = running().await;
    let read = message(&chat, &fake.message("m1", "users/1", "hi\u{202e}")).await;
    assert_eq!((read.id.as_str(), read.text.as_str()), ("spaces/AAAAMpdlehY/messages/m1", "hi\u{202e}"));
    assert_eq!((read.sender.id.as_str(), read.sender.name.as_str()), ("users/1", "Anna"));
    assert_eq!((read.chat.is_group, read.chat.thread, read.is_addressed), (false, None, true));
    assert_eq!((read.sent_at, read.reply_to.channel.as_str()), (Some(NOW), "spaces/AAAAMpdlehY"));
}

#[tokio::test]
async fn space_message_is_read_without_mention_in_its_thread() {
    let (fake, chat, _) = running().await;
    let read = message(&chat, &fake.mention("m1", "users/1", "hi")).await;
    let thread = Some("spaces/AAAAMpdlehY/threads/m1".to_owned());
    assert_eq!((read.text.as_str(), read.chat.is_group, read.is_addressed), ("hi", true, true));
    assert_eq!((&read.chat.thread, &read.reply_to.thread), (&thread, &thread));
    let mut legacy = fake.message_event("m2", "users/1", "hi");
    legacy["space"] = json!({"name": "spaces/A", "type": "ROOM"});
    legacy["message"]["attachment"] = json!([{"contentName": "a.pdf", "contentType": "application/pdf"}]);
    let read = message(&chat, &fake.event(&legacy)).await;
    assert!(read.chat.is_group && read.attachments[0].name == "a.pdf", "{read:?}");
}

#[tokio::test]
async fn events_without_user_message_are_ignored() {
    let (fake, chat, _) = running().await;
    for (pointer, value) in [
        ("/type", json!("REMOVED_FROM_SPACE")),
        ("/type", json!("APP_HOME")),
        ("/message/sender/type", json!("BOT")),
        ("/message/sender", json!(null)),
        ("/message/name", json!(7)),
        ("/space/name", json!("spaces/../x")),
    ] {
        let mut event = fake.message_event("m1", "users/1", "hi");
        *event.pointer_mut(pointer).unwrap() = value;
        assert_eq!(received(&chat, &fake.event(&event)).await, [], "{pointer}");
    }
}

#[tokio::test]
async fn only_google_tokens_for_the_audience_are_accepted() {
    let (fake, chat, clock) = running().await;
    let by_address = adapter(fake.config_for_address(), &clock);
    let event = fake.message_event("m1", "users/1", "hi");
    assert!(by_address.receive(&fake.event_for_address(&event), NOW).await.is_ok());
    assert!(is_unverified(&by_address.receive(&fake.event(&event), NOW).await));
    assert!(is_unverified(&chat.receive(&fake.event_for_address(&event), NOW).await));
    let (of_project, of_address) = (fake.claims(), fake.claims_for_address());
    let end = of_project["exp"].as_i64().unwrap();
    for (adapter, claims, claim, value) in [
        (&chat, &of_project, "iss", json!("https://accounts.google.com")),
        (&chat, &of_project, "aud", json!("1234567891")),
        (&chat, &of_project, "aud", json!(1_234_567_890)),
        (&chat, &of_project, "exp", json!(end - 3600 - 301)),
        (&chat, &of_project, "exp", json!(null)),
        (&by_address, &of_address, "iss", json!("https://accounts.evil.example")),
        (&by_address, &of_address, "aud", json!("https://agent.example/hooks/other")),
        (&by_address, &of_address, "email", json!("somebody@project.iam.gserviceaccount.com")),
        (&by_address, &of_address, "email_verified", json!("true")),
        (&by_address, &of_address, "email_verified", json!(null)),
    ] {
        let mut claims = claims.clone();
        claims[claim] = value;
        let answer = adapter.receive(&fake.event_with_claims(&event, &claims), NOW).await;
        assert!(is_unverified(&answer), "{claim}: {answer:?}");
    }
    let garbled = WebhookRequest { body: "{".into(), ..fake.event(&event) };
    assert!(matches!(chat.receive(&garbled, NOW).await, Err(Rejection::Malformed(_))));
    let unsigned = WebhookRequest { headers: http::HeaderMap::new(), ..fake.event(&event) };
    assert!(is_unverified(&chat.receive(&unsigned, NOW).await));
    let without = adapter(GoogleChatConfig { audience: None, ..fake.config() }, &clock);
    assert_eq!(without.receive(&fake.event(&event), NOW).await, Err(Rejection::NotSetUp));
}

#[tokio::test]
async fn changed_certificates_are_fetched() {
    let (fake, chat, _) = running().await;
    assert!(chat.receive(&fake.message("m1", "users/1", "hi"), NOW).await.is_ok());
    fake.rotate_key();
    let request = fake.message("m1", "users/1", "hi");
    assert!(is_unverified(&chat.receive(&request, NOW + MINUTE).await));
    assert!(chat.receive(&request, NOW + MINUTE * 5).await.is_ok());
    assert_eq!(fake.key_fetches(), 2);
}

#[tokio::test]
async fn button_press_is_read_and_message_settled() {
    let (fake, chat, _) = running().await;
    let read = message(&chat, &fake.mention("m1", "users/1", "hi")).await;
    let approval = Outgoing { buttons: buttons(), ..Outgoing::text("Go?") };
    let sent = chat.send(&read.reply_to, &approval).await.unwrap();
    let request = fake.press("users/1", "approve:1", &sent.id);
    let incoming = received(&chat, &request).await;
    assert_eq!(incoming, received(&chat, &request).await, "the same id, however often it is sent");
    let [Incoming::Decision(Decision { data, message_id, message, .. })] = incoming.as_slice() else {
        panic!("{incoming:?}")
    };
    assert_eq!((data.as_str(), message_id), ("approve:1", &sent.id));
    chat.show_typing(&read.reply_to).await.unwrap();
    chat.settle(message, "Approved.").await.unwrap();
    let recorded = fake.requests();
    assert_eq!(recorded[0].body["thread"], json!({"name": "spaces/AAAAMpdlehY/threads/m1"}));
    assert_eq!((recorded[1].method.as_str(), recorded[1].path.as_str()), ("PATCH", &*format!("v1/{}", sent.id)));
    assert_eq!(recorded[1].body, json!({"text": "Approved.", "cardsV2": []}));
    assert_eq!((recorded.len(), fake.tokens_given()), (2, 1));
}

#[tokio::test]
async fn button_of_another_program_is_read_as_message() {
    let (fake, chat, _) = running().await;
    for (data, expected) in [("not ours", "not ours"), ("", "[Button: decide, {\"decision\":\"\"}]")] {
        let request = fake.press("users/1", data, "spaces/AAAAMpdlehY/messages/x");
        let incoming = received(&chat, &request).await;
        let [Incoming::Decision(decision)] = incoming.as_slice() else { panic!("{incoming:?}") };
        assert_eq!(decision.clone().into_message().text, expected);
    }
}

#[tokio::test]
async fn workspace_add_on_works_like_an_app() {
    let (fake, chat, _) = running().await;
    let event = fake.message_event("m1", "users/1", "hi");
    let read = message(&chat, &fake.add_on_event(&event, ADDRESS)).await;
    let as_app = message(&chat, &fake.event(&event)).await;
    assert_eq!(read, IncomingMessage { reply_to: read.reply_to.clone(), ..as_app });
    let approval = Outgoing { buttons: buttons(), ..Outgoing::text("Go?") };
    let sent = chat.send(&read.reply_to, &approval).await.unwrap();
    let action = "/cardsV2/0/card/sections/0/widgets/0/buttonList/buttons/0/onClick/action/function";
    assert_eq!(fake.sent()[0].pointer(action), Some(&json!(ADDRESS)));
    let press: Value = serde_json::from_slice(&fake.press("users/1", "approve:1", &sent.id).body).unwrap();
    let incoming = received(&chat, &fake.add_on_event(&press, ADDRESS)).await;
    let [Incoming::Decision(decision)] = incoming.as_slice() else { panic!("{incoming:?}") };
    assert_eq!((decision.data.as_str(), decision.sender.id.as_str()), ("approve:1", "users/1"));
    chat.settle(&decision.message, "Approved.").await.unwrap();
}

#[tokio::test]
async fn add_on_of_another_project_is_rejected() {
    let (fake, chat, clock) = running().await;
    let event = fake.message_event("m1", "users/1", "hi");
    let mut by_number = fake.claims_of_add_on("1234567890");
    by_number["aud"] = json!("1234567890");
    assert!(chat.receive(&fake.event_with_claims(&event, &by_number), NOW).await.is_ok());
    for (project, claim, value) in [
        ("1234567891", "iat", json!(0)),
        ("1234567890", "aud", json!("https://agent.example/hooks/other")),
        ("1234567890", "email_verified", json!(false)),
        ("1234567890", "iss", json!("chat@evil.example")),
        ("", "iat", json!(0)),
    ] {
        let mut claims = fake.claims_of_add_on(project);
        claims[claim] = value;
        let answer = chat.receive(&fake.event_with_claims(&event, &claims), NOW).await;
        assert!(is_unverified(&answer), "{project} {claim}: {answer:?}");
    }
    let by_address = adapter(fake.config_for_address(), &clock);
    let answer = by_address.receive(&fake.add_on_event(&event, ADDRESS), NOW).await;
    assert!(matches!(answer, Err(Rejection::Unverified(sentence)) if sentence.contains("the project number")));
}

#[tokio::test]
async fn token_is_reused_until_shortly_before_expiry() {
    let (fake, chat, clock) = running().await;
    let (to, hi) = (chat.address("spaces/A").unwrap(), Outgoing::text("hi"));
    chat.send(&to, &hi).await.unwrap();
    clock.advance(MINUTE * 54);
    chat.send(&to, &hi).await.unwrap();
    assert_eq!(fake.tokens_given(), 1);
    clock.advance(MINUTE);
    chat.send(&to, &hi).await.unwrap();
    assert_eq!(fake.tokens_given(), 2);
    fake.revoke_tokens();
    chat.send(&to, &hi).await.unwrap();
    assert_eq!(fake.tokens_given(), 3, "one that is refused is replaced once");
    fake.misbehave(Behaviour::CredentialsRefused);
    fake.misbehave(Behaviour::CredentialsRefused);
    assert!(matches!(chat.send(&to, &hi).await, Err(SendError::Credentials(_))));
}

#[tokio::test]
async fn errors_are_distinguished_by_kind() {
    let (fake, chat, _) = running().await;
    let to = chat.address("spaces/A").unwrap();
    let retry_after = Duration::from_secs(7);
    let error = async |behaviour| {
        fake.misbehave(behaviour);
        chat.send(&to, &Outgoing::text("hi")).await.unwrap_err()
    };
    let limited = error(Behaviour::RateLimited(retry_after)).await;
    assert!(matches!(limited, SendError::RateLimited { wait, .. } if wait == Some(retry_after)), "{limited:?}");
    assert!(matches!(error(Behaviour::ServerError).await, SendError::Later(_)));
    assert!(matches!(error(Behaviour::Blocked).await, SendError::Blocked(_)));
    assert!(matches!(error(Behaviour::Gone).await, SendError::Gone(_)));
    for text in ["x".repeat(32_000), "<users/all>".to_owned()] {
        let refused = chat.send(&to, &Outgoing::text(text)).await;
        assert!(matches!(refused, Err(SendError::Refused(_))), "{refused:?}");
    }
    let unknown = Address { details: json!({"message": "spaces/A/messages/x"}), ..to.clone() };
    assert!(matches!(chat.settle(&unknown, "Approved.").await, Err(SendError::Gone(_))));
    assert!(matches!(chat.settle(&to, "Approved.").await, Err(SendError::Refused(_))));
}

#[tokio::test]
async fn service_account_problems_are_reported() {
    let (fake, chat, clock) = running().await;
    assert_eq!(chat.check().await.unwrap().id, "agent@fake-project.iam.gserviceaccount.com");
    let with = |account: Option<String>| {
        adapter(GoogleChatConfig { service_account: account.map(Secret::new), ..fake.config() }, &clock)
    };
    let changed = |field: &str, value: Value| {
        let mut account = fake.service_account();
        account[field] = value;
        Some(account.to_string())
    };
    for (account, problem) in [
        (None, "set channels.google_chat.service_account"),
        (Some("{".to_owned()), "not JSON"),
        (Some("[]".to_owned()), "service_account"),
        (changed("type", json!("authorized_user")), "service_account"),
        (changed("client_email", json!(null)), "client_email"),
        (changed("private_key", json!(null)), "private_key"),
        (changed("private_key", json!("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----")), "PKCS #8"),
        (changed("token_uri", json!("http://127.0.0.1/")), "token_uri"),
    ] {
        let chat = with(account);
        for error in [chat.check().await.unwrap_err(), {
            let to = Address::of_channel("spaces/A");
            chat.send(&to, &Outgoing::text("hi")).await.unwrap_err()
        }] {
            let is_right = matches!(&error, SendError::NotSetUp(sentence)
                if sentence.contains(problem) && sentence.contains("google_chat.service_account"));
            assert!(is_right && !error.to_string().contains("BEGIN"), "{problem}: {error:?}");
        }
    }
    let error = with(changed("client_email", json!("another@x"))).check().await.unwrap_err();
    assert!(matches!(&error, SendError::Credentials(sentence) if sentence.contains("(invalid_grant)")), "{error:?}");
    assert!(!format!("{chat:?}").contains("BEGIN"));
}

#[tokio::test]
async fn channel_must_be_a_space() {
    let (_fake, chat, clock) = running().await;
    assert_eq!(chat.address("spaces/AAAA-_1").unwrap().channel, "spaces/AAAA-_1");
    for other in ["", "AAAA", "spaces/", "spaces/..", "spaces/a/threads/b", "spaces/a b", "users/1"] {
        assert!(chat.address(other).is_err(), "{other}");
    }
    for audience in ["1234567890", "https://agent.example/x"] {
        let audience = Some(audience.to_owned());
        let _ = adapter(GoogleChatConfig { audience, ..GoogleChatConfig::default() }, &clock);
    }
}

#[tokio::test]
async fn markdown_is_rendered_without_mentions() {
    let (_fake, chat, _) = running().await;
    assert_eq!(
        chat.render("# A **b**\n\n**a** *b* ~~c~~ `d` [e](https://e) https://f\n\n- g\n\n> h\n> i"),
        ["*A b*\n\n*a* _b_ ~c~ `d` <https://e|e> https://f\n\n- g\n\n> h\n> i"]
    );
    for text in [
        "<users/all>",
        "\\<users/all>",
        "<us&#101;rs/all>",
        "`<users/all>`",
        "```\n<users/all>\n```",
        "[<users/all>](https://e)",
        "[a](<users/all>)",
        "<users/all|x>",
    ] {
        let parts = chat.render(text);
        assert!(parts.iter().all(|part| !part.contains("<users/")), "{text}: {parts:?}");
    }
    assert_eq!(chat.render("[a|b](https://e) [c](javascript:d)"), ["a|b (https://e) c (javascript:d)"]);
}

proptest! {
    #[test]
    fn every_part_is_within_the_limit_and_well_formed(
        text in "(\\PC|[\\n*_`>#~|<&-]|<users/all>){0,400}", times in 1_usize..12
    ) {
        for part in adapter(GoogleChatConfig::default(), &MockClock::new(NOW)).render(&text.repeat(times)) {
            prop_assert!(part.len() <= MAX_TEXT);
            prop_assert_eq!(check_markup(&part), Ok(()), "{}", part);
        }
    }
}
