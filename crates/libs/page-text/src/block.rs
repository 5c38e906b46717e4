//! Blocks of a page: paragraphs, headings, list items, code and table rows.

use crate::page::Link;

/// Kind of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Paragraph,
    Heading(u8),
    /// List item; `marker` is empty for its continuation.
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
    pub(crate) form: BlockKind,
    pub(crate) text: String,
    pub(crate) link_bytes: usize,
    pub(crate) links: Vec<Link>,
    pub(crate) is_main: bool,
    pub(crate) is_chrome: bool,
    pub(crate) is_quote: bool,
}

/// Parsed page before the content blocks are selected.
#[derive(Debug, Default)]
pub(crate) struct ParsedPage {
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
    /// Link targets by their number in the block texts.
    pub(crate) addresses: Vec<String>,
    pub(crate) is_truncated: bool,
}
