//! Characters without a visible form: escaped in text that a user decides by, dropped where they carry hidden text.
//!
//! The sets are Unicode properties: controls, format characters, line and paragraph separators, default-ignorable
//! code points (which include tags and variation selectors) and noncharacters. `tests/visible.json` holds the examples
//! that the web UI's own function is tested against.

use std::borrow::Cow;

use icu_properties::props::{
    DefaultIgnorableCodePoint, Emoji, EmojiModifier, ExtendedPictographic, GeneralCategory, NoncharacterCodePoint,
    Script, UnifiedIdeograph, VariationSelector,
};
use icu_properties::{CodePointMapData, CodePointSetData};
use serde_json::Value;

/// Characters of other categories that are drawn as nothing: the Braille blank and the musical null notehead.
const BLANKS: [char; 2] = ['\u{2800}', '\u{1d159}'];

const ZERO_WIDTH_JOINER: char = '\u{200d}';
const EMOJI_PRESENTATION: char = '\u{fe0f}';

/// Scripts in which a zero-width joiner or non-joiner selects the form of the neighbouring letters.
const SCRIPTS_WITH_JOINERS: [Script; 16] = [
    Script::Arabic,
    Script::Bengali,
    Script::Devanagari,
    Script::Gujarati,
    Script::Gurmukhi,
    Script::Kannada,
    Script::Khmer,
    Script::Malayalam,
    Script::Mongolian,
    Script::Myanmar,
    Script::Nko,
    Script::Oriya,
    Script::Sinhala,
    Script::Syriac,
    Script::Tamil,
    Script::Telugu,
];

/// Writes every character without a visible form as `\u{…}`, except line feeds, tabs and the carriage return of a
/// line break.
///
/// For approvals, names, file names and identifiers: two texts that differ look different.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    rewrite(text, |_, character, next| is_hidden(character) && !is_line_break(character, next), escape_character)
}

/// Escapes like [`escape`], but keeps joiners, variation selectors and soft hyphens that the neighbouring letters or
/// emoji need.
///
/// For prose that is only displayed, such as replies, titles and descriptions.
#[must_use]
pub fn escape_prose(text: &str) -> Cow<'_, str> {
    let is_escaped = |previous, character, next| {
        is_hidden(character) && !is_line_break(character, next) && !belongs_to_text(previous, character, next)
    };
    rewrite(text, is_escaped, escape_character)
}

/// Drops tags and the variation selectors that select no variant: both can carry text that only a model reads.
///
/// For everything that tool servers, devices, channels and web pages send.
#[must_use]
pub fn strip_tags(text: &str) -> Cow<'_, str> {
    rewrite(text, is_stripped, |_, _| {})
}

/// Applies [`strip_tags`] to every string in `value`, including member names.
pub fn strip_tags_in(value: &mut Value) {
    match value {
        Value::String(text) => replace_if_changed(text),
        Value::Array(entries) => entries.iter_mut().for_each(strip_tags_in),
        Value::Object(members) => {
            if members.keys().any(|name| matches!(strip_tags(name), Cow::Owned(_))) {
                *members = std::mem::take(members)
                    .into_iter()
                    .map(|(name, member)| (strip_tags(&name).into_owned(), member))
                    .collect();
            }
            members.values_mut().for_each(strip_tags_in);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn replace_if_changed(text: &mut String) {
    if let Cow::Owned(stripped) = strip_tags(text) {
        *text = stripped;
    }
}

/// Whether `character` has no visible form. Line feeds and tabs are excluded.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control() && !matches!(character, '\n' | '\t');
    }
    let category = CodePointMapData::<GeneralCategory>::new().get(character);
    matches!(
        category,
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
    ) || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character)
        || CodePointSetData::new::<NoncharacterCodePoint>().contains(character)
        || BLANKS.contains(&character)
}

fn is_line_break(character: char, next: Option<char>) -> bool {
    character == '\r' && next == Some('\n')
}

fn is_variation_selector(character: char) -> bool {
    CodePointSetData::new::<VariationSelector>().contains(character)
}

