//! Markdown as agents write it, in the markup of a platform, in messages that each keep to the platform's limit.
//!
//! Invariants
//! - The bytes of code arrive as they are, whatever the code stands in: a block of code is never indented and never in a
//!   quote. One that is longer than a message becomes several blocks in its language.
//! - A bare URL arrives as it is.
//! - A message ends between blocks where that is possible, then between lines, then between words; nothing is opened in
//!   one message and closed in the next.
//! - Time and memory grow with the length of the text, whatever is in it.

mod bare_urls;
mod lines;
mod split;
mod write;

#[cfg(test)]
mod tests;

pub use bare_urls::protect_bare_urls;
pub(crate) use lines::{
    begin_lines, block_in_backticks, code_in_backticks, mark_lines, part_backticks, without_fences,
};
pub(crate) use write::{render, render_text};

/// The markup of a platform. Each function takes text that is escaped already, unless it says otherwise.
pub(crate) struct Style {
    /// Maximum length of a message, by `measure`.
    pub(crate) limit: usize,
    /// The measure of two texts together is the sum of theirs.
    pub(crate) measure: fn(&str) -> usize,
    /// Makes plain text mean nothing but itself.
    pub(crate) escape: fn(&str) -> String,
    pub(crate) strong: fn(&str) -> String,
    pub(crate) emphasis: fn(&str) -> String,
    pub(crate) strikethrough: fn(&str) -> String,
    /// Takes plain text.
    pub(crate) code: fn(&str) -> String,
    /// Takes plain text and its language, which may be empty.
    pub(crate) code_block: fn(&str, &str) -> String,
    /// Takes the label, escaped, and the plain URL. A bare URL is its own label.
    pub(crate) link: fn(&str, &str) -> String,
    /// Takes the text of a heading and its level.
    pub(crate) heading: fn(&str, u8) -> String,
    /// Takes one or several lines.
    pub(crate) quote: fn(&str) -> String,
    /// Stands before an item of a list without numbers.
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
