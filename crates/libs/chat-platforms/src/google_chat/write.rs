//! Google Chat's markup, and messages as JSON.

use serde_json::{Value, json};

use crate::markup::{Style, begin_lines, block_in_backticks, bytes, code_in_backticks, mark_lines, part_backticks};
use crate::outgoing::Button;

/// In bytes. A message has 32,000 at most with all that is in it (the method `spaces.messages.create` in the discovery
/// document); half of it leaves room for buttons, and for what JSON escapes.
pub(super) const MAX_TEXT: usize = 16_000;
const MAX_BUTTONS: usize = 3;
/// The action of a button.
pub(super) const FUNCTION: &str = "decide";
const MAX_ID: usize = 128;
/// Nobody sees it; behind `<` it keeps what follows from being a mention or a link.
const INVISIBLE: char = '\u{200b}';

pub(super) const STYLE: Style = Style {
    limit: MAX_TEXT,
    measure: bytes,
    escape,
    strong: |text| mark_lines(text, '*'),
    emphasis: |text| mark_lines(text, '_'),
    strikethrough: |text| mark_lines(text, '~'),
    code: |text| code_in_backticks(&without_mentions(text)),
    code_block: |text, _| block_in_backticks(&without_mentions(text)),
    link,
    // A star in it would end it.
    heading: |text, _| mark_lines(&text.replace('*', ""), '*'),
    quote: |text| begin_lines(text, "> "),
    bullet: "- ",
};

/// The markup has no escapes, and a star that comes out as bold does no harm. A mention would: `<users/all>` calls
/// everybody. Text comes in pieces, so what follows `<` may stand in the next one.
fn escape(text: &str) -> String {
    let text = part_backticks(text);
    let mut escaped = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        escaped.push(character);
        if character == '<' && characters.peek().is_none_or(|next| may_lead_on(*next)) {
            escaped.push(INVISIBLE);
        }
    }
    escaped
}

/// Comparisons are left as they are. A mark that follows may be taken away later.
fn may_lead_on(character: char) -> bool {
    !character.is_whitespace() && !character.is_ascii_digit() && character != '='
}

/// Code comes whole, and is to be copied: only what is a mention is changed.
fn without_mentions(code: &str) -> String {
    code.replace("<users/", &format!("<{INVISIBLE}users/"))
}

/// Only to where links may lead; anything else is written out, and so is what a link cannot hold.
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

/// The ids in a name such as `spaces/A/threads/B` of these collections.
pub(super) fn name_after<'n>(name: &'n str, collections: &[&str]) -> Option<Vec<&'n str>> {
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

/// `function`: the action of the buttons.
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

/// In the place of a message with buttons.
pub(super) fn settled(text: &str) -> Value {
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
