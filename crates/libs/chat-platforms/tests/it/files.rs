//! File downloads from every platform.

use agentd_base::Clock;
use agentd_chat_platforms::discord::{Discord, DiscordConfig};
use agentd_chat_platforms::google_chat::GoogleChat;
use agentd_chat_platforms::slack::{Slack, SlackConfig};
use agentd_chat_platforms::teams::Teams;
use agentd_chat_platforms::telegram::{Telegram, TelegramConfig};
use agentd_chat_platforms::whatsapp::{Whatsapp, WhatsappConfig};
use agentd_chat_platforms::{Attachment, ChatPlatform, Incoming, SendError, WebhookRequest};
use agentd_net::{GuardedClient, NetPolicy, PolicyHandle, Trust};
use agentd_testing_chat_platforms::FakeFile;
use agentd_testing_chat_platforms::discord::FakeDiscord;
use agentd_testing_chat_platforms::google_chat::FakeGoogleChat;
use agentd_testing_chat_platforms::slack::FakeSlack;
use agentd_testing_chat_platforms::teams::FakeTeams;
use agentd_testing_chat_platforms::telegram::FakeTelegram;
use agentd_testing_chat_platforms::whatsapp::FakeWhatsapp;
use bytes::Bytes;
use serde_json::json;
use url::Url;

use crate::support::{NOW, client, secret};

const TELEGRAM_TOKEN: &str = "12:telegram-token";

fn clock() -> Clock {
    agentd_base::MockClock::new(NOW).clock()
}

fn hello() -> FakeFile {
    FakeFile::Bytes(Bytes::from_static(b"hello"))
}

