//! Blocks to parts.

use super::Style;

/// The same text twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Written {
    /// In the platform's markup.
    pub(super) markup: String,
    /// Without any.
    pub(super) plain: String,
}

impl Written {
    /// What means the same in every markup.
    pub(super) fn same(text: &str) -> Self {
        Self { markup: text.to_owned(), plain: text.to_owned() }
    }

    pub(super) fn escaped(plain: &str, style: &Style) -> Self {
        Self { markup: (style.escape)(plain), plain: plain.to_owned() }
    }

    pub(super) fn push(&mut self, text: &Self) {
        self.markup.push_str(&text.markup);
        self.plain.push_str(&text.plain);
    }

    fn is_empty(&self) -> bool {
        self.plain.trim().is_empty()
    }

    /// Without those that are empty.
    pub(super) fn join(lines: &[Self], between: &str) -> Self {
        let (mut markup, mut plain) = (Vec::new(), Vec::new());
        for line in lines.iter().filter(|line| !line.is_empty()) {
            markup.push(line.markup.as_str());
            plain.push(line.plain.as_str());
        }
        Self { markup: markup.join(between), plain: plain.join(between) }
    }
}

/// What is kept together where it can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Block {
    Text(Written),
    /// An item of a list: close to what stands before it.
    Item(Written),
    /// Plain.
    Code {
        language: String,
        text: String,
    },
}

impl Block {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) | Self::Item(text) => text.is_empty(),
            Self::Code { text, .. } => text.trim().is_empty(),
        }
    }

    pub(super) fn write(&self, style: &Style) -> Written {
        match self {
            Self::Text(text) | Self::Item(text) => text.clone(),
            Self::Code { text, .. } if text.trim().is_empty() => Written::default(),
            Self::Code { language, text } => {
                Written { markup: (style.code_block)(text, language), plain: text.clone() }
            }
        }
    }
}

/// As many parts as are needed.
pub(super) fn pack(blocks: &[Block], style: &Style) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let (mut part, mut length) = (String::new(), 0);
    for (number, block) in blocks.iter().enumerate() {
        let is_item_after_item =
            matches!(block, Block::Item(_)) && number > 0 && matches!(blocks.get(number - 1), Some(Block::Item(_)));
        let between = if is_item_after_item { "\n" } else { "\n\n" };
        for piece in pieces(block, style) {
            let added = (style.measure)(&piece);
            let between = if part.is_empty() { "" } else { between };
            length += (style.measure)(between) + added;
            if length <= style.limit {
                part.push_str(between);
                part.push_str(&piece);
            } else {
                parts.extend(non_empty(std::mem::replace(&mut part, piece)));
                length = added;
            }
        }
    }
    parts.extend(non_empty(part));
    parts
}

fn non_empty(part: String) -> Option<String> {
    (!part.trim().is_empty()).then_some(part)
}

/// A block as it is, or in pieces that each fit into a part. Markup that is cut would be left open, so what is so long
/// is written plainly.
fn pieces(block: &Block, style: &Style) -> Vec<String> {
    let whole = block.write(style);
    if (style.measure)(&whole.markup) <= style.limit {
        return vec![whole.markup];
    }
    let write = |piece: &str| match block {
        Block::Code { language, .. } => (style.code_block)(piece, language),
        Block::Text(_) | Block::Item(_) => (style.escape)(piece),
    };
    let pieces = cut(&whole.plain, style.limit, |piece| (style.measure)(&write(piece)) <= style.limit);
    pieces.iter().map(|piece| write(piece)).collect()
}

/// Cuts between lines, then between words, then anywhere. A piece has at most `limit` characters, so that no more of
/// the text is looked at for each.
fn cut(text: &str, limit: usize, fits: impl Fn(&str) -> bool) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let most = longest_that_fits(rest, limit, &fits);
        let (head, after) = rest.split_at_checked(most).unwrap_or((rest, ""));
        if after.is_empty() {
            pieces.push(rest.to_owned());
            break;
        }
        let at = head.rfind('\n').filter(|at| *at > 0).or_else(|| head.rfind(' ').filter(|at| *at > 0)).unwrap_or(most);
        let (piece, left) = rest.split_at(at);
        pieces.push(piece.to_owned());
        // The space or the end of the line that it was cut at.
        rest = left.strip_prefix(['\n', ' ']).unwrap_or(left);
    }
    pieces
}

/// In bytes, at a boundary of characters, and at least one character.
fn longest_that_fits(text: &str, limit: usize, fits: &impl Fn(&str) -> bool) -> usize {
    let ends = text.char_indices().take(limit).map(|(at, character)| at + character.len_utf8());
    let ends: Vec<usize> = ends.collect();
    let count = ends.partition_point(|end| text.get(..*end).is_some_and(fits));
    ends.get(count.saturating_sub(1)).copied().unwrap_or(text.len())
}
