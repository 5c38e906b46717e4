//! Gateway messages (<https://docs.discord.com/developers/resources/message#message-object>).

use agentd_base::Timestamp;
use serde_json::Value;

use super::super::Discord;
use super::super::contents::{content, unreadable};
use super::super::details::{Details, is_snowflake};
use super::super::kinds::is_user_message;
use crate::content::Parts;
use crate::incoming_text::{first_name, id};
use crate::message::{Chat, IncomingMessage, Sender};
use crate::outgoing::Address;

impl Discord {
    /// Reads the data of a `MESSAGE_CREATE` event. `own_id` is the user ID of the bot. Returns `None` for anything but
    /// a user message.
    #[must_use]
    pub fn read_gateway_message(&self, data: &Value, own_id: &str) -> Option<IncomingMessage> {
        let author = &data["author"];
        let is_kind = is_user_message(data["type"].as_u64().unwrap_or_default());
        let user = id(&author["id"])?;
        if !is_kind || author["bot"] == true || !data["webhook_id"].is_null() || user == own_id {
            return None;
        }
        let mut mentions = data["mentions"].as_array().into_iter().flatten();
        let is_mentioned = mentions.any(|user| user["id"] == *own_id);
        let content = content(data, own_id, is_mentioned);
        let is_forward = data["message_snapshots"].as_array().is_some_and(|snapshots| !snapshots.is_empty());
        let unreadable = (!content.has_own() && !is_forward).then(|| unreadable(data));
        let Parts { text, context, attachments } = content.into_parts();
        let chat = Chat { id: id(&data["channel_id"])?, thread: None, is_group: !data["guild_id"].is_null() };
        if !is_snowflake(&chat.id) {
            return None;
        }
        let message_id = id(&data["id"])?;
        let is_answer = data["referenced_message"]["author"]["id"] == *own_id;
        let details = Details { reply_to_message_id: chat.is_group.then(|| message_id.clone()), ..Details::default() };
        let names = [&data["member"]["nick"], &author["global_name"], &author["username"]];
        Some(IncomingMessage {
            id: message_id,
            sender: Sender { id: user, name: first_name(names) },
            is_addressed: !chat.is_group || is_mentioned || is_answer,
            text,
            context,
            attachments,
            album: None,
            unreadable,
            sent_at: data["timestamp"].as_str().and_then(|time| Timestamp::parse(time).ok()),
            reply_to: Address {
                details: if chat.is_group { details.to_value() } else { Value::Null },
                ..Address::of_channel(&chat.id)
            },
            chat,
        })
    }
}
