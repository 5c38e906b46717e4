//! WhatsApp webhooks and API, against the fake.

use std::time::Duration;

use agentd_chat_platforms::whatsapp::{Whatsapp, WhatsappConfig};
use agentd_chat_platforms::{
    Address, ChatPlatform, Decision, Incoming, IncomingMessage, Outgoing, Rejection, SendError, WebhookAnswer,
    WebhookRequest,
};
use agentd_net::Trust;
use agentd_testing_chat_platforms::whatsapp::{Behaviour, FakeWhatsapp, check_markup};
use bytes::Bytes;
use http::HeaderMap;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{NOW, buttons, client, secret};

/// Maximum length of a rendered part, in characters.
const MAX_TEXT: usize = 4096;

/// Input, key and signature created with the Python package cryptography 50.0.2 (HMAC-SHA-256).
const SIGNED: (&str, &str, &str) = (
    "{\"object\":\"whatsapp_business_account\",\"entry\":[]} \u{e4}\u{200b}",
    "0123456789abcdef0123456789abcdef",
    "sha256=d2f6f2952d40dd00f209b42ea0e217bc78f577dec5e3448dd87fea6be4269cae",
);

fn adapter(config: WhatsappConfig) -> Whatsapp {
    Whatsapp::new(config, client(Trust::Owner))
}

async fn running() -> (FakeWhatsapp, Whatsapp) {
    let fake = FakeWhatsapp::start().await.unwrap();
    let whatsapp = adapter(fake.config());
    (fake, whatsapp)
}

async fn received(whatsapp: &Whatsapp, request: &WebhookRequest) -> Vec<Incoming> {
    let received = whatsapp.receive(request, NOW).await.unwrap();
    assert_eq!(received.answer.status, http::StatusCode::OK);
    received.incoming
}

