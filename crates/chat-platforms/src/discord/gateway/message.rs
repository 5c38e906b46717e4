//! Messages as the Gateway has them (<https://docs.discord.com/developers/resources/message#message-object>).

use agentd_base::Timestamp;
use serde_json::Value;

use super::super::details::Details;
use super::super::files::attachment;
use super::super::{Discord, is_snowflake};
use crate::incoming_text::{first_name, id, text as clean};
use crate::message::{Attachment, Chat, IncomingMessage, Sender};
use crate::outgoing::Address;

/// Kinds of messages that people write; others are what the server says.
const DEFAULT: u64 = 0;
const REPLY: u64 = 19;

impl Discord {
    /// The data of an event `MESSAGE_CREATE`; `own_id` is the user that the bot is. `None` for what is no message of a
    /// person.
    #[must_use]
    pub fn read_gateway_message(&self, data: &Value, own_id: &str) -> Option<IncomingMessage> {
        let author = &data["author"];
        let is_kind = matches!(data["type"].as_u64().unwrap_or(DEFAULT), DEFAULT | REPLY);
        let user = id(&author["id"])?;
        if !is_kind || author["bot"] == true || !data["webhook_id"].is_null() || user == own_id {
            return None;
        }
        let mentions = || data["mentions"].as_array().into_iter().flatten();
        let is_mentioned = mentions().any(|user| user["id"] == *own_id);
        let text = without_mentions(&clean(data["content"].as_str().unwrap_or_default()), own_id, &|id| {
            let user = mentions().find(|user| user["id"] == *id)?;
            Some(first_name([&user["global_name"], &user["username"]])).filter(|name| !name.is_empty())
        });
        let attachments: Vec<Attachment> =
            data["attachments"].as_array().into_iter().flatten().map(attachment).collect();
        if text.is_empty() && attachments.is_empty() {
            return None;
        }
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
            attachments,
            sent_at: data["timestamp"].as_str().and_then(|time| Timestamp::parse(time).ok()),
            reply_to: Address {
                details: if chat.is_group { details.to_value() } else { Value::Null },
                ..Address::of_channel(&chat.id)
            },
            chat,
        })
    }
}

/// `<@1>` and, in older programs, `<@!1>` by the name, and nothing for the bot.
fn without_mentions(content: &str, own_id: &str, name_of: &dyn Fn(&str) -> Option<String>) -> String {
    let mut text = String::with_capacity(content.len());
    let mut rest = content;
    while let Some((before, after)) = rest.split_once("<@") {
        text.push_str(before);
        rest = after;
        let number = after.strip_prefix('!').unwrap_or(after);
        let end = number.find(|character: char| !character.is_ascii_digit()).unwrap_or(number.len());
        let (id, behind) = number.split_at(end);
        match behind.strip_prefix('>').filter(|_| is_snowflake(id)) {
            Some(behind) => {
                if id != own_id {
                    text.push('@');
                    text.push_str(&name_of(id).unwrap_or_else(|| id.to_owned()));
                }
                rest = behind;
            }
            None => text.push_str("<@"),
        }
    }
    text.push_str(rest);
    clean(&text)
}
