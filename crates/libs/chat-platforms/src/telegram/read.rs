//! Conversion of updates to incoming messages (<https://core.telegram.org/bots/api#update>).

use agentd_base::Timestamp;
use serde_json::{Value, json};

use super::Telegram;
use super::contents::{
    attachments_of, describe_quoted, is_answered_message, named_contents, origin, person_name, unreadable,
    unreadable_contents,
};
use super::text::text_and_entities;
use crate::content::{Content, Parts, QuoteKind, mention_alone, named};
use crate::incoming_text::{button_data, id, name};
use crate::message::{Chat, Decision, Incoming, IncomingMessage, Sender};
use crate::outgoing::Address;
use crate::webhook::{Received, WebhookAnswer};

/// Whether the bot's username is needed to decide whether the message is addressed to it.
pub(super) fn has_mention(update: &Value) -> bool {
    let entities = text_and_entities(&update["message"]).1;
    entities.iter().any(|entity| matches!(entity["type"].as_str(), Some("mention" | "bot_command")))
}

impl Telegram {
    /// Reads an update from a webhook or a poll.
    pub(crate) fn read(&self, update: &Value) -> Received {
        let incoming = number(&update["update_id"]).and_then(|id| {
            let message = self.read_message(&id, &update["message"]).map(Incoming::Message);
            message.or_else(|| read_decision(&id, &update["callback_query"]).map(Incoming::Decision))
        });
        Received { answer: WebhookAnswer::empty(), incoming: incoming.into_iter().collect() }
    }

    fn read_message(&self, update_id: &str, message: &Value) -> Option<IncomingMessage> {
        // With `sender_chat`, the field `from` contains a placeholder.
        if !message["sender_chat"].is_null() {
            return None;
        }
        let sender = user_sender(&message["from"])?;
        let chat = chat_of(message)?;
        let answered = &message["reply_to_message"];
        let is_answer =
            self.bot_id.is_some() && answered["from"]["id"].as_i64() == self.bot_id && is_answered_message(answered);
        let (content, is_mentioned) = self.content(message);
        let is_forwarded = message["forward_origin"].is_object();
        let unreadable = if content.has_own() || is_forwarded { None } else { Some(unreadable(message)?) };
        let Parts { text, context, attachments } = content.into_parts();
        let details = match message["message_id"].as_i64() {
            Some(id) if chat.is_group => json!({"reply_to_message_id": id}),
            _ => Value::Null,
        };
        Some(IncomingMessage {
            id: update_id.to_owned(),
            is_addressed: !chat.is_group || is_mentioned || is_answer,
            text,
            context,
            attachments,
            album: id(&message["media_group_id"]),
            unreadable,
            sent_at: message["date"].as_i64().map(|seconds| Timestamp::from_micros(seconds.saturating_mul(1_000_000))),
            reply_to: Address { details, ..address_of(&chat) },
            sender,
            chat,
        })
    }

    /// Returns the contents, and whether they mention the bot. A mention in forwarded text does not count.
    fn content(&self, message: &Value) -> (Content, bool) {
        let mut content = Content::default();
        self.add_answered(message, &mut content);
        let forwarded = &message["forward_origin"];
        let mut is_mentioned = false;
        if forwarded.is_object() {
            content.add_quote(QuoteKind::Forwarded, &origin(forwarded), &describe_quoted(message));
        } else {
            let (text, entities) = text_and_entities(message);
            let (text, mentions_bot) = self.text_without_mentions(text, entities);
            is_mentioned = mentions_bot;
            content.add_text(&text);
            for line in named_contents(message) {
                content.add_text(&line);
            }
        }
        content.attach(attachments_of(message));
        if content.has_own() || forwarded.is_object() {
            for what in unreadable_contents(message) {
                content.add_text(&named("Not readable", [what]));
            }
        }
        if is_mentioned && !content.has_own() {
            content.add_text(&mention_alone());
        }
        (content, is_mentioned)
    }
}

fn read_decision(update_id: &str, query: &Value) -> Option<Decision> {
    let sender = user_sender(&query["from"])?;
    let message = &query["message"];
    let chat = chat_of(message)?;
    let data = button_data(&query["data"])?;
    let message_id = message["message_id"].as_i64()?;
    let rows = message["reply_markup"]["inline_keyboard"].as_array().into_iter().flatten();
    let mut buttons = rows.filter_map(Value::as_array).flatten();
    let label = buttons.find(|button| button["callback_data"] == query["data"]).map(|button| name(&button["text"]));
    let details = json!({"message_id": message_id, "callback_query_id": id(&query["id"])?});
    Some(Decision {
        id: update_id.to_owned(),
        sender,
        data,
        message_id: message_id.to_string(),
        label: label.unwrap_or_default(),
        message: Address { details, ..address_of(&chat) },
        reply_to: address_of(&chat),
        chat,
    })
}

/// Returns an integer ID of an update, user, chat or topic as text.
fn number(value: &Value) -> Option<String> {
    value.as_i64().map(|number| number.to_string())
}

/// Returns the sender, unless it is a bot.
fn user_sender(user: &Value) -> Option<Sender> {
    if user["is_bot"] != false {
        return None;
    }
    Some(Sender { id: number(&user["id"])?, name: person_name(user) })
}

fn chat_of(message: &Value) -> Option<Chat> {
    let chat = &message["chat"];
    let is_in_topic = message["is_topic_message"] == true;
    Some(Chat {
        id: number(&chat["id"])?,
        thread: number(&message["message_thread_id"]).filter(|_| is_in_topic),
        is_group: chat["type"] != "private",
    })
}

fn address_of(chat: &Chat) -> Address {
    Address { channel: chat.id.clone(), thread: chat.thread.clone(), details: Value::Null }
}
