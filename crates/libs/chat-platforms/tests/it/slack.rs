//! Slack webhooks and Web API, against the fake.

use std::time::Duration;

use agentd_chat_platforms::slack::{Slack, SlackConfig};
use agentd_chat_platforms::{
    Address, ChatPlatform, Decision, Incoming, IncomingMessage, Outgoing, Received, Rejection, SendError,
    WebhookAnswer, WebhookRequest,
};
use agentd_net::Trust;
use agentd_testing_chat_platforms::slack::{BOT_USER, Behaviour, FakeSlack, check_mrkdwn};
use http::HeaderValue;
use proptest::prelude::*;
use serde_json::{Value, json};
use url::Url;

use crate::support::{NOW, buttons, client, secret as as_secret, with};

const TOKEN: &str = "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcBrzbqgy";
const APP_TOKEN: &str = "xapp-1-A1-1-f00";
const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

fn app(base: Option<Url>, token: Option<&str>, secret: Option<&str>) -> Slack {
    let config = SlackConfig {
        api_base_url: base,
        bot_token: token.map(as_secret),
        signing_secret: secret.map(as_secret),
        app_token: None,
    };
    Slack::new(config, client(Trust::Owner))
}

async fn pair() -> (FakeSlack, Slack) {
    let fake = FakeSlack::start(TOKEN, APP_TOKEN, SECRET).await.unwrap();
    let app = app(Some(fake.base_url()), Some(TOKEN), Some(SECRET));
    (fake, app)
}

async fn incoming(app: &Slack, request: &WebhookRequest) -> Option<IncomingMessage> {
    match app.receive(request, NOW).await.unwrap().incoming.pop()? {
        Incoming::Message(message) => Some(message),
        other => panic!("{other:?}"),
    }
}

fn request(content_type: &'static str, body: &str, time: &str, signature: &str) -> WebhookRequest {
    let mut headers = http::HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static(content_type));
    headers.insert("x-slack-request-timestamp", time.parse().unwrap());
    headers.insert("x-slack-signature", signature.parse().unwrap());
    WebhookRequest { method: http::Method::POST, query: String::new(), headers, body: body.to_owned().into() }
}

/// Signatures created with `SignatureVerifier.generate_signature` of slack_sdk 3.48.0 (PyPI), under [`SECRET`] at
/// 1795600000.
const VECTORS: [(&str, &str, &str); 2] = [
    (
        "application/json",
        r#"{"token":"x","type":"event_callback","event_id":"Ev1","event":{"type":"message","channel":"D1","user":"U1","text":"hé &amp; <b>","ts":"1795600000.000100"}}"#,
        "v0=1aeb2192dfd14a988add5360aa8d31929b6ee6cc2aaf4129a9ab7f3039a93db7",
    ),
    (
        "application/x-www-form-urlencoded",
        "payload=%7B%22type%22%3A%22block_actions%22%7D",
        "v0=a1f04b3ac58b7c3a1303de1894a319c183fd8ed4e3582ecfea6abea558048fd1",
    ),
];

#[tokio::test]
async fn signatures_of_slacks_own_library_are_accepted() {
    let app = app(None, None, Some(SECRET));
    let late = |seconds: u64| NOW + Duration::from_secs(seconds);
    for (kind, body, signature) in VECTORS {
        let right = request(kind, body, "1795600000", signature);
        assert!(app.receive(&right, NOW).await.is_ok());
        assert!(app.receive(&right, late(300)).await.is_ok());
        assert!(app.receive(&right, NOW - Duration::from_secs(300)).await.is_ok());
        for (time, body, signature, now) in [
            ("1795600000", body, signature, late(301)),
            ("1795600000", body, signature, NOW - Duration::from_secs(301)),
            ("1795600001", body, signature, NOW),
            ("soon", body, signature, NOW),
            ("99999999999999999", body, signature, NOW),
            ("1795600000", &format!("{body} "), signature, NOW),
            ("1795600000", body, &signature.replace("v0=", "v1="), NOW),
            ("1795600000", body, &signature[..signature.len() - 2], NOW),
            ("1795600000", body, "v0=", NOW),
            ("1795600000", body, "", NOW),
        ] {
            let refused = app.receive(&request(kind, body, time, signature), now).await;
            assert!(matches!(refused, Err(Rejection::Unverified(_))), "{time} {signature} {refused:?}");
        }
        let mut unsigned = right.clone();
        unsigned.headers.remove("x-slack-signature");
        assert!(matches!(app.receive(&unsigned, NOW).await, Err(Rejection::Unverified(_))));
        let other = self::app(None, None, Some("another"));
        assert!(matches!(other.receive(&right, NOW).await, Err(Rejection::Unverified(_))));
        for none in [None, Some("")] {
            let unset = self::app(None, None, none);
            assert_eq!(unset.receive(&right, NOW).await, Err(Rejection::NotSetUp));
        }
    }
}

