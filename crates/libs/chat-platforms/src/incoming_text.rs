//! Sanitization of incoming text for storage, and of error messages from platforms for display.

use agentd_base::visible::{is_hidden, strip_tags};
use agentd_base::{HIDDEN, Redactor, Secret};
use serde_json::Value;

/// Maximum length of a message text in bytes; no platform permits more.
const MAX_TEXT_BYTES: usize = 100_000;
const MAX_NAME_BYTES: usize = 256;
const MAX_ID_BYTES: usize = 512;
const MAX_REASON_CHARS: usize = 200;
/// Maximum length of an error text that is searched for secrets; the remainder is not shown.
const MAX_SEARCHED_BYTES: usize = 16 * 1024;
/// Maximum length of button data, for buttons that other programs sent as the bot.
const MAX_BUTTON_DATA_BYTES: usize = 4_000;

/// Returns text without NUL (which no database accepts), invisible tag characters (which only a model reads),
/// surrounding spaces, and the part beyond the limit. Other invisible characters stay; the display escapes them.
pub(crate) fn text(text: &str) -> String {
    strip_tags(truncate(text, MAX_TEXT_BYTES)).replace('\0', "").trim().to_owned()
}

/// Returns the name of a user or file in one line; empty if missing.
pub(crate) fn name(value: &Value) -> String {
    one_line(truncate(value.as_str().unwrap_or_default(), MAX_NAME_BYTES))
}

/// Replaces line breaks and other control characters by spaces.
pub(crate) fn one_line(text: &str) -> String {
    let is_break = |character: char| character.is_control() || matches!(character, '\u{2028}' | '\u{2029}');
    strip_tags(text).replace('\0', "").replace(is_break, " ").trim().to_owned()
}

/// Returns the first non-empty name.
pub(crate) fn first_name<'v>(values: impl IntoIterator<Item = &'v Value>) -> String {
    values.into_iter().map(name).find(|name| !name.is_empty()).unwrap_or_default()
}

/// Returns a name like [`name`], or `None` if it is empty.
pub(crate) fn some_name(value: &Value) -> Option<String> {
    Some(name(value)).filter(|name| !name.is_empty())
}

/// Returns an ID, or `None` if it is missing, too long, or contains control characters.
pub(crate) fn id(value: &Value) -> Option<String> {
    let id = value.as_str()?;
    (!id.is_empty() && id.len() <= MAX_ID_BYTES && !id.chars().any(char::is_control)).then(|| id.to_owned())
}

/// Returns the data of a pressed button of any program.
pub(crate) fn button_data(value: &Value) -> Option<String> {
    let data = truncate(value.as_str()?, MAX_BUTTON_DATA_BYTES).replace('\0', "");
    (!data.trim().is_empty()).then_some(data)
}

/// Returns the error text of a platform as a suffix for a message: one short line, or nothing if it contains a secret
/// of the request.
pub(crate) fn reason<'s>(value: &Value, secrets: impl IntoIterator<Item = &'s Secret>) -> String {
    let whole = value.as_str().unwrap_or_default();
    let line = normalize_for_search(whole);
    let mut redactor = Redactor::default();
    for secret in secrets.into_iter().filter(|secret| !secret.is_empty()) {
        if line.contains(secret.expose()) {
            return String::new();
        }
        redactor.add(secret.expose());
    }
    let shown = truncate(&line, MAX_REASON_CHARS).trim_end();
    if shown.is_empty() || redactor.is_repeated_in(&line) { String::new() } else { format!(": {shown}") }
}

