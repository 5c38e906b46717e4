//! Block boundaries and kinds, and table rows.

use super::state::Reader;
use crate::block::{Block, BlockKind};
use crate::element::Kind;
use crate::inline;
use crate::page::MAX_TEXT_BYTES;

const MAX_BLOCKS: usize = 50_000;
const MAX_CELLS: usize = 200;
/// Maximum length of a cell in a data table; a longer cell belongs to a layout table.
const MAX_TABLE_CELL_BYTES: usize = 400;

impl Reader {
    /// Ends the current block when an element of `kind` starts or ends.
    pub(super) fn break_block(&mut self, kind: Kind) {
        let is_soft = matches!(kind, Kind::Block | Kind::Paragraph | Kind::Cell { .. });
        if is_soft && self.stack.is_in_cell() {
            self.line_break();
            if kind == Kind::Paragraph {
                self.line_break();
            }
            return;
        }
        if self.stack.is_in_cell() {
            // A layout table: its cells are columns that follow each other.
            self.cells_as_paragraphs();
        }
        // Highlighted code contains many elements.
        if self.stack.counts.preformatted > 0 && kind != Kind::Preformatted {
            return;
        }
        let (mut text, link_bytes) = self.take_flowing();
        let form = if self.stack.counts.preformatted > 0 {
            BlockKind::Code
        } else if let Some(level) = self.stack.heading {
            text = inline::one_line(&text, usize::MAX / 4);
            BlockKind::Heading(level)
        } else if self.stack.counts.lists > 0 {
            if text.trim().is_empty() {
                self.flowing_link_bytes += link_bytes;
                return;
            }
            BlockKind::Item { depth: self.stack.counts.lists, marker: self.marker.take().unwrap_or_default() }
        } else {
            BlockKind::Paragraph
        };
        self.emit(form, text, link_bytes);
    }

    pub(super) fn end_cell(&mut self) {
        if !self.stack.is_in_cell() {
            return self.break_block(Kind::Quote);
        }
        let (mut text, link_bytes) = self.take_flowing();
        text.truncate(text.trim_end().len());
        let mut cell = self.block(BlockKind::Paragraph, text, link_bytes);
        cell.links = std::mem::take(&mut self.flowing_links);
        match self.rows.last_mut() {
            Some(row) if row.cells.len() < MAX_CELLS => row.cells.push(cell),
            Some(_) => self.read.is_truncated = true,
            None => self.push(cell),
        }
    }

    pub(super) fn end_row(&mut self) {
        let Some(row) = self.rows.last() else { return };
        let filled = row.cells.iter().filter(|cell| !cell.text.is_empty()).count();
        if filled < 2 || row.cells.iter().any(|cell| cell.text.len() > MAX_TABLE_CELL_BYTES) {
            self.cells_as_paragraphs();
            self.rows.pop();
            return;
        }
        let Some(row) = self.rows.pop() else { return };
        let form = BlockKind::Row { cells: row.cells.len(), is_header: row.is_header };
        let link_bytes = row.cells.iter().map(|cell| cell.link_bytes).sum();
        let one_line = |cell: &Block| inline::one_line(&cell.text, MAX_TABLE_CELL_BYTES).replace('|', "\\|");
        let cells: Vec<String> = row.cells.iter().map(one_line).collect();
        let mut block = self.block(form, cells.join(" | "), link_bytes);
        block.links = row.cells.into_iter().flat_map(|cell| cell.links).collect();
        self.push(block);
    }

    pub(super) fn cells_as_paragraphs(&mut self) {
        let cells = self.rows.last_mut().map(|row| std::mem::take(&mut row.cells)).unwrap_or_default();
        for cell in cells {
            self.push(cell);
        }
    }

    pub(super) fn emit(&mut self, form: BlockKind, mut text: String, link_bytes: usize) {
        text.truncate(text.trim_end().len());
        if form == BlockKind::Code {
            let blank = text.len() - text.trim_start_matches('\n').len();
            text.drain(..blank);
        }
        let mut block = self.block(form, text, link_bytes);
        block.links = std::mem::take(&mut self.flowing_links);
        self.push(block);
    }

    /// Returns a block for the currently open elements, without links.
    pub(super) fn block(&self, form: BlockKind, text: String, link_bytes: usize) -> Block {
        let counts = &self.stack.counts;
        let (is_main, is_chrome, is_quote) = (counts.main > 0, counts.chrome > 0, counts.quotes > 0);
        Block { form, text, link_bytes, links: Vec::new(), is_main, is_chrome, is_quote }
    }

    pub(super) fn push(&mut self, mut block: Block) {
        if block.form != BlockKind::Code && block.text.starts_with(char::is_whitespace) {
            block.text = block.text.trim_start().to_owned();
        }
        if block.text.trim_matches(['`', ' ', '\n']).is_empty() {
            // Links around pictures are attached to the next block.
            self.flowing_links.append(&mut block.links);
            return;
        }
        self.text_bytes += block.text.len();
        if self.text_bytes > MAX_TEXT_BYTES || self.read.blocks.len() >= MAX_BLOCKS {
            self.is_full = true;
            self.read.is_truncated = true;
        }
        self.read.blocks.push(block);
    }
}
