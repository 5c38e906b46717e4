//! Splitting of a text into words for tagging: at white space and at punctuation, as in the corpora.
//!
//! `scripts/tagger/words.py` implements the same for the training.

use std::ops::Range;

use crate::embedder::chunker::ChunkWord;

/// Characters that join letters and digits on both sides into one word.
const JOINERS: &str = ".-&_'’+@";
/// Words that end with a period.
const ABBREVIATIONS: [&str; 24] = [
    "inc", "corp", "co", "ltd", "llc", "bros", "st", "dr", "mr", "mrs", "ms", "jr", "sr", "prof", "gen", "sen", "rep",
    "gov", "lt", "col", "capt", "rev", "mt", "ft",
];
/// Maximum length of a part of an abbreviation between two periods: `U.S.`, `e.g.`.
const MAX_PIECE_CHARS: usize = 2;

/// A word and its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// Byte range in the text.
    pub(crate) range: Range<usize>,
    /// Range of its tokens in the chunk's row.
    pub(crate) tokens: Range<usize>,
}

/// Splits the words of a chunk further. Words that the tokenizer splits differently are kept whole, so that every token
/// belongs to one word.
pub(crate) fn words(text: &str, chunk: &[ChunkWord], row: &[i32], tokenize: &dyn Fn(&str, &mut Vec<i32>)) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = 0;
    let mut tokens = Vec::new();
    for ChunkWord { range, tokens: count } in chunk {
        let first = words.len();
        tokens.clear();
        for part in split_word(&text[range.clone()]) {
            let before = tokens.len();
            let part = range.start + part.start..range.start + part.end;
            tokenize(&text[part.clone()], &mut tokens);
            if tokens.len() > before {
                words.push(Word { range: part, tokens: at + before..at + tokens.len() });
            }
        }
        if row.get(at..at + count) != Some(&tokens[..]) {
            words.truncate(first);
            words.push(Word { range: range.clone(), tokens: at..at + count });
        }
        at += count;
    }
    words
}

pub(crate) const fn is_apostrophe(character: char) -> bool {
    matches!(character, '\'' | '’')
}

/// Splits a word without white space into words and punctuation; returns byte ranges.
fn split_word(word: &str) -> Vec<Range<usize>> {
    let characters: Vec<(usize, char)> = word.char_indices().collect();
    let byte = |at: usize| characters.get(at).map_or(word.len(), |(byte, _)| *byte);
    let character = |at: usize| characters.get(at).map(|(_, character)| *character);
    let is_alphanumeric = |at: usize| character(at).is_some_and(char::is_alphanumeric);
    let is_digit = |at: usize| character(at).is_some_and(|character| character.is_ascii_digit());
    let is_possessive = |at: usize| {
        at > 0
            && character(at).is_some_and(is_apostrophe)
            && matches!(character(at + 1), Some('s' | 'S'))
            && !is_alphanumeric(at + 2)
    };
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(first) = character(at) {
        let mut end = at + 1;
        let starts_tag = at == 0 && matches!(first, '@' | '#') && is_alphanumeric(1);
        if first.is_alphanumeric() || starts_tag {
            while let Some(next) = character(end) {
                let is_joint = match next {
                    ',' => is_digit(end - 1) && is_digit(end + 1),
                    _ => JOINERS.contains(next) && is_alphanumeric(end + 1) && !is_possessive(end),
                };
                if !next.is_alphanumeric() && !is_joint {
                    break;
                }
                end += 1;
            }
            if character(end) == Some('.') && is_abbreviation(&word[byte(at)..byte(end)]) {
                end += 1;
            }
        } else if is_possessive(at) {
            end = at + 2;
        }
        parts.push(byte(at)..byte(end));
        at = end;
    }
    parts
}

/// Whether a period after `word` belongs to it.
fn is_abbreviation(word: &str) -> bool {
    if word.contains('.') {
        return word.split('.').all(|piece| {
            !piece.is_empty() && piece.chars().count() <= MAX_PIECE_CHARS && piece.chars().all(char::is_alphabetic)
        });
    }
    let mut characters = word.chars();
    let is_initial = characters.next().is_some_and(char::is_uppercase) && characters.next().is_none();
    is_initial || ABBREVIATIONS.iter().any(|known| known.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(word: &str) -> Vec<&str> {
        split_word(word).into_iter().map(|range| &word[range]).collect()
    }

    #[test]
    fn words_are_split_as_in_the_corpora() {
        for (word, expected) in [
            ("O'Brien's", vec!["O'Brien", "'s"]),
            ("Coca-Cola,", vec!["Coca-Cola", ","]),
            ("U.S.,", vec!["U.S.", ","]),
            ("AT&T;", vec!["AT&T", ";"]),
            ("Corp.", vec!["Corp."]),
            ("end.", vec!["end", "."]),
            ("C++", vec!["C", "+", "+"]),
            ("1,000", vec!["1,000"]),
            ("a,b", vec!["a", ",", "b"]),
            ("@anna:", vec!["@anna", ":"]),
            ("(Müller)", vec!["(", "Müller", ")"]),
            ("'s", vec!["'", "s"]),
            ("don’t", vec!["don’t"]),
            ("", vec![]),
        ] {
            assert_eq!(parts(word), expected, "{word}");
        }
    }

    #[test]
    fn every_token_belongs_to_one_word() {
        let text = "Anna's x-ray";
        let one = |word: &str, into: &mut Vec<i32>| into.extend(word.chars().map(|c| c as i32));
        let mut row = Vec::new();
        one("Anna's", &mut row);
        // Differs from the tokenizer's current output, so the word is kept whole.
        row.extend([1, 2]);
        let chunk = [ChunkWord { range: 0..6, tokens: 6 }, ChunkWord { range: 7..12, tokens: 2 }];
        let found = words(text, &chunk, &row, &one);
        let found: Vec<_> = found.iter().map(|word| (&text[word.range.clone()], word.tokens.clone())).collect();
        assert_eq!(found, [("Anna", 0..4), ("'s", 4..6), ("x-ray", 6..8)]);
    }

    proptest! {
        #[test]
        fn parts_cover_the_word_in_order(word in "[A-Za-zéß0-9.,'’&@#+:-]{0,20}|\\PC{0,12}") {
            let mut at = 0;
            for part in split_word(&word) {
                prop_assert!(part.start == at && part.end > at);
                at = part.end;
            }
            prop_assert_eq!(at, word.len());
        }
    }
}
