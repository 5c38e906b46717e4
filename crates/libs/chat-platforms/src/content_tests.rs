//! Contents of user messages on every platform.

use agentd_base::MockClock;
use agentd_net::Trust;
use serde_json::{Value, json};

use crate::discord::{Discord, DiscordConfig};
use crate::google_chat::{GoogleChat, GoogleChatConfig};
use crate::message::{Incoming, IncomingMessage};
use crate::slack::{Slack, SlackConfig};
use crate::teams::{Teams, TeamsConfig};
use crate::telegram::{Telegram, TelegramConfig};
use crate::test_support::{NOW, client, secret, with};
use crate::whatsapp::{Whatsapp, WhatsappConfig};

fn telegram(message: &Value) -> Option<IncomingMessage> {
    let config = TelegramConfig { bot_token: Some(secret("99:x")), ..TelegramConfig::default() };
    let whole = json!({
        "message_id": 1, "date": 1, "from": {"id": 7, "is_bot": false, "first_name": "Ada"},
        "chat": {"id": 7, "type": "private"},
    });
    let update = json!({"update_id": 1, "message": with(whole, message)});
    message_of(Telegram::new(config, client(Trust::Owner)).read(&update).incoming)
}

fn slack(event: &Value) -> Option<IncomingMessage> {
    let whole =
        json!({"type": "message", "channel": "D1", "channel_type": "im", "user": "U7", "text": "", "ts": "1.000001"});
    let payload = json!({
        "type": "event_callback", "authorizations": [{"user_id": "U0", "is_bot": true}], "event": with(whole, event),
    });
    message_of(Slack::new(SlackConfig::default(), client(Trust::Owner)).read(&payload).incoming)
}

fn discord(data: &Value) -> Option<IncomingMessage> {
    let whole = json!({
        "id": "10", "channel_id": "11", "type": 0, "content": "", "author": {"id": "7", "username": "ada"},
    });
    let app = Discord::new(DiscordConfig::default(), client(Trust::Owner), MockClock::new(NOW).clock());
    app.read_gateway_message(&with(whole, data), "9")
}

fn teams(activity: &Value) -> Option<IncomingMessage> {
    let whole = json!({
        "type": "message", "id": "m", "channelId": "msteams", "serviceUrl": "https://x/", "from": {"id": "29:a"},
        "recipient": {"id": "28:b", "name": "Scout"}, "conversation": {"id": "a:1", "conversationType": "personal"},
    });
    let (client, clock) = (client(Trust::Owner), MockClock::new(NOW).clock());
    let teams = Teams::new(TeamsConfig::default(), client.clone(), client, clock);
    message_of(teams.read(&with(whole, activity)).incoming)
}

fn google_chat(message: &Value) -> Option<IncomingMessage> {
    let user = json!({"name": "users/1", "displayName": "Ada", "type": "HUMAN"});
    let whole = json!({"name": "spaces/A/messages/B", "sender": user});
    let event = json!({"type": "MESSAGE", "space": {"name": "spaces/A"}, "message": with(whole, message)});
    message_of(google_chat_adapter().read(&event).incoming)
}

fn google_chat_adapter() -> GoogleChat {
    GoogleChat::new(GoogleChatConfig::default(), client(Trust::Owner), MockClock::new(NOW).clock())
}

fn whatsapp(message: &Value) -> Option<IncomingMessage> {
    let config = WhatsappConfig { phone_number_id: Some("555".to_owned()), ..WhatsappConfig::default() };
    let message = with(json!({"from": "4917", "id": "wamid.1", "timestamp": "9"}), message);
    let event = json!({"object": "whatsapp_business_account", "entry": [{"changes": [{"field": "messages", "value": {
        "metadata": {"phone_number_id": "555"}, "messages": [message],
    }}]}]});
    message_of(Whatsapp::new(config, client(Trust::Owner)).read(&event).incoming)
}

fn message_of(mut incoming: Vec<Incoming>) -> Option<IncomingMessage> {
    match incoming.pop()? {
        Incoming::Message(message) => Some(message),
        Incoming::Decision(decision) => Some(decision.into_message()),
        Incoming::Undelivered(other) => panic!("{other:?}"),
    }
}

type Read = fn(&Value) -> Option<IncomingMessage>;

