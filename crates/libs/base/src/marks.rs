//! Markers around untrusted text, so that a model can distinguish it from the owner's instructions.

use crate::{Entropy, sha256};

const KEY_BYTES: usize = 8;
const BEGIN: &str = "[untrusted ";

/// Lines before and after an untrusted text. The author of the text does not know their key, so the text cannot contain
/// its own end marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    pub begin: String,
    pub end: String,
}

/// Untrusted text parsed from between its markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedText<'a> {
    pub marks: Marks,
    pub text: &'a str,
    /// Text after the end marker.
    pub rest: &'a str,
}

impl Marks {
    /// Creates markers with the given key.
    #[must_use]
    pub fn new(key: &str) -> Self {
        Self { begin: format!("{BEGIN}{key}]"), end: format!("[end of untrusted {key}]") }
    }

    /// Creates markers with a random key.
    #[must_use]
    pub fn random(entropy: &Entropy) -> Self {
        Self::new(&hex::encode(entropy.bytes::<KEY_BYTES>()))
    }

    /// Derives the key from a secret and the marked text. Equal texts have equal markers in every prompt, and the key
    /// of one text reveals nothing about the key of another.
    #[must_use]
    pub fn derived(secret: &[u8; 32], text: &str) -> Self {
        let digest = sha256(&[b"agentd untrusted marks v1\0".as_slice(), secret, text.as_bytes()].concat());
        Self::new(&hex::encode(&digest[..KEY_BYTES]))
    }

    /// Returns the text enclosed by the markers.
    #[must_use]
    pub fn wrap(&self, text: &str) -> String {
        format!("{}\n{text}\n{}", self.begin, self.end)
    }
}

impl<'a> MarkedText<'a> {
    /// Parses a text that [`Marks::wrap`] wrote at the beginning of `content`.
    #[must_use]
    pub fn parse(content: &'a str) -> Option<Self> {
        let (key, after) = content.strip_prefix(BEGIN)?.split_once("]\n")?;
        let marks = Marks::new(key);
        let (text, rest) = after.rsplit_once(&marks.end)?;
        Some(Self { text: text.strip_suffix('\n')?, marks, rest })
    }

    /// Returns the content with the marked text replaced by `text`.
    #[must_use]
    pub fn with_text(&self, text: &str) -> String {
        format!("{}{}", self.marks.wrap(text), self.rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_texts_have_equal_marks_under_one_secret() {
        let (one, other) = ([1; 32], [2; 32]);
        assert_eq!(Marks::derived(&one, "a"), Marks::derived(&one, "a"));
        assert_ne!(Marks::derived(&one, "a"), Marks::derived(&one, "b"));
        assert_ne!(Marks::derived(&one, "a"), Marks::derived(&other, "a"));
    }

    proptest! {
        #[test]
        fn wrapped_text_is_read_back(text in "(\\PC|\n|\\[untrusted 0\\]|\\[end of untrusted 0\\]){0,40}", rest in "\\PC{0,20}") {
            let marks = Marks::derived(&[7; 32], &text);
            let content = format!("{}{rest}", marks.wrap(&text));
            let parsed = MarkedText::parse(&content).unwrap();
            prop_assert_eq!(parsed.text, text.as_str());
            prop_assert_eq!(parsed.rest, rest.as_str());
            prop_assert_eq!(parsed.with_text("x"), format!("{}{rest}", marks.wrap("x")));
        }

        #[test]
        fn any_content_is_parsed_without_panic(content in "(\\[untrusted |\\[end of untrusted |k|\\]|\n| ){0,12}") {
            let _ = MarkedText::parse(&content);
        }
    }
}