fn belongs_to_text(previous: Option<char>, character: char, next: Option<char>) -> bool {
    let Some(previous) = previous else { return false };
    match character {
        '\u{ad}' => previous.is_alphabetic() && next.is_some_and(char::is_alphabetic),
        '\u{200c}' | ZERO_WIDTH_JOINER => {
            next.is_some_and(|next| joins_letters(previous, next))
                || (character == ZERO_WIDTH_JOINER && next.is_some_and(|next| joins_emoji(previous, next)))
        }
        '\u{fe0e}' | EMOJI_PRESENTATION => CodePointSetData::new::<Emoji>().contains(previous),
        _ => is_variation_selector(character) && CodePointSetData::new::<UnifiedIdeograph>().contains(previous),
    }
}

fn joins_letters(previous: char, next: char) -> bool {
    let script = CodePointMapData::<Script>::new();
    [previous, next].into_iter().all(|side| SCRIPTS_WITH_JOINERS.contains(&script.get(side)))
}

fn joins_emoji(previous: char, next: char) -> bool {
    let pictographs = CodePointSetData::new::<ExtendedPictographic>();
    let ends_emoji = previous == EMOJI_PRESENTATION
        || pictographs.contains(previous)
        || CodePointSetData::new::<EmojiModifier>().contains(previous);
    ends_emoji && pictographs.contains(next)
}

fn is_stripped(previous: Option<char>, character: char, _: Option<char>) -> bool {
    if is_variation_selector(character) {
        return previous.is_none_or(|previous| previous.is_whitespace() || is_hidden(previous));
    }
    matches!(character, '\u{e0000}'..='\u{e0fff}')
}

fn escape_character(character: char, escaped: &mut String) {
    escaped.extend(character.escape_unicode());
}

/// Replaces the characters selected by `is_rewritten` with the output of `write` and copies the others. The predicate
/// receives the neighbouring characters of the original text.
fn rewrite(
    text: &str,
    is_rewritten: impl Fn(Option<char>, char, Option<char>) -> bool,
    write: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.as_bytes().iter().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut rewritten: Option<String> = None;
    let mut previous = None;
    let mut characters = text.char_indices().peekable();
    while let Some((start, character)) = characters.next() {
        if is_rewritten(previous, character, characters.peek().map(|(_, next)| *next)) {
            write(character, rewritten.get_or_insert_with(|| text[..start].to_owned()));
        } else if let Some(rewritten) = &mut rewritten {
            rewritten.push(character);
        }
        previous = Some(character);
    }
    rewritten.map_or(Cow::Borrowed(text), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Example {
        text: String,
        escaped: String,
        prose: String,
        stripped: String,
    }

    #[test]
    fn shared_examples_match() {
        let examples: Vec<Example> = serde_json::from_str(include_str!("../tests/visible.json")).unwrap();
        for Example { text, escaped, prose, stripped } in &examples {
            assert_eq!(&escape(text), escaped, "{text:?}");
            assert_eq!(&escape_prose(text), prose, "{text:?}");
            assert_eq!(&strip_tags(text), stripped, "{text:?}");
        }
        assert!(examples.len() >= 20);
    }

    #[test]
    fn every_tag_and_variation_selector_is_hidden() {
        let hidden = ['\u{fe00}'..='\u{fe0f}', '\u{e0000}'..='\u{e007f}', '\u{e0100}'..='\u{e01ef}'];
        for character in hidden.into_iter().flatten() {
            assert!(is_hidden(character), "{character:?}");
        }
    }

    #[test]
    fn texts_inside_json_are_stripped() {
        let mut value = json!({"na\u{e0041}me": ["a\u{e0042}", {"b": "c\u{e007f}d"}], "n": 1});
        strip_tags_in(&mut value);
        assert_eq!(value, json!({"name": ["a", {"b": "cd"}], "n": 1}));
    }

    proptest! {
        #[test]
        fn escaped_text_has_no_hidden_character(text in any::<String>()) {
            let escaped = escape(&text);
            prop_assert!(escaped.chars().all(|character| character == '\r' || !is_hidden(character)));
            let again = escape(&escaped);
            prop_assert_eq!(&again, &escaped);
        }

        #[test]
        fn stripping_twice_changes_nothing(text in "[a \u{fe0f}\u{e0041}\u{e0100}\u{200d}字]{0,12}") {
            let stripped = strip_tags(&text);
            let again = strip_tags(&stripped);
            prop_assert_eq!(&again, &stripped);
        }
    }
}
