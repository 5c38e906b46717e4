//! Writing of text parts from memory, and merging of neighbouring parts.

use std::path::Path;

use super::mapped::{HEADER_BYTES, MAGIC, MappedText, TextPartSums, path, put_posting};
use super::memory::MemoryText;
use crate::documents::{NONE, Record};
use crate::error::IndexError;
use crate::files::NewFile;

/// Tables of a part under construction; terms must be added in ascending order.
#[derive(Default)]
struct Tables {
    term_ends: Vec<u8>,
    posting_ends: Vec<u8>,
    terms: Vec<u8>,
    postings: Vec<u8>,
    count: u32,
}

impl Tables {
    /// Completes a term whose postings were just appended.
    fn close(&mut self, term: &[u8]) -> Result<(), IndexError> {
        self.terms.extend_from_slice(term);
        let ends = u32::try_from(self.terms.len()).ok().zip(u32::try_from(self.postings.len()).ok());
        let (term_end, posting_end) = ends.ok_or(IndexError::Full)?;
        self.term_ends.extend_from_slice(&term_end.to_le_bytes());
        self.posting_ends.extend_from_slice(&posting_end.to_le_bytes());
        self.count += 1;
        Ok(())
    }

    fn write(self, folder: &Path, number: u32, records: &[Record]) -> Result<TextPartSums, IndexError> {
        let mut head = Vec::with_capacity(HEADER_BYTES + records.len() * 37);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&(records.len() as u32).to_le_bytes());
        head.extend_from_slice(&self.count.to_le_bytes());
        head.extend_from_slice(&(self.terms.len() as u32).to_le_bytes());
        head.resize(HEADER_BYTES, 0);
        records.iter().for_each(|record| head.extend_from_slice(&record.row.to_le_bytes()));
        records.iter().for_each(|record| head.extend_from_slice(&record.agent.to_le_bytes()));
        records.iter().for_each(|record| head.extend_from_slice(&record.source.to_le_bytes()));
        records.iter().for_each(|record| head.extend_from_slice(&record.occurred_at.to_le_bytes()));
        records.iter().for_each(|record| head.extend_from_slice(&record.length.to_le_bytes()));
        records.iter().for_each(|record| head.push(u8::from(record.is_question)));
        let mut file = NewFile::create(&path(folder, number))?;
        let head = file.write([&head[..]])?;
        let rest = file.write([&self.term_ends[..], &self.posting_ends, &self.terms, &self.postings])?;
        file.finish()?;
        Ok(TextPartSums { head, rest })
    }
}

pub(crate) fn write_memory(
    folder: &Path,
    number: u32,
    text: &MemoryText,
    records: &[Record],
) -> Result<TextPartSums, IndexError> {
    let mut tables = Tables::default();
    for (term, postings) in text.sorted() {
        let mut before = 0;
        for (position, count) in postings {
            put_posting(&mut tables.postings, before, *position, *count);
            before = *position;
        }
        tables.close(term.as_bytes())?;
    }
    tables.write(folder, number, records)
}

/// Part of a merge: `positions` contains the position of each of its documents in the result, or `NONE` to omit it.
pub(crate) struct Merged<'a> {
    pub(crate) text: &'a MappedText,
    pub(crate) positions: Vec<u32>,
}

/// Merges neighbouring parts; `records` are those of the retained documents, in order.
pub(crate) fn write_merged(
    folder: &Path,
    number: u32,
    parts: &[Merged<'_>],
    records: &[Record],
) -> Result<TextPartSums, IndexError> {
    let mut tables = Tables::default();
    let mut cursors = vec![0_usize; parts.len()];
    loop {
        let mut least: Option<&[u8]> = None;
        for (part, cursor) in parts.iter().zip(&cursors) {
            if *cursor < part.text.term_count() {
                let term = part.text.term(*cursor)?;
                if least.is_none_or(|least| term < least) {
                    least = Some(term);
                }
            }
        }
        let Some(term) = least else { break };
        let start = tables.postings.len();
        let mut before = 0;
        for (part, cursor) in parts.iter().zip(&mut cursors) {
            if *cursor >= part.text.term_count() || part.text.term(*cursor)? != term {
                continue;
            }
            let postings = &mut tables.postings;
            part.text.postings(*cursor, |position, count| {
                let position = part.positions.get(position as usize).copied().unwrap_or(NONE);
                if position != NONE {
                    put_posting(postings, before, position, count);
                    before = position;
                }
            })?;
            *cursor += 1;
        }
        if tables.postings.len() > start {
            tables.close(term)?;
        }
    }
    tables.write(folder, number, records)
}
