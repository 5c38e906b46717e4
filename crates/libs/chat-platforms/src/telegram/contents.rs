//! Message contents besides text, including forwarded and answered messages.

use serde_json::Value;

use super::Telegram;
use super::files::source;
use super::kinds::KINDS;
use super::text::{rich_text, text_of};
use crate::content::{Content, QuoteKind, named};
use crate::incoming_text::{first_name, name, some_name};
use crate::kinds::{Handling, OTHER};
use crate::message::Attachment;

/// File fields of a message with their names.
const FILES: [(&str, &str); 8] = [
    ("animation", "Animation"),
    ("audio", "Audio"),
    ("document", "Document"),
    ("live_photo", "Live photo"),
    ("sticker", "Sticker"),
    ("video", "Video"),
    ("video_note", "Video message"),
    ("voice", "Voice message"),
];

/// Whether the message is a reply. In a topic, other messages appear as replies to the creation of the topic.
pub(super) fn is_answered_message(answered: &Value) -> bool {
    answered.is_object() && answered["forum_topic_created"].is_null()
}

/// Describes non-text contents.
pub(super) fn named_contents(message: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let rich = rich_text(&message["rich_message"]);
    if !rich.is_empty() {
        lines.push(rich);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = |field: &str| Some(&message[field]).filter(|value| value.is_object());
    if let Some(contact) = object("contact") {
        lines.push(named("Contact", [person_name(contact), text(&contact["phone_number"])]));
    }
    if let Some(venue) = object("venue") {
        let coordinates_text = coordinates(&venue["location"]);
        lines.push(named("Location", [text(&venue["title"]), text(&venue["address"]), coordinates_text]));
    } else if let Some(location) = object("location") {
        let kind = if location["live_period"].is_null() { "Location" } else { "Live location" };
        lines.push(named(kind, [coordinates(location)]));
    }
    if let Some(poll) = object("poll") {
        let options = items(&poll["options"])
            .iter()
            .zip(1..)
            .map(|(option, number)| format!("{number}) {}", text(&option["text"])));
        lines.push(named("Poll", std::iter::once(text(&poll["question"])).chain(options)));
    }
    if let Some(checklist) = object("checklist") {
        let task = |task: &Value| {
            let is_done = task["completion_date"].as_i64().is_some_and(|date| date != 0);
            format!("{} {}", if is_done { '☑' } else { '☐' }, text(&task["text"]))
        };
        let tasks = items(&checklist["tasks"]).iter().map(task);
        lines.push(named("Checklist", std::iter::once(text(&checklist["title"])).chain(tasks)));
    }
    if let Some(dice) = object("dice") {
        lines.push(named("Dice", [format!("{} {}", text(&dice["emoji"]), dice["value"])]));
    }
    if let Some(game) = object("game") {
        lines.push(named("Game", [text(&game["title"]), text(&game["description"])]));
    }
    if let Some(sticker) = object("sticker") {
        lines.push(named("Sticker", [text(&sticker["emoji"])]));
    }
    if let Some(data) = object("web_app_data") {
        lines.push(named("Web app data", [text(&data["button_text"]), text(&data["data"])]));
    }
    lines
}

/// Returns descriptions of the contents that the table lists as unreadable.
pub(super) fn unreadable_contents(message: &Value) -> impl Iterator<Item = &'static str> {
    KINDS.iter().filter_map(|kind| match kind.handling {
        Handling::Answered(what) if !message[kind.name].is_null() => Some(what),
        _ => None,
    })
}

/// Returns a description of a message without readable contents; `None` if it should be ignored.
pub(super) fn unreadable(message: &Value) -> Option<&'static str> {
    let is_ignored =
        KINDS.iter().any(|kind| matches!(kind.handling, Handling::Ignored(_)) && !message[kind.name].is_null());
    unreadable_contents(message).next().or((!is_ignored).then_some(OTHER))
}

impl Telegram {
    /// Adds the message that is replied to.
    pub(super) fn add_answered(&self, message: &Value, content: &mut Content) {
        let chosen = message["quote"]["text"].as_str().unwrap_or_default();
        let shown = |object: &Value| if chosen.is_empty() { describe_quoted(object) } else { chosen.to_owned() };
        let answered = &message["reply_to_message"];
        let external = &message["external_reply"];
        if is_answered_message(answered) {
            let is_own = self.bot_id.is_some() && answered["from"]["id"].as_i64() == self.bot_id;
            let how = if is_own { QuoteKind::AnsweredAgent } else { QuoteKind::Answered };
            content.add_quote(how, &author(answered), &shown(answered));
        } else if external.is_object() {
            content.add_quote(QuoteKind::Answered, &origin(&external["origin"]), &shown(external));
        }
    }
}

/// Describes a quoted message: its text, and the kinds of its contents.
pub(super) fn describe_quoted(message: &Value) -> String {
    let mut lines = vec![text_of(message)];
    if !message["photo"].is_null() {
        lines.push(named("Photo", [""; 0]));
    }
    for (field, kind) in FILES {
        let is_copy = field == "document" && message["animation"].is_object();
        if field != "sticker" && message[field].is_object() && !is_copy {
            lines.push(named(kind, [name(&message[field]["file_name"])]));
        }
    }
    lines.extend(named_contents(message));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// Returns the author of a quoted message.
fn author(message: &Value) -> String {
    let chat = first_name([&message["sender_chat"]["title"], &message["author_signature"]]);
    if chat.is_empty() { person_name(&message["from"]) } else { chat }
}

/// Returns the author of a forwarded message.
pub(super) fn origin(origin: &Value) -> String {
    let chat = [&origin["chat"]["title"], &origin["sender_chat"]["title"], &origin["sender_user_name"]];
    let chat = first_name(chat);
    if chat.is_empty() { person_name(&origin["sender_user"]) } else { chat }
}

pub(super) fn person_name(user: &Value) -> String {
    [name(&user["first_name"]), name(&user["last_name"])].join(" ").trim().to_owned()
}

fn coordinates(location: &Value) -> String {
    match (location["latitude"].as_f64(), location["longitude"].as_f64()) {
        (Some(latitude), Some(longitude)) => format!("{latitude}, {longitude}"),
        _ => String::new(),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn attachments_of(message: &Value) -> Vec<Attachment> {
    let mut attachments = Vec::new();
    // Several sizes of the same picture, the largest one last.
    if let Some(photo) = message["photo"].as_array().and_then(|sizes| sizes.last()) {
        let media_type = Some("image/jpeg".to_owned());
        let bytes = photo["file_size"].as_u64();
        attachments.push(Attachment { name: String::new(), media_type, bytes, source: source(photo) });
    }
    for (field, _) in FILES {
        let file = &message[field];
        // For older clients an animation is repeated as a document.
        if !file.is_object() || (field == "document" && message["animation"].is_object()) {
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
