//! Teams webhooks and API, against the fake.

use std::time::Duration;

use agentd_base::MockClock;
use agentd_chat_platforms::teams::{Teams, TeamsConfig};
use agentd_chat_platforms::{
    Address, ChatPlatform, Decision, Incoming, IncomingMessage, Outgoing, Received, Rejection, SendError,
    WebhookAnswer, WebhookRequest,
};
use agentd_net::Trust;
use agentd_testing_chat_platforms::keys::{platform_key, service_account_key};
use agentd_testing_chat_platforms::teams::{Behaviour, FakeTeams, check_markdown};
use futures_util::FutureExt;
use proptest::prelude::*;
use serde_json::json;
use url::Url;

use crate::support::{NOW, buttons, client, secret};

/// Maximum length of a rendered part, in bytes.
const MAX_TEXT: usize = 20_000;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const MINUTE: Duration = Duration::from_secs(60);

fn adapter(config: TeamsConfig, clock: &MockClock) -> Teams {
    Teams::new(config, client(Trust::Owner), client(Trust::Untrusted), clock.clock())
}

async fn running() -> (FakeTeams, Teams, MockClock) {
    let clock = MockClock::new(NOW);
    let fake = FakeTeams::start(clock.clock()).await.unwrap();
    let teams = adapter(fake.config(), &clock);
    (fake, teams, clock)
}

async fn received(teams: &Teams, request: &WebhookRequest) -> Vec<Incoming> {
    let received = teams.receive(request, NOW).await.unwrap();
    assert_eq!(received.answer, WebhookAnswer::empty());
    received.incoming
}

async fn message(teams: &Teams, request: &WebhookRequest) -> IncomingMessage {
    match received(teams, request).await.as_slice() {
        [Incoming::Message(message)] => message.clone(),
        other => panic!("{other:?}"),
    }
}

fn is_unverified(answer: &Result<Received, Rejection>) -> bool {
    matches!(answer, Err(Rejection::Unverified(_)))
}

#[tokio::test]
async fn direct_message_is_read() {
    let (fake, teams, _) = running().await;
    let read = message(&teams, &fake.message("m1", "29:anna", "hi\u{202e}")).await;
    assert_eq!((read.id.as_str(), read.text.as_str(), read.is_addressed), ("m1", "hi\u{202e}", true));
    assert_eq!((read.sender.id.as_str(), read.sender.name.as_str()), ("29:anna", "Anna"));
    assert_eq!((read.chat.id.as_str(), read.chat.is_group, read.sent_at), ("a:1", false, Some(NOW)));
    assert_eq!(read.reply_to.details, json!({"service_url": "https://smba.trafficmanager.net/emea/"}));
}

#[tokio::test]
async fn channel_message_is_read_without_the_mention() {
    let (fake, teams, _) = running().await;
    let read = message(&teams, &fake.mention("m1", "29:anna", "hi")).await;
    assert_eq!((read.text.as_str(), read.is_addressed, read.chat.is_group), ("hi", true, true));
    assert_eq!((read.chat.id.as_str(), read.chat.thread.as_deref()), ("19:channel@thread.tacv2", Some("1")));
    assert_eq!(read.reply_to.channel, "19:channel@thread.tacv2;messageid=1");
    let mut of_others = fake.activity("m2", "29:anna", "ask <at>Bo</at>");
    of_others["conversation"]["conversationType"] = json!("groupChat");
    of_others["entities"] = json!([{"type": "mention", "text": "<at>Bo</at>", "mentioned": {"id": "29:bo"}}]);
    let read = message(&teams, &fake.event(&of_others)).await;
    assert_eq!((read.text.as_str(), read.is_addressed), ("ask Bo", false));
}

#[tokio::test]
async fn files_are_read_and_duplicate_html_is_ignored() {
    let (fake, teams, _) = running().await;
    let mut activity = fake.activity("m1", "29:anna", "");
    activity["attachments"] = json!([
        {"contentType": "text/html", "content": "<p></p>"},
        {"contentType": "application/vnd.microsoft.teams.file.download.info", "name": "a.pdf", "content": {}},
        {"contentType": "image/png", "contentUrl": "https://x"},
        {"contentType": "messageReference"},
    ]);
    let read = message(&teams, &fake.event(&activity)).await;
    let named: Vec<_> = read.attachments.iter().map(|a| (a.name.as_str(), a.media_type.as_deref())).collect();
    assert_eq!(named, [("a.pdf", None), ("", Some("image/png"))]);
}

