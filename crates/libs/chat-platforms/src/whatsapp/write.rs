//! WhatsApp's markup and message JSON.
//!
//! The markup has no escapes, so an asterisk between words may be rendered as bold. Other effects are impossible.

use serde_json::{Value, json};

use crate::markup::{
    Style, block_in_backticks, break_backticks, characters, code_in_backticks, mark_lines, prefix_lines,
};
use crate::outgoing::{Address, Button};

pub(super) const MAX_TEXT: usize = 4096;
/// Maximum text length of a message with buttons.
pub(super) const MAX_TEXT_WITH_BUTTONS: usize = 1024;
const MAX_LABEL: usize = 20;
const MAX_BUTTONS: usize = 3;

pub(super) const STYLE: Style = Style {
    limit: MAX_TEXT,
    measure: characters,
    escape: break_backticks,
    strong: |text| mark_lines(text, '*'),
    emphasis: |text| mark_lines(text, '_'),
    strikethrough: |text| mark_lines(text, '~'),
    code: code_in_backticks,
    code_block: |text, _| block_in_backticks(text),
    link,
    // An asterisk inside would end the bold text.
    heading: |text, _| mark_lines(&text.replace('*', ""), '*'),
    quote: |text| prefix_lines(text, "> "),
    bullet: "- ",
};

/// Formats a link as text, since the platform detects URLs itself and has no labels.
fn link(label: &str, url: &str) -> String {
    if label == url { label.to_owned() } else { format!("{label} ({})", break_backticks(url)) }
}

/// Returns a message with the fields common to all kinds.
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

/// Returns a typing indicator, which also marks the message as read; the platform has no other way.
pub(super) fn typing(message_id: &str) -> Value {
    json!({
        "messaging_product": "whatsapp",
        "status": "read",
        "message_id": message_id,
        "typing_indicator": {"type": "text"},
    })
}
