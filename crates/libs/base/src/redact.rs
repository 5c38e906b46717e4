//! Redaction of secrets in untrusted output: servers, webhook receivers and code may echo what they received.
//!
//! A value is found verbatim and in its common encodings: percent-encoded, escaped for JSON or HTML, in hex, and
//! anywhere inside base64. Values shorter than 4 characters are ignored; values shorter than 8 match only as whole
//! words.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::{Secret, visible};

/// Characters that are percent-encoded in a URL component: all but the unreserved ones of RFC 3986.
pub const URL_RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// Replacement for a secret.
pub const HIDDEN: &str = "[hidden]";
/// Minimum length of a value that is redacted.
const MIN_CHARACTERS: usize = 4;
/// Minimum length of a value that is also redacted inside words.
const MIN_CHARACTERS_INSIDE_WORDS: usize = 8;

/// Set of secrets to redact in texts.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Sorted by length, longest first, so that no part of a longer form remains.
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
    /// Creates a redactor for values that are secret as a whole, such as headers or variables.
    pub fn from_secrets<'s>(secrets: impl IntoIterator<Item = &'s Secret>) -> Self {
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

    /// Adds a value. If it starts with a scheme such as `Bearer`, the credential is also added alone, and so is the
    /// password of a `Basic` credential.
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

    /// Adds the user name and password of a URL, also in their encoded `Basic` form.
    pub fn add_login(&mut self, user: &str, password: &str) {
        self.add_value(&STANDARD.encode(format!("{user}:{password}")));
        // A token may take the place of the user name.
        self.add_value(if password.is_empty() { user } else { password });
    }

    /// Removes the short values, for text that is processed further and may legitimately contain such a word.
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
        let is_word = characters < MIN_CHARACTERS_INSIDE_WORDS;
        let mut forms = vec![value.to_owned(), percent_encoded(value, false), percent_encoded(value, true)];
        forms.push(percent_encoded(value, false).replace("%20", "+"));
        let json = Value::from(value).to_string();
        let json = json[1..json.len() - 1].to_owned();
        forms.extend([json.replace('/', "\\/"), ascii_json(&json), json]);
        let html = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        forms.extend([html.replace('\'', "&#39;"), html.replace('\'', "&#x27;")]);
        if !is_word {
            forms.extend([hex::encode(value), hex::encode_upper(value)]);
            forms.extend(base64_substrings(value));
        }
        for text in forms {
            let form = Form { text, is_word };
            if !self.forms.contains(&form) {
                self.forms.push(form);
            }
        }
        self.forms.sort_by_key(|form| std::cmp::Reverse(form.text.len()));
    }

    /// Returns the text with all secrets replaced.
    #[must_use]
    pub fn redact(&self, text: impl Into<String>) -> String {
        let mut text = text.into();
        for form in &self.forms {
            if text.contains(&form.text) {
                text = form.replaced(&text);
            }
        }
        text
    }

    /// Whether the text repeats a secret in any form, including forms that [`Self::redact`] cannot replace: split by
    /// whitespace or invisible characters, or with any of its characters percent-encoded or quoted-printable.
    ///
    /// The cost is proportional to the length of the text times the number of secrets; bound untrusted text first.
    #[must_use]
    pub fn is_repeated_in(&self, text: &str) -> bool {
        if self.is_empty() {
            return false;
        }
        let compact = CompactText::new(text);
        self.forms.iter().any(|form| compact.contains(&CompactText::new(&form.text).bytes, form.is_word))
    }

    /// Redacts an excerpt like [`Self::redact`], including secrets that are truncated at either end of it.
    #[must_use]
    pub fn redact_excerpt(&self, text: impl Into<String>) -> String {
        let mut text = self.redact(text);
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

    /// Redacts all strings in a JSON value: member names, strings, and numbers that equal a secret.
    pub fn redact_json(&self, value: &mut Value) {
        match value {
            _ if self.is_empty() => {}
            Value::String(text) => *text = self.redact(std::mem::take(text)),
            Value::Array(values) => values.iter_mut().for_each(|value| self.redact_json(value)),
            Value::Object(fields) => {
                for (name, mut value) in std::mem::take(fields) {
                    self.redact_json(&mut value);
                    fields.insert(self.redact(name), value);
                }
            }
            Value::Number(number) => {
                let hidden = self.redact(number.to_string());
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

/// Bytes of a text without whitespace and invisible characters.
struct CompactText {
    bytes: Vec<u8>,
    /// Whether characters were removed directly before the byte. One entry more than `bytes`, for the end.
    has_gap: Vec<bool>,
}

impl CompactText {
    fn new(text: &str) -> Self {
        let (mut bytes, mut has_gap) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len() + 1));
        let mut is_gap = false;
        for c in text.chars() {
            if c.is_whitespace() || visible::is_hidden(c) {
                is_gap = true;
                continue;
            }
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            has_gap.push(std::mem::take(&mut is_gap));
            has_gap.resize(bytes.len(), false);
        }
        has_gap.push(is_gap);
        Self { bytes, has_gap }
    }

    /// Whether `wanted` occurs; if `is_word`, only where gaps, punctuation or the ends of the text surround it.
    fn contains(&self, wanted: &[u8], is_word: bool) -> bool {
        let is_part = |at: usize| {
            self.bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | 128..))
        };
        let begins_word = |start: usize| {
            start == 0
                || self.has_gap[start]
                || !is_part(start - 1)
                || start.checked_sub(3).is_some_and(|encoded| self.encoded_byte(encoded).is_some())
        };
        let (mut positions, mut next) = (Vec::new(), Vec::new());
        (0..self.bytes.len()).any(|start| {
            positions.clear();
            positions.push(start);
            for byte in wanted {
                next.clear();
                positions.iter().for_each(|at| self.push_matches(*at, *byte, &mut next));
                next.dedup();
                std::mem::swap(&mut positions, &mut next);
                if positions.is_empty() {
                    return false;
                }
            }
            !is_word || (begins_word(start) && positions.iter().any(|end| self.has_gap[*end] || !is_part(*end)))
        })
    }

    /// Adds the positions after `byte` at `at`, verbatim or encoded. A `=` before a gap is a soft line break of
    /// quoted-printable (RFC 2045, 6.7) and may be skipped.
    fn push_matches(&self, at: usize, byte: u8, ends: &mut Vec<usize>) {
        let is_soft_break = self.bytes.get(at) == Some(&b'=') && self.has_gap[at + 1];
        for at in at..=at + usize::from(is_soft_break) {
            if self.bytes.get(at) == Some(&byte) {
                ends.push(at + 1);
            }
            if self.encoded_byte(at) == Some(byte) {
                ends.push(at + 3);
            }
        }
    }

    /// Returns the byte that is percent-encoded or quoted-printable at `at`.
    fn encoded_byte(&self, at: usize) -> Option<u8> {
        let [b'%' | b'=', high, low] = *self.bytes.get(at..at + 3)? else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        u8::try_from(digit(high)? * 16 + digit(low)?).ok()
    }
}

