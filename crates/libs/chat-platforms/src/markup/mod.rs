//! Conversion of Markdown to the markup of a platform, split into messages within the platform's limit.
//!
//! Invariants
//! - Code is unchanged wherever it occurs: a code block is never indented or quoted. A block longer than a message
//!   becomes several blocks in the same language.
//! - Bare URLs are unchanged.
//! - A message ends between blocks if possible, then between lines, then between words. No markup spans two messages.
//! - Time and memory are linear in the length of the text for any input.

mod bare_urls;
mod lines;
mod split;
mod write;

#[cfg(test)]
mod tests;

pub use bare_urls::protect_bare_urls;
pub(crate) use lines::{
    block_in_backticks, break_backticks, code_in_backticks, mark_lines, prefix_lines, without_fences,
};
pub(crate) use write::{render, render_text};

/// Markup of a platform. Each function takes escaped text unless stated otherwise.
pub(crate) struct Style {
    /// Maximum length of a message, by `measure`.
    pub(crate) limit: usize,
    /// Length function; must be additive over concatenation.
    pub(crate) measure: fn(&str) -> usize,
    /// Escapes plain text.
    pub(crate) escape: fn(&str) -> String,
    pub(crate) strong: fn(&str) -> String,
    pub(crate) emphasis: fn(&str) -> String,
    pub(crate) strikethrough: fn(&str) -> String,
    /// Takes plain text.
    pub(crate) code: fn(&str) -> String,
    /// Takes plain text and its language, which may be empty.
    pub(crate) code_block: fn(&str, &str) -> String,
    /// Takes the escaped label and the plain URL. A bare URL is its own label.
    pub(crate) link: fn(&str, &str) -> String,
    /// Takes the text of a heading and its level.
    pub(crate) heading: fn(&str, u8) -> String,
    /// Takes one or several lines.
    pub(crate) quote: fn(&str) -> String,
    /// Prefix of items in unordered lists.
    pub(crate) bullet: &'static str,
}

/// Length in characters.
pub(crate) fn characters(text: &str) -> usize {
    text.chars().count()
}

/// Length in UTF-16 code units.
pub(crate) fn utf16_units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Length in UTF-8 bytes.
pub(crate) fn bytes(text: &str) -> usize {
    text.len()
}
