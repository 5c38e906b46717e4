//! Text with its entities (<https://core.telegram.org/bots/api#messageentity>), and texts in blocks
//! (<https://core.telegram.org/bots/api#richmessage>), as plain text.

use serde_json::Value;

use super::Telegram;
use crate::incoming_text::{one_line, text as clean};

/// Maximum number of entities of a message.
const MAX_ENTITIES: usize = 100;
const MAX_URL: usize = 4_096;
const MAX_DEPTH: usize = 16;

/// Text and its entities, of a message or of what stands under a file.
pub(super) fn written(message: &Value) -> (&str, &[Value]) {
    let (text, entities) = match message["text"].as_str() {
        Some(text) => (text, &message["entities"]),
        None => (message["caption"].as_str().unwrap_or_default(), &message["caption_entities"]),
    };
    (text, entities.as_array().map(Vec::as_slice).unwrap_or_default())
}

/// A change of text, in code units of UTF-16.
enum Edit {
    Remove { start: usize, length: usize },
    Insert { at: usize, text: String },
}

impl Edit {
    fn place(&self) -> usize {
        match self {
            Self::Remove { start, .. } => *start,
            Self::Insert { at, .. } => *at,
        }
    }
}

impl Telegram {
    /// The text without mentions of the bot and with the addresses of links, and whether the bot is mentioned. A command
    /// to the bot stays, without the name.
    pub(super) fn own_text(&self, text: &str, entities: &[Value]) -> (String, bool) {
        let mut is_mentioned = false;
        let text = edited(text, entities, |kind, entity, said| {
            let named = match kind {
                "mention" => said.strip_prefix('@').is_some_and(|name| self.is_username(name)).then_some(0),
                "text_mention" => (self.bot_id.is_some() && entity["user"]["id"].as_i64() == self.bot_id).then_some(0),
                "bot_command" => {
                    let named = said.split_once('@').filter(|(_, name)| self.is_username(name));
                    named.map(|(command, _)| command.encode_utf16().count())
                }
                _ => None,
            };
            is_mentioned |= named.is_some();
            named
        });
        (text, is_mentioned)
    }

    fn is_username(&self, name: &str) -> bool {
        self.username.lock().as_deref().is_some_and(|username| username.eq_ignore_ascii_case(name))
    }
}

/// Text of others, with the addresses of links.
pub(super) fn text_of(message: &Value) -> String {
    let (text, entities) = written(message);
    edited(text, entities, |_, _, _| None)
}

/// `removed_from`: where in an entity what is removed begins, by its kind, the entity and its text.
fn edited(text: &str, entities: &[Value], mut removed_from: impl FnMut(&str, &Value, &str) -> Option<usize>) -> String {
    let mut units: Vec<u16> = text.encode_utf16().collect();
    let mut edits = Vec::new();
    for entity in entities.iter().take(MAX_ENTITIES) {
        let number = |field: &str| entity[field].as_u64().and_then(|number| usize::try_from(number).ok());
        let (Some(start), Some(length)) = (number("offset"), number("length")) else { continue };
        let Some(end) = start.checked_add(length) else { continue };
        let Some(said) = units.get(start..end).map(String::from_utf16_lossy) else { continue };
        let kind = entity["type"].as_str().unwrap_or_default();
        if let Some(from) = removed_from(kind, entity, &said) {
            edits.push(Edit::Remove { start: start + from, length: length.saturating_sub(from) });
        } else if kind == "text_link"
            && let Some(url) = entity["url"].as_str().map(one_line).filter(|url| is_worth_showing(url, &said))
        {
            edits.push(Edit::Insert { at: end, text: format!(" ({url})") });
        }
    }
    // From the end, so that places before it stay where they are.
    edits.sort_by_key(Edit::place);
    for edit in edits.into_iter().rev() {
        match edit {
            Edit::Remove { start, length } if start + length <= units.len() => drop(units.drain(start..start + length)),
            Edit::Insert { at, text } if at <= units.len() => drop(units.splice(at..at, text.encode_utf16())),
            _ => {}
        }
    }
    clean(&String::from_utf16_lossy(&units))
}

/// Not where the label is the address.
fn is_worth_showing(url: &str, label: &str) -> bool {
    let bare = |text: &str| {
        let text = text.trim().trim_end_matches('/');
        text.split_once("://").map_or(text, |(_, rest)| rest).to_lowercase()
    };
    !url.is_empty() && url.len() <= MAX_URL && bare(url) != bare(label)
}

/// The text of a rich message, one line for each block that has some.
pub(super) fn rich_text(message: &Value) -> String {
    let mut lines = Vec::new();
    push_blocks(&message["blocks"], MAX_DEPTH, &mut lines);
    clean(&lines.join("\n"))
}

fn push_blocks(blocks: &Value, depth: usize, lines: &mut Vec<String>) {
    let Some(deeper) = depth.checked_sub(1) else { return };
    for block in blocks.as_array().into_iter().flatten() {
        let texts =
            [&block["summary"], &block["label"], &block["text"], &block["expression"], &block["caption"]["text"]];
        let texts = texts.into_iter().map(|text| inline(text, deeper)).filter(|text| !text.is_empty());
        let texts: Vec<String> = texts.collect();
        if !texts.is_empty() {
            lines.push(texts.join(" "));
        }
        for row in block["cells"].as_array().into_iter().flatten() {
            let cells = row.as_array().into_iter().flatten().map(|cell| inline(&cell["text"], deeper));
            lines.push(cells.collect::<Vec<_>>().join(" | "));
        }
        push_blocks(&block["blocks"], deeper, lines);
        push_blocks(&block["items"], deeper, lines);
    }
}

/// A text, a list of texts, or an object that holds one.
fn inline(text: &Value, depth: usize) -> String {
    let Some(deeper) = depth.checked_sub(1) else { return String::new() };
    match text {
        Value::String(text) => text.clone(),
        Value::Array(texts) => texts.iter().map(|text| inline(text, deeper)).collect(),
        Value::Object(_) => {
            let label = inline(&text["text"], deeper);
            let alternative = || inline(&text["alternative_text"], deeper) + &inline(&text["expression"], deeper);
            let label = if label.is_empty() { alternative() } else { label };
            match text["url"].as_str().map(one_line).filter(|url| is_worth_showing(url, &label)) {
                Some(url) => format!("{label} ({url})"),
                None => label,
            }
        }
        _ => String::new(),
    }
}
