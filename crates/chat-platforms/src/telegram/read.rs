//! Updates to what came in (<https://core.telegram.org/bots/api#update>).

use agentd_base::Timestamp;
use serde_json::{Value, json};

use super::Telegram;
use super::files::source;
use crate::incoming_text::{button_data, id, name, some_name, text as clean};
use crate::message::{Attachment, Chat, Decision, Incoming, IncomingMessage, Sender};
use crate::outgoing::Address;
use crate::webhook::{Received, WebhookAnswer};

/// A message of Telegram has no more of them.
const MAX_ENTITIES: usize = 100;
/// Kinds of files, each in a field of its own.
const FILES: [&str; 7] = ["animation", "audio", "document", "sticker", "video", "video_note", "voice"];

/// Whether the username of the bot decides to whom a message is written.
pub(super) fn mentions_somebody(update: &Value) -> bool {
    let entities = written(&update["message"]).1;
    entities.iter().any(|entity| matches!(entity["type"].as_str(), Some("mention" | "bot_command")))
}

/// Text with its entities, of a message or of what stands under a picture.
fn written(message: &Value) -> (&str, &[Value]) {
    let (text, entities) = match message["text"].as_str() {
        Some(text) => (text, &message["entities"]),
        None => (message["caption"].as_str().unwrap_or_default(), &message["caption_entities"]),
    };
    (text, entities.as_array().map(Vec::as_slice).unwrap_or_default())
}

impl Telegram {
    /// One update, however it came.
    pub(crate) fn read(&self, update: &Value) -> Received {
        let incoming = number(&update["update_id"]).and_then(|id| {
            let message = self.read_message(&id, &update["message"]).map(Incoming::Message);
            message.or_else(|| read_decision(&id, &update["callback_query"]).map(Incoming::Decision))
        });
        Received { answer: WebhookAnswer::empty(), incoming: incoming.into_iter().collect() }
    }

    fn read_message(&self, update_id: &str, message: &Value) -> Option<IncomingMessage> {
        // With `sender_chat` the field `from` holds a stand-in.
        if !message["sender_chat"].is_null() {
            return None;
        }
        let sender = person(&message["from"])?;
        let chat = chat_of(message)?;
        let (text, entities) = written(message);
        let (text, is_mentioned) = self.without_mention(text, entities);
        let attachments = attachments_of(message);
        if text.is_empty() && attachments.is_empty() {
            return None;
        }
        let answered = &message["reply_to_message"];
        // In a topic, what is in answer to nothing is in answer to the beginning of the topic.
        let is_answer = self.bot_id.is_some()
            && answered["from"]["id"].as_i64() == self.bot_id
            && answered["forum_topic_created"].is_null();
        let details = match message["message_id"].as_i64() {
            Some(id) if chat.is_group => json!({"reply_to_message_id": id}),
            _ => Value::Null,
        };
        Some(IncomingMessage {
            id: update_id.to_owned(),
            is_addressed: !chat.is_group || is_mentioned || is_answer,
            text,
            attachments,
            sent_at: message["date"].as_i64().map(|seconds| Timestamp::from_micros(seconds.saturating_mul(1_000_000))),
            reply_to: Address { details, ..address_of(&chat) },
            sender,
            chat,
        })
    }

    /// The text without what names the bot, and whether something did. A command to the bot stays, without its name.
    fn without_mention(&self, text: &str, entities: &[Value]) -> (String, bool) {
        // Entities are counted in code units of UTF-16.
        let mut units: Vec<u16> = text.encode_utf16().collect();
        let mut mentions = Vec::new();
        for entity in entities.iter().take(MAX_ENTITIES) {
            let number = |field: &str| entity[field].as_u64().and_then(|number| usize::try_from(number).ok());
            let (Some(start), Some(length)) = (number("offset"), number("length")) else { continue };
            let Some(said) = start.checked_add(length).and_then(|end| units.get(start..end)) else { continue };
            let said = String::from_utf16_lossy(said);
            let is_name = |name: &str| self.is_username(name);
            match entity["type"].as_str() {
                Some("mention") if said.strip_prefix('@').is_some_and(is_name) => mentions.push((start, length)),
                Some("text_mention") if self.bot_id.is_some() && entity["user"]["id"].as_i64() == self.bot_id => {
                    mentions.push((start, length));
                }
                Some("bot_command") => {
                    if let Some((command, name)) = said.split_once('@')
                        && is_name(name)
                    {
                        let command = command.encode_utf16().count();
                        mentions.push((start + command, length - command));
                    }
                }
                _ => {}
            }
        }
        let is_mentioned = !mentions.is_empty();
        mentions.sort_unstable();
        for (start, length) in mentions.into_iter().rev() {
            if start + length <= units.len() {
                units.drain(start..start + length);
            }
        }
        (clean(&String::from_utf16_lossy(&units)), is_mentioned)
    }

    fn is_username(&self, name: &str) -> bool {
        self.username.lock().as_deref().is_some_and(|username| username.eq_ignore_ascii_case(name))
    }
}

fn read_decision(update_id: &str, query: &Value) -> Option<Decision> {
    let sender = person(&query["from"])?;
    let message = &query["message"];
    let chat = chat_of(message)?;
    let data = button_data(&query["data"])?;
    let message_id = message["message_id"].as_i64()?;
    let details = json!({"message_id": message_id, "callback_query_id": id(&query["id"])?});
    Some(Decision {
        id: update_id.to_owned(),
        sender,
        data,
        message_id: message_id.to_string(),
        message: Address { details, ..address_of(&chat) },
        reply_to: address_of(&chat),
        chat,
    })
}

/// The ids of updates, people, chats and topics.
fn number(value: &Value) -> Option<String> {
    value.as_i64().map(|number| number.to_string())
}

/// Who is no bot.
fn person(user: &Value) -> Option<Sender> {
    if user["is_bot"] != false {
        return None;
    }
    let names = [name(&user["first_name"]), name(&user["last_name"])];
    Some(Sender { id: number(&user["id"])?, name: names.join(" ").trim().to_owned() })
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

fn attachments_of(message: &Value) -> Vec<Attachment> {
    let mut attachments = Vec::new();
    // The same picture in several sizes, the largest one last.
    if let Some(photo) = message["photo"].as_array().and_then(|sizes| sizes.last()) {
        let media_type = Some("image/jpeg".to_owned());
        let bytes = photo["file_size"].as_u64();
        attachments.push(Attachment { name: String::new(), media_type, bytes, source: source(photo) });
    }
    for kind in FILES {
        let file = &message[kind];
        // For older programs an animation is there as a document too.
        if !file.is_object() || (kind == "document" && message["animation"].is_object()) {
            continue;
        }
        attachments.push(Attachment {
            name: name(&file["file_name"]),
            media_type: some_name(&file["mime_type"]),
            bytes: file["file_size"].as_u64(),
            source: source(file),
        });
    }
    attachments
}
