//! Interaction events to messages and decisions.

use agentd_base::Timestamp;
use serde_json::{Value, json};

use super::GoogleChat;
use super::files::source;
use super::write::name_after;
use crate::incoming_text::{button_data, id, name, some_name, text as clean};
use crate::message::{Attachment, Chat, Decision, Incoming, IncomingMessage, Sender};
use crate::outgoing::Address;
use crate::webhook::{Received, WebhookAnswer};

impl GoogleChat {
    /// Reads a verified event.
    pub(crate) fn read(&self, event: &Value) -> Received {
        let incoming = match event["type"].as_str() {
            Some("MESSAGE") => read_message(event),
            Some("CARD_CLICKED") => read_decision(event),
            _ => None,
        };
        // An empty object is no message: what is said comes later.
        Received { answer: WebhookAnswer::json(&json!({})), incoming: incoming.into_iter().collect() }
    }
}

fn read_message(event: &Value) -> Option<Incoming> {
    let message = &event["message"];
    let id = id(&message["name"])?;
    let sender = sender(&message["sender"])?;
    let (chat, reply_to) = place(event)?;
    // Where the mention is taken out there may be nothing left.
    let text = message["argumentText"].as_str().or_else(|| message["text"].as_str()).unwrap_or_default();
    let text = clean(text);
    let attachments: Vec<Attachment> = message["attachment"].as_array().into_iter().flatten().map(attachment).collect();
    if text.is_empty() && attachments.is_empty() {
        return None;
    }
    Some(Incoming::Message(IncomingMessage {
        id,
        sender,
        chat,
        // In spaces the platform sends only what mentions the app.
        is_addressed: true,
        text,
        attachments,
        sent_at: message["createTime"].as_str().and_then(|time| Timestamp::parse(time).ok()),
        reply_to,
    }))
}

fn read_decision(event: &Value) -> Option<Incoming> {
    let message = id(&event["message"]["name"])?;
    let sender = sender(&event["user"])?;
    let (chat, reply_to) = place(event)?;
    let parameters = event["action"]["parameters"].as_array().into_iter().flatten();
    let of_action = parameters.filter(|parameter| parameter["key"] == "decision").map(|parameter| &parameter["value"]);
    let data = std::iter::once(&event["common"]["parameters"]["decision"]).chain(of_action).find_map(button_data)?;
    // The platform gives such an event no id: who pressed what when is the same however often it is sent.
    let time = id(&event["eventTime"]).unwrap_or_default();
    Some(Incoming::Decision(Decision {
        id: format!("{message} {} {time} {data}", sender.id),
        sender,
        chat,
        data,
        message_id: message.clone(),
        message: Address { details: json!({"message": message}), ..reply_to.clone() },
        reply_to,
    }))
}

/// A person alone: apps have types of their own.
fn sender(user: &Value) -> Option<Sender> {
    let id = id(&user["name"]).filter(|_| user["type"] == "HUMAN")?;
    Some(Sender { id, name: name(&user["displayName"]) })
}

fn place(event: &Value) -> Option<(Chat, Address)> {
    let (message, outer) = (&event["message"], &event["space"]);
    let space = if outer["name"].is_string() { outer } else { &message["space"] };
    let space_name = id(&space["name"]).filter(|name| name_after(name, &["spaces"]).is_some())?;
    let is_group = match space["spaceType"].as_str() {
        Some(kind) => kind != "DIRECT_MESSAGE",
        None => space["type"] != "DM",
    };
    // In a direct chat each message begins a thread of its own; only an answer in one means it.
    let thread = id(&message["thread"]["name"]).filter(|_| is_group || message["threadReply"] == true);
    let reply_to = Address { thread: thread.clone(), ..Address::of_channel(space_name.as_str()) };
    Some((Chat { id: space_name, thread, is_group }, reply_to))
}

fn attachment(attachment: &Value) -> Attachment {
    Attachment {
        name: name(&attachment["contentName"]),
        media_type: some_name(&attachment["contentType"]),
        bytes: None,
        source: source(attachment),
    }
}
