//! What a message of the Gateway holds, and the messages that it forwards or answers.

use serde_json::Value;

use super::details::is_snowflake;
use super::files::attachment;
use super::kinds::KINDS;
use crate::content::{Content, Quoted, mention_alone, named};
use crate::incoming_text::{first_name, name, text as clean};
use crate::kinds::{Handling, OTHER};

/// Maximum number of parts of one kind that are read.
const MAX_PARTS: usize = 50;

/// The contents of a message; `own_id` is the bot's user.
pub(super) fn content(data: &Value, own_id: &str, is_mentioned: bool) -> Content {
    let mut content = Content::default();
    let answered = &data["referenced_message"];
    if answered.is_object() {
        let is_own = answered["author"]["id"] == *own_id;
        let how = if is_own { Quoted::AnsweredAgent } else { Quoted::Answered };
        let names = [&answered["member"]["nick"], &answered["author"]["global_name"], &answered["author"]["username"]];
        content.quote(how, &first_name(names), &described(answered, own_id));
    }
    content.say(&said(data, own_id));
    content.attach(parts(&data["attachments"]).map(attachment));
    for snapshot in parts(&data["message_snapshots"]) {
        let message = &snapshot["message"];
        content.quote(Quoted::Forwarded, "", &described(message, own_id));
        content.attach(parts(&message["attachments"]).map(attachment));
    }
    if is_mentioned && !content.has_own() {
        content.say(&mention_alone());
    }
    content
}

/// Names a message that holds nothing that can be read.
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

/// The text of a message, and its contents that are no files in words.
fn said(message: &Value, own_id: &str) -> String {
    let mentions = &message["mentions"];
    let text = without_mentions(&clean(message["content"].as_str().unwrap_or_default()), own_id, &|id| {
        let user = parts(mentions).find(|user| user["id"] == *id)?;
        Some(first_name([&user["global_name"], &user["username"]])).filter(|name| !name.is_empty())
    });
    let mut lines = vec![text];
    lines.extend(parts(&message["sticker_items"]).map(|sticker| named("Sticker", [name(&sticker["name"])])));
    let poll = &message["poll"];
    if poll.is_object() {
        let of = |media: &Value| first_name([&media["text"], &media["emoji"]["name"]]);
        let answers = parts(&poll["answers"]).zip(1..);
        let answers = answers.map(|(answer, number)| format!("{number}) {}", of(&answer["poll_media"])));
        lines.push(named("Poll", std::iter::once(of(&poll["question"])).chain(answers)));
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// A message of others in words.
fn described(message: &Value, own_id: &str) -> String {
    let mut lines = vec![said(message, own_id)];
    for embed in parts(&message["embeds"]) {
        let of = |field: &str| embed[field].as_str().map(clean).unwrap_or_default();
        lines.extend(["title", "description", "url"].map(of));
        for field in parts(&embed["fields"]) {
            lines.push(format!("{}: {}", name(&field["name"]), field["value"].as_str().map(clean).unwrap_or_default()));
        }
    }
    lines.extend(parts(&message["attachments"]).map(|file| named("File", [name(&file["filename"])])));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
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