#[tokio::test]
async fn only_a_signed_challenge_is_answered() {
    let (fake, app) = pair().await;
    let mut request = fake.request(&json!({"type": "url_verification", "challenge": "3eZbrw1aBm2rZgRNFdxV"}), NOW);
    let received = app.receive(&request, NOW).await.unwrap();
    assert_eq!(received, Received::nothing(WebhookAnswer::text("3eZbrw1aBm2rZgRNFdxV".to_owned())));
    request.headers.remove("x-slack-signature");
    assert!(app.receive(&request, NOW).await.is_err());
}

#[tokio::test]
async fn direct_and_channel_messages_are_read() {
    let (fake, app) = pair().await;
    let direct = incoming(&app, &fake.message("1795600000.000100", "U7", "hi &lt;you&gt;\u{200f}", NOW)).await.unwrap();
    assert_eq!((direct.id.as_str(), direct.text.as_str()), ("D0DIRECT:1795600000.000100", "hi <you>\u{200f}"));
    assert!(direct.is_addressed && !direct.chat.is_group);
    assert_eq!(direct.reply_to, Address::of_channel("D0DIRECT"));
    assert_eq!(direct.sent_at, Some(NOW + Duration::from_micros(100)));

    let text = format!("<@{BOT_USER}> what of <https://x.y|this>?");
    let message = incoming(&app, &fake.channel_message("1.000002", "U7", &text, None, NOW)).await.unwrap();
    let mention = incoming(&app, &fake.mention("1.000002", "U7", &text, NOW)).await.unwrap();
    assert_eq!(message, mention, "both events are one message");
    assert!(message.is_addressed && message.chat.is_group);
    assert_eq!(message.text, "what of this (https://x.y)?");
    assert_eq!(message.reply_to.thread.as_deref(), Some("1.000002"));

    let threaded = fake.channel_message("1.000009", "U7", "and you?", Some("1.000002"), NOW);
    let threaded = incoming(&app, &threaded).await.unwrap();
    assert!(!threaded.is_addressed);
    assert_eq!(threaded.chat, message.chat, "the thread goes on");
    let answer = json!({"type": "message", "channel": "C0CHANNEL", "channel_type": "channel", "user": "U7",
        "text": "yes", "ts": "1.000010", "thread_ts": "1.000001", "parent_user_id": BOT_USER});
    assert!(incoming(&app, &fake.event(&answer, NOW)).await.unwrap().is_addressed);
}

#[tokio::test]
async fn bot_messages_edits_and_other_events_are_ignored() {
    let (fake, app) = pair().await;
    let event = |more: Value| {
        let event = json!({
            "type": "message", "channel": "D1", "channel_type": "im", "user": "U7", "text": "x", "ts": "1.000001",
        });
        with(event, &more)
    };
    for nothing in [
        json!({"bot_id": "B1"}),
        json!({"user": BOT_USER}),
        json!({"user": "USLACKBOT"}),
        json!({"user": null}),
        json!({"subtype": "message_changed"}),
        json!({"subtype": "bot_message"}),
        json!({"subtype": "channel_join"}),
        json!({"type": "reaction_added"}),
    ] {
        assert_eq!(incoming(&app, &fake.event(&event(nothing.clone()), NOW)).await, None, "{nothing}");
    }
    let file =
        json!({"subtype": "file_share", "text": "", "files": [{"name": "a.png", "mimetype": "image/png", "size": 4}]});
    let message = incoming(&app, &fake.event(&event(file), NOW)).await.unwrap();
    assert_eq!((message.attachments[0].name.as_str(), message.attachments[0].bytes), ("a.png", Some(4)));
    assert!(incoming(&app, &fake.event(&event(json!({"subtype": "thread_broadcast"})), NOW)).await.is_some());
    for other in [json!({"type": "app_rate_limited"}), json!([]), json!(null)] {
        assert_eq!(app.receive(&fake.request(&other, NOW), NOW).await.unwrap().incoming, []);
    }
}

