//! WhatsApp's markup, and messages as JSON.
//!
//! The markup has no escapes: a star that somebody writes between words may come out as bold. Nothing worse can.

use serde_json::{Value, json};

use crate::markup::{
    Style, begin_lines, block_in_backticks, characters, code_in_backticks, mark_lines, part_backticks,
};
use crate::outgoing::{Address, Button};

pub(super) const MAX_TEXT: usize = 4096;
/// Of a message that has buttons.
pub(super) const MAX_TEXT_WITH_BUTTONS: usize = 1024;
const MAX_LABEL: usize = 20;
const MAX_BUTTONS: usize = 3;

pub(super) const STYLE: Style = Style {
    limit: MAX_TEXT,
    measure: characters,
    escape: part_backticks,
    strong: |text| mark_lines(text, '*'),
    emphasis: |text| mark_lines(text, '_'),
    strikethrough: |text| mark_lines(text, '~'),
    code: code_in_backticks,
    code_block: |text, _| block_in_backticks(text),
    link,
    // A star in it would end it.
    heading: |text, _| mark_lines(&text.replace('*', ""), '*'),
    quote: |text| begin_lines(text, "> "),
    bullet: "- ",
};

/// The platform makes links of addresses itself, and has no labels.
fn link(label: &str, url: &str) -> String {
    if label == url { label.to_owned() } else { format!("{label} ({})", part_backticks(url)) }
}

/// A message with what all kinds have in common.
fn message(to: &Address, kind: &str, content: &Value) -> Value {
    let mut message = json!({
        "messaging_product": "whatsapp",
        "recipient_type": "individual",
        "to": to.channel,
        "type": kind,
        kind: content,
    });
    if let Some(answered) = &to.thread {
        message["context"] = json!({"message_id": answered});
    }
    message
}

pub(super) fn text_message(to: &Address, text: &str) -> Value {
    message(to, "text", &json!({"preview_url": false, "body": text}))
}

pub(super) fn button_message(to: &Address, text: &str, buttons: &[Button]) -> Value {
    let button = |button: &Button| {
        let label: String = button.label.chars().take(MAX_LABEL).collect();
        json!({"type": "reply", "reply": {"id": button.data, "title": label}})
    };
    let buttons: Vec<Value> = buttons.iter().take(MAX_BUTTONS).map(button).collect();
    message(to, "interactive", &json!({"type": "button", "body": {"text": text}, "action": {"buttons": buttons}}))
}

/// Marks the message as read as well; the platform has no other way.
pub(super) fn typing(message_id: &str) -> Value {
    json!({
        "messaging_product": "whatsapp",
        "status": "read",
        "message_id": message_id,
        "typing_indicator": {"type": "text"},
    })
}