/// Returns the only file of the only message in a request.
async fn attachment(platform: &dyn ChatPlatform, request: &WebhookRequest) -> Attachment {
    match platform.receive(request, NOW).await.unwrap().incoming.pop() {
        Some(Incoming::Message(mut message)) => message.attachments.pop().unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Downloads the file of a message. Returns its length.
async fn fetch(platform: &dyn ChatPlatform, request: &WebhookRequest) -> Result<usize, SendError> {
    let source = attachment(platform, request).await.source.unwrap();
    let mut file = platform.open_file(&source).await?;
    let mut length = 0;
    while let Some(piece) = file.next().await? {
        length += piece.len();
    }
    Ok(length)
}

async fn telegram() -> (FakeTelegram, Telegram) {
    let fake = FakeTelegram::start(TELEGRAM_TOKEN, "hook-secret").await.unwrap();
    let config = TelegramConfig {
        api_base_url: Some(fake.base_url()),
        bot_token: Some(secret(TELEGRAM_TOKEN)),
        secret_token: Some(secret("hook-secret")),
    };
    (fake, Telegram::new(config, client(Trust::Owner)))
}

async fn slack(token: &str) -> (FakeSlack, Slack) {
    let fake = FakeSlack::start("xoxb-1", "xapp-1", "s").await.unwrap();
    let config = SlackConfig {
        api_base_url: Some(fake.base_url()),
        bot_token: Some(secret(token)),
        signing_secret: Some(secret("s")),
        app_token: None,
    };
    (fake, Slack::new(config, client(Trust::Owner)))
}

#[tokio::test]
async fn telegram_files_are_fetched_by_id() {
    let (fake, bot) = telegram().await;
    fake.put_file("f1", hello());
    let request = fake.document(1, 7, "See:", "f1", "a.pdf");
    assert_eq!(fetch(&bot, &request).await, Ok(5));
    let gone = fetch(&bot, &fake.document(2, 7, "See:", "f2", "a.pdf")).await.unwrap_err();
    assert!(gone.to_string().contains("invalid file_id"), "{gone}");
    fake.put_file("large", FakeFile::Bytes(vec![0; (20 << 20) + 1].into()));
    let large = fetch(&bot, &fake.document(3, 7, "", "large", "a.pdf")).await.unwrap_err();
    assert!(large.to_string().contains("too big"), "{large}");
    fake.put_file("moved", FakeFile::Redirect(Url::parse("http://127.0.0.1:1/x").unwrap()));
    let moved = fetch(&bot, &fake.document(4, 7, "", "moved", "a.pdf")).await.unwrap_err();
    assert!(moved.to_string().contains("127.0.0.1") && !moved.to_string().contains("token"), "{moved}");
}

#[tokio::test]
async fn slack_files_require_access() {
    let (fake, app) = slack("xoxb-1").await;
    fake.put_file("F1", hello());
    let ask = |url: &Url| fake.shared_file("1795600000.000100", "U1", url, "a.pdf", NOW);
    assert_eq!(fetch(&app, &ask(&fake.file_url("F1"))).await, Ok(5));
    assert!(matches!(fetch(&app, &ask(&fake.file_url("F2"))).await, Err(SendError::Gone(_))));
    for elsewhere in ["https://evil.example/f", "https://slack.com.evil.example/f", "http://files.slack.com/f"] {
        let refused = fetch(&app, &ask(&Url::parse(elsewhere).unwrap())).await;
        assert!(matches!(refused, Err(SendError::Refused(_))), "{elsewhere} {refused:?}");
    }
    let (fake, without_scope) = slack("xoxb-2").await;
    fake.put_file("F1", hello());
    let page = fetch(&without_scope, &fake.shared_file("1.000100", "U1", &fake.file_url("F1"), "a.pdf", NOW)).await;
    assert!(page.unwrap_err().to_string().contains("files:read"));
}

#[tokio::test]
async fn token_is_not_sent_to_a_redirect_target() {
    let (fake, _) = slack("xoxb-1").await;
    let (other, _) = slack("xoxb-1").await;
    other.put_file("F1", hello());
    fake.put_file("F1", FakeFile::Redirect(other.file_url("F1")));
    let config = SlackConfig {
        api_base_url: Some(fake.base_url()),
        bot_token: Some(secret("xoxb-1")),
        signing_secret: Some(secret("s")),
        app_token: None,
    };
    let request = fake.shared_file("1795600000.000100", "U1", &fake.file_url("F1"), "a.pdf", NOW);
    // Only the owner may configure private addresses.
    let app = Slack::new(config.clone(), client(Trust::Owner));
    let refused = fetch(&app, &request).await.unwrap_err();
    assert!(refused.to_string().contains("agents must not access"), "{refused}");
    assert_eq!(other.requests().len(), 0);
    let policy = NetPolicy { allowed_hosts: vec!["127.0.0.1".parse().unwrap()], ..NetPolicy::default() };
    let app = Slack::new(config, GuardedClient::new(PolicyHandle::new(policy), Trust::Owner));
    // The other fake has the same token and returns its sign-in page.
    assert!(fetch(&app, &request).await.unwrap_err().to_string().contains("files:read"));
    assert_eq!(other.requests().len(), 1);
}

#[tokio::test]
async fn discord_files_are_fetched_without_token() {
    let fake = FakeDiscord::start("bot-token").await.unwrap();
    let config = DiscordConfig {
        api_base_url: Some(fake.base_url()),
        public_key: Some(fake.public_key()),
        bot_token: Some(secret("bot-token")),
        ..DiscordConfig::default()
    };
    let app = Discord::new(config, client(Trust::Owner), clock());
    fake.put_file("f1", hello());
    assert_eq!(fetch(&app, &fake.file("2001", "7", "Read it.", "f1", NOW)).await, Ok(5));
    assert!(matches!(fetch(&app, &fake.file("2002", "7", "Read it.", "f2", NOW)).await, Err(SendError::Gone(_))));
}

#[tokio::test]
async fn whatsapp_media_url_is_looked_up() {
    let fake = FakeWhatsapp::start().await.unwrap();
    let app = Whatsapp::new(fake.config(), client(Trust::Owner));
    fake.put_file("m1", hello());
    assert_eq!(fetch(&app, &fake.document("wamid.1", "491701234567", "See:", "m1")).await, Ok(5));
    let gone = fetch(&app, &fake.document("wamid.2", "491701234567", "", "m2")).await.unwrap_err();
    assert!(gone.to_string().contains("WhatsApp did not find"), "{gone}");
    fake.set_media_url(Url::parse("https://evil.example/").unwrap());
    let refused = fetch(&app, &fake.document("wamid.3", "491701234567", "", "m1")).await.unwrap_err();
    assert!(refused.to_string().contains("not a host of WhatsApp"), "{refused}");
    let config = WhatsappConfig { access_token: Some(secret("EAAwrong")), ..fake.config() };
    let app = Whatsapp::new(config, client(Trust::Owner));
    let refused = fetch(&app, &fake.document("wamid.4", "491701234567", "", "m1")).await;
    assert!(matches!(refused, Err(SendError::Credentials(_))), "{refused:?}");
}

#[tokio::test]
async fn teams_pictures_and_uploads_are_fetched() {
    let fake = FakeTeams::start(clock()).await.unwrap();
    let app = Teams::new(fake.config(), client(Trust::Owner), client(Trust::Untrusted), clock());
    fake.put_file("p1", hello());
    assert_eq!(fetch(&app, &fake.picture("1", "29:a", "Look.", "p1")).await, Ok(5));
    fake.revoke_tokens();
    assert_eq!(fetch(&app, &fake.picture("2", "29:a", "Look.", "p1")).await, Ok(5), "with another token");
    assert_eq!(fetch(&app, &fake.upload("3", "29:a", "Look.", "p1")).await, Ok(5));
    let mut activity = fake.activity("4", "29:a", "Look.");
    activity["attachments"] = json!([{"contentType": "image/png", "contentUrl": "https://127.0.0.1:1/p1"}]);
    let given = fake.tokens_given();
    let refused = fetch(&app, &fake.event(&activity)).await.unwrap_err();
    assert!(refused.to_string().contains("must not access"), "{refused}");
    assert_eq!(fake.tokens_given(), given);
}

#[tokio::test]
async fn google_chat_uploads_are_fetched_by_name() {
    let fake = FakeGoogleChat::start(clock()).await.unwrap();
    let app = GoogleChat::new(fake.config(), client(Trust::Owner), clock());
    fake.put_file("spaces/A/attachments/b=", hello());
    let request = fake.upload("m1", "users/7", "Look.", "spaces/A/attachments/b=");
    assert_eq!(fetch(&app, &request).await, Ok(5));
    fake.revoke_tokens();
    assert_eq!(fetch(&app, &request).await, Ok(5), "with another token");
    for (name, error) in [("spaces/B", "no longer has"), ("../../v1/spaces", "returned no resource name")] {
        let refused = fetch(&app, &fake.upload("m2", "users/7", "", name)).await.unwrap_err();
        assert!(refused.to_string().contains(error), "{refused}");
    }
}

#[tokio::test]
async fn whatsapp_delivery_failures_are_read() {
    let fake = FakeWhatsapp::start().await.unwrap();
    let app = Whatsapp::new(fake.config(), client(Trust::Owner));
    for (code, expected) in [
        (131_047, "24-hour messaging window"),
        (131_026, "does not use WhatsApp"),
        (130_472, "experiment"),
        (131_049, "too many business messages"),
        (131_999, "code 131999: Odd"),
    ] {
        let mut incoming = app.receive(&fake.failed("wamid.sent1", code, "Odd"), NOW).await.unwrap().incoming;
        let Some(Incoming::Undelivered(failure)) = incoming.pop() else { panic!("{incoming:?}") };
        assert_eq!(failure.message_id, "wamid.sent1");
        assert!(failure.reason.contains(expected), "{}", failure.reason);
    }
    let delivered = json!({"object": "whatsapp_business_account", "entry": [{"changes": [{"field": "messages", "value": {
        "metadata": {"phone_number_id": fake.config().phone_number_id},
        "statuses": [{"id": "wamid.sent1", "status": "delivered"}, {"status": "failed"}, {"id": "x", "status": "failed"}],
    }}]}]});
    let incoming = app.receive(&fake.event(&delivered), NOW).await.unwrap().incoming;
    assert!(
        matches!(incoming.as_slice(), [Incoming::Undelivered(failure)] if failure.message_id == "x"),
        "{incoming:?}"
    );
}