/// Checks own text, quoted text, and the number of files.
fn check(read: Read, message: &Value, text: &str, context: &str, files: usize) {
    let read = read(message).unwrap_or_else(|| panic!("{message} is ignored"));
    let found = (read.text.as_str(), read.context.as_str(), read.attachments.len(), read.unreadable);
    assert_eq!(found, (text, context, files, None), "{message}");
}

fn check_unreadable(read: Read, message: &Value, what: &str) {
    let read = read(message).unwrap_or_else(|| panic!("{message} is ignored"));
    assert_eq!((read.unreadable, read.text.as_str()), (Some(what), ""), "{message}");
}

#[test]
fn telegram_contents_are_described() {
    let contact = json!({"phone_number": "+4420", "first_name": "Ada", "last_name": "Lovelace"});
    let venue =
        json!({"location": {"latitude": 52.5, "longitude": 13.4}, "title": "Office", "address": "1 Main Street"});
    let poll = json!({"question": "Eat?", "options": [{"text": "Sushi"}, {"text": "Pizza"}]});
    let checklist = json!({"title": "Trip", "tasks": [{"text": "Tickets", "completion_date": 5}, {"text": "Hotel"}]});
    let link = json!([{"type": "text_link", "offset": 3, "length": 4, "url": "https://x.y/long"}]);
    let bare = json!([{"type": "text_link", "offset": 0, "length": 3, "url": "https://x.y/"}]);
    let rich = json!({"blocks": [
        {"type": "paragraph", "text": ["see ", {"type": "url", "text": "this", "url": "https://x.y"}]},
        {"type": "list", "items": [{"label": "1.", "blocks": [{"type": "paragraph", "text": "one"}]}]},
        {"type": "table", "cells": [[{"text": "a"}, {"text": {"type": "bold", "text": "b"}}]]},
    ]});
    for (message, text) in [
        (json!({"contact": contact}), "[Contact: Ada Lovelace, +4420]"),
        (json!({"location": {"latitude": 52.5, "longitude": 13.4}}), "[Location: 52.5, 13.4]"),
        (json!({"location": {"latitude": 52.5, "longitude": 13.4, "live_period": 60}}), "[Live location: 52.5, 13.4]"),
        (json!({"venue": venue, "location": venue["location"]}), "[Location: Office, 1 Main Street, 52.5, 13.4]"),
        (json!({"poll": poll}), "[Poll: Eat?, 1) Sushi, 2) Pizza]"),
        (json!({"checklist": checklist}), "[Checklist: Trip, ☑ Tickets, ☐ Hotel]"),
        (json!({"dice": {"emoji": "🎲", "value": 4}}), "[Dice: 🎲 4]"),
        (json!({"game": {"title": "Chess", "description": "A game"}}), "[Game: Chess, A game]"),
        (json!({"text": "🎉 this", "entities": link}), "🎉 this (https://x.y/long)"),
        (
            json!({"caption": "🎉 this", "caption_entities": link, "poll": poll}),
            "🎉 this (https://x.y/long)\n[Poll: Eat?, 1) Sushi, 2) Pizza]",
        ),
        (json!({"text": "x.y", "entities": bare}), "x.y"),
        (json!({"rich_message": rich}), "see this (https://x.y)\n1.\none\na | b"),
        (json!({"caption": "look", "paid_media": {"star_count": 1}}), "look\n[Not readable: paid media]"),
    ] {
        check(telegram, &message, text, "", 0);
    }
    check(telegram, &json!({"sticker": {"file_id": "f", "emoji": "🎉"}}), "[Sticker: 🎉]", "", 1);
    check_unreadable(telegram, &json!({"story": {"id": 1}}), "stories");
    check_unreadable(telegram, &json!({"a_new_kind": {}}), "messages of this kind");
    assert_eq!(telegram(&json!({"new_chat_title": "x", "reply_to_message": {"text": "y"}})), None);
    let album = telegram(&json!({"photo": [{"file_id": "f"}], "media_group_id": "al1"})).unwrap();
    assert_eq!(album.album.as_deref(), Some("al1"));
}

