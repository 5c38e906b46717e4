//! Validation of messages as the Bot API does it.

use serde_json::Value;

use super::{bad, html};
use crate::server::Answer;

pub(super) fn check_text(body: &Value) -> Result<(), Answer> {
    let text = body["text"].as_str().unwrap_or_default();
    let plain = match body["parse_mode"].as_str() {
        Some("HTML") => html::parse(text).map_err(|error| bad(&format!("can't parse entities: {error}")))?,
        None => text.to_owned(),
        Some(_) => return Err(bad("unsupported parse_mode")),
    };
    match plain.trim().encode_utf16().count() {
        0 => Err(bad("message text is empty")),
        1..=4096 => Ok(()),
        _ => Err(bad("message is too long")),
    }
}

/// Checks buttons and returns their number.
pub(super) fn check_buttons(markup: &Value) -> Result<usize, Answer> {
    if markup.is_null() {
        return Ok(0);
    }
    let rows = markup["inline_keyboard"].as_array().ok_or_else(|| bad("object expected as reply markup"))?;
    let mut count = 0;
    for button in rows.iter().flat_map(|row| row.as_array().map(Vec::as_slice).unwrap_or_default()) {
        count += 1;
        if button["text"].as_str().unwrap_or_default().is_empty() {
            return Err(bad("can't parse inline keyboard button: Field \"text\" must be a non-empty string"));
        }
        if !(1..=64).contains(&button["callback_data"].as_str().unwrap_or_default().len()) {
            return Err(bad("BUTTON_DATA_INVALID"));
        }
    }
    Ok(count)
}
