//! Conversion of interaction events to messages and decisions.

use agentd_base::Timestamp;
use serde_json::{Value, json};

use super::GoogleChat;
use super::event::{Event, Kind};
use super::files::attachment;
use super::write::resource_ids;
use crate::content::{Content, Parts, QuoteKind, mention_alone, named};
use crate::incoming_text::{button_data, id, name};
use crate::kinds::OTHER;
use crate::message::{Chat, Decision, Incoming, IncomingMessage, Sender};
use crate::outgoing::Address;
use crate::webhook::{Received, WebhookAnswer};

/// Maximum number of parts of each kind that are read.
const MAX_PARTS: usize = 50;

impl GoogleChat {
    /// Reads a verified event.
    pub(crate) fn read(&self, event: &Value) -> Received {
        let incoming = Event::read(event).and_then(|event| match event.kind {
            Kind::Message | Kind::Command => read_message(&event),
            Kind::Click => read_decision(&event),
        });
        // An empty object posts no message; the reply is sent later.
        Received { answer: WebhookAnswer::json(&json!({})), incoming: incoming.into_iter().collect() }
    }
}

fn read_message(event: &Event<'_>) -> Option<Incoming> {
    let message = event.message;
    let is_written = message["name"].is_string() || event.kind == Kind::Message;
    let sender = sender(if is_written { &message["sender"] } else { event.user })?;
    let (chat, reply_to) = chat_and_address(event)?;
    let id = match is_written {
        true => id(&message["name"])?,
        // A command without text has no ID; user, command and time identify it across redeliveries.
        false => format!("{} {} {} {}", chat.id, sender.id, id(event.time)?, event.command),
    };
    let mut content = content(message);
    if event.kind == Kind::Command && !content.has_own() {
        content.add_text(&named("Command", [event.command.to_string()]));
    }
    let unreadable = content.is_empty().then_some(OTHER);
    let Parts { text, context, attachments } = content.into_parts();
    Some(Incoming::Message(IncomingMessage {
        id,
        sender,
        chat,
        // In spaces the platform sends only messages that mention the app.
        is_addressed: true,
        text,
        context,
        attachments,
        album: None,
        unreadable,
        sent_at: message["createTime"].as_str().and_then(|time| Timestamp::parse(time).ok()),
        reply_to,
    }))
}

fn content(message: &Value) -> Content {
    let mut content = Content::default();
    let parts = |field: &str| message[field].as_array().into_iter().flatten().take(MAX_PARTS);
    add_quoted(&message["quotedMessageMetadata"], &mut content);
    let whole = message["text"].as_str().unwrap_or_default();
    // `argumentText` omits the mention. A command is not a mention.
    let argument = message["argumentText"].as_str().filter(|_| message["slashCommand"].is_null());
    content.add_text(argument.unwrap_or(whole));
    content.attach(parts("attachment").map(attachment));
    for gif in parts("attachedGifs") {
        content.add_text(&named("GIF", [name(&gif["uri"])]));
    }
    for link in parts("annotations").filter_map(|annotation| annotation["richLinkMetadata"]["uri"].as_str()) {
        if !whole.contains(link) {
            content.add_text(&named("Link", [link]));
        }
    }
    if content.is_empty() && !whole.trim().is_empty() {
        content.add_text(&mention_alone());
    }
    content
}

fn add_quoted(quoted: &Value, content: &mut Content) {
    let snapshot = &quoted["quotedMessageSnapshot"];
    if !snapshot.is_object() {
        return;
    }
    let how = if quoted["quoteType"] == "FORWARD" { QuoteKind::Forwarded } else { QuoteKind::Answered };
    content.add_quote(how, &name(&snapshot["sender"]), snapshot["text"].as_str().unwrap_or_default());
    if how == QuoteKind::Forwarded {
        content.attach(snapshot["attachments"].as_array().into_iter().flatten().map(attachment));
    }
}

fn read_decision(event: &Event<'_>) -> Option<Incoming> {
    let message = id(&event.message["name"])?;
    let sender = sender(event.user)?;
    let (chat, reply_to) = chat_and_address(event)?;
    let listed = event.parameter_list.as_array().into_iter().flatten();
    let listed = listed.filter(|parameter| parameter["key"] == "decision").map(|parameter| &parameter["value"]);
    let decision = std::iter::once(&event.parameters["decision"]).chain(listed).find_map(button_data);
    let (data, label) = match decision {
        Some(data) => (data, String::new()),
        None => {
            let parameters = event.parameters.as_object().map(|all| Value::from(all.clone()).to_string());
            let function = button_data(event.function)?;
            (function.clone(), named("Button", [function, parameters.unwrap_or_default()]))
        }
    };
    // The event has no ID; user, button and time identify it across redeliveries.
    let time = id(event.time).unwrap_or_default();
    let mut details = reply_to.details.clone();
    details["message"] = json!(message);
    Some(Incoming::Decision(Decision {
        id: format!("{message} {} {time} {data}", sender.id),
        sender,
        chat,
        data,
        label,
        message_id: message,
        message: Address { details, ..reply_to.clone() },
        reply_to,
    }))
}

/// Returns the sender if it is a user; apps have other types.
fn sender(user: &Value) -> Option<Sender> {
    let id = id(&user["name"]).filter(|_| user["type"] == "HUMAN")?;
    Some(Sender { id, name: name(&user["displayName"]) })
}

fn chat_and_address(event: &Event<'_>) -> Option<(Chat, Address)> {
    let message = event.message;
    let space = if event.space["name"].is_string() { event.space } else { &message["space"] };
    let space_name = id(&space["name"]).filter(|name| resource_ids(name, &["spaces"]).is_some())?;
    let is_group = match space["spaceType"].as_str() {
        Some(kind) => kind != "DIRECT_MESSAGE",
        None => space["type"] != "DM",
    };
    // In a direct chat each message starts its own thread; only a reply in a thread refers to it.
    let thread = id(&message["thread"]["name"]).filter(|_| is_group || message["threadReply"] == true);
    let details = if event.is_add_on { json!({"is_add_on": true}) } else { Value::Null };
    let reply_to = Address { thread: thread.clone(), details, ..Address::of_channel(space_name.as_str()) };
    Some((Chat { id: space_name, thread, is_group }, reply_to))
}
