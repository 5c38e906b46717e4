//! Conversion of blocks and attachments to plain text (<https://docs.slack.dev/reference/block-kit/blocks>).

use serde_json::{Value, json};

use super::files::attachment;
use super::text;
use crate::content::{Content, QuoteKind, named};
use crate::incoming_text::{first_name, one_line, text as clean};

const MAX_DEPTH: usize = 8;
/// Maximum number of blocks, of elements per block, and of cells per table that are read.
const MAX_ITEMS: usize = 2_000;
/// Fallback text that Slack generates for clients without block support.
const NO_PREVIEW: &str = "[no preview available]";

/// Returns the text of a list of blocks, and whether it mentions one of the `own` users.
pub(super) fn blocks_text(blocks: &Value, own: &[&str], with_rich_text: bool) -> (String, bool) {
    let mut reader = Reader { own, is_mentioned: false, lines: Vec::new() };
    reader.blocks(blocks, MAX_DEPTH, with_rich_text);
    (clean(&reader.lines.join("\n")), reader.is_mentioned)
}

struct Reader<'a> {
    own: &'a [&'a str],
    is_mentioned: bool,
    lines: Vec<String>,
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten().take(MAX_ITEMS)
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Reader<'_> {
    fn blocks(&mut self, blocks: &Value, depth: usize, with_rich_text: bool) {
        let Some(deeper) = depth.checked_sub(1) else { return };
        for block in items(blocks) {
            match block["type"].as_str().unwrap_or_default() {
                "rich_text" if with_rich_text => self.rich_text(block, deeper),
                "rich_text" | "divider" | "actions" | "context_actions" | "input" => {}
                "table" | "data_table" => {
                    for row in items(&block["rows"]) {
                        let cells: Vec<String> = items(row).map(|cell| self.cell(cell, deeper)).collect();
                        self.lines.push(cells.join(" | "));
                    }
                }
                "image" => {
                    let title = first_name([&block["title"]["text"], &block["alt_text"]]);
                    self.lines.push(named("Image", [title, string(&block["image_url"])]));
                }
                "video" => {
                    let url = first_name([&block["title_url"], &block["video_url"]]);
                    self.lines.push(named("Video", [string(&block["title"]["text"]), url]));
                }
                "file" => self.lines.push(named("File", [""; 0])),
                "call" => self.lines.push(named("Call", [""; 0])),
                _ => self.texts(block, deeper),
            }
        }
    }

    /// Reads the texts of any other block, in its own fields and in nested blocks and elements.
    fn texts(&mut self, block: &Value, depth: usize) {
        for field in ["title", "subtitle", "text", "body", "details", "output"] {
            let line = match &block[field] {
                Value::String(line) => line.clone(),
                element if element["type"] == "rich_text" => {
                    self.rich_text(element, depth);
                    continue;
                }
                element => self.text_object(element),
            };
            self.lines.extend(Some(line).filter(|line| !line.trim().is_empty()));
        }
        for field in items(&block["fields"]) {
            let line = self.text_object(field);
            self.lines.extend(Some(line).filter(|line| !line.is_empty()));
        }
        for inner in ["elements", "blocks", "cards", "tasks"] {
            for element in items(&block[inner]) {
                if element["type"] == "plain_text" || element["type"] == "mrkdwn" {
                    let line = self.text_object(element);
                    self.lines.extend(Some(line).filter(|line| !line.is_empty()));
                } else {
                    self.blocks(&Value::Array(vec![element.clone()]), depth, true);
                }
            }
        }
    }

    fn text_object(&mut self, object: &Value) -> String {
        let text = object["text"].as_str().unwrap_or_default();
        if object["type"] == "mrkdwn" { self.plain_text(text) } else { clean(text) }
    }

    fn plain_text(&mut self, text: &str) -> String {
        let (plain, is_mentioned) = text::to_plain_text(&clean(text), self.own);
        self.is_mentioned |= is_mentioned;
        plain
    }

    fn cell(&mut self, cell: &Value, depth: usize) -> String {
        let line = match cell["type"].as_str() {
            Some("rich_text") => {
                let before = std::mem::take(&mut self.lines);
                self.rich_text(cell, depth);
                std::mem::replace(&mut self.lines, before).join(" ")
            }
            _ => match &cell["text"] {
                Value::String(text) => text.clone(),
                text if text.is_object() => self.text_object(text),
                _ if cell["value"].is_number() => cell["value"].to_string(),
                _ => String::new(),
            },
        };
        one_line(&line)
    }

    fn rich_text(&mut self, block: &Value, depth: usize) {
        let Some(deeper) = depth.checked_sub(1) else { return };
        for part in items(&block["elements"]) {
            match part["type"].as_str().unwrap_or_default() {
                "rich_text_list" => {
                    for item in items(&part["elements"]) {
                        let line = format!("- {}", self.inline(item));
                        self.lines.push(line);
                    }
                }
                "rich_text_quote" => {
                    let quoted = self.inline(part);
                    self.lines.extend(quoted.lines().map(|line| format!("> {line}")));
                }
                "rich_text_section" | "rich_text_preformatted" => {
                    let line = self.inline(part);
                    self.lines.push(line.trim_end().to_owned());
                }
                _ => self.rich_text(part, deeper),
            }
        }
    }

    fn inline(&mut self, section: &Value) -> String {
        items(&section["elements"]).map(|element| self.element(element)).collect()
    }

    fn element(&mut self, element: &Value) -> String {
        let field_text = |field: &str| string(&element[field]);
        match element["type"].as_str().unwrap_or_default() {
            "link" => match (field_text("text"), field_text("url")) {
                (label, url) if label.is_empty() || label == url => url,
                (label, url) => format!("{label} ({url})"),
            },
            "user" if self.own.contains(&field_text("user_id").as_str()) => {
                self.is_mentioned = true;
                String::new()
            }
            "user" => format!("@{}", field_text("user_id")),
            "usergroup" => format!("@{}", field_text("usergroup_id")),
            "team" => format!("@{}", field_text("team_id")),
            "channel" => format!("#{}", field_text("channel_id")),
            "broadcast" => format!("@{}", field_text("range")),
            "emoji" => emoji(&field_text("unicode")).unwrap_or_else(|| format!(":{}:", field_text("name"))),
            "date" => field_text("fallback"),
            "color" => field_text("value"),
            _ => field_text("text"),
        }
    }
}

