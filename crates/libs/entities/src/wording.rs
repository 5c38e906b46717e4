//! Detection of texts that repeat another one.
//!
//! Only differences that cannot change the meaning are ignored: spaces, punctuation of sentences, and case of words.
//! Any other difference, such as another word, number or sign, makes texts distinct: a single word can change an
//! allergy, a dose or a direction.

/// Punctuation that is ignored at the beginning of a word.
const OPENING: [char; 6] = ['"', '\'', '“', '„', '«', '‘'];
/// Punctuation that is ignored at the end of a word. A question is not a statement, so question marks are significant.
const CLOSING: [char; 12] = ['.', ',', ';', ':', '!', '…', '"', '\'', '”', '“', '»', '’'];

/// Words of a text in comparable form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wording(String);

impl Wording {
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut wording = String::with_capacity(text.len());
        let mut follows_number = false;
        for token in text.split_whitespace() {
            let word = token.trim_start_matches(OPENING).trim_end_matches(CLOSING);
            if word.is_empty() {
                continue;
            }
            if !wording.is_empty() {
                wording.push(' ');
            }
            // Units may differ only in case: Mb and MB.
            if has_word_case(word) && !follows_number {
                wording.push_str(&word.to_lowercase());
            } else {
                wording.push_str(word);
            }
            follows_number = word.ends_with(|last: char| last.is_numeric());
        }
        Self(wording)
    }

    /// Returns the words separated by single spaces; empty for a text without words.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both have the same words. A text without words repeats no other.
    #[must_use]
    pub fn repeats(&self, other: &Self) -> bool {
        !self.0.is_empty() && self == other
    }
}

/// Whether a word is in lower case, in upper case or capitalized. In passwords, identifiers and names such as `iOS`,
/// case is significant.
fn has_word_case(word: &str) -> bool {
    let is_word = word.chars().all(|letter| letter.is_alphabetic() || matches!(letter, '\'' | '’' | '-'));
    let has_upper_behind = word.chars().skip(1).any(char::is_uppercase);
    is_word && (!has_upper_behind || !word.chars().any(char::is_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_case_is_ignored() {
        for word in ["i", "I", "Mia", "MIA", "mia", "don't", "Well-known"] {
            assert!(has_word_case(word), "{word}");
        }
        for word in ["iOS", "hUnter", "abc1", "C++", "x=Y", "dE"] {
            assert!(!has_word_case(word), "{word}");
        }
    }
}
