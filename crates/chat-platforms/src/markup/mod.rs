//! Markdown as agents write it, in the markup of a platform, in parts that each keep to the platform's limit.
//!
//! Parts end between blocks where that is possible, then between lines, then between words. A block of code that is
//! longer than a part becomes several blocks of code; nothing is opened in one part and closed in the next.
//!
//! The time and the memory that this takes grow with the length of the text, whatever is in it.

mod lines;
mod split;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use lines::{
    begin_lines, block_in_backticks, code_in_backticks, mark_lines, part_backticks, without_fences,
};
pub(crate) use write::render;

/// How a platform writes things. Each function gets text that is escaped already, unless it says otherwise.
pub(crate) struct Style {
    /// The most that a part may be long, by `measure`.
    pub(crate) limit: usize,
    /// Of two texts together it is the sum.
    pub(crate) measure: fn(&str) -> usize,
    /// Makes plain text mean nothing but itself.
    pub(crate) escape: fn(&str) -> String,
    pub(crate) strong: fn(&str) -> String,
    pub(crate) emphasis: fn(&str) -> String,
    pub(crate) strikethrough: fn(&str) -> String,
    /// Of plain text.
    pub(crate) code: fn(&str) -> String,
    /// Of plain text, with its language, which may be empty.
    pub(crate) code_block: fn(&str, &str) -> String,
    /// The label, escaped, and the plain url.
    pub(crate) link: fn(&str, &str) -> String,
    /// A heading with its level.
    pub(crate) heading: fn(&str, u8) -> String,
    /// One or several lines.
    pub(crate) quote: fn(&str) -> String,
    /// What stands before an item of a list without numbers.
    pub(crate) bullet: &'static str,
}

/// By characters.
pub(crate) fn characters(text: &str) -> usize {
    text.chars().count()
}

/// By UTF-16 code units.
pub(crate) fn utf16_units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// By bytes of UTF-8.
pub(crate) fn bytes(text: &str) -> usize {
    text.len()
}
