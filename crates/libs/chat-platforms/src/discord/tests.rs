use agentd_base::MockClock;
use agentd_net::Trust;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::details::Details;
use super::*;
use crate::api::ApiAnswer;
use crate::test_support::{NOW, any_json, client, secret, with};

const CHANNEL: &str = "1300000000000000002";
const ID: &str = "1510000000000000001";

fn unset() -> Discord {
    Discord::new(DiscordConfig::default(), client(Trust::Owner), MockClock::new(NOW).clock())
}

fn request(body: &str, time: &str, signature: &str) -> WebhookRequest {
    let mut headers = http::HeaderMap::new();
    headers.insert("x-signature-timestamp", time.parse().unwrap());
    headers.insert("x-signature-ed25519", signature.parse().unwrap());
    WebhookRequest { method: http::Method::POST, query: String::new(), headers, body: body.to_owned().into() }
}

/// Public key of the seed 0, 1, … 31.
const VECTOR_KEY: &str = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";

#[test]
fn errors_never_contain_the_interaction_token() {
    let body = json!({"code": 50_035, "message": "no /webhooks/1/t0ken"});
    let answer = ApiAnswer { status: http::StatusCode::BAD_REQUEST, headers: http::HeaderMap::new(), body };
    let error = api::refusal(&answer, &secret("t0ken"));
    assert_eq!(error.to_string(), "Discord returned 400 with code 50035");
    assert!(api::refusal(&answer, &secret("another")).to_string().ends_with(": no /webhooks/1/t0ken"));
}

#[test]
fn ids_of_sent_messages_are_snowflakes() {
    let to = Address::of_channel(CHANNEL);
    let sent = |answer: Value| send::sent_as(&to, &answer, Details::default());
    for id in [json!("1".repeat(900_000)), json!("1\0"), json!(""), json!("../x"), json!(1), json!(null)] {
        assert!(matches!(sent(json!({"id": id, "channel_id": "5"})), Err(SendError::Refused(_))));
    }
    for (channel, expected) in [("5", "5"), ("1\0", CHANNEL), ("../x", CHANNEL)] {
        assert_eq!(sent(json!({"id": "7", "channel_id": channel})).unwrap().message.channel, expected);
    }
}

#[test]
fn gateway_messages_are_read() {
    let app = unset();
    let message_with = |more: Value| {
        let data = json!({
            "id": ID, "channel_id": CHANNEL, "guild_id": "5", "type": 0,
            "timestamp": "2026-11-25T09:46:40.000000+00:00",
            "author": {"id": "77", "username": "ada"}, "content": "<@!9> hi <@8> <@x>", "attachments": [],
            "mentions": [{"id": "9", "username": "bot"}, {"id": "8", "global_name": "Bob"}],
        });
        app.read_gateway_message(&with(data, &more), "9")
    };
    let message = message_with(json!({})).unwrap();
    assert_eq!((message.text.as_str(), message.sender.name.as_str()), ("hi @Bob <@x>", "ada"));
    assert!(message.is_addressed && message.chat.is_group);
    assert_eq!(message.sent_at, Timestamp::parse("2026-11-25T09:46:40Z").ok());
    assert_eq!(message.reply_to.details, json!({"reply_to_message_id": ID}));
    let answered = json!({"author": {"id": "9"}});
    assert!(message_with(json!({"mentions": [], "type": 19, "referenced_message": answered})).unwrap().is_addressed);
    assert!(!message_with(json!({"mentions": []})).unwrap().is_addressed);
    let direct = message_with(json!({"mentions": [], "guild_id": null})).unwrap();
    assert!(direct.is_addressed && direct.reply_to.details.is_null());
    let file = json!([{"filename": "a.txt", "content_type": "text/plain", "size": 3}]);
    assert_eq!(message_with(json!({"content": "", "attachments": file})).unwrap().attachments[0].name, "a.txt");
    for nothing in [
        json!({"author": {"id": "77", "bot": true}}),
        json!({"author": {"id": "9"}}),
        json!({"webhook_id": "4"}),
        json!({"type": 7}),
        json!({"channel_id": "../x"}),
    ] {
        assert_eq!(message_with(nothing.clone()), None, "{nothing}");
    }
}

