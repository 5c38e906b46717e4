//! Validation of blocks and markup as Slack does it.

use std::collections::HashSet;

use serde_json::Value;

pub(super) fn check(blocks: &Value) -> Result<(), &'static str> {
    if blocks.is_null() {
        return Ok(());
    }
    let blocks = blocks.as_array().filter(|blocks| blocks.len() <= 50).ok_or("invalid_blocks_format")?;
    for block in blocks {
        match block["type"].as_str() {
            Some("section") => {
                let text = text_of(&block["text"], "mrkdwn", 3000)?;
                check_mrkdwn(text)?;
            }
            Some("actions") => check_buttons(&block["elements"])?,
            _ => return Err("invalid_blocks"),
        }
    }
    Ok(())
}

fn text_of<'a>(object: &'a Value, kind: &str, max_chars: usize) -> Result<&'a str, &'static str> {
    let text = object["text"].as_str().filter(|text| (1..=max_chars).contains(&text.chars().count()));
    text.filter(|_| object["type"] == kind).ok_or("invalid_blocks")
}

fn check_buttons(elements: &Value) -> Result<(), &'static str> {
    let elements = elements.as_array().filter(|elements| (1..=25).contains(&elements.len()));
    let mut ids = HashSet::new();
    for button in elements.ok_or("invalid_blocks")? {
        text_of(&button["text"], "plain_text", 75)?;
        let id = button["action_id"].as_str().filter(|id| (1..=255).contains(&id.len())).ok_or("invalid_blocks")?;
        let is_style = matches!(button["style"].as_str(), None | Some("primary" | "danger"));
        let is_value = button["value"].as_str().is_some_and(|value| value.chars().count() <= 2000);
        if !ids.insert(id) || button["type"] != "button" || !is_style || !is_value {
            return Err("invalid_blocks");
        }
    }
    Ok(())
}

/// Checks that every `<` starts a complete link and every `&` one of the three escapes. Slack would show others
/// literally.
///
/// # Errors
/// Returns Slack's error code.
pub fn check_mrkdwn(text: &str) -> Result<(), &'static str> {
    let mut rest = text;
    while let Some(at) = rest.find(['<', '>', '&']) {
        let (_, found) = rest.split_at(at);
        rest = if let Some(link) = found.strip_prefix('<') {
            let (inside, after) = link.split_once('>').ok_or("invalid_blocks")?;
            let target = inside.split_once('|').map_or(inside, |(target, _)| target);
            let is_link = ["http:", "https:", "mailto:", "tel:"].iter().any(|scheme| target.starts_with(scheme));
            if !is_link || inside.contains(['<', '\n']) || inside.matches('|').count() > 1 {
                return Err("invalid_blocks");
            }
            after
        } else if found.starts_with('>') {
            let (before, _) = text.split_at(text.len() - found.len());
            // A quote marker.
            if !(before.is_empty() || before.ends_with(['\n', ' '])) {
                return Err("invalid_blocks");
            }
            found.strip_prefix('>').unwrap_or_default()
        } else {
            let escapes = ["&amp;", "&lt;", "&gt;"];
            escapes.iter().find_map(|escape| found.strip_prefix(escape)).ok_or("invalid_blocks")?
        };
    }
    Ok(())
}
