//! Validation of messages and commands as Discord does it.

use std::collections::HashSet;

use serde_json::Value;

use super::{failed, invalid};
use crate::server::Answer;

const MAX_CONTENT: usize = 2000;
/// Accepted message flags: suppressed embeds and notifications.
const ACCEPTED_FLAGS: u64 = 1 << 2 | 1 << 12;

pub(super) fn message(body: &Value) -> Result<(), Answer> {
    let invalid = |problem| Err(invalid(problem));
    let content = body["content"].as_str().unwrap_or_default();
    if content.trim().is_empty() {
        return Err(failed(400, 50_006, "Cannot send an empty message"));
    }
    if content.chars().count() > MAX_CONTENT {
        return invalid("Must be 2000 or fewer in length.");
    }
    if body["flags"].as_u64().unwrap_or_default() & !ACCEPTED_FLAGS != 0 {
        return invalid("Value of field \"flags\" is invalid.");
    }
    let reference = &body["message_reference"];
    if !reference.is_null() && !reference["message_id"].as_str().is_some_and(is_snowflake) {
        return invalid("Value is not snowflake.");
    }
    let rows = body["components"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.len() > 5 {
        return invalid("Must be 5 or fewer in length.");
    }
    let mut ids = HashSet::new();
    for row in rows {
        let buttons = row["components"].as_array().filter(|buttons| (1..=5).contains(&buttons.len()));
        let Some(buttons) = buttons.filter(|_| row["type"] == 1) else {
            return invalid("Must be between 1 and 5 in length.");
        };
        for button in buttons {
            let is_length = |field: &str, most: usize| {
                button[field].as_str().is_some_and(|text| (1..=most).contains(&text.chars().count()))
            };
            let is_style = button["style"].as_u64().is_some_and(|style| (1..=4).contains(&style));
            if button["type"] != 2 || !is_style || !is_length("label", 80) || !is_length("custom_id", 100) {
                return invalid("The button is not valid.");
            }
            if !ids.insert(button["custom_id"].as_str()) {
                return invalid("Component custom id cannot be duplicated");
            }
        }
    }
    Ok(())
}

/// Whether the text is a Discord ID (snowflake) in decimal.
fn is_snowflake(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

pub(super) fn commands(body: &Value) -> Result<(), &'static str> {
    let commands = body.as_array().filter(|commands| commands.len() <= 100).ok_or("Only lists are allowed.")?;
    for command in commands {
        check_named(command)?;
        for option in command["options"].as_array().into_iter().flatten() {
            check_named(option)?;
            if !option["type"].as_u64().is_some_and(|kind| (1..=11).contains(&kind)) {
                return Err("Value is not a type of an option.");
            }
            if option["max_length"].as_u64().is_some_and(|length| !(1..=6000).contains(&length)) {
                return Err("Must be between 1 and 6000.");
            }
        }
    }
    Ok(())
}

fn check_named(command: &Value) -> Result<(), &'static str> {
    let is_part = |character: char| {
        (character.is_alphanumeric() && !character.is_uppercase()) || matches!(character, '-' | '_' | '\'')
    };
    let name = command["name"].as_str().unwrap_or_default();
    if !(1..=32).contains(&name.chars().count()) || !name.chars().all(is_part) {
        return Err("Command name is invalid");
    }
    let description = command["description"].as_str().unwrap_or_default();
    if !(1..=100).contains(&description.chars().count()) {
        return Err("Must be between 1 and 100 in length.");
    }
    Ok(())
}
