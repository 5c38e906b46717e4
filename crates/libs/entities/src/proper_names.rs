//! Names detected only by capitalization, for code that must be fast or has no tagger.

use std::ops::Range;

use crate::cues;
use crate::dates;
use crate::text::{Case, Kind, Text};

/// Maximum length of a name in tokens.
const MAX_NAME_TOKENS: usize = 5;

/// Returns the names inside the sentences of a text: capitalized words that do not begin a sentence. German nouns are
/// indistinguishable from names.
#[must_use]
pub fn proper_names(text: &str) -> Vec<String> {
    let text = Text::new(&text[..text.floor_char_boundary(crate::MAX_TEXT_BYTES)]);
    inside_sentences(&text).into_iter().map(|tokens| text.source_of(tokens).to_owned()).collect()
}

pub(crate) fn inside_sentences(text: &Text<'_>) -> Vec<Range<usize>> {
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(token) = text.get(at) {
        let end = if token.is_first { at } else { name_end(text, at) };
        if end > at {
            names.push(at..end);
        }
        at = end.max(at + 1);
    }
    names
}

/// Returns the end of the name that begins at `start`; `start` if there is none.
pub(crate) fn name_end(text: &Text<'_>, start: usize) -> usize {
    let mut end = start;
    while end < start + MAX_NAME_TOKENS && is_part(text, end) {
        let is_joined = end == start || text.get(end).is_some_and(|token| token.is_spaced);
        if !is_joined || !text.same_sentence(start, end) {
            break;
        }
        end += 1;
    }
    end
}

fn is_part(text: &Text<'_>, at: usize) -> bool {
    let Some(token) = text.get(at) else { return false };
    let is_name = match token.case {
        Case::Capitalized | Case::Mixed => true,
        Case::Upper => token.end - token.start > 1,
        Case::None | Case::Lower => false,
    };
    let word = text.folded(at);
    token.kind == Kind::Word
        && is_name
        && !token.has(cues::FUNCTION)
        && !word.starts_with("i'")
        && dates::month_of(word).is_none()
        && dates::date_at(text, at).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitals_inside_sentences_are_names() {
        assert_eq!(
            proper_names("My boat Pequod lies in the harbour of Elk Haven. Anna saw it in May, I think."),
            ["Pequod", "Elk Haven"]
        );
        assert!(proper_names("").is_empty());
    }
}
