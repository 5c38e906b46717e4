//! Index: opening, changing, querying its contents. Changes are in `apply`, searches in `search`, disk operations in
//! `flush` and `maintain`.
//!
//! Locks, in this order: `upkeep` (held while files are written or the layout of parts changes), then `state`
//! (read-locked by each search, write-locked only while memory is changed).

mod apply;
mod flush;
mod maintain;
mod open;
mod visit;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::error::IndexError;
use crate::model::IndexSize;
use crate::row_set::RowNumber;
use crate::search::scratch::ScratchPool;
use crate::state::State;
use crate::vectors::dot::Kernel;
use crate::vectors::quantize::restore;
pub use apply::MAX_VECTORS;

/// Limits for data in memory, beyond which it is written without waiting for a flush.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    words: u64,
    vectors: usize,
}

const BOUNDS: Bounds = Bounds { words: 1_000_000, vectors: 16_384 };

#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// Number of dimensions of a vector.
    pub dimensions: usize,
    /// Name of the embedding model. Vectors of another model are not comparable, so a change drops them.
    pub embedding_model: String,
}

/// State of the index when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenState {
    /// The folder was empty: all rows must be added.
    Fresh,
    /// State of the flush with the returned cursor.
    CaughtUp,
    /// The words are in the state of the flush; the vectors belong to another model and must be set again.
    VectorsDropped { previous_model: String },
    /// The files were not usable: all rows must be added.
    Rebuilt { reason: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Cursor of the last flush.
    pub cursor: Option<Vec<u8>>,
    pub state: OpenState,
}

/// Search index for memory. All methods block; searches run concurrently.
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
    /// Files that the next manifest no longer refers to.
    obsolete: Vec<PathBuf>,
    /// Revision and cursor of the manifest on disk.
    flushed: Option<(u64, Option<Vec<u8>>)>,
}

impl Index {
    fn new_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
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

    /// Returns all rows, ascending, and whether each has vectors.
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

    /// Returns the vectors of a row as stored: normalized, with 16 bits per number. Empty if it has none.
    ///
    /// # Errors
    /// The row does not exist, or its file is damaged.
    pub fn vectors_of(&self, row: RowNumber) -> Result<Vec<Vec<f32>>, IndexError> {
        let state = self.state.read();
        let slot = state.documents.slot_of(row.0).ok_or(IndexError::UnknownRow(row))?;
        state.vectors_at(slot)
    }

    /// Returns the first vector of a row, see [`Self::vectors_of`].
    ///
    /// # Errors
    /// See [`Self::vectors_of`].
    pub fn vector_of(&self, row: RowNumber) -> Result<Option<Vec<f32>>, IndexError> {
        Ok(self.vectors_of(row)?.into_iter().next())
    }

    /// Returns the heap memory in bytes; mapped files are not included, because the system may drop their pages.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let state = self.state.read();
        state.documents.memory_bytes()
            + state.text.iter().map(crate::text::TextPart::memory_bytes).sum::<usize>()
            + state.vectors.iter().map(|part| part.part.memory_bytes() + part.slots.capacity() * 4).sum::<usize>()
            + self.scratch.memory_bytes()
    }

    /// Returns the size of the files in use, in bytes.
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
        let range = self.documents.vectors(slot);
        let Some(held) = self.vector_part(range.part).filter(|_| range.count > 0) else { return Ok(Vec::new()) };
        held.part.check()?;
        let (mut codes, mut fine) = (Vec::new(), Vec::new());
        (range.start as usize..(range.start + range.count) as usize)
            .map(|entry| {
                fine.clear();
                held.part.read_fine(entry, &mut fine)?;
                held.part.read_codes(entry, &mut codes);
                Ok(restore(&codes, &fine, held.part.scale(entry)))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
