//! The index itself: opening, changing, asking what is there. Searching is in `search`, disk work in `flush` and
//! `maintain`.
//!
//! Locks, in this order: `upkeep` (held by whoever writes files or changes how parts are laid out, for as long as it
//! takes), then `state` (held for reading by each search, for writing only while memory is changed).

mod flush;
mod maintain;
mod open;
mod visit;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::analysis::{Analyzer, Kind, Purpose};
use crate::documents::{NONE, Record};
use crate::error::IndexError;
use crate::model::{Change, Document, IndexSize, RowNumber};
use crate::search::scratch::ScratchPool;
use crate::state::{Prepared, PreparedVectors, State};
use crate::text::signals::{SPEAKER_MARK, asks, speaker_terms};
use crate::vectors::dot::Kernel;
use crate::vectors::quantize::{normalized, quantize, restore};

/// The most vectors of one document; of a longer text the caller leaves out the rest.
pub const MAX_VECTORS: usize = 4096;
/// Changes that are made under one hold of the lock.
const CHANGES_A_HOLD: usize = 64;

/// What is kept in memory before it is written without waiting for a flush.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    words: u64,
    vectors: usize,
}

const BOUNDS: Bounds = Bounds { words: 1_000_000, vectors: 16_384 };

#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// Numbers a vector.
    pub dimensions: usize,
    /// Vectors of another model are not comparable, so they are dropped when this changes.
    pub embedding_model: String,
}

/// How the index was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenState {
    /// There was nothing: all rows have to be fed.
    Fresh,
    /// As of the flush with that cursor.
    CaughtUp,
    /// The words are as of the flush; the vectors were another model's, so each row's have to be set again.
    VectorsDropped { previous_model: String },
    /// What was there cannot be trusted: all rows have to be fed.
    Rebuilt { reason: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// What the caller gave to the last flush.
    pub cursor: Option<Vec<u8>>,
    pub state: OpenState,
}

/// The derived indexes of memory. All methods block; searches run side by side.
#[derive(Debug)]
pub struct Index {
    folder: PathBuf,
    options: IndexOptions,
    pub(crate) kernel: Kernel,
    pub(crate) state: Arc<RwLock<State>>,
    upkeep: Mutex<Upkeep>,
    bounds: Bounds,
    next_number: AtomicU32,
    pub(crate) scratch: ScratchPool,
    _lock: File,
}

#[derive(Debug, Default)]
struct Upkeep {
    /// Files that the next manifest no longer names.
    obsolete: Vec<PathBuf>,
    /// The revision and cursor of the manifest on the disk.
    flushed: Option<(u64, Option<Vec<u8>>)>,
}

enum PreparedChange {
    Add(Prepared),
    Remove(u64),
    SetVectors(u64, PreparedVectors),
}

