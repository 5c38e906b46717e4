//! Discord webhooks and REST API, against the fake.

use std::time::Duration;

use agentd_base::MockClock;
use agentd_chat_platforms::discord::{Discord, DiscordConfig};
use agentd_chat_platforms::{
    Address, ChatPlatform, Decision, Incoming, IncomingMessage, Outgoing, Received, Rejection, SendError,
    WebhookAnswer, WebhookRequest,
};
use agentd_net::Trust;
use agentd_testing_chat_platforms::api_description;
use agentd_testing_chat_platforms::discord::{APPLICATION_ID, Behaviour, FakeDiscord};
use serde_json::{Value, json};
use url::Url;

use crate::support::{NOW, buttons, client, secret};

const TOKEN: &str = "MTE5ODYyMjQ4MzQ3MTkyNTI0OA.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs";
const CHANNEL: &str = "1300000000000000002";
const ID: &str = "1510000000000000001";

fn app(base: Option<Url>, token: Option<&str>, key: Option<&str>, clock: &MockClock) -> Discord {
    let config = DiscordConfig {
        api_base_url: base,
        application_id: Some(APPLICATION_ID.to_owned()),
        public_key: key.map(str::to_owned),
        bot_token: token.map(secret),
    };
    Discord::new(config, client(Trust::Owner), clock.clock())
}

async fn pair() -> (FakeDiscord, Discord, MockClock) {
    let fake = FakeDiscord::start(TOKEN).await.unwrap();
    let clock = MockClock::new(NOW);
    let app = app(Some(fake.base_url()), Some(TOKEN), Some(&fake.public_key()), &clock);
    (fake, app, clock)
}

async fn received(app: &Discord, request: &WebhookRequest) -> (Value, Option<Incoming>) {
    let mut received = app.receive(request, NOW).await.unwrap();
    let answer = serde_json::from_slice(&received.answer.body).unwrap();
    api_description::DISCORD.check_event("InteractionResponse", &answer).unwrap();
    (answer, received.incoming.pop())
}

async fn message(app: &Discord, request: &WebhookRequest) -> IncomingMessage {
    match received(app, request).await {
        (answer, Some(Incoming::Message(message))) if answer == json!({"type": 5}) => message,
        other => panic!("{other:?}"),
    }
}

fn request(body: &str, time: &str, signature: &str) -> WebhookRequest {
    let mut headers = http::HeaderMap::new();
    headers.insert("x-signature-timestamp", time.parse().unwrap());
    headers.insert("x-signature-ed25519", signature.parse().unwrap());
    WebhookRequest { method: http::Method::POST, query: String::new(), headers, body: body.to_owned().into() }
}

/// Signatures created with `SigningKey.sign` of PyNaCl 1.6.2 (PyPI, libsodium), with the seed 0, 1, … 31 at 1795600000.
const VECTOR_KEY: &str = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";
const VECTORS: [(&str, &str); 2] = [
    (
        r#"{"type":1}"#,
        "9ca735d29f8c25cf34d039c44792ccb9e5465f3e17c0beef7edd83e382f01cf12305f19062c3cdeb73978be8b38fd3247080af268ef9cd72618aa711c4213505",
    ),
    (
        r#"{"type":1,"application_id":"1","name":"é"}"#,
        "9bd5c6792476929dc3c31a2379709208bd90be82248706e265f70268f5f015dc994a8dcb1e2466fc98ce6f1d11836e593e5ecd58fab32c9a5bca505b546ea30f",
    ),
];