#[tokio::test]
async fn activities_without_user_message_in_the_tenant_are_ignored() {
    let (fake, teams, _) = running().await;
    for (pointer, value) in [
        ("/type", json!("conversationUpdate")),
        ("/type", json!("invoke")),
        ("/from/role", json!("bot")),
        ("/from/id", json!("28:5f0a5a39-9a3c-4a7e-9a0b-2f5f1d6c0001")),
        ("/channelData/tenant/id", json!("another")),
        ("/channelData", json!(null)),
        ("/id", json!(null)),
    ] {
        let mut activity = fake.activity("m1", "29:anna", "hi");
        activity["from"]["role"] = json!("user");
        *activity.pointer_mut(pointer).unwrap() = value;
        assert_eq!(received(&teams, &fake.event(&activity)).await, [], "{pointer}");
    }
}

#[tokio::test]
async fn only_bot_framework_tokens_are_accepted() {
    let (fake, teams, _) = running().await;
    let activity = fake.activity("m1", "29:anna", "hi");
    let claims = fake.claims(&activity["serviceUrl"]);
    let end = claims["exp"].as_i64().unwrap();
    for (claim, value) in [
        ("iss", json!("https://sts.windows.net/x/")),
        ("aud", json!("another")),
        ("aud", json!(["5f0a5a39-9a3c-4a7e-9a0b-2f5f1d6c0001"])),
        ("serviceurl", json!("https://evil.example/")),
        ("serviceurl", json!(null)),
        ("exp", json!(null)),
        ("exp", json!(end - 3600 - 301)),
        ("nbf", json!(end - 3600 + 301)),
        ("nbf", json!("soon")),
    ] {
        let mut claims = claims.clone();
        claims[claim] = value;
        let answer = teams.receive(&fake.event_with_claims(&activity, &claims), NOW).await;
        assert!(is_unverified(&answer), "{claim}: {answer:?}");
    }
    let key = platform_key(0);
    let head = |alg: &str, id: &str| json!({"alg": alg, "kid": id});
    let critical = json!({"alg": "RS256", "kid": key.id, "crit": ["b64"], "b64": "x"});
    for header in
        [head("none", &key.id), head("HS256", &key.id), head("RS256", "unknown"), json!({"alg": "RS256"}), critical]
    {
        let token = key.sign_with_header(&header, &claims);
        assert!(is_unverified(&teams.receive(&fake.event_with_token(&activity, &token), NOW).await), "{header}");
    }
    let other = service_account_key().sign_with_header(&head("RS256", &key.id), &claims);
    for token in [other.as_str(), "", "a.b.c", "x"] {
        assert!(is_unverified(&teams.receive(&fake.event_with_token(&activity, token), NOW).await), "{token}");
    }
    assert_eq!(fake.key_fetches(), 1, "unknown keys make no more requests");
}

#[tokio::test]
async fn token_must_match_the_activity() {
    let (fake, teams, _) = running().await;
    for (field, value) in [
        ("serviceUrl", json!("http://smba.trafficmanager.net/emea/")),
        ("serviceUrl", json!(null)),
        ("channelId", json!("webchat")),
        ("channelId", json!(null)),
    ] {
        let mut activity = fake.activity("m1", "29:anna", "hi");
        activity[field] = value;
        assert!(is_unverified(&teams.receive(&fake.event(&activity), NOW).await), "{activity}");
    }
    let garbled = WebhookRequest { body: "{".into(), ..fake.message("m1", "29:anna", "hi") };
    assert!(matches!(teams.receive(&garbled, NOW).await, Err(Rejection::Malformed(_))));
    let got = WebhookRequest { method: http::Method::GET, ..fake.message("m1", "29:anna", "hi") };
    assert!(is_unverified(&teams.receive(&got, NOW).await));
}

#[tokio::test]
async fn keys_are_cached_for_a_day_and_changed_keys_are_fetched() {
    let (fake, teams, clock) = running().await;
    let receive = async |after: Duration| {
        clock.set(NOW + after);
        let request = fake.message("m1", "29:anna", "hi");
        teams.receive(&request, NOW + after).await
    };
    assert!(receive(Duration::ZERO).await.is_ok());
    assert!(receive(DAY - MINUTE).await.is_ok());
    assert_eq!(fake.key_fetches(), 1);
    assert!(receive(DAY).await.is_ok());
    assert_eq!(fake.key_fetches(), 2);
    fake.rotate_key();
    assert!(is_unverified(&receive(DAY + MINUTE).await), "at most once in five minutes");
    assert!(receive(DAY + MINUTE * 5).await.is_ok());
    assert_eq!(fake.key_fetches(), 3);
    fake.set_keys_available(false);
    assert!(receive(DAY * 2 + MINUTE * 6).await.is_ok(), "older keys hold while there are no others");
    assert!(matches!(receive(DAY * 4).await, Err(Rejection::Unavailable(_))));
}

#[tokio::test]
async fn disconnected_client_does_not_cancel_the_key_fetch() {
    let (fake, teams, _) = running().await;
    let request = fake.message("m1", "29:anna", "hi");
    assert!(teams.receive(&request, NOW).now_or_never().is_none(), "it is dropped while it waits");
    assert!(teams.receive(&request, NOW).await.is_ok(), "the fetch did not end with the request");
    assert_eq!(fake.key_fetches(), 1);
}

