//! Google Chat's markup and message JSON.

use serde_json::{Value, json};

use crate::markup::{Style, block_in_backticks, break_backticks, bytes, code_in_backticks, mark_lines, prefix_lines};
use crate::outgoing::Button;

/// Maximum text length in bytes. A whole message may have 32,000 bytes (`spaces.messages.create` in the discovery
/// document); half of it leaves space for buttons and JSON escapes.
pub(super) const MAX_TEXT_BYTES: usize = 16_000;
const MAX_BUTTONS: usize = 3;
/// Action of a button.
pub(super) const BUTTON_FUNCTION: &str = "decide";
const MAX_ID: usize = 128;
/// Zero-width space; after `<` it prevents a mention or link.
const ZERO_WIDTH_SPACE: char = '\u{200b}';

pub(super) const STYLE: Style = Style {
    limit: MAX_TEXT_BYTES,
    measure: bytes,
    escape,
    strong: |text| mark_lines(text, '*'),
    emphasis: |text| mark_lines(text, '_'),
    strikethrough: |text| mark_lines(text, '~'),
    code: |text| code_in_backticks(&without_mentions(text)),
    code_block: |text, _| block_in_backticks(&without_mentions(text)),
    link,
    // An asterisk inside would end the bold text.
    heading: |text, _| mark_lines(&text.replace('*', ""), '*'),
    quote: |text| prefix_lines(text, "> "),
    bullet: "- ",
};

/// Breaks mentions such as `<users/all>`. The markup has no escapes, and unintended bold text is harmless. Text comes
/// in pieces, so what follows `<` may be in the next one.
fn escape(text: &str) -> String {
    let text = break_backticks(text);
    let mut escaped = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        escaped.push(character);
        if character == '<' && characters.peek().is_none_or(|next| may_start_mention(*next)) {
            escaped.push(ZERO_WIDTH_SPACE);
        }
    }
    escaped
}

/// Whether `<` before this character may start a mention. Comparisons are unchanged.
fn may_start_mention(character: char) -> bool {
    !character.is_whitespace() && !character.is_ascii_digit() && character != '='
}

/// Breaks mentions in code, which is passed whole and should be copyable, so nothing else is changed.
fn without_mentions(code: &str) -> String {
    code.replace("<users/", &format!("<{ZERO_WIDTH_SPACE}users/"))
}

/// Formats a link to a permitted scheme. Other links, and labels that a link cannot contain, are written as text.
fn link(label: &str, url: &str) -> String {
    if label == url {
        return url.to_owned();
    }
    let may_lead = ["http://", "https://", "mailto:"].iter().any(|scheme| url.starts_with(scheme));
    let is_plain = |text: &str| !text.contains(['<', '>', '|', '`', '\n']);
    if may_lead && is_plain(label) && is_plain(url) {
        format!("<{url}|{label}>")
    } else {
        format!("{label} ({})", escape(url))
    }
}

/// Returns the IDs in a resource name such as `spaces/A/threads/B` with these collections.
pub(super) fn resource_ids<'n>(name: &'n str, collections: &[&str]) -> Option<Vec<&'n str>> {
    let parts: Vec<&str> = name.split('/').collect();
    let is_id = |id: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !id.is_empty() && id.len() <= MAX_ID && id != "." && id != ".." && id.bytes().all(is_allowed)
    };
    let has_form = parts.len() == collections.len() * 2
        && parts.iter().step_by(2).eq(collections.iter())
        && parts.iter().skip(1).step_by(2).all(|id| is_id(id));
    has_form.then_some(parts)
}

/// Returns a message. `function` is the action of its buttons.
pub(super) fn message(text: &str, buttons: &[Button], thread: Option<&str>, function: &str) -> Value {
    let mut message = json!({"text": text});
    if !buttons.is_empty() {
        message["cardsV2"] = json!([{"cardId": "decision", "card": card(buttons, function)}]);
    }
    if let Some(thread) = thread {
        message["thread"] = json!({"name": thread});
    }
    message
}

/// Returns the replacement for a message with buttons.
pub(super) fn settled_message(text: &str) -> Value {
    json!({"text": text, "cardsV2": []})
}

fn card(buttons: &[Button], function: &str) -> Value {
    let button = |button: &Button| {
        let parameters = json!([{"key": "decision", "value": button.data}]);
        json!({"text": button.label, "onClick": {"action": {"function": function, "parameters": parameters}}})
    };
    let buttons: Vec<Value> = buttons.iter().take(MAX_BUTTONS).map(button).collect();
    json!({"sections": [{"widgets": [{"buttonList": {"buttons": buttons}}]}]})
}
