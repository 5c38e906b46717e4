//! The links of a page, each with the text that it stands in.

use url::Url;

use super::{MAX_LINK_CHARACTERS, Reader};
use crate::element::Tag;
use crate::{Link, inline};

/// How many addresses are resolved; those that turn out alike or surround the content count too.
const MAX_ADDRESSES: usize = 5_000;
const MAX_ADDRESS_BYTES: usize = 2_048;

pub(super) struct OpenLink {
    url: String,
    /// Where its text starts in the text that flows now.
    from: usize,
    /// What has already gone into blocks.
    text: String,
}

impl Reader {
    pub(super) fn base(&mut self, tag: &Tag) {
        if !self.has_base
            && let Some(base) = self.address(&tag.href)
        {
            (self.base, self.has_base) = (base, true);
        }
    }

    pub(super) fn address(&self, href: &str) -> Option<Url> {
        let href = href.trim();
        if href.is_empty() || href.len() > MAX_ADDRESS_BYTES || self.base.as_str().len() > 2 * MAX_ADDRESS_BYTES {
            return None;
        }
        self.base.join(href).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
    }

    pub(super) fn open_link(&mut self, href: &str) {
        self.close_link();
        if href.trim().starts_with('#') || self.addresses >= MAX_ADDRESSES {
            return;
        }
        self.addresses += 1;
        if let Some(url) = self.address(href) {
            self.link = Some(OpenLink { url: url.into(), from: self.flowing.len(), text: String::new() });
        }
    }

    pub(super) fn close_link(&mut self) {
        self.keep_link_text();
        if let Some(link) = self.link.take() {
            let text = inline::one_line(&link.text, MAX_LINK_CHARACTERS);
            let text = if text.is_empty() { link.url.clone() } else { text };
            let closed = Link { text, url: link.url };
            // A link around whole blocks belongs to the last of them.
            match self.read.blocks.last_mut().filter(|_| self.flowing.is_empty() && self.rows.is_empty()) {
                Some(block) if !link.text.trim().is_empty() => block.links.push(closed),
                _ => self.flowing_links.push(closed),
            }
        }
    }

    /// Before the flowing text goes: what of it belongs to the open link.
    pub(super) fn keep_link_text(&mut self) {
        if let Some(link) = &mut self.link {
            let said = self.flowing.get(link.from..).unwrap_or_default();
            self.flowing_link_bytes += said.len();
            if link.text.len() < MAX_LINK_CHARACTERS * 4 {
                link.text.push(' ');
                link.text.push_str(said);
            }
            link.from = self.flowing.len();
        }
    }

    /// The text that has flowed so far, and how much of it was in links.
    pub(super) fn take_flowing(&mut self) -> (String, usize) {
        self.keep_link_text();
        if let Some(link) = &mut self.link {
            link.from = 0;
        }
        (std::mem::take(&mut self.flowing), std::mem::take(&mut self.flowing_link_bytes))
    }
}