#[tokio::test]
async fn past_clock_error_does_not_block_key_fetches() {
    let (fake, teams, clock) = running().await;
    clock.set(NOW + DAY * 365);
    assert!(teams.receive(&fake.message("m1", "29:anna", "hi"), NOW + DAY * 365).await.is_ok());
    clock.set(NOW);
    fake.rotate_key();
    assert!(teams.receive(&fake.message("m2", "29:anna", "hi"), NOW).await.is_ok());
    let earlier = NOW - MINUTE;
    let unknown = service_account_key().sign(&fake.claims(&json!("https://x/")));
    assert!(is_unverified(&teams.receive(&fake.event_with_token(&json!({}), &unknown), earlier).await));
    assert_eq!(fake.key_fetches(), 2, "requests that come a little out of order fetch nothing");
}

#[tokio::test]
async fn keys_on_another_server_use_the_untrusted_client() {
    let (fake, ..) = running().await;
    let request = fake.message("m1", "29:anna", "hi");
    for (address, problem) in
        [("https://127.0.0.1:1/keys", "127.0.0.1 is"), ("http://other.example/", "no valid `jwks_uri`")]
    {
        fake.set_key_set_url(Url::parse(address).unwrap());
        let teams = adapter(fake.config(), &MockClock::new(NOW));
        let refused = teams.receive(&request, NOW).await;
        assert!(matches!(&refused, Err(Rejection::Unavailable(sentence)) if sentence.contains(problem)), "{refused:?}");
    }
}

#[tokio::test]
async fn missing_keys_make_verification_unavailable() {
    let (fake, teams, _) = running().await;
    fake.set_keys_available(false);
    let request = fake.message("m1", "29:anna", "hi");
    assert!(matches!(teams.receive(&request, NOW).await, Err(Rejection::Unavailable(_))));
    fake.set_keys_available(true);
    let seconds = Duration::from_secs;
    assert!(matches!(teams.receive(&request, NOW + seconds(9)).await, Err(Rejection::Unavailable(_))));
    assert!(teams.receive(&request, NOW + seconds(10)).await.is_ok());
}

#[tokio::test]
async fn button_press_is_read_and_message_settled() {
    let (fake, teams, _) = running().await;
    let read = message(&teams, &fake.message("m1", "29:anna", "hi")).await;
    teams.show_typing(&read.reply_to).await.unwrap();
    let approval = Outgoing { buttons: buttons(), ..Outgoing::text("Go?") };
    let sent = teams.send(&read.reply_to, &approval).await.unwrap();
    let incoming = received(&teams, &fake.press("m2", "29:anna", "approve:1", &sent.id)).await;
    let [Incoming::Decision(Decision { data, message_id, message, .. })] = incoming.as_slice() else {
        panic!("{incoming:?}")
    };
    assert_eq!((data.as_str(), message_id, message), ("approve:1", &sent.id, &sent.message));
    teams.settle(message, "Approved.").await.unwrap();
    let recorded = fake.requests();
    assert_eq!(recorded[1].path, "v3/conversations/a:1/activities/m1");
    let action = &recorded[1].body["attachments"][0]["content"]["actions"][1];
    assert_eq!((&action["data"], &action["style"]), (&json!({"decision": "deny:1"}), &json!("destructive")));
    assert_eq!((recorded[2].method.as_str(), &recorded[2].body["text"]), ("PUT", &json!("Approved.")));
    assert_eq!(fake.tokens_given(), 1);
}

#[tokio::test]
async fn token_is_reused_until_shortly_before_expiry() {
    let (fake, teams, clock) = running().await;
    let (to, hi) = (teams.address("a:1").unwrap(), Outgoing::text("hi"));
    teams.send(&to, &hi).await.unwrap();
    clock.advance(MINUTE * 54);
    teams.send(&to, &hi).await.unwrap();
    assert_eq!(fake.tokens_given(), 1);
    clock.advance(MINUTE);
    teams.send(&to, &hi).await.unwrap();
    assert_eq!(fake.tokens_given(), 2);
    fake.revoke_tokens();
    teams.send(&to, &hi).await.unwrap();
    assert_eq!(fake.tokens_given(), 3, "one that is refused is replaced once");
    fake.misbehave(Behaviour::CredentialsRefused);
    fake.misbehave(Behaviour::CredentialsRefused);
    assert!(matches!(teams.send(&to, &hi).await, Err(SendError::Credentials(_))));
}