/// Parses hexadecimal code points such as `1f468-200d-1f4bb`.
fn emoji(unicode: &str) -> Option<String> {
    let point = |hex: &str| u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
    unicode.split('-').map(point).collect::<Option<String>>().filter(|emoji| !emoji.is_empty())
}

/// Adds attachments: forwarded messages and pasted contents. Link previews are omitted.
pub(super) fn add_attachments(attachments: &Value, content: &mut Content) {
    for part in items(attachments) {
        let is_message = ["is_share", "is_msg_unfurl", "is_reply_unfurl"].iter().any(|field| part[*field] == true);
        if is_message {
            let author = first_name([&part["author_name"], &part["author_subname"]]);
            content.add_quote(QuoteKind::Forwarded, &author, &message_text(part));
        } else if part["from_url"].is_null() {
            let (pasted, _) = blocks_text(&part["blocks"], &[], true);
            content.add_text(&if pasted.is_empty() { attachment_text(part) } else { pasted });
        }
        content.attach(items(&part["files"]).map(attachment));
    }
}

/// Returns the text of a forwarded message, or that of its blocks if it has none.
fn message_text(part: &Value) -> String {
    let own = attachment_text(&json!({"text": part["text"], "title": part["title"]}));
    let blocks = items(&part["message_blocks"])
        .map(|message_block| &message_block["message"]["blocks"])
        .chain([&part["blocks"]]);
    let has_own = !own.is_empty();
    let blocks = blocks.map(|blocks| blocks_text(blocks, &[], !has_own).0);
    let lines: Vec<String> = std::iter::once(own).chain(blocks).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { fallback(part) } else { lines.join("\n") }
}

fn attachment_text(part: &Value) -> String {
    let field_text = |field: &str| text::to_plain_text(&clean(part[field].as_str().unwrap_or_default()), &[]).0;
    let mut lines = ["pretext", "title", "text"].map(field_text).to_vec();
    for field in items(&part["fields"]) {
        let field_text = |name: &str| text::to_plain_text(&clean(field[name].as_str().unwrap_or_default()), &[]).0;
        lines.push([field_text("title"), field_text("value")].join(": "));
    }
    lines.retain(|line| !line.is_empty());
    if lines.is_empty() && !part["fallback"].is_null() { fallback(part) } else { lines.join("\n") }
}

fn fallback(part: &Value) -> String {
    let text = part["fallback"].as_str().filter(|text| *text != NO_PREVIEW).unwrap_or_default();
    text::to_plain_text(&clean(text), &[]).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_converted_to_displayed_text() {
        let section = |elements: Value| json!({"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": elements}]});
        for (block, expected) in [
            (
                section(json!([
                    {"type": "user", "user_id": "U0"}, {"type": "text", "text": " see "},
                    {"type": "link", "url": "https://x.y", "text": "this"}, {"type": "emoji", "name": "tada", "unicode": "1f389"},
                    {"type": "emoji", "name": "own"}, {"type": "user", "user_id": "U1"}, {"type": "broadcast", "range": "here"},
                ])),
                "see this (https://x.y)🎉:own:@U1@here",
            ),
            (
                json!({"type": "rich_text", "elements": [
                    {"type": "rich_text_list", "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": "a"}]}]},
                    {"type": "rich_text_quote", "elements": [{"type": "text", "text": "b\nc"}]},
                    {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "  d"}]},
                ]}),
                "- a\n> b\n> c\n  d",
            ),
            (
                json!({"type": "table", "rows": [
                    [{"type": "raw_text", "text": "a"}, {"type": "raw_number", "value": 3}],
                    [section(json!([{"type": "text", "text": "b"}])), {"type": "raw_number", "value": 3, "text": "3.0"}],
                ]}),
                "a | 3\nb | 3.0",
            ),
            (json!({"type": "image", "alt_text": "a cat", "image_url": "https://x.y"}), "[Image: a cat, https://x.y]"),
            (
                json!({"type": "section", "text": {"type": "mrkdwn", "text": "&lt;a&gt; <https://x.y|b>"},
                "fields": [{"type": "plain_text", "text": "c &lt;"}]}),
                "<a> b (https://x.y)\nc &lt;",
            ),
            (
                json!({"type": "context", "elements": [{"type": "plain_text", "text": "d"}, {"type": "image", "alt_text": "e"}]}),
                "d\n[Image: e]",
            ),
            (json!({"type": "actions", "elements": [{"type": "button", "text": {"text": "no"}}]}), ""),
        ] {
            assert_eq!(blocks_text(&json!([block]), &["U0"], true).0, expected, "{block}");
        }
        assert!(blocks_text(&json!([section(json!([{"type": "user", "user_id": "U0"}]))]), &["U0"], true).1);
    }
}