#[tokio::test]
async fn signatures_of_another_library_are_accepted() {
    let app = app(None, None, Some(VECTOR_KEY), &MockClock::new(NOW));
    let late = |seconds: u64| NOW + Duration::from_secs(seconds);
    for (body, signature) in VECTORS {
        let right = request(body, "1795600000", signature);
        let pong = Received::nothing(WebhookAnswer::json(&json!({"type": 1})));
        assert_eq!(app.receive(&right, NOW).await, Ok(pong.clone()));
        assert_eq!(app.receive(&right, late(300)).await, Ok(pong));
        for (time, body, signature, now) in [
            ("1795600000", body, signature, late(301)),
            ("1795600000", body, signature, NOW - Duration::from_secs(301)),
            ("1795600001", body, signature, NOW),
            ("", body, signature, NOW),
            ("1795600000", &format!("{body} "), signature, NOW),
            ("1795600000", body, &signature.replacen('9', "8", 1), NOW),
            ("1795600000", body, &signature[2..], NOW),
            ("1795600000", body, "zz", NOW),
            ("1795600000", body, &"0".repeat(128), NOW),
        ] {
            let refused = app.receive(&request(body, time, signature), now).await;
            assert!(matches!(refused, Err(Rejection::Unverified(_))), "{time} {signature} {refused:?}");
        }
        for key in [None, Some(""), Some("no key"), Some(&VECTOR_KEY[2..])] {
            let unset = self::app(None, None, key, &MockClock::new(NOW));
            assert_eq!(unset.receive(&right, NOW).await, Err(Rejection::NotSetUp));
        }
    }
}

/// Neutral point, with which every signature passes a non-strict verification.
#[tokio::test]
async fn weak_keys_and_signatures_are_rejected() {
    let neutral = format!("01{}", "0".repeat(62));
    let app = app(None, None, Some(&neutral), &MockClock::new(NOW));
    let forged = format!("{neutral}{}", "0".repeat(64));
    let refused = app.receive(&request("{\"type\":1}", "1795600000", &forged), NOW).await;
    assert!(matches!(refused, Err(Rejection::Unverified(_))), "{refused:?}");
}

#[tokio::test]
async fn commands_are_read_as_messages() {
    let (fake, app, _) = pair().await;
    let asked = message(&app, &fake.message(ID, "77", "what \u{200b}is\0 it", NOW)).await;
    assert_eq!((asked.id.as_str(), asked.text.as_str()), (ID, "what \u{200b}is it"));
    assert_eq!((asked.sender.id.as_str(), asked.sender.name.as_str()), ("77", "Ada L."));
    assert!(asked.is_addressed && !asked.chat.is_group);
    assert_eq!(
        asked.reply_to.details,
        json!({"interaction_token": format!("token-of-{ID}"), "application_id": APPLICATION_ID,
            "expires_at": (NOW + Duration::from_secs(900)).to_string()})
    );
    assert_eq!(message(&app, &fake.command(ID, "77", "new", None, NOW)).await.text, "/new");
    assert_eq!(message(&app, &fake.command(ID, "77", "help", Some("me"), NOW)).await.text, "/help me");
    let mut body: Value = serde_json::from_slice(&fake.message(ID, "77", "x", NOW).body).unwrap();
    body["guild_id"] = json!("5");
    body["member"] = json!({"nick": "Countess", "user": body["user"].take()});
    body["data"]["options"] = json!([{"type": 1, "name": "sub", "options": [
        {"type": 4, "name": "n", "value": 3}, {"type": 5, "name": "b", "value": true}]}]);
    let message = message(&app, &fake.interaction(&body, NOW)).await;
    assert_eq!((message.text.as_str(), message.sender.name.as_str()), ("sub 3 true", "Countess"));
    assert!(message.chat.is_group);
}

#[tokio::test]
async fn other_interactions_are_answered_and_ignored() {
    let (fake, app, _) = pair().await;
    let of_command = |change: fn(&mut Value)| {
        let mut body: Value = serde_json::from_slice(&fake.message(ID, "77", "x", NOW).body).unwrap();
        change(&mut body);
        body
    };
    for (body, kind) in [
        (json!({"type": 1}), 1),
        (json!({"type": 4, "data": {}}), 8),
        (json!({"type": 5}), 4),
        (json!({"type": 99}), 4),
        (json!([]), 4),
        (of_command(|body| body["data"]["type"] = json!(3)), 4),
        (of_command(|body| body["user"]["bot"] = json!(true)), 4),
        (of_command(|body| body["token"] = json!("")), 4),
        (of_command(|body| body["application_id"] = json!("../x")), 4),
        (of_command(|body| body["application_id"] = json!("1")), 4),
        (of_command(|body| body["application_id"] = json!(1_100_000_000_000_000_001_u64)), 4),
        (of_command(|body| body["application_id"] = json!(null)), 4),
        (json!({"type": 3, "data": {"component_type": 5}}), 6),
    ] {
        let (answer, incoming) = received(&app, &fake.interaction(&body, NOW)).await;
        assert_eq!((&answer["type"], incoming), (&json!(kind), None), "{body}");
    }
}

