//! Teams Markdown and activity JSON.

use serde_json::{Value, json};

use crate::markup::{Style, block_in_backticks, bytes, code_in_backticks, prefix_lines};
use crate::outgoing::{Button, ButtonStyle};

/// Maximum text length in bytes. Microsoft recommends 80 KB for a whole message in UTF-16 and accepts about 100
/// ("Format your bot messages"). This is at most half of it, which leaves space for buttons and JSON escapes.
pub(super) const MAX_TEXT_BYTES: usize = 20_000;
const MAX_BUTTONS: usize = 3;
const MAX_SEGMENT: usize = 512;

pub(super) const STYLE: Style = Style {
    limit: MAX_TEXT_BYTES,
    measure: bytes,
    escape,
    strong: |text| format!("**{text}**"),
    emphasis: |text| format!("*{text}*"),
    strikethrough: |text| format!("~~{text}~~"),
    code: code_in_backticks,
    code_block: |text, _| block_in_backticks(text),
    link,
    // Teams shows all heading levels alike.
    heading: |text, _| if text.contains("**") { text.to_owned() } else { format!("**{text}**") },
    quote: |text| prefix_lines(text, "> "),
    bullet: "- ",
};

/// Style of text that is sent with the format `plain`.
pub(super) const PLAIN: Style = Style { escape: |text| text.replace('\0', ""), strong: str::to_owned, ..STYLE };

/// Escapes text. Teams Markdown also accepts HTML, so its special characters are written as entities.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // Within a word it is literal, and names often contain it.
            '_' if before.is_some_and(char::is_alphanumeric)
                && characters.peek().is_some_and(|next| next.is_alphanumeric()) =>
            {
                escaped.push('_');
            }
            '\\' | '`' | '*' | '_' | '~' | '[' | ']' => escaped.extend(['\\', character]),
            '#' if before.is_none_or(|before| before == '\n') => escaped.push_str("\\#"),
            other => escaped.push(other),
        }
        before = Some(character);
    }
    escaped
}

/// Formats a link to a permitted scheme; other links are written as text.
fn link(label: &str, url: &str) -> String {
    if !["http://", "https://", "mailto:"].iter().any(|scheme| url.starts_with(scheme)) {
        return format!("{label} ({})", escape(url));
    }
    // Balanced parentheses do not end the URL.
    let has_pairs = url.matches('(').count() == url.matches(')').count() && url.find('(') <= url.find(')');
    let mut target = String::with_capacity(url.len());
    for character in url.chars() {
        match character {
            ' ' => target.push_str("%20"),
            '(' if !has_pairs => target.push_str("%28"),
            ')' if !has_pairs => target.push_str("%29"),
            '<' => target.push_str("%3C"),
            '>' => target.push_str("%3E"),
            '\\' => target.push_str("%5C"),
            other => target.push(other),
        }
    }
    format!("[{label}]({target})")
}

/// Whether an ID is a single path segment.
pub(super) fn is_segment(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && !b"/\\?#%".contains(&byte);
    !id.is_empty() && id.len() <= MAX_SEGMENT && id != "." && id != ".." && id.bytes().all(is_allowed)
}

pub(super) fn activity(text: &str, is_plain: bool, buttons: &[Button]) -> Value {
    let format = if is_plain { "plain" } else { "markdown" };
    let mut activity = json!({"type": "message", "textFormat": format, "text": text});
    if !buttons.is_empty() {
        activity["attachments"] =
            json!([{"contentType": "application/vnd.microsoft.card.adaptive", "content": card(buttons)}]);
    }
    activity
}

fn card(buttons: &[Button]) -> Value {
    let action = |button: &Button| {
        let style = match button.style {
            ButtonStyle::Primary => "positive",
            ButtonStyle::Danger => "destructive",
        };
        json!({"type": "Action.Submit", "title": button.label, "style": style, "data": {"decision": button.data}})
    };
    json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [],
        "actions": buttons.iter().take(MAX_BUTTONS).map(action).collect::<Vec<_>>(),
    })
}

pub(super) fn typing() -> Value {
    json!({"type": "typing"})
}