fn message(incoming: &Incoming) -> &IncomingMessage {
    match incoming {
        Incoming::Message(message) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn handshake_requires_the_verify_token() {
    let (fake, whatsapp) = running().await;
    let request = fake.handshake("1158201444");
    let answer = whatsapp.receive(&request, NOW).await.unwrap();
    assert_eq!((answer.answer, answer.incoming), (WebhookAnswer::text("1158201444".to_owned()), Vec::new()));
    for query in ["", "hub.mode=subscribe", "hub.mode=subscribe&hub.challenge=1&hub.verify_token=fake-verify-toke"] {
        let request = WebhookRequest { query: query.to_owned(), ..request.clone() };
        assert!(matches!(whatsapp.receive(&request, NOW).await, Err(Rejection::Unverified(_))), "{query}");
    }
    let twice = WebhookRequest { query: format!("{0}&{0}", request.query), ..request.clone() };
    assert!(matches!(whatsapp.receive(&twice, NOW).await, Err(Rejection::Unverified(_))));
    let without = adapter(WhatsappConfig { verify_token: None, ..fake.config() });
    assert_eq!(without.receive(&request, NOW).await, Err(Rejection::NotSetUp));
}

#[tokio::test]
async fn request_requires_a_valid_signature() {
    let (fake, whatsapp) = running().await;
    let request = fake.message("wamid.1", "491701234567", "hi");
    assert_eq!(received(&whatsapp, &request).await.len(), 1);
    let changed = WebhookRequest { body: Bytes::from(request.body.to_vec().repeat(2)), ..request.clone() };
    assert!(matches!(whatsapp.receive(&changed, NOW).await, Err(Rejection::Unverified(_))));
    for signature in ["", "sha256=", "sha1=00", "sha256=zz", "sha256=00"] {
        let mut request = request.clone();
        request.headers.insert("x-hub-signature-256", signature.parse().unwrap());
        assert!(matches!(whatsapp.receive(&request, NOW).await, Err(Rejection::Unverified(_))), "{signature}");
    }
    let unsigned = WebhookRequest { headers: HeaderMap::new(), ..request.clone() };
    assert!(matches!(whatsapp.receive(&unsigned, NOW).await, Err(Rejection::Unverified(_))));
    for config in [
        WhatsappConfig { app_secret: None, ..fake.config() },
        WhatsappConfig { phone_number_id: None, ..fake.config() },
    ] {
        assert_eq!(adapter(config).receive(&request, NOW).await, Err(Rejection::NotSetUp));
    }
}

#[tokio::test]
async fn signatures_of_another_library_are_accepted() {
    let (fake, _) = running().await;
    let (body, key, signature) = SIGNED;
    let whatsapp = adapter(WhatsappConfig { app_secret: Some(secret(key)), ..fake.config() });
    let mut request = WebhookRequest { body: body.into(), ..fake.event(&json!({})) };
    request.headers.insert("x-hub-signature-256", signature.parse().unwrap());
    assert!(matches!(whatsapp.receive(&request, NOW).await, Err(Rejection::Malformed(_))), "verified, and no JSON");
}

#[tokio::test]
async fn text_message_is_read() {
    let (fake, whatsapp) = running().await;
    let incoming = received(&whatsapp, &fake.message("wamid.1", "491701234567", "hi\0\u{202e}")).await;
    let read = message(&incoming[0]);
    assert_eq!((read.id.as_str(), read.text.as_str(), read.is_addressed), ("wamid.1", "hi\u{202e}", true));
    assert_eq!((read.sender.id.as_str(), read.sender.name.as_str()), ("491701234567", "Anna"));
    assert_eq!((read.chat.id.as_str(), read.chat.is_group), ("491701234567", false));
    assert_eq!(read.sent_at, Some(NOW));
    assert_eq!(read.reply_to.thread.as_deref(), Some("wamid.1"));
}

#[tokio::test]
async fn messages_in_one_request_keep_their_order() {
    let (fake, whatsapp) = running().await;
    let message_of =
        |id: &str, kind: &str, content: Value| json!({"from": "4917", "id": id, "type": kind, kind: content});
    let incoming = received(
        &whatsapp,
        &fake.messages(&[
            message_of("1", "document", json!({"caption": "see", "filename": "a.pdf", "mime_type": "application/pdf"})),
            message_of("2", "image", json!({"mime_type": "image/jpeg", "id": "7"})),
            message_of("3", "location", json!({"latitude": 52.5, "longitude": 13.4, "name": "Office"})),
            message_of("4", "contacts", json!([{"name": {"formatted_name": "Bo"}, "phones": [{"phone": "+49 1"}]}])),
            message_of("5", "reaction", json!({"message_id": "1", "emoji": "x"})),
            message_of("6", "system", json!({"body": "changed"})),
            message_of("7", "unsupported", json!({})),
            message_of("8", "order", json!({"text": "x"})),
            message_of("9", "interactive", json!({"type": "list_reply", "list_reply": {"id": "x", "title": "Two"}})),
            message_of("10", "button", json!({"text": "Stop"})),
        ]),
    )
    .await;
    let texts: Vec<(&str, &str)> =
        incoming.iter().map(|incoming| (message(incoming).id.as_str(), message(incoming).text.as_str())).collect();
    let expected = [
        ("1", "see"),
        ("2", ""),
        ("3", "[Location: Office, 52.5, 13.4]"),
        ("4", "[Contact: Bo, +49 1]"),
        ("7", ""),
        ("8", "[Order]\nx"),
        ("9", "Two"),
        ("10", "Stop"),
    ];
    assert_eq!(texts, expected);
    assert_eq!(message(&incoming[4]).unreadable, Some("messages of this kind"));
    let attachment = &message(&incoming[0]).attachments[0];
    assert_eq!((attachment.name.as_str(), attachment.media_type.as_deref()), ("a.pdf", Some("application/pdf")));
}

#[tokio::test]
async fn messages_to_other_numbers_are_ignored() {
    let (fake, whatsapp) = running().await;
    let valid: Value = serde_json::from_slice(&fake.message("1", "4917", "hi").body).unwrap();
    let changed = |pointer: &str, value: Value| {
        let mut event = valid.clone();
        *event.pointer_mut(pointer).unwrap() = value;
        fake.event(&event)
    };
    let value = "/entry/0/changes/0/value";
    for request in [
        changed("/object", json!("page")),
        changed("/entry/0/changes/0/field", json!("smb_message_echoes")),
        changed(&format!("{value}/metadata/phone_number_id"), json!("7")),
        changed(
            &format!("{value}/messages/0"),
            json!({"from": "4917", "id": "1", "type": "text", "group_id": "g",
            "text": {"body": "hi"}}),
        ),
        changed(value, json!({"metadata": {"phone_number_id": "106540352242922"}, "statuses": [{"status": "read"}]})),
    ] {
        assert_eq!(received(&whatsapp, &request).await, Vec::new(), "{request:?}");
    }
}

#[tokio::test]
async fn button_press_is_a_decision() {
    let (fake, whatsapp) = running().await;
    let incoming = received(&whatsapp, &fake.press("wamid.2", "491701234567", "approve:1", "wamid.sent1")).await;
    let [Incoming::Decision(Decision { data, message_id, message, reply_to, .. })] = incoming.as_slice() else {
        panic!("{incoming:?}")
    };
    assert_eq!((data.as_str(), message_id.as_str()), ("approve:1", "wamid.sent1"));
    assert_eq!(message.thread.as_deref(), Some("wamid.sent1"));
    whatsapp.settle(message, "Approved.").await.unwrap();
    whatsapp.show_typing(reply_to).await.unwrap();
    let requests = fake.requests();
    assert_eq!(requests[0].body["text"]["body"], "Approved.");
    assert_eq!(requests[1].body["message_id"], "wamid.2");
}

#[tokio::test]
async fn buttons_of_long_messages_are_sent_separately() {
    let (fake, whatsapp) = running().await;
    let to = whatsapp.address("+491701234567").unwrap();
    let sent = whatsapp.send(&to, &Outgoing::text("hi")).await.unwrap();
    assert_eq!(sent.id, "wamid.sent1");
    whatsapp.send(&sent.message, &Outgoing { buttons: buttons(), ..Outgoing::text("Go?") }).await.unwrap();
    assert!(whatsapp.fits_with_buttons(&"x".repeat(1024)) && !whatsapp.fits_with_buttons(&"x".repeat(1025)));
    let too_long = Outgoing { buttons: buttons(), ..Outgoing::text("x".repeat(1025)) };
    assert!(matches!(whatsapp.send(&to, &too_long).await, Err(SendError::Refused(_))), "nothing is cut or split");
    whatsapp.show_typing(&to).await.unwrap();
    let sent = fake.sent();
    assert_eq!((sent.len(), fake.requests().len()), (3, 3), "no sign of typing without a message: {sent:?}");
    assert_eq!(sent[1]["context"]["message_id"], "wamid.sent1");
    assert_eq!(sent[1]["interactive"]["action"]["buttons"][1]["reply"]["id"], "deny:1");
    let account = whatsapp.check().await.unwrap();
    assert_eq!((account.id.as_str(), account.name.as_str()), ("106540352242922", "Fake +1 555-078-3881"));
}

#[tokio::test]
async fn errors_are_distinguished_by_kind() {
    let (fake, whatsapp) = running().await;
    let to = Address::of_channel("491701234567");
    for behaviour in [
        Behaviour::RateLimited(Duration::from_secs(7)),
        Behaviour::ServerError,
        Behaviour::Blocked,
        Behaviour::Gone,
        Behaviour::WindowClosed,
        Behaviour::CredentialsRefused,
    ] {
        fake.misbehave(behaviour);
        let error = whatsapp.send(&to, &Outgoing::text("hi")).await.unwrap_err();
        let is_right = match behaviour {
            Behaviour::RateLimited(asked) => {
                matches!(error, SendError::RateLimited { wait, .. } if wait == Some(asked))
            }
            Behaviour::ServerError => matches!(error, SendError::Later(_)),
            Behaviour::Blocked => matches!(error, SendError::Blocked(_)),
            Behaviour::WindowClosed => matches!(error, SendError::WindowClosed(_)),
            _ => matches!(error, SendError::Credentials(_)),
        };
        assert!(is_right, "{behaviour:?}: {error:?}");
        assert!(!error.to_string().contains("EAA"), "{error}");
    }
    let error = whatsapp.send(&to, &Outgoing::text("x".repeat(4097))).await.unwrap_err();
    assert!(matches!(error, SendError::Refused(_)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn unresponsive_server_times_out() {
    let (fake, whatsapp) = running().await;
    fake.misbehave(Behaviour::Hang);
    let error = whatsapp.send(&Address::of_channel("491701234567"), &Outgoing::text("hi")).await.unwrap_err();
    assert!(matches!(error, SendError::Later(_)), "{error:?}");
}

#[tokio::test]
async fn missing_configuration_is_reported() {
    let (fake, _) = running().await;
    for (config, setting) in [
        (WhatsappConfig { access_token: None, ..fake.config() }, "whatsapp.access_token"),
        (WhatsappConfig { phone_number_id: None, ..fake.config() }, "whatsapp.phone_number_id"),
    ] {
        let error = adapter(config).check().await.unwrap_err();
        assert!(matches!(&error, SendError::NotSetUp(sentence) if sentence.contains(setting)), "{error:?}");
    }
    assert!(!format!("{:?}", adapter(fake.config())).contains("EAA"));
}

#[tokio::test]
async fn channel_must_be_a_number() {
    let (_fake, whatsapp) = running().await;
    assert_eq!(whatsapp.address("+491701234567").unwrap().channel, "491701234567");
    for other in ["", "+", "1234", "4917/../x", "+49 170 1234567", "1234567890123456"] {
        assert!(whatsapp.address(other).is_err(), "{other}");
    }
}

#[tokio::test]
async fn markdown_is_rendered_in_the_markup() {
    let (_fake, whatsapp) = running().await;
    assert_eq!(
        whatsapp.render("# A **b**\n\n**a** *b* ~~c~~ `d` [e](https://e)\n\n- f\n\n> g\n> h"),
        ["*A b*\n\n*a* _b_ ~c~ `d` e (https://e)\n\n- f\n\n> g\n> h"]
    );
}

proptest! {
    // The repetition keeps it a separate alternative; otherwise proptest merges the classes and generates little
    // markup.
    #[test]
    fn every_part_is_within_the_limit_and_well_formed(
        text in "(\\PC|[\\n*_`>#~|-]{1,3}){0,600}", times in 1_usize..20
    ) {
        for part in adapter(WhatsappConfig::default()).render(&text.repeat(times)) {
            prop_assert!(part.chars().count() <= MAX_TEXT && !part.trim().is_empty());
            prop_assert_eq!(check_markup(&part), Ok(()), "{}", part);
        }
    }
}