#[tokio::test]
async fn interaction_is_used_until_it_expires() {
    let (fake, app, clock) = pair().await;
    let to = message(&app, &fake.message(ID, "77", "x", NOW)).await.reply_to;
    let hello = Outgoing::text("hello");
    let paths = || fake.requests().into_iter().map(|request| request.path).collect::<Vec<_>>();
    let follow_up = format!("webhooks/{APPLICATION_ID}/…");
    let sent = app.send(&to, &hello).await.unwrap();
    app.settle(&sent.message, "bye").await.unwrap();
    assert_eq!(paths(), [follow_up.clone(), format!("{follow_up}/messages/{}", sent.id)]);
    app.show_typing(&to).await.unwrap();
    assert_eq!(paths().len(), 2);

    fake.expire_interactions();
    app.send(&to, &hello).await.unwrap();
    assert_eq!(paths()[2..], [follow_up, "channels/1300000000000000001/messages".to_owned()]);
    clock.advance(Duration::from_secs(900));
    app.send(&to, &hello).await.unwrap();
    assert_eq!(paths().len(), 5, "the expired interaction is not used again");

    let without_bot = self::app(Some(fake.base_url()), None, Some(&fake.public_key()), &clock);
    assert!(
        matches!(without_bot.send(&to, &hello).await, Err(SendError::NotSetUp(sentence)) if sentence.contains("15"))
    );
    clock.set(NOW);
    let to = message(&app, &fake.message(ID, "77", "x", NOW)).await.reply_to;
    without_bot.send(&to, &hello).await.expect("an interaction needs no bot token");
}

#[tokio::test]
async fn messages_are_sent_and_button_presses_read() {
    let (fake, app, clock) = pair().await;
    let to = Address { details: json!({"reply_to_message_id": "5"}), ..app.address(CHANNEL).unwrap() };
    let text = app.render("**May I?** @everyone <@1> [it](https://x.y/a_b)").pop().unwrap();
    let sent = app.send(&to, &Outgoing { buttons: buttons(), ..Outgoing::text(text) }).await.unwrap();
    let body = fake.sent().pop().unwrap();
    assert_eq!(body["content"], "**May I?** @everyone \\<@1> [it](<https://x.y/a_b>)");
    assert_eq!(body["allowed_mentions"], json!({"parse": []}));
    assert_eq!(body["message_reference"], json!({"message_id": "5", "fail_if_not_exists": false}));
    assert_eq!((&body["components"][0]["components"][1]["style"], &body["flags"]), (&json!(4), &json!(4)));

    let (answer, pressed) = received(&app, &fake.press(ID, "77", CHANNEL, &sent.id, "deny:1", NOW)).await;
    let Some(Incoming::Decision(Decision { id, data, message_id, message, reply_to, .. })) = pressed else {
        panic!("{pressed:?}")
    };
    assert_eq!((answer, id.as_str(), data.as_str()), (json!({"type": 6}), ID, "deny:1"));
    assert_eq!(message_id, sent.id);
    app.settle(&message, "Denied").await.unwrap();
    let settled = fake.requests().pop().unwrap();
    assert!(settled.path.ends_with("/messages/@original") && settled.body["components"] == json!([]));
    app.send(&reply_to, &Outgoing::text("x")).await.unwrap();
    clock.advance(Duration::from_secs(900));
    app.settle(&message, "Denied").await.unwrap();
    assert_eq!(fake.requests().pop().unwrap().path, format!("channels/{CHANNEL}/messages/{}", sent.id));
    app.show_typing(&to).await.unwrap();
    let gone = Address { details: json!({"message_id": "1"}), ..to };
    assert!(matches!(app.settle(&gone, "x").await, Err(SendError::Gone(_))));
}

