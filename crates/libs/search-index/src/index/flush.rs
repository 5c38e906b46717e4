//! Writing from memory to disk.

use std::sync::Arc;

use super::open::remove_if_exists;
use super::{Index, Upkeep};
use crate::bitmap::Bitmap;
use crate::documents::NONE;
use crate::error::IndexError;
use crate::manifest::{MAX_CURSOR_BYTES, Manifest, TextEntry, VectorEntry};
use crate::state::State;
use crate::text::Terms;
use crate::text::mapped::MappedText;
use crate::text::write::write_memory;
use crate::vectors::part::{Entry, VectorPart, coarse_path, fine_path, write_part};

/// Dead documents and entries at the time of a flush; later ones belong to the next flush.
struct Dead {
    alive: Bitmap,
    /// Part number and dead entries of each part.
    vectors: Vec<(u32, Vec<u32>)>,
    revision: u64,
}

impl Index {
    /// Writes data that is only in memory, and then the manifest with the caller's cursor, which denotes the rows
    /// applied before this call. After it returns, the index reopens in this state, even after a crash.
    ///
    /// # Errors
    /// The disk cannot be written; the previous flush remains valid.
    pub fn flush(&self, cursor: &[u8]) -> Result<(), IndexError> {
        if cursor.len() > MAX_CURSOR_BYTES {
            return Err(IndexError::Cursor { found: cursor.len(), most: MAX_CURSOR_BYTES });
        }
        let mut upkeep = self.upkeep.lock();
        let mut state = self.state.write();
        if upkeep.obsolete.is_empty()
            && upkeep
                .flushed
                .as_ref()
                .is_some_and(|(revision, known)| *revision == state.revision && known.as_deref() == Some(cursor))
        {
            return Ok(());
        }
        state.freeze();
        let dead = dead_of(&state);
        drop(state);
        self.write_frozen()?;
        let manifest = self.manifest(&dead, cursor);
        manifest.write(&self.folder)?;
        let Upkeep { obsolete, flushed } = &mut *upkeep;
        *flushed = Some((dead.revision, Some(cursor.to_vec())));
        for path in obsolete.drain(..) {
            remove_if_exists(&path)?;
        }
        Ok(())
    }

    /// Writes data that exceeds the memory limits. It becomes valid with the next flush.
    pub(super) fn spill(&self) -> Result<(), IndexError> {
        let _upkeep = self.upkeep.lock();
        self.state.write().freeze();
        self.write_frozen()
    }

    /// Writes and maps the closed parts in memory. Called with `upkeep` held, so that parts are only appended
    /// meanwhile.
    pub(super) fn write_frozen(&self) -> Result<(), IndexError> {
        let frozen: Vec<usize> = {
            let state = self.state.read();
            let closed = state.closed_text_parts();
            (0..closed).filter(|index| matches!(state.text[*index].terms, Terms::Memory(_))).collect()
        };
        for index in frozen {
            let state = self.state.read();
            let part = state.text[index].clone();
            let records: Vec<_> = (part.base..part.end()).map(|slot| state.documents.record(slot)).collect();
            drop(state);
            let Terms::Memory(text) = &part.terms else { continue };
            let number = self.new_number();
            let sums = write_memory(&self.folder, number, text, &records)?;
            let (mapped, _) = MappedText::open(&self.folder, number, sums)?;
            self.state.write().text[index].terms = Terms::Mapped(Arc::new(mapped));
        }
        self.write_frozen_vectors()
    }

    fn write_frozen_vectors(&self) -> Result<(), IndexError> {
        let frozen: Vec<u32> = {
            let state = self.state.read();
            let closed = state.closed_vector_parts();
            state.vectors[..closed].iter().filter(|held| !held.part.is_written()).map(|held| held.number).collect()
        };
        for number in frozen {
            let state = self.state.read();
            let Some(held) = state.vector_part(number) else { continue };
            let part = Arc::clone(&held.part);
            drop(state);
            let rows = part.unwritten_rows().unwrap_or_default();
            let entries: Vec<_> =
                rows.iter().enumerate().map(|(index, row)| Entry { part: &part, index, row: *row }).collect();
            let sums = write_part(&self.folder, number, self.options.dimensions, &entries)?;
            let (mapped, _) = VectorPart::open(&self.folder, number, self.options.dimensions, sums)?;
            let mut state = self.state.write();
            if let Some(held) = state.vectors.iter_mut().find(|held| held.number == number) {
                held.part = Arc::new(mapped);
            }
        }
        Ok(())
    }

    fn manifest(&self, dead: &Dead, cursor: &[u8]) -> Manifest {
        let state = self.state.read();
        let mut text = Vec::new();
        for part in &state.text {
            if let Terms::Mapped(mapped) = &part.terms {
                let dead = (part.base..part.end()).filter(|slot| !dead.alive.contains(*slot));
                let dead = dead.map(|slot| slot - part.base).collect();
                text.push(TextEntry { number: mapped.number, sums: mapped.sums, dead });
            }
        }
        let mut vectors = Vec::new();
        for (number, dead) in &dead.vectors {
            if let Some(sums) = state.vector_part(*number).and_then(|held| held.part.sums()) {
                vectors.push(VectorEntry { number: *number, sums, dead: dead.clone() });
            }
        }
        Manifest {
            dimensions: self.options.dimensions,
            model: self.options.embedding_model.clone(),
            cursor: Some(cursor.to_vec()),
            next_number: self.next_number.load(std::sync::atomic::Ordering::Relaxed),
            text,
            vectors,
        }
    }

    /// Records the obsolete files of merged vector parts.
    pub(super) fn retire_vectors(&self, upkeep: &mut Upkeep, number: u32) {
        upkeep.obsolete.extend([coarse_path(&self.folder, number), fine_path(&self.folder, number)]);
    }
}

fn dead_of(state: &State) -> Dead {
    let vectors = state
        .vectors
        .iter()
        .map(|held| {
            let dead = if held.live == held.slots.len() {
                Vec::new()
            } else {
                (0_u32..).zip(&held.slots).filter(|(_, slot)| **slot == NONE).map(|(index, _)| index).collect()
            };
            (held.number, dead)
        })
        .collect();
    Dead { alive: state.documents.alive().clone(), vectors, revision: state.revision }
}
