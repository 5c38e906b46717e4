//! A page as text, and what it may measure.

/// What a page's text may measure; the rest is left out.
pub const MAX_TEXT_BYTES: usize = 4 << 20;
/// How many links a page may have; the rest is left out.
pub const MAX_LINKS: usize = 500;

/// A page as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadablePage {
    /// One line; empty if the page names none.
    pub title: String,
    /// Headings start with `#`, items with `-` or a number, code stands in fences, the cells of a
    /// table's row between `|`. Links are `[text](address)`, each address where it comes first.
    pub text: String,
    /// In the order of the text, each address once.
    pub links: Vec<Link>,
    /// Whether a limit was met and something was left out.
    pub is_truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// One line; what the link says, or its address if it says nothing.
    pub text: String,
    pub url: String,
}

/// Cuts `text` to at most `limit` bytes; whether there was more.
pub(crate) fn cut(text: &mut String, limit: usize) -> bool {
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
