//! Taking secrets out of what others say: receivers, servers and code repeat what they were given.
//!
//! A value is found as it is, and as it is usually written inside something else: percent-encoded, escaped for JSON or
//! HTML, in hex, and anywhere inside base64. Values of less than 4 characters are parts of every text and are left;
//! those of less than 8 count only where they stand as a word.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::Secret;

/// What is encoded in a component of a url: all but the unreserved characters of RFC 3986.
pub const URL_RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// What stands in place of a secret.
pub const HIDDEN: &str = "[hidden]";
/// Shorter values are left.
const MIN_CHARACTERS: usize = 4;
/// Values of so many characters are hidden also inside of words.
const ANYWHERE_CHARACTERS: usize = 8;

/// Secrets to be taken out of texts.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The longest first, so that no part of one is left.
    forms: Vec<Form>,
}

#[derive(Clone, PartialEq, Eq)]
struct Form {
    text: String,
    is_word: bool,
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} forms)", self.forms.len())
    }
}

impl Redactor {
    /// Of values of headers, variables, or whatever else is secret as a whole.
    pub fn of<'s>(secrets: impl IntoIterator<Item = &'s Secret>) -> Self {
        let mut redactor = Self::default();
        for secret in secrets {
            redactor.add(secret.expose());
        }
        redactor
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Adds a value. Of one with its scheme before it, such as `Bearer`, the credential counts also alone, and so does
    /// the password in one of `Basic`.
    pub fn add(&mut self, value: &str) {
        let value = value.trim();
        self.add_value(value);
        if let Some((_, credential)) = value.rsplit_once(' ') {
            self.add_value(credential);
            let login = STANDARD.decode(credential).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            if let Some((_, password)) = login.as_deref().and_then(|login| login.split_once(':')) {
                self.add_value(password);
            }
        }
    }

    /// Adds the user name and password of a url, also as they are sent.
    pub fn add_login(&mut self, user: &str, password: &str) {
        self.add_value(&STANDARD.encode(format!("{user}:{password}")));
        // A token may stand in place of the user.
        self.add_value(if password.is_empty() { user } else { password });
    }

    /// Without the short values: for texts that are worked with, where a word like that may well be meant.
    #[must_use]
    pub fn without_short(mut self) -> Self {
        self.forms.retain(|form| !form.is_word);
        self
    }

    fn add_value(&mut self, value: &str) {
        let characters = value.chars().count();
        if characters < MIN_CHARACTERS {
            return;
        }
        let is_word = characters < ANYWHERE_CHARACTERS;
        let mut forms = vec![value.to_owned(), percent_encoded(value, false), percent_encoded(value, true)];
        forms.push(percent_encoded(value, false).replace("%20", "+"));
        let json = Value::from(value).to_string();
        let json = json[1..json.len() - 1].to_owned();
        forms.extend([json.replace('/', "\\/"), ascii_json(&json), json]);
        let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        forms.extend([html.replace('\'', "&#39;"), html.replace('\'', "&#x27;")]);
        if !is_word {
            forms.extend([hex::encode(value), hex::encode_upper(value)]);
            forms.extend(inside_base64(value));
        }
        for text in forms {
            let form = Form { text, is_word };
            if !self.forms.contains(&form) {
                self.forms.push(form);
            }
        }
        self.forms.sort_by_key(|form| std::cmp::Reverse(form.text.len()));
    }

    /// The text without the secrets.
    #[must_use]
    pub fn hide(&self, text: impl Into<String>) -> String {
        let mut text = text.into();
        for form in &self.forms {
            if text.contains(&form.text) {
                text = form.replaced(&text);
            }
        }
        text
    }

    /// As [`Self::hide`], of a piece of a longer text: a secret that was cut through at its ends is hidden as well.
    #[must_use]
    pub fn hide_piece(&self, text: impl Into<String>) -> String {
        let mut text = self.hide(text);
        let forms = || self.forms.iter().map(|form| form.text.as_str());
        let cut = |whole: &str, places: &mut dyn Iterator<Item = usize>, fits: &dyn Fn(&str, usize) -> bool| {
            places.filter(|at| whole.is_char_boundary(*at)).find(|at| fits(whole, *at))
        };
        let end = forms()
            .filter_map(|form| {
                let mut places = (MIN_CHARACTERS..form.len()).rev();
                cut(form, &mut places, &|form, at| text.ends_with(&form[..at]))
            })
            .max();
        if let Some(length) = end {
            text.truncate(text.len() - length);
            text.push_str(HIDDEN);
        }
        let start = forms()
            .filter_map(|form| {
                let mut places = 1..form.len().saturating_sub(MIN_CHARACTERS - 1);
                cut(form, &mut places, &|form, at| text.starts_with(&form[at..])).map(|at| form.len() - at)
            })
            .max();
        match start {
            Some(length) => format!("{HIDDEN}{}", &text[length..]),
            None => text,
        }
    }

    /// Takes the secrets out of every text in a value: names, texts, and numbers that are one.
    pub fn hide_json(&self, value: &mut Value) {
        match value {
            _ if self.is_empty() => {}
            Value::String(text) => *text = self.hide(std::mem::take(text)),
            Value::Array(values) => values.iter_mut().for_each(|value| self.hide_json(value)),
            Value::Object(fields) => {
                for (name, mut value) in std::mem::take(fields) {
                    self.hide_json(&mut value);
                    fields.insert(self.hide(name), value);
                }
            }
            Value::Number(number) => {
                let hidden = self.hide(number.to_string());
                if hidden.contains(HIDDEN) {
                    *value = Value::from(hidden);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
}

impl Form {
    fn replaced(&self, text: &str) -> String {
        if !self.is_word {
            return text.replace(&self.text, HIDDEN);
        }
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let (mut replaced, mut rest_from) = (String::with_capacity(text.len()), 0);
        for (at, found) in text.match_indices(&self.text) {
            let end = at + found.len();
            if text[..at].ends_with(is_part) || text[end..].starts_with(is_part) {
                continue;
            }
            replaced.push_str(&text[rest_from..at]);
            replaced.push_str(HIDDEN);
            rest_from = end;
        }
        replaced.push_str(&text[rest_from..]);
        replaced
    }
}

/// As a component of a url.
fn percent_encoded(text: &str, is_lower: bool) -> String {
    let pieces = utf8_percent_encode(text, URL_RESERVED);
    if !is_lower {
        return pieces.to_string();
    }
    // What was not encoded has no `%`.
    pieces.map(|piece| if piece.starts_with('%') { piece.to_ascii_lowercase() } else { piece.to_owned() }).collect()
}

/// JSON as those write it who keep to ASCII.
fn ascii_json(json: &str) -> String {
    let mut units = [0; 2];
    let mut ascii = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            ascii.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            ascii.push_str(&format!("\\u{unit:04x}"));
        }
    }
    ascii
}

/// What every base64 holds of a text that holds `value`, wherever it begins there.
fn inside_base64(value: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(value.bytes()).collect();
        // Characters that also hold bits of what stands before and behind are no part of it.
        let (from, to) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            forms.push(encoded[from..to].to_owned());
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn redactor(values: &[&str]) -> Redactor {
        let mut redactor = Redactor::default();
        for value in values {
            redactor.add(value);
        }
        redactor
    }

    #[test]
    fn values_are_found_as_they_are_usually_written() {
        let secret = "pä/ss wörd&\"1";
        let redactor = redactor(&[secret]);
        for written in [
            secret.to_owned(),
            "p%C3%A4%2Fss%20w%C3%B6rd%26%221".to_owned(),
            "p%c3%a4%2fss%20w%c3%b6rd%26%221".to_owned(),
            "p%C3%A4%2Fss+w%C3%B6rd%26%221".to_owned(),
            json!({"said": secret}).to_string(),
            r#""p\u00e4/ss w\u00f6rd&\"1""#.to_owned(),
            r#""pä\/ss wörd&\"1""#.to_owned(),
            "<p>pä/ss wörd&amp;&quot;1</p>".to_owned(),
            hex::encode(secret),
        ] {
            let hidden = redactor.hide(written.clone());
            assert!(hidden.contains(HIDDEN) && !hidden.contains("ss"), "{written}: {hidden}");
        }
    }

    #[test]
    fn a_credential_is_known_without_its_scheme() {
        let redactor = redactor(&["Bearer abcdef", "of", "Basic YWRhOmxvdmVsYWNlLTE="]);
        assert_eq!(redactor.hide("token abcdef of Bearer abcdef"), "token [hidden] of [hidden]");
        assert_eq!(redactor.hide("YWRhOmxvdmVsYWNlLTE= is ada:lovelace-1"), "[hidden] is ada:[hidden]");
        let mut redactor = Redactor::default();
        redactor.add_login("ada", "lovelace-1");
        assert_eq!(redactor.hide("Basic YWRhOmxvdmVsYWNlLTE= and lovelace-1"), "Basic [hidden] and [hidden]");
    }

    #[test]
    fn short_values_leave_words_alone() {
        let redactor = redactor(&["k", "kind", "x"]);
        assert_eq!(
            redactor.hide("a k, a kindness of that kind: kind_of x"),
            "a k, a kindness of that [hidden]: kind_of x"
        );
    }

    #[test]
    fn what_was_cut_through_is_hidden_too() {
        let redactor = redactor(&["sk-very-secret"]);
        assert_eq!(redactor.hide_piece("the key is sk-very-se"), "the key is [hidden]");
        assert_eq!(redactor.hide_piece("-secret was the key"), "[hidden] was the key");
        assert_eq!(redactor.hide_piece("sk-very-se"), HIDDEN);
        assert_eq!(redactor.hide_piece("whole: sk-very-secret."), "whole: [hidden].");
        assert_eq!(redactor.hide_piece("nothing here sk-"), "nothing here sk-");
    }

    #[test]
    fn values_inside_json_are_hidden() {
        let mut value = json!({"k-12345678": [12_345_678, "a 12345678", true, null], "n": 5});
        redactor(&["12345678"]).hide_json(&mut value);
        assert_eq!(value, json!({"k-[hidden]": [HIDDEN, "a [hidden]", true, null], "n": 5}));
    }

    proptest! {
        #[test]
        fn no_form_survives(secret in "\\PC{8,40}", before in "\\PC{0,9}", after in "\\PC{0,9}") {
            let secret = secret.trim();
            prop_assume!(secret.chars().count() >= 8 && !HIDDEN.contains(secret));
            let redactor = redactor(&[secret]);
            let text = format!("{before}{secret}{after}");
            prop_assert!(!redactor.hide(text.clone()).contains(secret));
            for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                prop_assert!(redactor.hide(encoded).contains(HIDDEN));
            }
            // In two pieces, wherever it was cut.
            for at in (4..secret.len().saturating_sub(4)).filter(|at| secret.is_char_boundary(*at)) {
                let (first, second) = secret.split_at(at);
                let hidden = [redactor.hide_piece(format!("- {first}")), redactor.hide_piece(format!("{second} -"))];
                prop_assert!(!hidden[0].contains(first) && !hidden[1].contains(second));
            }
        }
    }
}
