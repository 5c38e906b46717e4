//! Contents of a Gateway message, including forwarded and answered messages.

use serde_json::Value;

use super::details::is_snowflake;
use super::files::attachment;
use super::kinds::KINDS;
use crate::content::{Content, QuoteKind, mention_alone, named};
use crate::incoming_text::{first_name, name, text as clean};
use crate::kinds::{Handling, OTHER};

/// Maximum number of parts of each kind that are read.
const MAX_PARTS: usize = 50;

/// Reads the contents of a message. `own_id` is the user ID of the bot.
pub(super) fn content(data: &Value, own_id: &str, is_mentioned: bool) -> Content {
    let mut content = Content::default();
    let answered = &data["referenced_message"];
    if answered.is_object() {
        let is_own = answered["author"]["id"] == *own_id;
        let how = if is_own { QuoteKind::AnsweredAgent } else { QuoteKind::Answered };
        let names = [&answered["member"]["nick"], &answered["author"]["global_name"], &answered["author"]["username"]];
        content.add_quote(how, &first_name(names), &describe_quoted(answered, own_id));
    }
    content.add_text(&message_text(data, own_id));
    content.attach(parts(&data["attachments"]).map(attachment));
    for snapshot in parts(&data["message_snapshots"]) {
        let message = &snapshot["message"];
        content.add_quote(QuoteKind::Forwarded, "", &describe_quoted(message, own_id));
        content.attach(parts(&message["attachments"]).map(attachment));
    }
    if is_mentioned && !content.has_own() {
        content.add_text(&mention_alone());
    }
    content
}

/// Returns a description of a message without readable contents.
pub(super) fn unreadable(data: &Value) -> &'static str {
    let present = KINDS.iter().filter(|kind| !data[kind.name].is_null());
    let mut answered = present.filter_map(|kind| match kind.handling {
        Handling::Answered(what) => Some(what),
        _ => None,
    });
    answered.next().unwrap_or(OTHER)
}

fn parts(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(MAX_PARTS)
}

/// Returns the text of a message with descriptions of its non-text contents except files.
fn message_text(message: &Value, own_id: &str) -> String {
    let mentions = &message["mentions"];
    let text = without_mentions(&clean(message["content"].as_str().unwrap_or_default()), own_id, &|id| {
        let user = parts(mentions).find(|user| user["id"] == *id)?;
        Some(first_name([&user["global_name"], &user["username"]])).filter(|name| !name.is_empty())
    });
    let mut lines = vec![text];
    lines.extend(parts(&message["sticker_items"]).map(|sticker| named("Sticker", [name(&sticker["name"])])));
    let poll = &message["poll"];
    if poll.is_object() {
        let name_of = |media: &Value| first_name([&media["text"], &media["emoji"]["name"]]);
        let answers = parts(&poll["answers"]).zip(1..);
        let answers = answers.map(|(answer, number)| format!("{number}) {}", name_of(&answer["poll_media"])));
        lines.push(named("Poll", std::iter::once(name_of(&poll["question"])).chain(answers)));
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// Describes a quoted message.
fn describe_quoted(message: &Value, own_id: &str) -> String {
    let mut lines = vec![message_text(message, own_id)];
    for embed in parts(&message["embeds"]) {
        let text_of = |field: &str| embed[field].as_str().map(clean).unwrap_or_default();
        lines.extend(["title", "description", "url"].map(text_of));
        for field in parts(&embed["fields"]) {
            lines.push(format!("{}: {}", name(&field["name"]), field["value"].as_str().map(clean).unwrap_or_default()));
        }
    }
    lines.extend(parts(&message["attachments"]).map(|file| named("File", [name(&file["filename"])])));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// Replaces mentions (`<@1>`, in older clients `<@!1>`) by names, and removes those of the bot.
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
