//! Splitting of blocks into messages.

use super::Style;

/// Text in two forms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Written {
    /// Text in the platform's markup.
    pub(super) markup: String,
    /// Text without markup.
    pub(super) plain: String,
}

impl Written {
    /// Returns text that is identical in both forms.
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

    /// Joins the non-blank lines.
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
    /// Plain code, never indented or quoted, so that it can be copied.
    Code {
        language: String,
        text: String,
    },
}

/// Unit that stays in one message if it fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) content: Content,
    /// Outermost list that it belongs to. Blocks of one list are not separated by an empty line.
    pub(super) list: Option<usize>,
}

/// Packs blocks into messages.
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

/// Returns a block unchanged, or in pieces that each fit into a message. Text that is too long loses its markup, which
/// would otherwise be left open. Code gets its fence and language around each piece.
fn pieces(content: &Content, style: &Style) -> Vec<String> {
    match content {
        Content::Text(text) if (style.measure)(&text.markup) <= style.limit => vec![text.markup.clone()],
        Content::Text(text) => split(&text.plain, style, style.escape, end_of_text),
        Content::Code { language, text } => {
            let write = |piece: &str| (style.code_block)(piece, language);
            let whole = write(text);
            if (style.measure)(&whole) <= style.limit { vec![whole] } else { split(text, style, write, end_of_line) }
        }
    }
}

/// Splits text into pieces that fit once written. A line break at a split point is dropped, as are blank pieces, which
/// platforms reject.
fn split(
    text: &str,
    style: &Style,
    write: impl Fn(&str) -> String,
    end: fn(&str, after: &str) -> usize,
) -> Vec<String> {
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

/// Returns the end of the last complete line of `head`, or its end if the line is too long.
fn end_of_line(head: &str, after: &str) -> usize {
    if after.starts_with('\n') {
        return head.len();
    }
    head.rfind('\n').filter(|at| *at > 0).unwrap_or(head.len())
}

/// Returns the end of the last line of `head` like [`end_of_line`], or of the last word if the line is too long.
/// Prefers an end before an unindented line, since platforms trim leading spaces of a message.
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

/// Returns the length in bytes of the longest prefix that fits: at a character boundary, at least one character, and at
/// most `limit` characters.
fn longest_that_fits(text: &str, limit: usize, fits: &impl Fn(&str) -> bool) -> usize {
    let ends = text.char_indices().take(limit).map(|(at, character)| at + character.len_utf8());
    let ends: Vec<usize> = ends.collect();
    let count = ends.partition_point(|end| text.get(..*end).is_some_and(fits));
    ends.get(count.saturating_sub(1)).copied().unwrap_or(text.len())
}