#[tokio::test]
async fn errors_are_distinguished_by_kind() {
    let (fake, teams, _) = running().await;
    let to = teams.address("a:1").unwrap();
    let retry_after = Duration::from_secs(7);
    let error = async |behaviour| {
        fake.misbehave(behaviour);
        teams.send(&to, &Outgoing::text("hi")).await.unwrap_err()
    };
    let limited = error(Behaviour::RateLimited(retry_after)).await;
    assert!(matches!(limited, SendError::RateLimited { wait, .. } if wait == Some(retry_after)), "{limited:?}");
    assert!(matches!(error(Behaviour::ServerError).await, SendError::Later(_)));
    assert!(matches!(error(Behaviour::Blocked).await, SendError::Blocked(_)));
    assert!(matches!(error(Behaviour::Gone).await, SendError::Gone(_)));
    let long = teams.send(&to, &Outgoing::text("x".repeat(40 * 1024))).await;
    assert!(matches!(long, Err(SendError::Refused(_))), "{long:?}");
    let unknown = teams.send(&Address::of_channel("x"), &Outgoing::text("hi")).await;
    assert!(matches!(unknown, Err(SendError::Gone(_))), "{unknown:?}");
    let nameless = teams.settle(&to, "Approved.").await;
    assert!(matches!(nameless, Err(SendError::Refused(_))), "{nameless:?}");
}

#[tokio::test]
async fn private_service_url_is_refused() {
    let (fake, _, clock) = running().await;
    let teams = adapter(TeamsConfig { api_base_url: None, ..fake.config() }, &clock);
    for (address, begin) in [("https://127.0.0.1/", "127.0.0.1 is"), ("http://example.com/", "the service URL")] {
        let to = Address { details: json!({"service_url": address}), ..Address::of_channel("a:1") };
        let error = teams.send(&to, &Outgoing::text("hi")).await.unwrap_err();
        assert!(error.to_string().starts_with(begin), "{error:?}");
    }
}

#[tokio::test]
async fn configuration_errors_are_reported() {
    let (fake, teams, clock) = running().await;
    assert_eq!(teams.check().await.unwrap().id, "5f0a5a39-9a3c-4a7e-9a0b-2f5f1d6c0001");
    for (config, setting) in [
        (TeamsConfig { app_id: None, ..fake.config() }, "teams.app_id"),
        (TeamsConfig { app_password: None, ..fake.config() }, "teams.app_password"),
    ] {
        let error = adapter(config, &clock).check().await.unwrap_err();
        assert!(matches!(&error, SendError::NotSetUp(sentence) if sentence.contains(setting)), "{error:?}");
    }
    let without = adapter(TeamsConfig { app_id: None, ..fake.config() }, &clock);
    assert_eq!(without.receive(&fake.message("m", "29:a", "hi"), NOW).await, Err(Rejection::NotSetUp));
    let wrong = TeamsConfig { app_password: Some(secret("s3cret")), ..fake.config() };
    let error = adapter(wrong, &clock).check().await.unwrap_err();
    assert!(matches!(error, SendError::Credentials(_)) && error.to_string().contains("(invalid_client)"), "{error:?}");
    assert!(!error.to_string().contains("fake-app-password") && !error.to_string().contains("s3cret"), "{error}");
    assert!(!format!("{teams:?}").contains("fake-app-password"));
    let _ = adapter(TeamsConfig::default(), &clock);
}

#[tokio::test]
async fn channel_must_be_a_conversation() {
    let (_fake, teams, _) = running().await;
    assert!(teams.address("19:abc@thread.tacv2;messageid=1").is_ok());
    for other in ["", "..", "a/b", "a b", "a?b", "ä"] {
        assert!(teams.address(other).is_err(), "{other}");
    }
}

#[tokio::test]
async fn markdown_is_kept_and_html_escaped() {
    let (_fake, teams, _) = running().await;
    assert_eq!(
        teams.render("# A\n\n**a** *b* ~~c~~ `d<` [e](https://e/(x)) a_b \\*c\\* <b>\n\n- f\n\n> g"),
        ["**A**\n\n**a** *b* ~~c~~ `d<` [e](https://e/(x)) a_b \\*c\\* &lt;b&gt;\n\n- f\n\n> g"]
    );
    assert_eq!(teams.render("[x](javascript:alert)"), ["x (javascript:alert)"]);
}

proptest! {
    // The repetition keeps it a separate alternative; otherwise proptest merges the classes and generates little
    // markup.
    #[test]
    fn every_part_is_within_the_limit_and_well_formed(
        text in "(\\PC|[\\n*_`>#~|<&-]{1,3}){0,600}", times in 1_usize..60
    ) {
        for part in adapter(TeamsConfig::default(), &MockClock::new(NOW)).render(&text.repeat(times)) {
            prop_assert!(part.len() <= MAX_TEXT && !part.trim().is_empty());
            prop_assert_eq!(check_markdown(&part), Ok(()), "{}", part);
        }
    }
}
