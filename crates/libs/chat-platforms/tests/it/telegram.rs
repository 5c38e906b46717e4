//! Telegram webhooks and Bot API, against the fake.

use agentd_chat_platforms::telegram::{Telegram, TelegramConfig};
use agentd_chat_platforms::{
    Address, ChatPlatform, Decision, Incoming, IncomingMessage, Outgoing, Rejection, SendError, WebhookRequest,
};
use agentd_net::Trust;
use agentd_testing_chat_platforms::telegram::{FakeTelegram, html};
use proptest::prelude::*;
use serde_json::{Value, json};
use url::Url;

use crate::support::{NOW, buttons, client, secret};

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

async fn message(bot: &Telegram, request: &WebhookRequest) -> IncomingMessage {
    match bot.receive(request, NOW).await.unwrap().incoming.pop() {
        Some(Incoming::Message(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn request_without_secret_token_is_rejected() {
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
async fn private_message_is_read() {
    let (fake, bot) = pair().await;
    let message = message(&bot, &fake.message(5, 7, "  hi\0 \u{202e}you\u{200b}")).await;
    assert_eq!((message.id.as_str(), message.text.as_str()), ("5", "hi \u{202e}you\u{200b}"));
    assert_eq!((message.sender.id.as_str(), message.sender.name.as_str()), ("7", "Ada L."));
    assert!(message.is_addressed && !message.chat.is_group && message.chat.thread.is_none());
    assert_eq!(message.reply_to, Address::of_channel("7"));
    assert_eq!(message.sent_at, Some(NOW));
}

#[tokio::test]
async fn group_mentions_commands_and_replies_are_addressed() {
    let (fake, bot) = pair().await;
    let unaddressed = message(&bot, &fake.group_message(1, 7, -100, "hello all")).await;
    assert!(!unaddressed.is_addressed && unaddressed.chat.is_group);
    assert_eq!(unaddressed.reply_to.details, json!({"reply_to_message_id": 1001}));
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
    let is_addressed = async |update: &Value| {
        let message = message(&bot, &fake.request(update)).await;
        (message.is_addressed, message.reply_to.thread)
    };
    let thread = Some("33".to_owned());
    assert_eq!(is_addressed(&answer(4_839_574_812, Value::Null)).await, (true, thread.clone()));
    assert_eq!(is_addressed(&answer(1, Value::Null)).await, (false, thread.clone()));
    assert_eq!(is_addressed(&answer(4_839_574_812, json!({"name": "Topic"}))).await, (false, thread));
}

#[tokio::test]
async fn messages_are_sent_and_button_presses_read() {
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
    bot.settle(&sent.message, "Denied").await.expect("settling twice is not an error");
    let methods: Vec<String> = fake.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(methods, ["sendMessage", "answerCallbackQuery", "editMessageText", "editMessageText"]);
    let gone = Address { details: json!({"message_id": 99}), ..to.clone() };
    assert!(matches!(bot.settle(&gone, "x").await, Err(SendError::Gone(_))));
    bot.show_typing(&to).await.unwrap();
    let of_others = bot.receive(&fake.press(9, 7, -100, 1, "not ours"), NOW).await.unwrap().incoming;
    assert!(matches!(&of_others[..], [Incoming::Decision(decision)] if decision.data == "not ours"));
}

#[tokio::test]
async fn migrated_group_is_followed() {
    let (fake, bot) = pair().await;
    fake.move_group(-5, -1005);
    let to = Address { details: json!({"reply_to_message_id": 5}), ..bot.address("-5").unwrap() };
    let sent = bot.send(&to, &Outgoing::text("x")).await.unwrap();
    assert_eq!(sent.message.channel, "-1005");
    assert_eq!(fake.sent()[1]["reply_parameters"], Value::Null);
}

#[test]
fn channel_must_be_a_number_or_name() {
    let bot = bot(None, None);
    for right in ["7", "-1001234567890", "@a_channel"] {
        assert_eq!(bot.address(right), Ok(Address::of_channel(right)));
    }
    for wrong in ["", "0", "+7", "007", "@a", "@a b c d", "chat", "99999999999999999999"] {
        assert!(bot.address(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn unnestable_markup_is_not_nested() {
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

/// Renders Markdown and checks that the fake accepts the parts.
fn render_checked(markdown: &str) -> Vec<String> {
    let parts = bot(None, None).render(markdown);
    for part in &parts {
        let plain = html::parse(part).unwrap_or_else(|error| panic!("{error}: {part}"));
        assert!(plain.encode_utf16().count() <= 4096);
    }
    parts
}

proptest! {
    #[test]
    fn every_part_is_well_formed(text in "(\\PC|[\\n*_`>#|<&\\[\\]()!-]|https://x\\.y){0,300}") {
        render_checked(&text);
    }
}
