//! The elements that are open, to a bounded depth.

use crate::element::{Kind, fingerprint};

/// Real pages nest to a few dozen.
const MAX_DEPTH: usize = 200;

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) name: u64,
    pub(crate) kind: Kind,
    /// Nothing inside is read.
    pub(crate) skips: bool,
    pub(crate) is_chrome: bool,
    /// The number of the next item, in an ordered list.
    pub(crate) next_number: u32,
}

/// How many of the open elements are of a sort.
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
    open: Vec<Open>,
    /// Elements that were too deep to be kept.
    overflow: usize,
    /// The outermost element that is not read, and what is needed to find its end at any depth.
    skipped: Option<Skipped>,
    pub(crate) counts: Counts,
    pub(crate) heading: Option<u8>,
    /// Of the open cells, lists, tables and preformatted texts: whether it is a cell.
    frames: Vec<bool>,
}

#[derive(Debug)]
struct Skipped {
    name: u64,
    depth: usize,
    overflow_before: usize,
    /// Open elements of the same name inside.
    namesakes: usize,
}

fn has_frame(kind: Kind) -> bool {
    matches!(kind, Kind::Cell { .. } | Kind::List { .. } | Kind::Table | Kind::Preformatted)
}

impl Stack {
    pub(crate) fn push(&mut self, open: Open) {
        // What is not to be read must be known at any depth.
        let has_room = self.open.len() < MAX_DEPTH || (open.skips && self.counts.skips == 0);
        match &mut self.skipped {
            Some(skipped) => skipped.namesakes += usize::from(skipped.name == open.name),
            None if open.skips => {
                let (depth, overflow_before) = (self.open.len(), self.overflow);
                self.skipped = Some(Skipped { name: open.name, depth, overflow_before, namesakes: 0 });
            }
            None => {}
        }
        if !has_room {
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

    pub(crate) fn pop(&mut self) -> Option<Open> {
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

    fn count(&mut self, open: &Open, step: isize) {
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

    pub(crate) fn top(&self) -> Option<&Open> {
        self.open.last()
    }

    /// Whether text flows in the cell of a table, and in nothing inside that.
    pub(crate) fn is_in_cell(&self) -> bool {
        self.frames.last() == Some(&true)
    }

    /// The list that an item would belong to.
    pub(crate) fn list_mut(&mut self) -> Option<&mut Open> {
        self.open.iter_mut().rev().find(|open| matches!(open.kind, Kind::List { .. }))
    }

    /// How many elements stay open when `kind` starts: pages leave out the ends of paragraphs,
    /// items, rows and cells.
    pub(crate) fn left_by_start(&self, kind: Kind) -> usize {
        let closes = |open: &Open| match kind {
            Kind::Item => matches!(open.kind, Kind::Item | Kind::Paragraph),
            Kind::Row => matches!(open.kind, Kind::Row | Kind::Cell { .. }),
            Kind::Cell { .. } => matches!(open.kind, Kind::Cell { .. }),
            Kind::Heading(_) => matches!(open.kind, Kind::Heading(_) | Kind::Paragraph),
            _ => open.kind == Kind::Paragraph && kind.is_block(),
        };
        let stops = |open: &Open| match kind {
            Kind::Item => matches!(open.kind, Kind::List { .. } | Kind::Table | Kind::Cell { .. }),
            Kind::Row => open.kind == Kind::Table,
            Kind::Cell { .. } => matches!(open.kind, Kind::Row | Kind::Table),
            _ => open.kind.is_block(),
        };
        let mut left = self.open.len();
        for (depth, open) in self.open.iter().enumerate().rev() {
            if closes(open) {
                left = depth;
            } else if stops(open) {
                break;
            }
        }
        left
    }

    /// How many elements stay open after an end tag; all if it ends none.
    pub(crate) fn left_by_end(&mut self, name: &[u8], kind: Kind) -> usize {
        let wanted = fingerprint(name);
        if let Some(skipped) = self.skipped.as_mut().filter(|skipped| skipped.name == wanted) {
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
            if open.name == wanted {
                return depth;
            }
            if matches!(open.kind, Kind::Cell { .. }) && !crosses_cells {
                break;
            }
        }
        self.open.len()
    }
}
