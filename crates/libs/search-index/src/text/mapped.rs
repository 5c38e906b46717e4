//! Written text part: a header, the documents' records, a sorted table of terms, and their postings.
//!
//! ```text
//! header 64 | rows u64 | agents u64 | sources u64 | times i64 | lengths u32 | asks u8      (the head)
//! ends of terms u32 | ends of postings u32 | terms | postings                               (the rest)
//! ```
//! Postings of a term: for each document a varint of the distance to the preceding one, doubled, plus one if the term
//! occurs only once; otherwise its count follows as another varint.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bytes::{Reader, put_varint, u32_at};
use crate::documents::Record;
use crate::error::IndexError;
use crate::files::{MappedFile, Sum};

pub(super) const MAGIC: &[u8; 8] = b"agentdT1";
pub(super) const HEADER_BYTES: usize = 64;

/// Document that contains a term, with the term's frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posting {
    pub(crate) slot: u32,
    pub(crate) count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextPartSums {
    pub(crate) head: Sum,
    pub(crate) rest: Sum,
}

#[derive(Debug)]
pub(crate) struct MappedText {
    file: MappedFile,
    pub(crate) number: u32,
    pub(crate) sums: TextPartSums,
    documents: u32,
    terms: usize,
    /// Start of the tables and byte ranges.
    term_ends: usize,
    posting_ends: usize,
    term_bytes: usize,
    postings: usize,
    verified: AtomicBool,
}

pub(crate) fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("text-{number}"))
}

impl MappedText {
    /// Maps the part and reads the records of its documents. The head is verified here, the rest by `check`.
    pub(crate) fn open(folder: &Path, number: u32, sums: TextPartSums) -> Result<(Self, Vec<Record>), IndexError> {
        let file = MappedFile::open(&path(folder, number), sums.head.length.saturating_add(sums.rest.length))?;
        let damaged = || IndexError::damaged(format!("{} is malformed", file.name()));
        let head_bytes = usize::try_from(sums.head.length).map_err(|_| damaged())?;
        let head = file.bytes().get(..head_bytes).filter(|head| sums.head.matches(head)).ok_or_else(damaged)?;
        let (documents, terms, term_byte_count) = read_header(head).ok_or_else(damaged)?;
        let records = read_records(head, documents).ok_or_else(damaged)?;
        let posting_ends = head_bytes + terms * 4;
        let term_bytes = posting_ends + terms * 4;
        let postings = term_bytes + term_byte_count;
        if postings > file.bytes().len() {
            return Err(damaged());
        }
        let text = Self {
            number,
            sums,
            documents: documents as u32,
            terms,
            term_ends: head_bytes,
            posting_ends,
            term_bytes,
            postings,
            verified: AtomicBool::new(false),
            file,
        };
        Ok((text, records))
    }

    pub(crate) fn check(&self) -> Result<(), IndexError> {
        self.file.check_length()?;
        if !self.verified.load(Ordering::Acquire) {
            if !self.file.bytes().get(self.term_ends..).is_some_and(|rest| self.sums.rest.matches(rest)) {
                return Err(IndexError::damaged(format!("the checksum of {} is wrong", self.file.name())));
            }
            self.verified.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Requires the checksum to be verified again.
    pub(crate) fn invalidate_verification(&self) {
        self.verified.store(false, Ordering::Release);
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        self.sums.head.length + self.sums.rest.length
    }

    pub(crate) fn term_count(&self) -> usize {
        self.terms
    }

    /// Returns the term at that position in the sorted table.
    pub(crate) fn term(&self, index: usize) -> Result<&[u8], IndexError> {
        self.slice(self.term_ends, self.term_bytes, index)
    }

    fn slice(&self, ends: usize, bytes: usize, index: usize) -> Result<&[u8], IndexError> {
        let all = self.file.bytes();
        let end_at = |index: usize| all.get(ends..).and_then(|table| u32_at(table, index)).map(|end| end as usize);
        let start = if index == 0 { Some(0) } else { end_at(index - 1) };
        start
            .zip(end_at(index))
            .and_then(|(start, end)| all.get(bytes + start..bytes + end))
            .ok_or_else(|| self.inconsistent())
    }

    fn inconsistent(&self) -> IndexError {
        IndexError::damaged(format!("the tables of {} are inconsistent", self.file.name()))
    }

    pub(crate) fn collect(&self, term: &str, base: u32, into: &mut Vec<Posting>) -> Result<(), IndexError> {
        let (mut low, mut high) = (0, self.terms);
        while low < high {
            let middle = low.midpoint(high);
            match self.term(middle)?.cmp(term.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    return self
                        .postings(middle, |position, count| into.push(Posting { slot: base + position, count }));
                }
            }
        }
        Ok(())
    }

    /// Calls `visit` with position and count of each document that contains the term with that index.
    #[inline]
    pub(crate) fn postings(&self, index: usize, mut visit: impl FnMut(u32, u32)) -> Result<(), IndexError> {
        let mut reader = Reader::new(self.slice(self.posting_ends, self.postings, index)?);
        let mut position = 0_u32;
        while !reader.is_empty() {
            let head = reader.varint().ok_or_else(|| self.inconsistent())?;
            let count = if head & 1 == 1 { 1 } else { reader.varint().ok_or_else(|| self.inconsistent())? };
            position = position
                .checked_add(head >> 1)
                .filter(|position| *position < self.documents)
                .ok_or_else(|| self.inconsistent())?;
            visit(position, count);
        }
        Ok(())
    }
}

/// Appends a posting; `before` is the position of the preceding one, 0 for the first.
pub(super) fn put_posting(out: &mut Vec<u8>, before: u32, position: u32, count: u32) {
    let distance = (position - before) << 1;
    if count == 1 {
        put_varint(out, distance | 1);
    } else {
        put_varint(out, distance);
        put_varint(out, count);
    }
}

fn read_header(head: &[u8]) -> Option<(usize, usize, usize)> {
    let mut reader = Reader::new(head);
    (reader.bytes(MAGIC.len())? == MAGIC).then_some(())?;
    Some((reader.count()?, reader.count()?, reader.count()?))
}

fn read_records(head: &[u8], count: usize) -> Option<Vec<Record>> {
    let mut reader = Reader::new(head.get(HEADER_BYTES..)?);
    let [rows, agents, sources, times] =
        [reader.bytes(count * 8)?, reader.bytes(count * 8)?, reader.bytes(count * 8)?, reader.bytes(count * 8)?];
    let (lengths, questions) = (reader.bytes(count * 4)?, reader.bytes(count)?);
    let wide = |column: &[u8], index: usize| {
        column.get(index * 8..index * 8 + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    Some(
        (0..count)
            .map(|index| Record {
                row: wide(rows, index),
                agent: wide(agents, index),
                source: wide(sources, index),
                occurred_at: wide(times, index).cast_signed(),
                length: u32_at(lengths, index).unwrap_or(0),
                is_question: questions.get(index) == Some(&1),
            })
            .collect(),
    )
}
