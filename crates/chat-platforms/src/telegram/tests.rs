use std::time::Duration;

use agentd_net::Trust;
use proptest::prelude::*;
use serde_json::json;

use super::fake::{Behaviour, FakeTelegram};
use super::*;
use crate::message::{Decision, Incoming, IncomingMessage};
use crate::test_support::{NOW, any_json, buttons, client, secret, with};

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

async fn message(bot: &Telegram, request: &WebhookRequest) -> IncomingMessage {
    match bot.receive(request, NOW).await.unwrap().incoming.pop() {
        Some(Incoming::Message(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_request_without_the_secret_token_is_refused() {
    let (fake, bot) = pair().await;
    let right = fake.message(1, 7, "hi");
    assert!(bot.receive(&right, NOW).await.is_ok());
    let saying = |values: &[&'static str]| {
        let mut request = right.clone();
        request.headers.remove("x-telegram-bot-api-secret-token");
        for value in values {
            request.headers.append("x-telegram-bot-api-secret-token", http::HeaderValue::from_static(value));
        }
        request
    };
    for wrong in [&[][..], &[""], &["a-secret_tokem"], &["a-secret_token "], &[SECRET, SECRET]] {
        let refused = bot.receive(&saying(wrong), NOW).await;
        assert!(matches!(refused, Err(Rejection::Unverified(_))), "{wrong:?} {refused:?}");
    }
    let malformed = WebhookRequest { body: "{".into(), ..right.clone() };
    assert!(matches!(bot.receive(&malformed, NOW).await, Err(Rejection::Malformed(_))));
    for none in [None, Some(secret(""))] {
        let config = TelegramConfig { secret_token: none, ..TelegramConfig::default() };
        let unset = Telegram::new(config, client(Trust::Owner));
        assert_eq!(unset.receive(&saying(&[""]), NOW).await, Err(Rejection::NotSetUp));
    }
}

#[tokio::test]
async fn a_private_message_is_read() {
    let (fake, bot) = pair().await;
    let message = message(&bot, &fake.message(5, 7, "  hi\0 \u{202e}you\u{200b}")).await;
    assert_eq!((message.id.as_str(), message.text.as_str()), ("5", "hi \u{202e}you\u{200b}"));
    assert_eq!((message.sender.id.as_str(), message.sender.name.as_str()), ("7", "Ada L."));
    assert!(message.is_addressed && !message.chat.is_group && message.chat.thread.is_none());
    assert_eq!(message.reply_to, Address::of_channel("7"));
    assert_eq!(message.sent_at, Some(NOW));
}

#[tokio::test]
async fn in_a_group_mentions_commands_and_answers_are_addressed() {
    let (fake, bot) = pair().await;
    let to_nobody = message(&bot, &fake.group_message(1, 7, -100, "hello all")).await;
    assert!(!to_nobody.is_addressed && to_nobody.chat.is_group);
    assert_eq!(to_nobody.reply_to.details, json!({"reply_to_message_id": 1001}));
    for (text, left, is_addressed) in [
        ("🎉 @fake_bot what is up", "🎉  what is up", true),
        ("@other_bot what", "@other_bot what", false),
        ("/stop@Fake_Bot now", "/stop now", true),
        ("/stop@other_bot", "/stop@other_bot", false),
        ("/stop", "/stop", false),
        ("@Fake_Bot and @fake_bot", "and", true),
    ] {
        let message = message(&bot, &fake.group_message(2, 7, -100, text)).await;
        assert_eq!((message.text.as_str(), message.is_addressed), (left, is_addressed));
    }
    assert_eq!(fake.requests().iter().filter(|request| request.path == "getMe").count(), 1, "it is asked once");
    let answer = |from: i64, topic: Value| {
        let mut answered = json!({"message_id": 1, "from": {"id": from, "is_bot": true}});
        answered["forum_topic_created"] = topic;
        json!({"update_id": 9, "message": {
            "message_id": 2, "from": {"id": 7, "is_bot": false}, "chat": {"id": -100, "type": "supergroup"},
            "text": "yes", "reply_to_message": answered, "message_thread_id": 33, "is_topic_message": true,
        }})
    };
    let is_addressed = |update: &Value| match read_one(&bot, update) {
        Some(Incoming::Message(message)) => (message.is_addressed, message.reply_to.thread),
        other => panic!("{other:?}"),
    };
    let thread = Some("33".to_owned());
    assert_eq!(is_addressed(&answer(4_839_574_812, Value::Null)), (true, thread.clone()));
    assert_eq!(is_addressed(&answer(1, Value::Null)), (false, thread.clone()));
    assert_eq!(is_addressed(&answer(4_839_574_812, json!({"name": "Topic"}))), (false, thread));
}

#[test]
fn files_are_named_and_what_is_no_message_is_none() {
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
async fn messages_go_out_and_buttons_come_back() {
    let (fake, bot) = pair().await;
    let to = Address {
        thread: Some("33".into()),
        details: json!({"reply_to_message_id": 5}),
        ..bot.address("-100").unwrap()
    };
    let text = bot.render("**May I?** <now> & [here](https://x.y/?a=\"b\"&c)").pop().unwrap();
    let message = Outgoing { buttons: buttons(), ..Outgoing::text(text) };
    let sent = bot.send(&to, &message).await.unwrap();
    let body = fake.sent().pop().unwrap();
    assert_eq!(body["text"], "<b>May I?</b> &lt;now&gt; &amp; <a href=\"https://x.y/?a=&quot;b&quot;&amp;c\">here</a>");
    assert_eq!(body["message_thread_id"], 33);
    assert_eq!(body["reply_parameters"]["message_id"], 5);
    assert_eq!(body["link_preview_options"]["is_disabled"], true);
    assert_eq!(body["reply_markup"]["inline_keyboard"][0][1]["callback_data"], "deny:1");
    let pressed = bot.receive(&fake.press(8, 7, -100, 1, "deny:1"), NOW).await.unwrap().incoming.pop();
    let Some(Incoming::Decision(Decision { id, data, message_id, message, .. })) = pressed else {
        panic!("{pressed:?}")
    };
    assert_eq!((id.as_str(), data.as_str(), &message_id), ("8", "deny:1", &sent.id));
    bot.settle(&message, "Denied").await.unwrap();
    bot.settle(&sent.message, "Denied").await.expect("what is settled already is no error");
    let methods: Vec<String> = fake.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(methods, ["sendMessage", "answerCallbackQuery", "editMessageText", "editMessageText"]);
    let gone = Address { details: json!({"message_id": 99}), ..to.clone() };
    assert!(matches!(bot.settle(&gone, "x").await, Err(SendError::Gone(_))));
    bot.show_typing(&to).await.unwrap();
    let of_others = bot.receive(&fake.press(9, 7, -100, 1, "not ours"), NOW).await.unwrap().incoming;
    assert!(matches!(&of_others[..], [Incoming::Decision(decision)] if decision.data == "not ours"));
}

#[tokio::test]
async fn what_telegram_refuses_is_told_apart() {
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
    let nobody = super::tests::bot(Some(Url::parse("http://127.0.0.1:1/").unwrap()), Some(TOKEN));
    let error = nobody.send(&to, &hello).await.unwrap_err();
    assert!(!format!("{error} {error:?} {nobody:?}").contains("AAFD39"), "{error:?}");
}

#[tokio::test]
#[should_panic(expected = "not as the vendor describes its API: the body of POST sendMessage")]
async fn what_the_bot_api_does_not_have_fails_the_test() {
    let (fake, bot) = pair().await;
    let unknown = json!({"chat_id": 7, "text": "x", "silently": true});
    bot.call("sendMessage", &unknown, Duration::from_secs(9)).await.unwrap();
    drop(fake);
}

#[tokio::test]
async fn a_group_that_moved_is_followed() {
    let (fake, bot) = pair().await;
    fake.move_group(-5, -1005);
    let to = Address { details: json!({"reply_to_message_id": 5}), ..bot.address("-5").unwrap() };
    let sent = bot.send(&to, &Outgoing::text("x")).await.unwrap();
    assert_eq!(sent.message.channel, "-1005");
    assert_eq!(fake.sent()[1]["reply_parameters"], Value::Null);
}

#[tokio::test]
async fn the_account_webhooks_and_polling() {
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

#[test]
fn chats_are_numbers_or_names() {
    let bot = bot(None, None);
    for right in ["7", "-1001234567890", "@a_channel"] {
        assert_eq!(bot.address(right), Ok(Address::of_channel(right)));
    }
    for wrong in ["", "0", "+7", "007", "@a", "@a b c d", "chat", "99999999999999999999"] {
        assert!(bot.address(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn markup_that_does_not_nest_is_not_nested() {
    let nested = "> a\n> > b\n\n[![alt](https://i.j/k)](https://l.m)\n\n[x](javascript:alert)\n\n```a<b\nc\n```";
    let parts = render_checked(nested);
    let expected = [
        "<blockquote>a\n\nb</blockquote>",
        "<a href=\"https://l.m\">alt</a>",
        "x (javascript:alert)",
        "<pre><code class=\"language-a\">c</code></pre>",
    ];
    assert_eq!(parts, [expected.join("\n\n")]);
}

/// Parts that the fake takes.
fn render_checked(markdown: &str) -> Vec<String> {
    let parts = write::render(markdown);
    for part in &parts {
        let plain = fake::html::parse(part).unwrap_or_else(|error| panic!("{error}: {part}"));
        assert!(plain.encode_utf16().count() <= 4096);
    }
    parts
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
        read::mentions_somebody(&update);
        bot.read(&json!({"update_id": 1, "message": update}));
        bot.read(&json!({"update_id": 1, "message": {
            "from": {"id": 1, "is_bot": false}, "chat": {"id": 1}, "text": "a 🎉 @fake_bot", "entities": update,
        }}));
        bot.read(&json!({"update_id": 1, "callback_query": update}));
    }

    #[test]
    fn entities_anywhere_are_survived(spans in prop::collection::vec((0_u64..12, 0_u64..12), 0..6)) {
        let bot = bot(None, Some("1:x"));
        let mention = |(offset, length): (u64, u64)| {
            json!({"type": "text_mention", "offset": offset, "length": length, "user": {"id": 1}})
        };
        let entities: Vec<Value> = spans.into_iter().map(mention).collect();
        bot.read(&json!({"update_id": 1, "message": {
            "from": {"id": 1, "is_bot": false}, "chat": {"id": 1}, "text": "a🎉b🎉c🎉d", "entities": entities,
        }}));
    }

    #[test]
    fn every_part_is_well_formed(text in "(\\PC|[\\n*_`>#|<&\\[\\]()!-]|https://x\\.y){0,300}") {
        render_checked(&text);
    }
}
