//! The blocks of a page: paragraphs, headings, items, code and rows of tables.

use crate::page::Link;

/// What a block is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    Paragraph,
    Heading(u8),
    /// `marker` is empty for what continues an item.
    Item {
        depth: usize,
        marker: String,
    },
    Code,
    Row {
        cells: usize,
        is_header: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) form: Form,
    pub(crate) text: String,
    pub(crate) link_bytes: usize,
    pub(crate) links: Vec<Link>,
    pub(crate) is_main: bool,
    pub(crate) is_chrome: bool,
    pub(crate) is_quote: bool,
}

/// A page before it is decided what of it counts.
#[derive(Debug, Default)]
pub(crate) struct Read {
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
    /// Where the links in the texts of blocks lead, by their numbers there.
    pub(crate) addresses: Vec<String>,
    pub(crate) is_truncated: bool,
}