#[tokio::test]
async fn discord_errors_are_distinguished() {
    let (fake, app, clock) = pair().await;
    let to = app.address(CHANNEL).unwrap();
    let hello = Outgoing::text("hello");
    fake.misbehave(Behaviour::RateLimited(Duration::from_millis(1500)));
    let limited = app.send(&to, &hello).await;
    assert!(matches!(limited, Err(SendError::RateLimited { wait, .. }) if wait == Some(Duration::from_millis(1500))));
    fake.misbehave(Behaviour::ServerError);
    assert!(matches!(app.send(&to, &hello).await, Err(SendError::Later(_))));
    fake.misbehave(Behaviour::Blocked);
    assert!(matches!(app.send(&to, &hello).await, Err(SendError::Blocked(_))));
    fake.misbehave(Behaviour::Gone);
    assert!(matches!(app.send(&to, &hello).await, Err(SendError::Gone(_))));
    fake.misbehave(Behaviour::CredentialsRefused);
    assert!(matches!(app.send(&to, &hello).await, Err(SendError::Credentials(_))));
    for refused in [String::new(), "x".repeat(2001)] {
        assert!(matches!(app.send(&to, &Outgoing::text(refused)).await, Err(SendError::Refused(_))));
    }
    for (token, is_right) in [
        (Some("wrong"), (|error| matches!(error, SendError::Credentials(_))) as fn(&SendError) -> bool),
        (None, |error| matches!(error, SendError::NotSetUp(_))),
    ] {
        let app = self::app(Some(fake.base_url()), token, None, &clock);
        let error = app.send(&to, &hello).await.unwrap_err();
        assert!(is_right(&error) && !format!("{error} {error:?} {app:?}").contains("wrong"), "{error:?}");
    }
}

#[tokio::test]
async fn account_does_not_contain_the_token() {
    use axum::routing::get;

    let user = get(|| async { axum::Json(json!({"id": APPLICATION_ID, "username": format!("I am {TOKEN}")})) });
    let application = get(|| async {
        let split = TOKEN.replace('.', ".\n");
        axum::Json(json!({"interactions_endpoint_url": format!("https://x.example/{split}")}))
    });
    let router = axum::Router::new().route("/users/@me", user).route("/applications/@me", application);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = Url::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let account = app(Some(base), Some(TOKEN), None, &MockClock::new(NOW)).check().await.unwrap();
    assert_eq!((account.id.as_str(), account.name.as_str()), (APPLICATION_ID, "I am [hidden]"));
    assert_eq!(account.webhook_url.as_deref(), Some("[hidden]"));
}

#[tokio::test]
async fn account_is_fetched_and_commands_registered() {
    let (fake, app, clock) = pair().await;
    let account = app.check().await.unwrap();
    assert_eq!((account.id.as_str(), account.name.as_str()), (APPLICATION_ID, "fake-bot"));
    assert_eq!(account.webhook_url.as_deref(), Some("https://agent.example/discord"));
    let url = Url::parse("https://agent.example/discord").unwrap();
    assert_eq!(app.register(&url).await.unwrap(), "/ask, /new, /stop, /help");
    let put = fake.requests().pop().unwrap();
    assert_eq!(
        (put.path.as_str(), &put.body[0]["options"][0]["required"]),
        ("applications/1100000000000000001/commands", &json!(true))
    );
    let config = DiscordConfig { bot_token: Some(secret(TOKEN)), ..DiscordConfig::default() };
    let unnamed = Discord::new(config, client(Trust::Owner), clock.clock());
    assert!(matches!(unnamed.register(&url).await, Err(SendError::NotSetUp(_))));
}
