//! Stack of open elements with limited depth.

use crate::element::{Kind, fingerprint};

/// Maximum tracked nesting depth; real pages nest a few dozen levels.
const MAX_DEPTH: usize = 200;

#[derive(Debug)]
pub(crate) struct OpenElement {
    pub(crate) name: u64,
    pub(crate) kind: Kind,
    /// Whether its contents are ignored.
    pub(crate) skips: bool,
    pub(crate) is_chrome: bool,
    /// Number of the next item in an ordered list.
    pub(crate) next_number: u32,
}

/// Numbers of open elements by kind.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) skips: usize,
    pub(crate) chrome: usize,
    pub(crate) main: usize,
    pub(crate) quotes: usize,
    pub(crate) preformatted: usize,
    pub(crate) lists: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Stack {
    open: Vec<OpenElement>,
    /// Number of open elements beyond the maximum depth.
    overflow: usize,
    /// Outermost ignored element, with the data to find its end at any depth.
    skipped: Option<Skipped>,
    pub(crate) counts: Counts,
    pub(crate) heading: Option<u8>,
    /// Open cells, lists, tables and preformatted texts, each with whether it is a cell.
    frames: Vec<bool>,
}

#[derive(Debug)]
struct Skipped {
    name: u64,
    depth: usize,
    overflow_before: usize,
    /// Number of nested open elements with the same name.
    namesakes: usize,
}

fn has_frame(kind: Kind) -> bool {
    matches!(kind, Kind::Cell { .. } | Kind::List { .. } | Kind::Table | Kind::Preformatted)
}

impl Stack {
    pub(crate) fn push(&mut self, open: OpenElement) {
        // Ignored elements must be tracked at any depth.
        let is_tracked = self.open.len() < MAX_DEPTH || (open.skips && self.counts.skips == 0);
        match &mut self.skipped {
            Some(skipped) => skipped.namesakes += usize::from(skipped.name == open.name),
            None if open.skips => {
                let (depth, overflow_before) = (self.open.len(), self.overflow);
                self.skipped = Some(Skipped { name: open.name, depth, overflow_before, namesakes: 0 });
            }
            None => {}
        }
        if !is_tracked {
            self.overflow += 1;
            return;
        }
        self.count(&open, 1);
        if has_frame(open.kind) {
            self.frames.push(matches!(open.kind, Kind::Cell { .. }));
        }
        if let Kind::Heading(level) = open.kind {
            self.heading = Some(level);
        }
        self.open.push(open);
    }

    pub(crate) fn pop(&mut self) -> Option<OpenElement> {
        let open = self.open.pop()?;
        self.count(&open, -1);
        match &mut self.skipped {
            Some(skipped) if skipped.depth == self.open.len() => self.skipped = None,
            Some(skipped) => {
                skipped.namesakes = skipped.namesakes.saturating_sub(usize::from(skipped.name == open.name));
            }
            None => {}
        }
        if has_frame(open.kind) {
            self.frames.pop();
        }
        if matches!(open.kind, Kind::Heading(_)) {
            self.heading = None;
        }
        Some(open)
    }

    fn count(&mut self, open: &OpenElement, step: isize) {
        let counts = &mut self.counts;
        let change = |count: &mut usize, applies: bool| {
            if applies {
                *count = count.saturating_add_signed(step);
            }
        };
        change(&mut counts.skips, open.skips);
        change(&mut counts.chrome, open.is_chrome);
        change(&mut counts.main, open.kind == Kind::Main);
        change(&mut counts.quotes, open.kind == Kind::Quote);
        change(&mut counts.preformatted, open.kind == Kind::Preformatted);
        change(&mut counts.lists, matches!(open.kind, Kind::List { .. }));
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn top(&self) -> Option<&OpenElement> {
        self.open.last()
    }

    /// Whether the innermost frame is a table cell.
    pub(crate) fn is_in_cell(&self) -> bool {
        self.frames.last() == Some(&true)
    }

    /// Returns the innermost open list.
    pub(crate) fn list_mut(&mut self) -> Option<&mut OpenElement> {
        self.open.iter_mut().rev().find(|open| matches!(open.kind, Kind::List { .. }))
    }

    /// Returns the number of elements that stay open when `kind` starts, since pages omit the end tags of paragraphs,
    /// items, rows and cells.
    pub(crate) fn remaining_after_start(&self, kind: Kind) -> usize {
        let closes = |open: &OpenElement| match kind {
            Kind::Item => matches!(open.kind, Kind::Item | Kind::Paragraph),
            Kind::Row => matches!(open.kind, Kind::Row | Kind::Cell { .. }),
            Kind::Cell { .. } => matches!(open.kind, Kind::Cell { .. }),
            Kind::Heading(_) => matches!(open.kind, Kind::Heading(_) | Kind::Paragraph),
            _ => open.kind == Kind::Paragraph && kind.is_block(),
        };
        let stops = |open: &OpenElement| match kind {
            Kind::Item => matches!(open.kind, Kind::List { .. } | Kind::Table | Kind::Cell { .. }),
            Kind::Row => open.kind == Kind::Table,
            Kind::Cell { .. } => matches!(open.kind, Kind::Row | Kind::Table),
            _ => open.kind.is_block(),
        };
        let mut remaining = self.open.len();
        for (depth, open) in self.open.iter().enumerate().rev() {
            if closes(open) {
                remaining = depth;
            } else if stops(open) {
                break;
            }
        }
        remaining
    }

    /// Returns the number of elements that stay open after an end tag, which is all of them if it matches none.
    pub(crate) fn remaining_after_end(&mut self, name: &[u8], kind: Kind) -> usize {
        let target = fingerprint(name);
        if let Some(skipped) = self.skipped.as_mut().filter(|skipped| skipped.name == target) {
            if skipped.namesakes == 0 {
                self.overflow = skipped.overflow_before;
                return skipped.depth;
            }
            if self.overflow > 0 {
                skipped.namesakes -= 1;
            }
        }
        if self.overflow > 0 {
            if kind.is_block() || self.counts.skips > 0 {
                self.overflow -= 1;
            }
            return self.open.len();
        }
        let crosses_cells = matches!(kind, Kind::Table | Kind::Row | Kind::Cell { .. } | Kind::Block);
        for (depth, open) in self.open.iter().enumerate().rev() {
            if open.name == target {
                return depth;
            }
            if matches!(open.kind, Kind::Cell { .. }) && !crosses_cells {
                break;
            }
        }
        self.open.len()
    }
}
