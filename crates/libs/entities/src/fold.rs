//! Folding: a common form of all spellings of a word (case, accents of Latin letters, apostrophes). Other scripts keep
//! their marks, which carry meaning there.
//!
//! Differs from the folding of the search index: this one determines the identity of stored entities, and apostrophes
//! are part of names.

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// Returns the folded form of `text`, with single spaces.
#[must_use]
pub fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !folded.is_empty() {
            folded.push(' ');
        }
        word.chars().for_each(|character| fold_character(character, &mut folded));
    }
    folded
}

pub(crate) fn fold_character(character: char, into: &mut String) {
    if character.is_ascii() {
        into.push(character.to_ascii_lowercase());
        return;
    }
    match character {
        '\u{2018}' | '\u{2019}' | '\u{02bc}' => into.push('\''),
        'ß' | 'ẞ' => into.push_str("ss"),
        'ø' | 'Ø' => into.push('o'),
        'æ' | 'Æ' => into.push_str("ae"),
        'œ' | 'Œ' => into.push_str("oe"),
        'ł' | 'Ł' => into.push('l'),
        'đ' | 'Đ' | 'ð' | 'Ð' => into.push('d'),
        'þ' | 'Þ' => into.push_str("th"),
        'ı' | 'İ' => into.push('i'),
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200d}' | '\u{feff}' => {}
        // Accented Latin letters and their full-width forms.
        '\u{a0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' | '\u{ff01}'..='\u{ff5e}' => {
            decompose_compatible(character, |part| {
                if !is_combining_mark(part) {
                    into.extend(part.to_lowercase());
                }
            });
        }
        other => into.extend(other.to_lowercase()),
    }
}