#[tokio::test]
async fn files_of_other_hosts_are_refused() {
    let app = unset();
    let data = json!({
        "id": "1", "channel_id": "2", "author": {"id": "7"}, "content": "",
        "attachments": [{"filename": "a.txt", "url": "https://evil.example/a.txt"}],
    });
    let message = app.read_gateway_message(&data, "9").unwrap();
    let refused = app.open_file(message.attachments[0].source.as_ref().unwrap()).await.unwrap_err();
    assert!(refused.to_string().contains("evil.example, which is not a host of Discord"), "{refused}");
}

#[test]
fn channels_are_snowflakes_and_ids_contain_the_time() {
    let app = unset();
    assert_eq!(app.address(CHANNEL), Ok(Address::of_channel(CHANNEL)));
    for wrong in ["", "-1", "general", "1/2", "123456789012345678901"] {
        assert!(app.address(wrong).is_err(), "{wrong}");
    }
    // Example from Discord's documentation.
    assert_eq!(read::time_of("175928847299117063"), Timestamp::parse("2016-04-30T11:18:25.796Z").ok());
}

#[test]
fn markdown_is_rendered_for_discord() {
    let render = |text: &str| write::render(text).join("\n---\n");
    assert_eq!(render("# A **b**\n\n#### c\n\n*d* ~~e~~ `f`"), "# A **b**\n\n### c\n\n*d* ~~e~~ `f`");
    assert_eq!(render("a_b\\*c \\# \\[x\\](y) https://x.y/a_b*c_"), "a\\_b\\*c # \\[x\\](y) <https://x.y/a_b*c_>");
    assert_eq!(render("> a\n> > b"), "> a\n> \n> b");
    assert_eq!(render("````x<y\na ``` b\n````"), "```x\na `\u{200b}`` b\n```");
    assert_eq!(
        render("[https://good.example](https://bad.example) <https://x.y/>"),
        "https://good.example <https://bad.example/> <https://x.y/>"
    );
    assert_eq!(
        render("[![alt](https://i.j)](https://l.m) [x](javascript:y)"),
        "[alt](<https://i.j/>) <https://l.m/> x (javascript:y)"
    );
}

proptest! {
    #[test]
    fn reading_never_panics(interaction in any_json(&[
        "type", "data", "name", "options", "value", "id", "token", "application_id", "channel_id", "channel", "user",
        "member", "nick", "custom_id", "component_type", "message", "guild_id", "context", "author", "content",
        "mentions", "attachments", "size", "timestamp", "referenced_message", "interaction_token", "expires_at",
        "ask", "new", "<@9> <@!8>", "<@", "2026-11-25T09:46:40Z",
    ]), kind in 0_u64..7) {
        let app = unset();
        app.read(&interaction, NOW);
        app.read(&json!({"type": kind, "data": interaction, "id": "1", "token": "t", "channel_id": "1",
            "user": {"id": "1"}, "message": {"id": "1"}}), Timestamp::from_micros(i64::MAX));
        let _ = app.read_gateway_message(&interaction, "9");
        let _ = app.read_gateway_message(&json!({"id": "1", "channel_id": "1", "author": {"id": "1"},
            "content": "<@9> x", "mentions": interaction}), "9");
        Details::of(&Address { details: interaction, ..Address::of_channel("1") });
    }

    #[test]
    fn every_part_is_within_the_limit(text in "(\\PC|[\\n*_`>#|<&\\[\\]()!-]|https://x\\.y){0,800}") {
        for part in write::render(&text) {
            prop_assert!((1..=2000).contains(&part.encode_utf16().count()));
        }
    }

    #[test]
    fn unsigned_requests_are_rejected(signature in "[0-9a-f]{120,130}", body in "\\PC{0,40}") {
        let key = verify::parse_key(VECTOR_KEY);
        prop_assert!(verify::verify(key.as_ref(), &request(&body, "1795600000", &signature), NOW).is_err());
    }
}
