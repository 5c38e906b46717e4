//! Activities to messages and decisions.

use agentd_base::Timestamp;
use serde_json::{Value, json};

use super::Teams;
use super::files::source;
use super::verify::CHANNEL;
use crate::incoming_text::{button_data, id, name, text as clean};
use crate::message::{Attachment, Chat, Decision, Incoming, IncomingMessage, Sender};
use crate::outgoing::Address;
use crate::webhook::{Received, WebhookAnswer};

/// More people are not mentioned by who means them.
const MAX_MENTIONS: usize = 50;
/// What the attachment of a file is.
const FILE: &str = "application/vnd.microsoft.teams.file.download.info";

impl Teams {
    /// Reads a verified activity.
    pub(crate) fn read(&self, activity: &Value) -> Received {
        let incoming = self.read_message(activity).into_iter().collect();
        Received { answer: WebhookAnswer::empty(), incoming }
    }

    /// `None` for what is no message of a person in a tenant that may write.
    fn read_message(&self, activity: &Value) -> Option<Incoming> {
        let tenant = &activity["channelData"]["tenant"]["id"];
        let is_of_tenant = match self.config.tenant_id.as_deref() {
            Some(ours) => tenant.as_str().is_some_and(|theirs| theirs.eq_ignore_ascii_case(ours)),
            None => true,
        };
        let from = &activity["from"];
        let sender_id = id(&from["id"])?;
        let is_bot = sender_id.starts_with("28:") || from["role"] == "bot" || from["id"] == activity["recipient"]["id"];
        if activity["type"] != "message" || activity["channelId"] != CHANNEL || !is_of_tenant || is_bot {
            return None;
        }
        let activity_id = id(&activity["id"])?;
        let conversation = id(&activity["conversation"]["id"])?;
        let sender = Sender { id: sender_id, name: name(&from["name"]) };
        let chat = chat(&activity["conversation"], &conversation);
        let address = |thread: Option<String>| Address {
            channel: conversation.clone(),
            thread,
            details: json!({"service_url": activity["serviceUrl"]}),
        };
        if let Some(data) = button_data(&activity["value"]["decision"]) {
            return Some(Incoming::Decision(Decision {
                reply_to: address(Some(activity_id.clone())),
                id: activity_id,
                sender,
                chat,
                data,
                message_id: id(&activity["replyToId"]).unwrap_or_default(),
                message: address(id(&activity["replyToId"])),
            }));
        }
        let (text, is_mentioned) = text(activity);
        let attachments = activity["attachments"].as_array().into_iter().flatten();
        let attachments: Vec<Attachment> =
            attachments.filter_map(|file| attachment(file, &activity["serviceUrl"])).collect();
        if text.is_empty() && attachments.is_empty() {
            return None;
        }
        Some(Incoming::Message(IncomingMessage {
            reply_to: address(Some(activity_id.clone())),
            id: activity_id,
            sender,
            is_addressed: !chat.is_group || is_mentioned,
            chat,
            text,
            attachments,
            sent_at: activity["timestamp"].as_str().and_then(|time| Timestamp::parse(time).ok()),
        }))
    }
}

/// A message in a channel stands in the thread of the message that began it, whose id stands behind the channel's.
fn chat(conversation: &Value, id: &str) -> Chat {
    let (chat, thread) = match id.split_once(";messageid=") {
        Some((chat, thread)) => (chat, Some(thread.to_owned())),
        None => (id, None),
    };
    let is_group = match conversation["conversationType"].as_str() {
        Some(kind) => kind != "personal",
        // What is not known to be private is not.
        None => conversation["isGroup"] != false,
    };
    Chat { id: chat.to_owned(), thread, is_group }
}

/// The text without the mention of the bot, and whether it has one. Who else is mentioned stands there by name.
fn text(activity: &Value) -> (String, bool) {
    let mut text = clean(activity["text"].as_str().unwrap_or_default());
    let mut is_mentioned = false;
    let entities = activity["entities"].as_array().into_iter().flatten();
    for mention in entities.filter(|entity| entity["type"] == "mention").take(MAX_MENTIONS) {
        let mentioned = &mention["mentioned"]["id"];
        let is_ours = mentioned.is_string() && *mentioned == activity["recipient"]["id"];
        is_mentioned |= is_ours;
        let Some(markup) = mention["text"].as_str() else { continue };
        let name = markup.strip_prefix("<at").and_then(|rest| rest.strip_suffix("</at>"));
        if let Some((_, name)) = name.and_then(|rest| rest.split_once('>')) {
            text = text.replace(markup, if is_ours { "" } else { name });
        }
    }
    (text.trim().to_owned(), is_mentioned)
}

/// `None` for the same text once more as HTML, for cards, and for messages that are quoted.
fn attachment(attachment: &Value, service_url: &Value) -> Option<Attachment> {
    let kind = id(&attachment["contentType"])?;
    let is_no_file = kind.starts_with("text/html")
        || kind == "messageReference"
        || kind.starts_with("application/vnd.microsoft.card")
        || kind.starts_with("application/vnd.microsoft.teams.card");
    if is_no_file {
        return None;
    }
    let source = source(attachment, service_url);
    let (name, media_type) = (name(&attachment["name"]), (kind != FILE).then_some(kind));
    Some(Attachment { name, media_type, bytes: None, source })
}