/// Percent-encodes a URL component.
fn percent_encoded(text: &str, is_lower: bool) -> String {
    let pieces = utf8_percent_encode(text, URL_RESERVED);
    if !is_lower {
        return pieces.to_string();
    }
    // Pieces that need no encoding contain no `%`.
    pieces.map(|piece| if piece.starts_with('%') { piece.to_ascii_lowercase() } else { piece.to_owned() }).collect()
}

/// Escapes all non-ASCII characters of a JSON text.
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

/// Returns the base64 substrings that occur in every encoding of a text containing `value`, at each alignment.
fn base64_substrings(value: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let bytes: Vec<u8> = std::iter::repeat_n(0, before).chain(value.bytes()).collect();
        // Characters that also encode bits of the neighbouring bytes are excluded.
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
    fn common_encodings_are_redacted() {
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
            let hidden = redactor.redact(written.clone());
            assert!(hidden.contains(HIDDEN) && !hidden.contains("ss"), "{written}: {hidden}");
        }
    }

    #[test]
    fn credential_is_redacted_without_its_scheme() {
        let redactor = redactor(&["Bearer abcdef", "of", "Basic YWRhOmxvdmVsYWNlLTE="]);
        assert_eq!(redactor.redact("token abcdef of Bearer abcdef"), "token [hidden] of [hidden]");
        assert_eq!(redactor.redact("YWRhOmxvdmVsYWNlLTE= is ada:lovelace-1"), "[hidden] is ada:[hidden]");
        let mut redactor = Redactor::default();
        redactor.add_login("ada", "lovelace-1");
        assert_eq!(redactor.redact("Basic YWRhOmxvdmVsYWNlLTE= and lovelace-1"), "Basic [hidden] and [hidden]");
    }

    #[test]
    fn short_values_are_redacted_only_as_words() {
        let redactor = redactor(&["k", "kind", "x"]);
        assert_eq!(
            redactor.redact("a k, a kindness of that kind: kind_of x"),
            "a k, a kindness of that [hidden]: kind_of x"
        );
    }

    #[test]
    fn truncated_secrets_are_redacted() {
        let redactor = redactor(&["sk-very-secret"]);
        assert_eq!(redactor.redact_excerpt("the key is sk-very-se"), "the key is [hidden]");
        assert_eq!(redactor.redact_excerpt("-secret was the key"), "[hidden] was the key");
        assert_eq!(redactor.redact_excerpt("sk-very-se"), HIDDEN);
        assert_eq!(redactor.redact_excerpt("whole: sk-very-secret."), "whole: [hidden].");
        assert_eq!(redactor.redact_excerpt("nothing here sk-"), "nothing here sk-");
    }

    #[test]
    fn redact_json_redacts_all_strings() {
        let mut value = json!({"k-12345678": [12_345_678, "a 12345678", true, null], "n": 5});
        redactor(&["12345678"]).redact_json(&mut value);
        assert_eq!(value, json!({"k-[hidden]": [HIDDEN, "a [hidden]", true, null], "n": 5}));
    }

    #[test]
    fn split_and_encoded_secrets_are_detected() {
        let redactor = redactor(&["mail-password-4711", "k1nd"]);
        for text in [
            "mail-password-4711",
            "no: mail-pass\r\nword-4711",
            "m a i l - p a s s w o r d - 4 7 1 1",
            "mail-\u{200b}password\u{e0041}-4711",
            "%6d%61%69%6C-password-4711",
            "%6d%61%6\n9%6C-password-4711",
            "=6D=61=69=6C-password-4711",
            "mail-pass=\r\nword-4711",
            "=6Dail-pass=\r\n word%2D4711",
            "bWFpbC1wYXNz\nd29yZC00NzEx",
            "a k1nd word",
            "a k1\nnd word",
            "/%6B1nd/",
            "a%20k1nd",
        ] {
            assert!(redactor.is_repeated_in(text), "{text}");
        }
        for text in ["", "mail-password-471", "=", "%", "100 % of =4", "k1nds", "unk1nd", "un%6B1nd", "mail password"] {
            assert!(!redactor.is_repeated_in(text), "{text}");
        }
        assert!(!Redactor::default().is_repeated_in("mail-password-4711"));
    }

    #[test]
    fn secrets_with_spaces_are_detected() {
        let redactor = redactor(&["correct horse battery"]);
        for text in ["correct horse battery", "correct\nhorse  battery", "correct%20horse%20battery"] {
            assert!(redactor.is_repeated_in(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_encoding_of_any_character_is_detected(
            secret in "[!-~]{8,30}", choices in prop::collection::vec(0_u8..5, 30), before in "[ -~]{0,9}",
        ) {
            let mut written = format!("{before} ");
            for (byte, choice) in secret.bytes().zip(choices) {
                match choice {
                    0 => written.push_str(&format!("%{byte:02X}")),
                    1 => written.push_str(&format!("%{byte:02x}")),
                    2 => written.extend([char::from(byte), '\n']),
                    _ => written.push(char::from(byte)),
                }
            }
            prop_assert!(redactor(&[&secret]).is_repeated_in(&written), "{}", written);
        }

        #[test]
        fn is_repeated_in_never_panics(text in ".{0,60}|[%=0-9a-f \n]{0,60}", secret in "\\PC{0,12}") {
            let _ = redactor(&[&secret]).is_repeated_in(&text);
        }

        #[test]
        fn redact_leaves_no_encoded_form(secret in "\\PC{8,40}", before in "\\PC{0,9}", after in "\\PC{0,9}") {
            let secret = secret.trim();
            prop_assume!(secret.chars().count() >= 8 && !HIDDEN.contains(secret));
            let redactor = redactor(&[secret]);
            let text = format!("{before}{secret}{after}");
            prop_assert!(!redactor.redact(text.clone()).contains(secret));
            for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                prop_assert!(redactor.redact(encoded).contains(HIDDEN));
            }
            // Split into two pieces at every position.
            for at in (4..secret.len().saturating_sub(4)).filter(|at| secret.is_char_boundary(*at)) {
                let (first, second) = secret.split_at(at);
                let hidden = [redactor.redact_excerpt(format!("- {first}")), redactor.redact_excerpt(format!("{second} -"))];
                prop_assert!(!hidden[0].contains(first) && !hidden[1].contains(second));
            }
        }
    }
}
