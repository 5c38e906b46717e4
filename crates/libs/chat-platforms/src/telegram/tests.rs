use std::time::Duration;

use agentd_net::Trust;
use agentd_testing_chat_platforms::telegram::{Behaviour, FakeFile, FakeTelegram};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::message::Incoming;
use crate::test_support::{any_json, client, secret, with};

const TOKEN: &str = "4839574812:AAFD39kkdpWt3ywyRZergyOLMaJhac60qc";
const SECRET: &str = "a-secret_token";

fn bot(base: Option<Url>, token: Option<&str>) -> Telegram {
    let config =
        TelegramConfig { api_base_url: base, bot_token: token.map(secret), secret_token: Some(secret(SECRET)) };
    Telegram::new(config, client(Trust::Owner))
}

async fn pair() -> (FakeTelegram, Telegram) {
    let fake = FakeTelegram::start(TOKEN, SECRET).await.unwrap();
    let bot = bot(Some(fake.base_url()), Some(TOKEN));
    (fake, bot)
}

fn read_one(bot: &Telegram, update: &Value) -> Option<Incoming> {
    bot.read(update).incoming.pop()
}

#[test]
fn files_are_described_and_other_updates_ignored() {
    let bot = bot(None, Some(TOKEN));
    let update = |message: Value| {
        let whole = json!({"message_id": 1, "from": {"id": 7, "is_bot": false, "first_name": "A"},
            "chat": {"id": 7, "type": "private"}});
        json!({"update_id": 1, "message": with(whole, &message)})
    };
    let read = |message: Value| read_one(&bot, &update(message));
    let Some(Incoming::Message(photo)) = read(json!({"caption": "see", "photo": [{"file_size": 1}, {"file_size": 9}]}))
    else {
        panic!("no message")
    };
    assert_eq!((photo.text.as_str(), photo.attachments[0].bytes), ("see", Some(9)));
    let document = json!({"file_name": "a.pdf", "mime_type": "application/pdf", "file_size": 3});
    let Some(Incoming::Message(file)) = read(json!({"document": document})) else { panic!("no message") };
    assert_eq!((file.attachments.len(), file.attachments[0].name.as_str()), (1, "a.pdf"));
    let Some(Incoming::Message(animation)) = read(json!({"document": document, "animation": document})) else {
        panic!("no message")
    };
    assert_eq!(animation.attachments.len(), 1);
    let bot_user = json!({"id": 8, "is_bot": true});
    for nothing in [
        json!({"new_chat_members": [{"id": 1}]}),
        json!({"text": "x", "from": bot_user}),
        json!({"text": "x", "sender_chat": {"id": -5}}),
        json!({"text": "x", "from": null}),
    ] {
        assert_eq!(read(nothing.clone()), None, "{nothing}");
    }
    let mut edited = update(json!({"text": "x"}));
    edited["edited_message"] = edited["message"].take();
    assert_eq!(read_one(&bot, &edited), None);
    assert_eq!(read_one(&bot, &json!({"update_id": 3, "my_chat_member": {}})), None);
}

#[tokio::test]
async fn telegram_errors_are_distinguished() {
    let (fake, bot) = pair().await;
    let to = bot.address("7").unwrap();
    let hello = Outgoing::text("hello");
    let send = |text: &str| {
        let (bot, to, message) = (&bot, &to, Outgoing::text(text));
        async move { bot.send(to, &message).await }
    };
    fake.misbehave(Behaviour::RateLimited(Duration::from_secs(7)));
    let wait = Some(Duration::from_secs(7));
    assert!(matches!(send("x").await, Err(SendError::RateLimited { wait: w, .. }) if w == wait));
    fake.misbehave(Behaviour::ServerError);
    assert!(matches!(send("x").await, Err(SendError::Later(_))));
    fake.misbehave(Behaviour::Blocked);
    assert!(matches!(send("x").await, Err(SendError::Blocked(_))));
    fake.misbehave(Behaviour::Gone);
    assert!(matches!(send("x").await, Err(SendError::Gone(_))));
    fake.misbehave(Behaviour::CredentialsRefused);
    assert!(matches!(send("x").await, Err(SendError::Credentials(_))));
    assert!(matches!(send("<b>open").await, Err(SendError::Refused(_))));
    assert!(matches!(send(&"x".repeat(4097)).await, Err(SendError::Refused(_))));
    fake.misbehave(Behaviour::Hang);
    let hangs = bot.call("getMe", &json!({}), Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(hangs.error, SendError::Later(_)));
    let base = Some(fake.base_url());
    for (token, is_right) in [
        (Some("1:wrong"), (|error| matches!(error, SendError::Credentials(_))) as fn(&SendError) -> bool),
        (Some("wrong"), |error| matches!(error, SendError::Credentials(_))),
        (None, |error| matches!(error, SendError::NotSetUp(_))),
    ] {
        let error = super::tests::bot(base.clone(), token).send(&to, &hello).await.unwrap_err();
        assert!(is_right(&error) && !error.to_string().contains(":wrong"), "{error:?}");
    }
    let unreachable_bot = super::tests::bot(Some(Url::parse("http://127.0.0.1:1/").unwrap()), Some(TOKEN));
    let error = unreachable_bot.send(&to, &hello).await.unwrap_err();
    assert!(!format!("{error} {error:?} {unreachable_bot:?}").contains("AAFD39"), "{error:?}");
}