#[test]
fn telegram_text_of_others_is_quoted() {
    let bob = json!({"id": 8, "is_bot": false, "first_name": "Bob"});
    let answered = json!({"from": bob, "text": "Guten\nMorgen", "message_id": 5});
    let quoted = "[In reply to a message from Bob]\n> Guten\n> Morgen";
    check(telegram, &json!({"text": "translate", "reply_to_message": answered}), "translate", quoted, 0);
    let quote = json!({"text": "translate", "reply_to_message": answered, "quote": {"text": "Morgen", "position": 6}});
    check(telegram, &quote, "translate", "[In reply to a message from Bob]\n> Morgen", 0);
    let own = json!({"text": "why?", "reply_to_message": {"from": {"id": 99, "is_bot": true}, "text": "No."}});
    check(telegram, &own, "why?", "[In reply to your message]\n> No.", 0);
    let topic = json!({"text": "hi", "reply_to_message": {"from": bob, "forum_topic_created": {"name": "x"}}});
    check(telegram, &topic, "hi", "", 0);
    let photo = json!({"text": "what?", "reply_to_message": {"from": bob, "photo": [{"file_id": "f"}]}});
    check(telegram, &photo, "what?", "[In reply to a message from Bob]\n> [Photo]", 0);
    let external = json!({"text": "and?", "external_reply": {
        "origin": {"type": "channel", "chat": {"title": "News"}}, "poll": {"question": "Q", "options": []},
    }});
    check(telegram, &external, "and?", "[In reply to a message from News]\n> [Poll: Q]", 0);
    let origin = json!({"type": "hidden_user", "sender_user_name": "Eve"});
    let forwarded = json!({"text": "/stop", "forward_origin": origin, "entities": [{"type": "bot_command", "offset": 0, "length": 5}]});
    check(telegram, &forwarded, "", "[Forwarded message from Eve]\n> /stop", 0);
    let file = json!({"document": {"file_id": "f", "file_name": "a.pdf"}, "forward_origin": {"type": "user", "sender_user": bob}});
    check(telegram, &file, "", "[Forwarded message from Bob]\n> [Document: a.pdf]", 1);
}

#[test]
fn slack_forwards_and_tables_are_read() {
    let shared = json!({"attachments": [{"is_share": true, "author_name": "Bob", "text": "failed &lt;137&gt;",
        "files": [{"name": "log.txt"}]}]});
    check(slack, &shared, "", "[Forwarded message from Bob]\n> failed <137>", 1);
    let file =
        json!({"attachments": [{"is_share": true, "author_name": "Bob", "text": "", "files": [{"name": "a.pdf"}]}]});
    check(slack, &file, "", "[Forwarded message from Bob]", 1);
    let table =
        json!({"type": "table", "rows": [[{"type": "raw_text", "text": "a"}, {"type": "raw_text", "text": "b"}]]});
    let rich = json!({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "Which?"}]}]});
    let pasted = json!({"text": "Which?", "attachments": [{"fallback": "[no preview available]", "blocks": [table]}]});
    check(slack, &pasted, "Which?\na | b", "", 0);
    check(slack, &json!({"text": "Which?", "blocks": [rich, table]}), "Which?\na | b", "", 0);
    check(slack, &json!({"blocks": [rich]}), "Which?", "", 0);
    let nested = json!({"attachments": [{"is_msg_unfurl": true, "message_blocks": [{"message": {"blocks": [rich]}}]}]});
    check(slack, &nested, "", "[Forwarded message]\n> Which?", 0);
    let preview = json!({"text": "see <https://x.y>", "attachments": [{"from_url": "https://x.y", "title": "T", "text": "preview"}]});
    check(slack, &preview, "see https://x.y", "", 0);
    check(slack, &json!({"text": "waves", "subtype": "me_message"}), "waves", "", 0);
    check(
        slack,
        &json!({"text": "<@U0>", "type": "app_mention", "channel_type": "channel"}),
        "[Mention of you, without text]",
        "",
        0,
    );
    check_unreadable(slack, &json!({}), "messages of this kind");
    for subtype in ["message_changed", "channel_join", "huddle_thread", "a_new_one"] {
        assert_eq!(slack(&json!({"subtype": subtype, "text": "x"})), None, "{subtype}");
    }
}

