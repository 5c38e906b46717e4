//! Selection of the content blocks of a page.

use crate::block::{Block, BlockKind};

/// Minimum length of marked content (`main`, `article`) for it to be trusted.
const MIN_MARKED_BYTES: usize = 140;
/// Maximum factor by which the remainder may exceed the selected content; beyond it the marks are considered wrong.
const MAX_REMAINDER_FACTOR: usize = 10;
/// Minimum share of link text in a block of links, in percent.
const MIN_LINK_PERCENT: usize = 70;

/// Returns for each block whether it is selected. The page's own marks decide (`main`, `article`), else everything
/// outside its surroundings (`nav`, `footer`, names such as `sidebar`), else everything is selected.
pub(crate) fn select(blocks: &[Block]) -> Vec<bool> {
    let bytes = |keeps: &dyn Fn(&Block) -> bool| -> usize {
        blocks.iter().filter(|block| keeps(block)).map(|block| block.text.len()).sum()
    };
    let is_content = |block: &Block| !block.is_chrome;
    let is_marked = |block: &Block| block.is_main && !block.is_chrome;
    let (all, content, marked) = (bytes(&|_| true), bytes(&is_content), bytes(&is_marked));
    if marked >= MIN_MARKED_BYTES && marked * MAX_REMAINDER_FACTOR >= content {
        return blocks.iter().map(is_marked).collect();
    }
    if content == 0 || content * MAX_REMAINDER_FACTOR < all && content < MIN_MARKED_BYTES * MAX_REMAINDER_FACTOR {
        return vec![true; blocks.len()];
    }
    // Blocks of links are the content of a page of links, but lead away from a text.
    let is_text = |block: &Block| is_content(block) && !is_mostly_links(block);
    if bytes(&is_text) * 2 >= content {
        return blocks.iter().map(is_text).collect();
    }
    blocks.iter().map(is_content).collect()
}

fn is_mostly_links(block: &Block) -> bool {
    !matches!(block.form, BlockKind::Heading(_) | BlockKind::Code | BlockKind::Row { .. })
        && block.link_bytes * 100 >= block.text.len() * MIN_LINK_PERCENT
}