#[tokio::test]
#[should_panic(expected = "not as the vendor describes its API: the body of POST sendMessage")]
async fn fake_rejects_unknown_api_methods() {
    let (fake, bot) = pair().await;
    let unknown = json!({"chat_id": 7, "text": "x", "silently": true});
    bot.call("sendMessage", &unknown, Duration::from_secs(9)).await.unwrap();
    drop(fake);
}

#[tokio::test]
async fn account_webhook_and_polling_work() {
    let (fake, bot) = pair().await;
    let url = Url::parse("https://agent.example/telegram").unwrap();
    assert_eq!(bot.register(&url).await.unwrap(), url.as_str());
    let account = bot.check().await.unwrap();
    assert_eq!((account.id.as_str(), account.name.as_str()), ("4839574812", "@Fake_Bot"));
    assert_eq!(account.webhook_url.as_deref(), Some(url.as_str()));
    assert!(matches!(bot.poll(0).await, Err(SendError::Refused(_))));
    bot.delete_webhook().await.unwrap();
    assert_eq!(bot.check().await.unwrap().webhook_url, None);
    for id in 1..=12 {
        let request = fake.message(id, 7, "hi");
        fake.queue_update(serde_json::from_slice(&request.body).unwrap());
    }
    let (incoming, next) = bot.poll(0).await.unwrap();
    assert_eq!((incoming.len(), next), (10, 11));
    let (incoming, next) = bot.poll(next).await.unwrap();
    assert_eq!((incoming.len(), next), (2, 13));
    let plain = Url::parse("http://agent.example/telegram").unwrap();
    assert!(matches!(bot.register(&plain).await, Err(SendError::Refused(_))));
}

#[tokio::test]
async fn stalled_file_download_times_out() {
    let (fake, mut bot) = pair().await;
    bot.files.limits.idle_timeout = Duration::from_millis(50);
    fake.put_file("f1", FakeFile::Hang);
    let update = serde_json::from_slice(&fake.document(1, 7, "", "f1", "a.pdf").body).unwrap();
    let Some(Incoming::Message(mut message)) = read_one(&bot, &update) else { panic!("no message") };
    let source = message.attachments.pop().and_then(|attachment| attachment.source).unwrap();
    let hangs = async {
        let mut file = bot.open_file(&source).await?;
        while file.next().await?.is_some() {}
        Ok(())
    };
    let hangs: Result<(), SendError> = hangs.await;
    assert!(matches!(hangs, Err(SendError::Later(_))), "{hangs:?}");
}

proptest! {
    #[test]
    fn reading_never_panics(update in any_json(&[
        "update_id", "message", "callback_query", "from", "chat", "id", "type", "text", "caption", "entities",
        "caption_entities", "offset", "length", "user", "is_bot", "message_id", "message_thread_id",
        "is_topic_message", "photo", "document", "file_size", "date", "data", "reply_to_message", "first_name",
        "private", "mention", "text_mention", "bot_command", "@fake_bot 🎉", "/x@fake_bot",
    ])) {
        let bot = bot(None, Some(TOKEN));
        *bot.username.lock() = Some("fake_bot".to_owned());
        bot.read(&update);
        read::has_mention(&update);
        bot.read(&json!({"update_id": 1, "message": update}));
        bot.read(&json!({"update_id": 1, "message": {
            "from": {"id": 1, "is_bot": false}, "chat": {"id": 1}, "text": "a 🎉 @fake_bot", "entities": update,
        }}));
        bot.read(&json!({"update_id": 1, "callback_query": update}));
    }

    #[test]
    fn any_entity_range_is_accepted(spans in prop::collection::vec((0_u64..12, 0_u64..12), 0..6)) {
        let bot = bot(None, Some("1:x"));
        let mention = |(offset, length): (u64, u64)| {
            json!({"type": "text_mention", "offset": offset, "length": length, "user": {"id": 1}})
        };
        let entities: Vec<Value> = spans.into_iter().map(mention).collect();
        bot.read(&json!({"update_id": 1, "message": {
            "from": {"id": 1, "is_bot": false}, "chat": {"id": 1}, "text": "a🎉b🎉c🎉d", "entities": entities,
        }}));
    }
}
