//! What is open, and what has been read so far.

use url::Url;

use crate::block::{Block, Read};
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
    /// It leads to a place on this page.
    pub(super) is_here: bool,
    /// Where its text starts in the text that flows now.
    pub(super) from: usize,
    /// What has already gone into blocks.
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
    pub(super) read: Read,
}

impl Reader {
    pub(super) fn new(base_url: &Url) -> Self {
        let mut base = base_url.clone();
        // Who asked is not part of where links lead. (An address that can have no user fails, rightly.)
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
            read: Read::default(),
        }
    }

    pub(super) fn line_break(&mut self) {
        self.flowing.truncate(self.flowing.trim_end_matches(' ').len());
        if !self.flowing.is_empty() && !self.flowing.ends_with("\n\n") {
            self.flowing.push('\n');
        }
    }
}