#[test]
fn discord_forwards_replies_and_contents_are_read() {
    let snapshot = json!({"message": {"content": "failed <@8>", "mentions": [{"id": "8", "username": "bob"}],
        "attachments": [{"filename": "log.txt"}], "embeds": [{"title": "Alert", "fields": [{"name": "code", "value": "137"}]}]}});
    let forwarded = json!({"message_reference": {"type": 1}, "message_snapshots": [snapshot]});
    let quoted = "[Forwarded message]\n> failed @bob\n> Alert\n> code: 137\n> [File: log.txt]";
    check(discord, &forwarded, "", quoted, 1);
    let answered = json!({"author": {"id": "8", "global_name": "Bob"}, "content": "Guten Morgen"});
    let reply = json!({"type": 19, "content": "translate", "referenced_message": answered});
    check(discord, &reply, "translate", "[In reply to a message from Bob]\n> Guten Morgen", 0);
    let own = json!({"type": 19, "content": "why?", "referenced_message": {"author": {"id": "9"}, "content": "No."}});
    check(discord, &own, "why?", "[In reply to your message]\n> No.", 0);
    check(discord, &json!({"sticker_items": [{"name": "Wave"}]}), "[Sticker: Wave]", "", 0);
    let poll = json!({"question": {"text": "Eat?"}, "answers": [{"poll_media": {"text": "Sushi"}}, {"poll_media": {"emoji": {"name": "🍕"}}}]});
    check(discord, &json!({"poll": poll}), "[Poll: Eat?, 1) Sushi, 2) 🍕]", "", 0);
    let mention = json!({"content": "<@9>", "mentions": [{"id": "9"}]});
    check(discord, &mention, "[Mention of you, without text]", "", 0);
    check_unreadable(discord, &json!({"activity": {"type": 1}}), "invitations");
    check_unreadable(discord, &json!({}), "messages of this kind");
    assert_eq!(discord(&json!({"type": 7})), None);
}

#[test]
fn teams_html_mentions_and_references_are_read() {
    let html = |content: &str| json!({"attachments": [{"contentType": "text/html", "content": content}]});
    check(teams, &html("<div><div>Use x &lt; 5 &copy;</div></div>"), "Use x < 5 ©", "", 0);
    let mention = json!([{"type": "mention", "mentioned": {"id": "28:b", "name": "R&D Bot"}}]);
    check(
        teams,
        &json!({"text": "<at>R&amp;D Bot</at> a &lt; b <at>Bob</at>", "entities": mention}),
        "a < b Bob",
        "",
        0,
    );
    check(
        teams,
        &json!({"text": "<at>R&amp;D Bot</at>", "entities": mention}),
        "[Mention of you, without text]",
        "",
        0,
    );
    let reference = json!({"messagePreview": "Guten Morgen", "messageSender": {"user": {"displayName": "Bob"}}});
    let quoted = "[In reply to a message from Bob]\n> Guten Morgen";
    for content in [reference.clone(), json!(reference.to_string())] {
        let answer =
            json!({"text": "translate", "attachments": [{"contentType": "messageReference", "content": content}]});
        check(teams, &answer, "translate", quoted, 0);
    }
    let reply = "<blockquote itemtype=\"http://schema.skype.com/Reply\"><strong>Bob</strong><p>Guten Morgen</p></blockquote><p>translate</p>";
    check(teams, &with(html(reply), &json!({"text": "Bob Guten Morgen translate"})), "translate", quoted, 0);
    let forwarded =
        json!({"originalMessageContent": "<p>failed</p>", "originalMessageSender": {"user": {"displayName": "Bob"}}});
    let forward = json!({"attachments": [{"contentType": "forwardedMessageReference", "content": forwarded}]});
    check(teams, &forward, "", "[Forwarded message from Bob]\n> failed", 0);
    let card = json!({"body": [{"type": "TextBlock", "text": "Alert"}, {"type": "FactSet", "facts": [{"title": "code", "value": "137"}]}]});
    let card = json!({"attachments": [{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}]});
    check(teams, &card, "", "[Forwarded message]\n> Alert\n> code\n> 137", 0);
    check(teams, &json!({"value": {"choice": "a"}}), "[Button: {\"choice\":\"a\"}]", "", 0);
    check(teams, &json!({"value": {"decision": "Yes"}}), "Yes", "", 0);
    check_unreadable(teams, &json!({"text": " "}), "messages of this kind");
}

