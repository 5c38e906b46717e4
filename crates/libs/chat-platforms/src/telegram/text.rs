//! Conversion of text with entities (<https://core.telegram.org/bots/api#messageentity>) and of rich messages
//! (<https://core.telegram.org/bots/api#richmessage>) to plain text.

use serde_json::Value;

use super::Telegram;
use crate::incoming_text::{one_line, text as clean};

/// Maximum number of entities of a message.
const MAX_ENTITIES: usize = 100;
const MAX_URL_BYTES: usize = 4_096;
const MAX_DEPTH: usize = 16;

/// Returns the text or caption of a message with its entities.
pub(super) fn text_and_entities(message: &Value) -> (&str, &[Value]) {
    let (text, entities) = match message["text"].as_str() {
        Some(text) => (text, &message["entities"]),
        None => (message["caption"].as_str().unwrap_or_default(), &message["caption_entities"]),
    };
    (text, entities.as_array().map(Vec::as_slice).unwrap_or_default())
}

/// Text edit, in UTF-16 code units.
enum Edit {
    Remove { start: usize, length: usize },
    Insert { at: usize, text: String },
}

impl Edit {
    fn offset(&self) -> usize {
        match self {
            Self::Remove { start, .. } => *start,
            Self::Insert { at, .. } => *at,
        }
    }
}

impl Telegram {
    /// Returns the text without mentions of the bot and with the URLs of links, and whether the bot is mentioned. A
    /// command to the bot keeps its name without the mention.
    pub(super) fn text_without_mentions(&self, text: &str, entities: &[Value]) -> (String, bool) {
        let mut is_mentioned = false;
        let text = apply_edits(text, entities, |kind, entity, entity_text| {
            let named = match kind {
                "mention" => entity_text.strip_prefix('@').is_some_and(|name| self.is_username(name)).then_some(0),
                "text_mention" => (self.bot_id.is_some() && entity["user"]["id"].as_i64() == self.bot_id).then_some(0),
                "bot_command" => {
                    let named = entity_text.split_once('@').filter(|(_, name)| self.is_username(name));
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

/// Returns the text of a quoted message, with the URLs of links.
pub(super) fn text_of(message: &Value) -> String {
    let (text, entities) = text_and_entities(message);
    apply_edits(text, entities, |_, _, _| None)
}

/// Applies edits. `removed_from` returns the offset from which an entity is removed, given its kind, the entity and its
/// text.
fn apply_edits(
    text: &str,
    entities: &[Value],
    mut removed_from: impl FnMut(&str, &Value, &str) -> Option<usize>,
) -> String {
    let mut units: Vec<u16> = text.encode_utf16().collect();
    let mut edits = Vec::new();
    for entity in entities.iter().take(MAX_ENTITIES) {
        let number = |field: &str| entity[field].as_u64().and_then(|number| usize::try_from(number).ok());
        let (Some(start), Some(length)) = (number("offset"), number("length")) else { continue };
        let Some(end) = start.checked_add(length) else { continue };
        let Some(entity_text) = units.get(start..end).map(String::from_utf16_lossy) else { continue };
        let kind = entity["type"].as_str().unwrap_or_default();
        if let Some(from) = removed_from(kind, entity, &entity_text) {
            edits.push(Edit::Remove { start: start + from, length: length.saturating_sub(from) });
        } else if kind == "text_link"
            && let Some(url) = entity["url"].as_str().map(one_line).filter(|url| differs_from_label(url, &entity_text))
        {
            edits.push(Edit::Insert { at: end, text: format!(" ({url})") });
        }
    }
    // Apply from the end, so that earlier offsets stay valid.
    edits.sort_by_key(Edit::offset);
    for edit in edits.into_iter().rev() {
        match edit {
            Edit::Remove { start, length } if start + length <= units.len() => drop(units.drain(start..start + length)),
            Edit::Insert { at, text } if at <= units.len() => drop(units.splice(at..at, text.encode_utf16())),
            _ => {}
        }
    }
    clean(&String::from_utf16_lossy(&units))
}

/// Compares without scheme, trailing slashes and case.
fn differs_from_label(url: &str, label: &str) -> bool {
    let bare = |text: &str| {
        let text = text.trim().trim_end_matches('/');
        text.split_once("://").map_or(text, |(_, rest)| rest).to_lowercase()
    };
    !url.is_empty() && url.len() <= MAX_URL_BYTES && bare(url) != bare(label)
}

/// Returns the text of a rich message, one line for each non-empty block.
pub(super) fn rich_text(message: &Value) -> String {
    let mut lines = Vec::new();
    push_blocks(&message["blocks"], MAX_DEPTH, &mut lines);
    clean(&lines.join("\n"))
}

fn push_blocks(blocks: &Value, depth: usize, lines: &mut Vec<String>) {
    let Some(remaining_depth) = depth.checked_sub(1) else { return };
    for block in blocks.as_array().into_iter().flatten() {
        let texts =
            [&block["summary"], &block["label"], &block["text"], &block["expression"], &block["caption"]["text"]];
        let texts = texts.into_iter().map(|text| inline(text, remaining_depth)).filter(|text| !text.is_empty());
        let texts: Vec<String> = texts.collect();
        if !texts.is_empty() {
            lines.push(texts.join(" "));
        }
        for row in block["cells"].as_array().into_iter().flatten() {
            let cells = row.as_array().into_iter().flatten().map(|cell| inline(&cell["text"], remaining_depth));
            lines.push(cells.collect::<Vec<_>>().join(" | "));
        }
        push_blocks(&block["blocks"], remaining_depth, lines);
        push_blocks(&block["items"], remaining_depth, lines);
    }
}

/// Reads inline text: a string, a list, or an object that contains one.
fn inline(text: &Value, depth: usize) -> String {
    let Some(remaining_depth) = depth.checked_sub(1) else { return String::new() };
    match text {
        Value::String(text) => text.clone(),
        Value::Array(texts) => texts.iter().map(|text| inline(text, remaining_depth)).collect(),
        Value::Object(_) => {
            let label = inline(&text["text"], remaining_depth);
            let alternative =
                || inline(&text["alternative_text"], remaining_depth) + &inline(&text["expression"], remaining_depth);
            let label = if label.is_empty() { alternative() } else { label };
            match text["url"].as_str().map(one_line).filter(|url| differs_from_label(url, &label)) {
                Some(url) => format!("{label} ({url})"),
                None => label,
            }
        }
        _ => String::new(),
    }
}
