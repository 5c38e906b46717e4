//! Signals of a text apart from its words: the speaker, and whether it ends with a question.

use crate::analysis::analyze;

/// Prefix of terms for speakers. No word of a text begins with it.
pub(crate) const SPEAKER_MARK: char = '\u{1}';
/// Maximum length of a name before a colon, in bytes.
const MAX_NAME_BYTES: usize = 60;

/// Returns the terms of the speaker's name, for texts that begin with one: `Ada: …`, `[8 May] Ada Byron: …`, `Ada said,
/// "…`.
pub(crate) fn speaker_terms(text: &str) -> Vec<String> {
    speaker(text).map_or_else(Vec::new, |name| {
        analyze(name).into_iter().filter(|token| token.is_counted).map(|token| token.term).collect()
    })
}

/// Returns up to three words before a colon and white space, or before `said` with a comma or a colon.
fn speaker(text: &str) -> Option<&str> {
    let text = after_bracket(text.trim_start());
    let window = &text[..text.floor_char_boundary(MAX_NAME_BYTES)];
    let end = window.find([':', ',', '\n'])?;
    if !text[end + 1..].starts_with(char::is_whitespace) {
        return None;
    }
    let name = match (&window[..end], window.as_bytes()[end]) {
        (words, b':') => words.strip_suffix(" said").unwrap_or(words),
        (words, b',') => words.strip_suffix(" said")?,
        _ => return None,
    };
    let mut words = name.split(' ');
    let first = words.next()?;
    let letters = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '\'' | '-'))
    };
    let begins_well = first.starts_with(|c: char| c.is_alphabetic() || c == '_');
    (begins_well && letters(first) && words.clone().count() <= 2 && words.all(letters)).then_some(name)
}

/// Skips a bracket at the beginning of the text, such as a date.
fn after_bracket(text: &str) -> &str {
    let close = match text.chars().next() {
        Some('[') => ']',
        Some('(') => ')',
        _ => return text,
    };
    text.find(close).map_or(text, |end| text[end + 1..].trim_start())
}

/// Whether the text ends with a question mark, ignoring quotation marks and brackets after it.
pub(crate) fn ends_with_question(text: &str) -> bool {
    let mut rest = text.trim_end();
    loop {
        let open = match rest.chars().next_back() {
            Some(']') => '[',
            Some(')') => '(',
            _ => break,
        };
        let Some(start) = rest.rfind(open) else { break };
        rest = rest[..start].trim_end();
    }
    rest.trim_end_matches([' ', '"', '\'', '”', '’', '»']).ends_with(['?', '？', '؟'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speaker_is_found_at_the_beginning_of_a_text() {
        for (text, name) in [
            ("Ada: hello", Some("Ada")),
            ("[8 May 2023] Ada Byron: hello", Some("Ada Byron")),
            ("Ada said, \"hello\"", Some("Ada")),
            ("Ada said: hello", Some("Ada")),
            ("  user: hi", Some("user")),
            ("10:30 at the station", None),
            ("see https://example.org", None),
            ("I went home, tired", None),
            ("This is a long sentence: with a colon", None),
            ("", None),
            (":", None),
        ] {
            assert_eq!(speaker(text), name, "{text}");
        }
    }

    #[test]
    fn question_is_detected_at_the_end() {
        for text in ["Ada: how are you?", "really? [a photo of a dog]", "\"why?\"", "本当？", "ok? (a) [b]"] {
            assert!(ends_with_question(text), "{text}");
        }
        for text in ["", "why? Because.", "]", "? no"] {
            assert!(!ends_with_question(text), "{text}");
        }
    }
}
