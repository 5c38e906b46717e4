//! Readable page and its limits.

/// Maximum length of the text; the remainder is dropped.
pub const MAX_TEXT_BYTES: usize = 4 << 20;
/// Maximum number of links; further ones are dropped.
pub const MAX_LINKS: usize = 500;

/// Readable page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadablePage {
    /// Title in one line; empty if the page has none.
    pub title: String,
    /// Text with Markdown-like markup: `#` for headings, `-` or numbers for items, fences for code, `|` between table
    /// cells. Links are written as `[text](address)`, each address at its first occurrence.
    pub text: String,
    /// Links in text order, each URL once.
    pub links: Vec<Link>,
    /// Whether something was dropped because of a limit.
    pub is_truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Link text in one line, or the URL if it has none.
    pub text: String,
    pub url: String,
}

/// Truncates `text` to at most `limit` bytes. Returns whether it was longer.
pub(crate) fn truncate(text: &mut String, limit: usize) -> bool {
    if text.len() <= limit {
        return false;
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    true
}
