//! State of the reader: open elements, and the blocks read so far.

use url::Url;

use crate::block::{Block, ParsedPage};
use crate::element::Tag;
use crate::page::Link;
use crate::stack::Stack;

#[derive(Default)]
pub(super) struct Row {
    pub(super) cells: Vec<Block>,
    pub(super) is_header: bool,
}

pub(super) struct OpenLink {
    pub(super) url: String,
    /// Whether it is a link within the page.
    pub(super) is_here: bool,
    /// Start of its text in the flowing text.
    pub(super) from: usize,
    /// Part of its text that has already been added to blocks.
    pub(super) text: String,
}

pub(super) struct Reader {
    pub(super) base: Url,
    pub(super) has_base: bool,
    pub(super) tag: Option<Tag>,
    pub(super) stack: Stack,
    pub(super) flowing: String,
    pub(super) flowing_link_bytes: usize,
    pub(super) flowing_links: Vec<Link>,
    pub(super) link: Option<OpenLink>,
    pub(super) rows: Vec<Row>,
    pub(super) marker: Option<String>,
    pub(super) in_title: bool,
    pub(super) title: String,
    pub(super) other_title: String,
    pub(super) addresses: usize,
    pub(super) text_bytes: usize,
    pub(super) is_full: bool,
    pub(super) read: ParsedPage,
}

impl Reader {
    pub(super) fn new(base_url: &Url) -> Self {
        let mut base = base_url.clone();
        // Credentials must not become part of links. Setting them fails for URLs that cannot have any.
        let _ = base.set_username("");
        let _ = base.set_password(None);
        Self {
            base,
            has_base: false,
            tag: None,
            stack: Stack::default(),
            flowing: String::new(),
            flowing_link_bytes: 0,
            flowing_links: Vec::new(),
            link: None,
            rows: Vec::new(),
            marker: None,
            in_title: false,
            title: String::new(),
            other_title: String::new(),
            addresses: 0,
            text_bytes: 0,
            is_full: false,
            read: ParsedPage::default(),
        }
    }

    pub(super) fn line_break(&mut self) {
        self.flowing.truncate(self.flowing.trim_end_matches(' ').len());
        if !self.flowing.is_empty() && !self.flowing.ends_with("\n\n") {
            self.flowing.push('\n');
        }
    }
}