impl Index {
    /// Makes the changes; each search that begins after this returns sees them. What memory cannot hold is written
    /// at once, without moving the cursor.
    ///
    /// # Errors
    /// A vector that cannot be indexed (then none of the changes is made), or a disk that cannot be written.
    pub fn apply(&self, changes: &[Change<'_>]) -> Result<(), IndexError> {
        let mut analyzer = Analyzer::new(Purpose::Document);
        self.check(changes)?;
        for changes in changes.chunks(CHANGES_A_HOLD) {
            let prepared =
                changes.iter().map(|change| self.prepare(&mut analyzer, change)).collect::<Result<Vec<_>, _>>()?;
            let mut state = self.state.write();
            if state.documents.slot_count() > NONE - 2 * CHANGES_A_HOLD as u32 {
                return Err(IndexError::Full);
            }
            for change in &prepared {
                match change {
                    PreparedChange::Add(document) => state.add(document, self.options.dimensions, || self.new_number()),
                    PreparedChange::Remove(row) => state.remove(*row),
                    PreparedChange::SetVectors(row, vectors) => {
                        state.set_vectors(*row, vectors, self.options.dimensions, || self.new_number());
                    }
                }
            }
            let full = state.open_words > self.bounds.words || state.open_vectors > self.bounds.vectors;
            drop(state);
            if full {
                self.spill()?;
            }
        }
        Ok(())
    }

    fn new_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    fn check(&self, changes: &[Change<'_>]) -> Result<(), IndexError> {
        for change in changes {
            let (row, vectors) = match change {
                Change::Add(document) => (document.row, &document.vectors),
                Change::SetVectors(row, vectors) => (*row, vectors),
                Change::Remove(_) => continue,
            };
            if vectors.len() > MAX_VECTORS {
                return Err(IndexError::TooManyVectors { row, found: vectors.len(), most: MAX_VECTORS });
            }
            for vector in vectors {
                if vector.len() != self.options.dimensions {
                    return Err(IndexError::Dimensions { row, expected: self.options.dimensions, found: vector.len() });
                }
                if normalized(vector).is_none() {
                    return Err(IndexError::Vector { row });
                }
            }
        }
        Ok(())
    }

    fn prepare(&self, analyzer: &mut Analyzer, change: &Change<'_>) -> Result<PreparedChange, IndexError> {
        Ok(match change {
            Change::Add(document) => PreparedChange::Add(Prepared {
                vectors: prepare_vectors(document.row, &document.vectors)?,
                ..prepare_text(analyzer, document)
            }),
            Change::Remove(row) => PreparedChange::Remove(row.0),
            Change::SetVectors(row, vectors) => PreparedChange::SetVectors(row.0, prepare_vectors(*row, vectors)?),
        })
    }

    #[must_use]
    pub fn contains(&self, row: RowNumber) -> bool {
        self.state.read().documents.slot_of(row.0).is_some()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.state.read().documents.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[must_use]
    pub fn size(&self) -> IndexSize {
        let state = self.state.read();
        IndexSize {
            documents: state.documents.len(),
            with_vectors: state.documents.with_vectors(),
            text_parts: state.text.len(),
            vector_parts: state.vectors.len(),
        }
    }

    /// All rows that are there, ascending; the second value says whether the row has vectors.
    #[must_use]
    pub fn rows(&self) -> Vec<(RowNumber, bool)> {
        let state = self.state.read();
        let mut rows: Vec<_> = state
            .documents
            .alive()
            .iter()
            .map(|slot| (RowNumber(state.documents.row(slot)), state.documents.vectors(slot).count > 0))
            .collect();
        drop(state);
        rows.sort_unstable();
        rows
    }

    /// The vectors of a row as they are held: at length 1, 16 bits a number. Empty if it has none.
    ///
    /// # Errors
    /// The row is not there, or its file is damaged.
    pub fn vectors_of(&self, row: RowNumber) -> Result<Vec<Vec<f32>>, IndexError> {
        let state = self.state.read();
        let slot = state.documents.slot_of(row.0).ok_or(IndexError::UnknownRow(row))?;
        state.vectors_at(slot)
    }

    /// The first vector of a row, see [`Self::vectors_of`].
    ///
    /// # Errors
    /// As there.
    pub fn vector_of(&self, row: RowNumber) -> Result<Option<Vec<f32>>, IndexError> {
        Ok(self.vectors_of(row)?.into_iter().next())
    }

    /// Bytes on the heap; mapped files are not counted, since the system may drop their pages at any time.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let state = self.state.read();
        state.documents.memory_bytes()
            + state.text.iter().map(crate::text::TextPart::memory_bytes).sum::<usize>()
            + state.vectors.iter().map(|part| part.part.memory_bytes() + part.slots.capacity() * 4).sum::<usize>()
            + self.scratch.memory_bytes()
    }

    /// Bytes of the files that are in use.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        let state = self.state.read();
        let text: u64 = state.text.iter().map(crate::text::TextPart::disk_bytes).sum();
        let vectors: u64 = state.vectors.iter().map(|part| part.part.disk_bytes()).sum();
        let manifest = std::fs::metadata(crate::manifest::path(&self.folder)).map_or(0, |manifest| manifest.len());
        text + vectors + manifest
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[must_use]
    pub fn options(&self) -> &IndexOptions {
        &self.options
    }
}

impl State {
    pub(crate) fn vectors_at(&self, slot: u32) -> Result<Vec<Vec<f32>>, IndexError> {
        let place = self.documents.vectors(slot);
        let Some(held) = self.vector_part(place.part).filter(|_| place.count > 0) else { return Ok(Vec::new()) };
        held.part.check()?;
        let (mut codes, mut fine) = (Vec::new(), Vec::new());
        (place.start as usize..(place.start + place.count) as usize)
            .map(|entry| {
                fine.clear();
                held.part.read_fine(entry, &mut fine)?;
                held.part.read_codes(entry, &mut codes);
                Ok(restore(&codes, &fine, held.part.scale(entry)))
            })
            .collect()
    }
}

fn prepare_vectors(row: RowNumber, vectors: &[Vec<f32>]) -> Result<PreparedVectors, IndexError> {
    let mut prepared = PreparedVectors::default();
    for vector in vectors {
        let vector = normalized(vector).ok_or(IndexError::Vector { row })?;
        prepared.scales.push(quantize(&vector, &mut prepared.planes));
    }
    Ok(prepared)
}

fn prepare_text(analyzer: &mut Analyzer, document: &Document<'_>) -> Prepared {
    let mut counts: std::collections::HashMap<String, u32> = std::collections::HashMap::new();
    let mut length = 0_u32;
    analyzer.run(document.text, &mut |term, _, kind| {
        length = length.saturating_add(u32::from(kind != Kind::Overlap));
        match counts.get_mut(term) {
            Some(count) => *count = count.saturating_add(1),
            None => {
                counts.insert(term.to_owned(), 1);
            }
        }
        true
    });
    for term in speaker_terms(document.text) {
        counts.insert(format!("{SPEAKER_MARK}{term}"), 1);
    }
    Prepared {
        record: Record {
            row: document.row.0,
            agent: document.agent.0,
            source: document.source.0,
            occurred_at: document.occurred_at.as_micros(),
            length,
            asks: asks(document.text),
        },
        terms: counts.into_iter().collect(),
        vectors: PreparedVectors::default(),
    }
}

#[cfg(test)]
mod tests;