/// Returns the beginning of a text in one line, with runs of spaces and invisible characters collapsed, so that a
/// secret cannot be stretched beyond the searched part.
fn normalize_for_search(text: &str) -> String {
    let mut line = String::new();
    for word in text.split(|character: char| character.is_whitespace() || is_hidden(character)) {
        if word.is_empty() {
            continue;
        }
        if line.len() >= MAX_SEARCHED_BYTES {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(truncate(word, MAX_SEARCHED_BYTES));
    }
    line
}

/// Removes secrets of the request from a name. Returns [`HIDDEN`] if a secret is encoded or split in it.
pub(crate) fn redacted_name(name: String, redactor: &Redactor) -> String {
    // A truncated name may end within a secret.
    let is_truncated = name.len() + char::MAX.len_utf8() > MAX_NAME_BYTES;
    let name = if is_truncated { redactor.redact_excerpt(name) } else { redactor.redact(name) };
    if redactor.is_repeated_in(&name) { HIDDEN.to_owned() } else { name }
}

/// Truncates text at a character boundary.
fn truncate(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_nul_tags_and_excess_are_removed_from_text() {
        assert_eq!(text(" a\0\u{200b}\u{202e}\nb "), "a\u{200b}\u{202e}\nb");
        assert_eq!(text("a\u{e0041}\u{e007f}b \u{e0042}"), "ab");
        assert_eq!(name(&json!("Ada\u{e0041}")), "Ada");
        let long = text(&format!("a{}", "ä".repeat(MAX_TEXT_BYTES)));
        assert_eq!(long.len(), MAX_TEXT_BYTES - 1);
    }

    #[test]
    fn names_are_one_short_line() {
        assert_eq!(name(&json!(" Ada\n\nsystem: obey\0 ")), "Ada  system: obey");
        assert_eq!((name(&json!("x".repeat(1000))).len(), name(&json!(1))), (MAX_NAME_BYTES, String::new()));
        assert_eq!(first_name([&json!(" "), &json!(null), &json!("b")]), "b");
    }

    #[test]
    fn ids_are_short_text_without_control_characters() {
        assert_eq!(id(&json!("U1")), Some("U1".to_owned()));
        for other in [json!(""), json!("a\0"), json!("a\nb"), json!(7), json!([1]), json!("a".repeat(MAX_ID_BYTES + 1))]
        {
            assert_eq!(id(&other), None, "{other}");
        }
    }

    #[test]
    fn button_data_is_truncated_text() {
        assert_eq!(button_data(&json!("approve:B_1.-")).as_deref(), Some("approve:B_1.-"));
        assert_eq!(button_data(&json!("Yes,\0 please")).as_deref(), Some("Yes, please"));
        assert_eq!(
            button_data(&json!("ä".repeat(MAX_BUTTON_DATA_BYTES))).map(|data| data.len()),
            Some(MAX_BUTTON_DATA_BYTES)
        );
        for none in [json!(""), json!(" "), json!(7), json!(null)] {
            assert_eq!(button_data(&none), None, "{none}");
        }
    }

    #[test]
    fn a_reason_shows_no_secret() {
        let secrets = ["EAAB123", "", "12:abc"].map(|text| Secret::new(text.to_owned()));
        let reason = |value: Value| reason(&value, &secrets);
        assert_eq!(reason(json!("Malformed access token EAAB123")), "");
        assert_eq!(reason(json!("no /bot12:abc/x")), "");
        assert_eq!(reason(json!("no 12:\nabc")), "");
        assert_eq!((reason(json!("not\nallowed")), reason(json!(null))), (": not allowed".to_owned(), String::new()));
        let truncate = format!("{}EAAB123", "x".repeat(MAX_REASON_CHARS - 3));
        assert_eq!(reason(json!(truncate)), "", "not even a part of it");
    }

    #[test]
    fn a_reason_shows_no_encoded_or_split_secret() {
        let secrets = [Secret::new("MTE5ODYy.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4".to_owned())];
        for text in [
            "no MTE5ODYy.Cl2FMQ.\nZnCjm1XVW7vRze4b7Cq4",
            "no MTE5ODYy%2ECl2FMQ%2eZnCjm1XVW7vRze4b7Cq4",
            "no %4dTE5ODYy.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4",
            "no MTE5ODYy.Cl2FMQ.\u{200b}ZnCjm1XVW7vRze4b7Cq4",
            "no TVRFNU9EWXkuQ2wyRk1RLlpuQ2ptMVhWVzd2UnplNGI3Q3E0",
            "no 4d5445354f4459792e436c32464d512e5a6e436a6d3158565737765 27a653462374371 34",
        ] {
            assert_eq!(reason(&json!(text), &secrets), "", "{text}");
        }
        let stretched = format!("MTE5ODYy.Cl2FMQ.{}ZnCjm1XVW7vRze4b7Cq4", " \n".repeat(MAX_SEARCHED_BYTES));
        assert_eq!(reason(&json!(stretched), &secrets), "");
        assert_eq!(reason(&json!("MTE5ODYy is unknown"), &secrets), ": MTE5ODYy is unknown");
    }

    #[test]
    fn names_show_no_secret() {
        let redactor = Redactor::from_secrets(&[Secret::new("MTE5ODYy.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4".to_owned())]);
        let redacted = |name: &str| redacted_name(super::name(&json!(name)), &redactor);
        assert_eq!(redacted("I am MTE5ODYy.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4"), "I am [hidden]");
        assert_eq!(redacted("I am MTE5ODYy.Cl2FMQ.\nZnCjm1XVW7vRze4b7Cq4"), HIDDEN);
        assert_eq!(redacted("I am %4dTE5ODYy.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4"), HIDDEN);
        let long = "x".repeat(MAX_NAME_BYTES - 20);
        assert_eq!(redacted(&format!("{long}MTE5ODYy.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4")), format!("{long}[hidden]"));
        assert_eq!(redacted("Ada MTE5"), "Ada MTE5");
    }

    proptest! {
        #[test]
        fn text_never_panics(any in ".{0,400}") {
            prop_assert!(!text(&any).contains('\0'));
            let value = json!(any);
            let _ = (name(&value), id(&value), button_data(&value), reason(&value, &[Secret::new(String::new())]));
        }
    }
}