#[test]
fn google_chat_quotes_and_contents_are_read() {
    let quote = |kind: &str| {
        json!({"argumentText": "translate", "quotedMessageMetadata": {"quoteType": kind, "quotedMessageSnapshot": {
        "sender": "Bob", "text": "Guten Morgen", "attachments": [{"contentName": "a.pdf"}]}}})
    };
    check(google_chat, &quote("REPLY"), "translate", "[In reply to a message from Bob]\n> Guten Morgen", 0);
    check(google_chat, &quote("FORWARD"), "translate", "[Forwarded message from Bob]\n> Guten Morgen", 1);
    check(google_chat, &json!({"attachedGifs": [{"uri": "https://x.y/a.gif"}]}), "[GIF: https://x.y/a.gif]", "", 0);
    let link = json!({"text": "plan", "annotations": [{"richLinkMetadata": {"uri": "https://x.y/plan"}}]});
    check(google_chat, &link, "plan\n[Link: https://x.y/plan]", "", 0);
    let command = json!({"text": "/new now", "argumentText": " now", "slashCommand": {"commandId": "1"}});
    check(google_chat, &command, "/new now", "", 0);
    check(google_chat, &json!({"text": "@Agent", "argumentText": " "}), "[Mention of you, without text]", "", 0);
    check_unreadable(google_chat, &json!({}), "messages of this kind");
    let user = json!({"name": "users/1", "displayName": "Ada", "type": "HUMAN"});
    let of = |kind: &str, more: &Value| {
        let event =
            json!({"type": kind, "space": {"name": "spaces/A"}, "user": user, "eventTime": "2026-11-27T12:00:00Z"});
        message_of(google_chat_adapter().read(&with(event, more)).incoming)
    };
    let quick = of("APP_COMMAND", &json!({"appCommandMetadata": {"appCommandId": 3}})).unwrap();
    assert_eq!((quick.text.as_str(), quick.id.as_str()), ("[Command: 3]", "spaces/A users/1 2026-11-27T12:00:00Z 3"));
    let message = json!({"name": "spaces/A/messages/B", "sender": user, "text": "@Agent hi", "argumentText": " hi"});
    assert_eq!(of("ADDED_TO_SPACE", &json!({"message": message})).unwrap().text, "hi");
    assert_eq!(of("ADDED_TO_SPACE", &json!({})), None);
    let add_on =
        json!({"chat": {"user": user, "appCommandPayload": {"space": {"name": "spaces/A"}, "message": message}}});
    assert_eq!(message_of(google_chat_adapter().read(&add_on).incoming).unwrap().text, "hi");
}

#[test]
fn whatsapp_contents_and_buttons_of_others_are_read() {
    let product = json!({"product_retailer_id": "coffee", "quantity": 2, "item_price": 4.5, "currency": "EUR"});
    let form = json!({"type": "nfm_reply", "nfm_reply": {"body": "Sent", "response_json": "{\"a\":1}"}});
    for (message, text, context) in [
        (json!({"type": "button", "button": {"payload": "Yes", "text": "Yes, confirm"}}), "Yes, confirm", ""),
        (json!({"type": "button", "button": {"payload": "a:b", "text": "Book"}}), "Book", ""),
        (json!({"type": "interactive", "interactive": {"button_reply": {"id": "x", "title": "Book"}}}), "Book", ""),
        (json!({"type": "interactive", "interactive": form}), "[Form: Sent, {\"a\":1}]", ""),
        (json!({"type": "order", "order": {"product_items": [product]}}), "[Order: 2 × coffee, 4.5 EUR]", ""),
        (
            json!({"type": "contacts", "contacts": [{"name": {"formatted_name": "Bo"}, "phones": [{"phone": "+49 1"}], "emails": [{"email": "b@x.y"}]}]}),
            "[Contact: Bo, +49 1, b@x.y]",
            "",
        ),
        (
            json!({"type": "text", "text": {"body": "win"}, "context": {"forwarded": true}}),
            "",
            "[Forwarded message]\n> win",
        ),
        (
            json!({"type": "text", "text": {"body": "how much?"}, "context": {"referred_product": {"product_retailer_id": "coffee"}}}),
            "how much?\n[Product: coffee]",
            "",
        ),
    ] {
        check(whatsapp, &message, text, context, 0);
    }
    check(whatsapp, &json!({"type": "sticker", "sticker": {"id": "1"}}), "[Sticker]", "", 1);
    check_unreadable(whatsapp, &json!({"type": "unsupported", "errors": [{"code": 131_051}]}), "messages of this kind");
    check_unreadable(whatsapp, &json!({"type": "a_new_kind"}), "messages of this kind");
    for kind in ["reaction", "system", "edit", "revoke", "request_welcome"] {
        assert_eq!(whatsapp(&json!({"type": kind})), None, "{kind}");
    }
}
