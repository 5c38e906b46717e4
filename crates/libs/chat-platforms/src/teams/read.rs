//! Conversion of activities to messages and decisions.

use agentd_base::Timestamp;
use serde_json::{Value, json};

use super::Teams;
use super::contents::content;
use super::verify::CHANNEL;
use crate::content::Parts;
use crate::incoming_text::{button_data, id, name};
use crate::kinds::OTHER;
use crate::message::{Chat, Decision, Incoming, IncomingMessage, Sender};
use crate::outgoing::Address;
use crate::webhook::{Received, WebhookAnswer};

impl Teams {
    /// Reads a verified activity.
    pub(crate) fn read(&self, activity: &Value) -> Received {
        let incoming = self.read_message(activity).into_iter().collect();
        Received { answer: WebhookAnswer::empty(), incoming }
    }

    /// Returns `None` for anything but a user message from a permitted tenant.
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
                label: String::new(),
                message: address(id(&activity["replyToId"])),
            }));
        }
        let (content, is_mentioned) = content(activity);
        let unreadable = content.is_empty().then_some(OTHER);
        let Parts { text, context, attachments } = content.into_parts();
        Some(Incoming::Message(IncomingMessage {
            reply_to: address(Some(activity_id.clone())),
            id: activity_id,
            sender,
            is_addressed: !chat.is_group || is_mentioned,
            chat,
            text,
            context,
            attachments,
            album: None,
            unreadable,
            sent_at: activity["timestamp"].as_str().and_then(|time| Timestamp::parse(time).ok()),
        }))
    }
}

/// Returns the chat. In a channel, the ID of the thread's first message follows the channel ID.
fn chat(conversation: &Value, id: &str) -> Chat {
    let (chat, thread) = match id.split_once(";messageid=") {
        Some((chat, thread)) => (chat, Some(thread.to_owned())),
        None => (id, None),
    };
    let is_group = match conversation["conversationType"].as_str() {
        Some(kind) => kind != "personal",
        // Unknown conversations count as groups.
        None => conversation["isGroup"] != false,
    };
    Chat { id: chat.to_owned(), thread, is_group }
}
