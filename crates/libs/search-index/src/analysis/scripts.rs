//! Character classes of words, and scripts without spaces between words.

use std::ops::RangeInclusive;

/// Scripts without spaces, indexed by single characters and pairs of neighbours.
const UNSPACED: &[RangeInclusive<u32>] = &[
    0x0e00..=0x0eff, // Thai, Lao
    0x1000..=0x109f, // Myanmar
    0x1100..=0x11ff, // Hangul letters
    0x1780..=0x17ff, // Khmer
    0x2e80..=0x2fdf, // radicals
    0x3005..=0x3007, // iteration mark, zero
    0x3021..=0x3029,
    0x3031..=0x3035,
    0x303b..=0x303c,
    0x3041..=0x318f, // Hiragana, Katakana, Bopomofo, Hangul letters
    0x31a0..=0x31bf,
    0x31f0..=0x31ff,
    0x3400..=0x4dbf, // Han
    0x4e00..=0x9fff,
    0xa960..=0xa97f,
    0xac00..=0xd7ff, // Hangul
    0xf900..=0xfaff,
    0xff66..=0xffdc, // half width
    0x1b000..=0x1b16f,
    0x20000..=0x3ffff,
];

pub(super) fn is_unspaced(c: char) -> bool {
    let code = u32::from(c);
    code >= 0x0e00 && is_word(c) && UNSPACED.iter().any(|range| range.contains(&code))
}

/// Whether this is a mark that belongs to the preceding character: voicing of kana, vowels of Thai.
pub(super) fn is_attached(c: char) -> bool {
    matches!(c, '\u{3099}' | '\u{309a}' | '\u{ff9e}' | '\u{ff9f}') || unicode_normalization::char::is_combining_mark(c)
}

/// Whether this is a letter, a digit, or a mark.
pub(super) fn is_word(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric()
    } else {
        c.is_alphanumeric() || unicode_normalization::char::is_combining_mark(c)
    }
}

/// Returns the position after `start` where the characters stop being `inside`.
pub(super) fn end_of(text: &str, start: usize, inside: impl Fn(char) -> bool) -> usize {
    text[start..].char_indices().find(|(_, c)| !inside(*c)).map_or(text.len(), |(offset, _)| start + offset)
}