#[tokio::test]
async fn messages_are_sent_and_button_presses_read() {
    let (fake, app) = pair().await;
    let to = Address { thread: Some("1.000002".into()), ..app.address("C0CHANNEL").unwrap() };
    let text = app.render("**May I?** <@U1> & [a|b](https://x.y/?a|b)").pop().unwrap();
    let sent = app.send(&to, &Outgoing { buttons: buttons(), ..Outgoing::text(text) }).await.unwrap();
    let body = fake.sent().pop().unwrap();
    assert_eq!(body["text"], "*May I?* &lt;@U1&gt; &amp; <https://x.y/?a%7Cb|a¦b>");
    assert_eq!((&body["thread_ts"], &body["unfurl_links"]), (&json!("1.000002"), &json!(false)));
    assert_eq!(body["blocks"][0]["text"]["text"], body["text"]);
    assert_eq!(body["blocks"][1]["elements"][1]["style"], "danger");
    let press = fake.press("1795600000.000001", "U7", "C0CHANNEL", "deny:1", NOW);
    let pressed = app.receive(&press, NOW).await.unwrap().incoming;
    let [Incoming::Decision(Decision { id, data, message_id, message, sender, .. })] = pressed.as_slice() else {
        panic!("{pressed:?}")
    };
    assert_eq!(id, "C0CHANNEL:1795600000.000001:1795600000.000001:U7");
    assert_eq!((data.as_str(), message_id, sender.name.as_str()), ("deny:1", &sent.id, "ada"));
    assert_eq!(message.details, sent.message.details);
    let of_others = fake.press("1795600000.000001", "U7", "C0CHANNEL", "not ours", NOW);
    let of_others = app.receive(&of_others, NOW).await.unwrap().incoming;
    assert!(matches!(&of_others[..], [Incoming::Decision(decision)] if decision.data == "not ours"));
    app.settle(message, "Denied").await.unwrap();
    assert_eq!(fake.requests().pop().unwrap().body["blocks"], json!([]));
    let gone = Address { details: json!({"ts": "9.000000"}), ..to.clone() };
    assert!(matches!(app.settle(&gone, "x").await, Err(SendError::Gone(_))));
    let person = app.send(&app.address("U77").unwrap(), &Outgoing::text("hi")).await.unwrap();
    assert_eq!(person.message.channel, "D77");
    app.show_typing(&to).await.unwrap();
}

#[tokio::test]
async fn slack_errors_are_distinguished() {
    let (fake, app) = pair().await;
    let to = app.address("C1").unwrap();
    let hello = Outgoing::text("hello");
    fake.misbehave(Behaviour::RateLimited(Duration::from_secs(9)));
    let limited = app.send(&to, &hello).await;
    assert!(matches!(limited, Err(SendError::RateLimited { wait, .. }) if wait == Some(Duration::from_secs(9))));
    fake.misbehave(Behaviour::ServerError);
    assert!(matches!(app.send(&to, &hello).await, Err(SendError::Later(_))));
    fake.misbehave(Behaviour::Blocked);
    assert!(matches!(app.send(&to, &hello).await, Err(SendError::Blocked(_))));
    fake.misbehave(Behaviour::Gone);
    assert!(matches!(app.send(&to, &hello).await, Err(SendError::Gone(_))));
    fake.misbehave(Behaviour::CredentialsRefused);
    assert!(matches!(app.send(&to, &hello).await, Err(SendError::Credentials(_))));
    assert!(matches!(app.send(&to, &Outgoing::text("<open")).await, Err(SendError::Refused(_))));
    assert!(matches!(app.send(&to, &Outgoing::text("")).await, Err(SendError::Refused(_))));
    for (token, is_right) in [
        (Some("xoxb-wrong"), (|error| matches!(error, SendError::Credentials(_))) as fn(&SendError) -> bool),
        (Some("xoxb\nwrong"), |error| matches!(error, SendError::Credentials(_))),
        (None, |error| matches!(error, SendError::NotSetUp(_))),
    ] {
        let app = self::app(Some(fake.base_url()), token, None);
        let error = app.send(&to, &hello).await.unwrap_err();
        assert!(is_right(&error) && !format!("{error} {error:?} {app:?}").contains("wrong"), "{error:?}");
    }
}

#[test]
fn channel_must_be_an_id() {
    let app = app(None, None, None);
    for right in ["C0123456789", "D1", "G1", "U1", "W1"] {
        assert_eq!(app.address(right), Ok(Address::of_channel(right)));
    }
    for wrong in ["", "C", "#general", "c012", "X012", "C0 1"] {
        assert!(app.address(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn every_part_is_well_formed_and_within_the_limit(text in "(\\PC|[\\n*_`>#|<&\\[\\]()!-]|https://x\\.y){0,300}") {
        for part in app(None, None, None).render(&text) {
            prop_assert!(part.chars().count() <= 3000);
            prop_assert_eq!(check_mrkdwn(&part), Ok(()), "{}", part);
        }
    }
}
