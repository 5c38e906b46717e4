//! Additional forms of words with several spellings. They overlap the original words, so they do not increase the
//! length of a document.

use super::scripts::end_of;

/// Units that may be written together with their number.
const UNITS: &[&str] = &[
    "am", "cm", "eur", "ft", "g", "gb", "ghz", "h", "hz", "kb", "kg", "km", "kmh", "kw", "kwh", "l", "lb", "lbs", "m",
    "mb", "mg", "mhz", "mi", "min", "ml", "mm", "mph", "ms", "pm", "s", "tb", "usd", "w",
];
const MAX_DIGITS: usize = 18;
/// Minimum length of a part of an identifier.
const MIN_PART_LENGTH: usize = 3;

/// Returns `1,240` and `1.240` as `1240`, from `start`, and the end position.
pub(super) fn grouped_number(text: &str, start: usize) -> Option<(String, usize)> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let first = digits(start);
    let follows_digit = start > 0 && (bytes[start - 1].is_ascii_digit() || matches!(bytes[start - 1], b',' | b'.'));
    if !(1..=3).contains(&first) || follows_digit {
        return None;
    }
    let mark = *bytes.get(start + first)?;
    if !matches!(mark, b',' | b'.') {
        return None;
    }
    let mut end = start + first;
    while bytes.get(end) == Some(&mark) && digits(end + 1) == 3 {
        end += 4;
    }
    let number: String = text[start..end].chars().filter(char::is_ascii_digit).collect();
    let is_whole = text[end..].chars().next().is_none_or(|c| !c.is_alphanumeric());
    (end > start + first && is_whole && number.len() <= MAX_DIGITS).then_some((number, end))
}

/// Returns `5 km` as `5km`, if the number ends at `end`, and the new end position.
pub(super) fn with_unit(text: &str, number: &str, end: usize) -> Option<(String, usize)> {
    if number.len() > MAX_DIGITS || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let start =
        end + text[end..].strip_prefix([' ', '\u{a0}', '\u{202f}']).map(|rest| text[end..].len() - rest.len())?;
    let unit_end = end_of(text, start, char::is_alphanumeric);
    let unit = text[start..unit_end].to_ascii_lowercase();
    UNITS.binary_search(&unit.as_str()).ok().map(|_| (format!("{number}{unit}"), unit_end))
}

/// Returns `Köln` as `Koeln`; `None` if the word has no such letter.
pub(super) fn spelled_out(word: &str) -> Option<String> {
    if word.is_ascii() || !word.contains(['ä', 'ö', 'ü', 'Ä', 'Ö', 'Ü']) {
        return None;
    }
    let mut out = String::with_capacity(word.len() + 4);
    for c in word.chars() {
        match c {
            'ä' | 'Ä' => out.push_str("ae"),
            'ö' | 'Ö' => out.push_str("oe"),
            'ü' | 'Ü' => out.push_str("ue"),
            _ => out.push(c),
        }
    }
    Some(out)
}

/// Splits `parseBound` into `parse` and `Bound`, if every part is a word.
pub(super) fn parts_of_name(word: &str) -> Vec<&str> {
    if !word.is_ascii() || !word.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, pair) in word.as_bytes().windows(2).enumerate() {
        if pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase() {
            parts.push(&word[start..=at]);
            start = at + 1;
        }
    }
    if start == 0 {
        return Vec::new();
    }
    parts.push(&word[start..]);
    if parts.iter().all(|part| part.len() >= MIN_PART_LENGTH) { parts } else { Vec::new() }
}

/// Whether this is a pictogram that users may search for.
pub(super) fn is_pictogram(c: char) -> bool {
    matches!(u32::from(c), 0x2600..=0x27bf | 0x2b50 | 0x2b55 | 0x1f300..=0x1f3fa | 0x1f400..=0x1faff)
}
