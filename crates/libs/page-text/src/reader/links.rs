//! Links of a page with their texts.

use url::Url;

use super::state::{OpenLink, Reader};
use crate::element::Tag;
use crate::inline;
use crate::page::Link;

pub(super) const MAX_LINK_CHARACTERS: usize = 200;
/// Maximum number of resolved URLs, including duplicates and links around the content.
const MAX_ADDRESSES: usize = 5_000;
const MAX_ADDRESS_BYTES: usize = 2_048;
/// Maximum length of a URL shown in the text; a longer one would outweigh the text.
const MAX_SHOWN_ADDRESS_BYTES: usize = 300;

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
            let is_here = url.fragment().is_some() && without_fragment(&url) == without_fragment(&self.base);
            self.link = Some(OpenLink { url: url.into(), is_here, from: self.flowing.len(), text: String::new() });
        }
    }

    pub(super) fn close_link(&mut self) {
        let shown = self.visible_part();
        self.save_link_text();
        if let (Some((from, to)), Some(link)) = (shown, &self.link) {
            let end = format!("{}{}{}", inline::LINK_END, self.read.addresses.len(), inline::LINK_CLOSE);
            self.read.addresses.push(link.url.clone());
            self.flowing.insert_str(to, &end);
            self.flowing.insert(from, inline::LINK_START);
            // Counted as link text, so that a block of links is recognized as one.
            self.flowing_link_bytes += end.len() + inline::LINK_START.len_utf8();
        }
        if let Some(link) = self.link.take() {
            let text = inline::one_line(&link.text, MAX_LINK_CHARACTERS);
            let text = if text.is_empty() { link.url.clone() } else { text };
            let closed = Link { text, url: link.url };
            // A link around whole blocks is attached to the last of them.
            match self.read.blocks.last_mut().filter(|_| self.flowing.is_empty() && self.rows.is_empty()) {
                Some(block) if !link.text.trim().is_empty() => block.links.push(closed),
                _ => self.flowing_links.push(closed),
            }
        }
    }

    /// Returns the range of the open link's text in the flowing text, if its URL is to be shown.
    fn visible_part(&self) -> Option<(usize, usize)> {
        let link = self.link.as_ref()?;
        let is_whole = self.stack.counts.preformatted == 0 && link.text.trim().is_empty();
        if !is_whole || link.is_here || link.url.len() > MAX_SHOWN_ADDRESS_BYTES {
            return None;
        }
        let link_text = self.flowing.get(link.from..)?;
        let text = link_text.trim();
        let is_address = text.trim_end_matches('/') == link.url.trim_end_matches('/');
        if text.is_empty() || is_address || text.contains(['\n', '[', ']']) {
            return None;
        }
        let from = link.from + link_text.len() - link_text.trim_start().len();
        Some((from, from + text.len()))
    }

    /// Saves the text of the open link before the flowing text is taken.
    pub(super) fn save_link_text(&mut self) {
        if let Some(link) = &mut self.link {
            let link_text = self.flowing.get(link.from..).unwrap_or_default();
            self.flowing_link_bytes += link_text.len();
            if link.text.len() < MAX_LINK_CHARACTERS * 4 {
                link.text.push(' ');
                link.text.push_str(link_text);
            }
            link.from = self.flowing.len();
        }
    }

    /// Takes the flowing text and the number of its bytes in links.
    pub(super) fn take_flowing(&mut self) -> (String, usize) {
        self.save_link_text();
        if let Some(link) = &mut self.link {
            link.from = 0;
        }
        (std::mem::take(&mut self.flowing), std::mem::take(&mut self.flowing_link_bytes))
    }
}

fn without_fragment(url: &Url) -> &str {
    url.as_str().split('#').next().unwrap_or_default()
}
