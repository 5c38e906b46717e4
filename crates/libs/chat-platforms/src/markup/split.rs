//! Blocks to messages.

use super::Style;

/// The same text twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Written {
    /// In the platform's markup.
    pub(super) markup: String,
    /// Without any markup.
    pub(super) plain: String,
}

impl Written {
    /// Text that means the same in every markup.
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

    pub(super) fn is_blank(&self) -> bool {
        self.plain.trim().is_empty()
    }

    /// Applies the same change to both forms.
    pub(super) fn map(&self, change: impl Fn(&str) -> String) -> Self {
        Self { markup: change(&self.markup), plain: change(&self.plain) }
    }

    /// Without blank lines.
    pub(super) fn join(lines: &[Self], between: &str) -> Self {
        let (mut markup, mut plain) = (Vec::new(), Vec::new());
        for line in lines.iter().filter(|line| !line.is_blank()) {
            markup.push(line.markup.as_str());
            plain.push(line.plain.as_str());
        }
        Self { markup: markup.join(between), plain: plain.join(between) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Text(Written),
    /// Plain code, never indented and never in a quote: its bytes are to be copied.
    Code {
        language: String,
        text: String,
    },
}

/// A unit that is kept in one message where it fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) content: Content,
    /// The outermost list that it belongs to. Blocks of one list are not separated by an empty line.
    pub(super) list: Option<usize>,
}

/// As many messages as are needed.
pub(super) fn pack(blocks: &[Block], style: &Style) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let (mut part, mut length) = (String::new(), 0);
    let mut list_before = None;
    for block in blocks {
        let is_close = block.list.is_some() && block.list == list_before;
        list_before = block.list;
        let between = if is_close { "\n" } else { "\n\n" };
        for piece in pieces(&block.content, style) {
            let added = (style.measure)(&piece);
            let between = if part.is_empty() { "" } else { between };
            length += (style.measure)(between) + added;
            if length <= style.limit {
                part.push_str(between);
                part.push_str(&piece);
            } else {
                parts.extend(non_blank(std::mem::replace(&mut part, piece)));
                length = added;
            }
        }
    }
    parts.extend(non_blank(part));
    parts
}

fn non_blank(part: String) -> Option<String> {
    (!part.trim().is_empty()).then_some(part)
}

/// A block as it is, or in pieces that each fit into a message. Text that is too long loses its markup, because markup
/// that is cut would be left open; code gets its fence and its language around each piece.
fn pieces(content: &Content, style: &Style) -> Vec<String> {
    match content {
        Content::Text(text) if (style.measure)(&text.markup) <= style.limit => vec![text.markup.clone()],
        Content::Text(text) => cut(&text.plain, style, style.escape, end_of_text),
        Content::Code { language, text } => {
            let write = |piece: &str| (style.code_block)(piece, language);
            let whole = write(text);
            if (style.measure)(&whole) <= style.limit { vec![whole] } else { cut(text, style, write, end_of_line) }
        }
    }
}

/// Cuts text into pieces that fit once they are written. A line break at which it is cut belongs to no piece; nothing
/// else is left out but pieces that are blank, which platforms refuse.
fn cut(text: &str, style: &Style, write: impl Fn(&str) -> String, end: fn(&str, after: &str) -> usize) -> Vec<String> {
    let fits = |piece: &str| (style.measure)(&write(piece)) <= style.limit;
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let longest = longest_that_fits(rest, style.limit, &fits);
        let (head, after) = rest.split_at_checked(longest).unwrap_or((rest, ""));
        let at = if after.is_empty() { head.len() } else { end(head, after) };
        let (piece, left) = rest.split_at_checked(at).unwrap_or((rest, ""));
        if !piece.trim().is_empty() {
            pieces.push(write(piece));
        }
        rest = left.strip_prefix('\n').unwrap_or(left);
    }
    pieces
}

/// Behind the last line of `head`, or anywhere in a line that is too long.
fn end_of_line(head: &str, after: &str) -> usize {
    if after.starts_with('\n') {
        return head.len();
    }
    head.rfind('\n').filter(|at| *at > 0).unwrap_or(head.len())
}

/// As [`end_of_line`], and between words where a line is too long. Before a line that is not indented where there is
/// one: platforms remove spaces at the beginning of a message.
fn end_of_text(head: &str, after: &str) -> usize {
    let is_indented = |text: &str| text.starts_with([' ', '\t']);
    if after.strip_prefix('\n').is_some_and(|next| !is_indented(next)) {
        return head.len();
    }
    let mut ends = head.rmatch_indices('\n').map(|(at, _)| at).filter(|at| *at > 0);
    let flush = ends.find(|at| head.get(at + 1..).is_some_and(|next| !is_indented(next)));
    if let Some(at) = flush.filter(|at| at * 2 >= head.len()) {
        return at;
    }
    if after.starts_with('\n') {
        return head.len();
    }
    let line = head.rfind('\n').filter(|at| *at > 0);
    line.or_else(|| head.rfind(' ').map(|at| at + 1)).unwrap_or(head.len())
}

/// In bytes, at a boundary of characters, and at least one character. No more than `limit` characters are looked at.
fn longest_that_fits(text: &str, limit: usize, fits: &impl Fn(&str) -> bool) -> usize {
    let ends = text.char_indices().take(limit).map(|(at, character)| at + character.len_utf8());
    let ends: Vec<usize> = ends.collect();
    let count = ends.partition_point(|end| text.get(..*end).is_some_and(fits));
    ends.get(count.saturating_sub(1)).copied().unwrap_or(text.len())
}
