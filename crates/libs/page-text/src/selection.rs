//! Which blocks of a page are what it is about.

use crate::block::{Block, Form};

/// What a page marks as its content is believed from this many bytes on.
const ENOUGH_BYTES: usize = 140;
/// A surrounding that is so much larger than the rest was no surrounding.
const SMALLEST_SHARE: usize = 10;
/// In a block of links at least this share, in percent, is in links.
const LINKS_PERCENT: usize = 70;

/// For each block, whether it is read. The page's own marks decide (`main`, `article`), else what is
/// left without its surroundings (`nav`, `footer`, names such as `sidebar`), else everything.
pub(crate) fn select(blocks: &[Block]) -> Vec<bool> {
    let bytes = |keeps: &dyn Fn(&Block) -> bool| -> usize {
        blocks.iter().filter(|block| keeps(block)).map(|block| block.text.len()).sum()
    };
    let is_content = |block: &Block| !block.is_chrome;
    let is_marked = |block: &Block| block.is_main && !block.is_chrome;
    let (all, content, marked) = (bytes(&|_| true), bytes(&is_content), bytes(&is_marked));
    if marked >= ENOUGH_BYTES && marked * SMALLEST_SHARE >= content {
        return blocks.iter().map(is_marked).collect();
    }
    if content == 0 || content * SMALLEST_SHARE < all && content < ENOUGH_BYTES * SMALLEST_SHARE {
        return vec![true; blocks.len()];
    }
    // A page of links is about its links; around a text they lead away from it.
    let is_text = |block: &Block| is_content(block) && !is_mostly_links(block);
    if bytes(&is_text) * 2 >= content {
        return blocks.iter().map(is_text).collect();
    }
    blocks.iter().map(is_content).collect()
}

fn is_mostly_links(block: &Block) -> bool {
    !matches!(block.form, Form::Heading(_) | Form::Code | Form::Row { .. })
        && block.link_bytes * 100 >= block.text.len() * LINKS_PERCENT
}
