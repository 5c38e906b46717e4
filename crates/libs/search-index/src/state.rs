//! State visible to searches: documents, text parts and vector parts. Changed only with the write lock.

use std::sync::Arc;

use crate::documents::{Documents, NONE, Record, VectorRange};
use crate::text::memory::MemoryText;
use crate::text::{Terms, TextPart};
use crate::vectors::part::VectorPart;
use crate::vectors::quantize::Planes;

/// Part of the vectors, and the slot of each entry (`NONE` for dead ones).
#[derive(Clone, Debug)]
pub(crate) struct VectorSlots {
    pub(crate) number: u32,
    pub(crate) part: Arc<VectorPart>,
    pub(crate) slots: Vec<u32>,
    /// Number of entries that are not dead.
    pub(crate) live: usize,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) documents: Documents,
    /// In slot order, without gaps.
    pub(crate) text: Vec<TextPart>,
    pub(crate) vectors: Vec<VectorSlots>,
    /// Whether the last part accepts more documents.
    text_open: bool,
    vectors_open: bool,
    /// Words and vectors of the open parts, which limit how long they stay open.
    pub(crate) open_words: u64,
    pub(crate) open_vectors: usize,
    /// Increases with each change.
    pub(crate) revision: u64,
}

/// Document prepared outside the lock.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) record: Record,
    pub(crate) terms: Vec<(String, u32)>,
    pub(crate) vectors: PreparedVectors,
}

#[derive(Debug, Default)]
pub(crate) struct PreparedVectors {
    pub(crate) scales: Vec<f32>,
    pub(crate) planes: Planes,
}

impl State {
    pub(crate) fn add(&mut self, prepared: &Prepared, dimensions: usize, new_number: impl FnOnce() -> u32) {
        self.remove(prepared.record.row);
        let slot = self.documents.push(prepared.record);
        if !self.text_open {
            self.text.push(TextPart { base: slot, count: 0, terms: Terms::Memory(Arc::new(MemoryText::default())) });
            self.text_open = true;
        }
        if let Some(part) = self.text.last_mut() {
            let offset = slot - part.base;
            part.count = offset + 1;
            if let Terms::Memory(terms) = &mut part.terms {
                // An open part is not shared, so nothing is copied here.
                Arc::make_mut(terms).add(offset, &prepared.terms);
            }
        }
        self.open_words += u64::from(prepared.record.length) + 1;
        self.put_vectors(slot, &prepared.vectors, dimensions, new_number);
        self.revision += 1;
    }

    pub(crate) fn remove(&mut self, row: u64) {
        if let Some(slot) = self.documents.remove(row) {
            self.mark_vectors_dead(self.documents.vectors(slot));
            self.documents.move_vectors(slot, VectorRange::NOWHERE);
            self.revision += 1;
        }
    }

    pub(crate) fn set_vectors(
        &mut self,
        row: u64,
        vectors: &PreparedVectors,
        dimensions: usize,
        new_number: impl FnOnce() -> u32,
    ) {
        let Some(slot) = self.documents.slot_of(row) else { return };
        self.mark_vectors_dead(self.documents.vectors(slot));
        self.documents.set_vectors(slot, VectorRange::NOWHERE);
        self.put_vectors(slot, vectors, dimensions, new_number);
        self.revision += 1;
    }

    fn put_vectors(
        &mut self,
        slot: u32,
        vectors: &PreparedVectors,
        dimensions: usize,
        new_number: impl FnOnce() -> u32,
    ) {
        if vectors.scales.is_empty() {
            return;
        }
        // A part that is shared accepts no more entries.
        let open =
            self.vectors_open && self.vectors.last_mut().is_some_and(|last| Arc::get_mut(&mut last.part).is_some());
        if !open {
            let part = Arc::new(VectorPart::new(dimensions));
            self.vectors.push(VectorSlots { number: new_number(), part, slots: Vec::new(), live: 0 });
            self.vectors_open = true;
        }
        let count = vectors.scales.len();
        if let Some(last) = self.vectors.last_mut()
            && let Some(part) = Arc::get_mut(&mut last.part)
        {
            let start = last.slots.len() as u32;
            part.append(self.documents.row(slot), &vectors.scales, &vectors.planes);
            last.slots.extend(std::iter::repeat_n(slot, count));
            last.live += count;
            self.documents.set_vectors(slot, VectorRange { part: last.number, start, count: count as u32 });
            self.open_vectors += count;
        }
    }

    fn mark_vectors_dead(&mut self, range: VectorRange) {
        if let Some(part) = self.vectors.iter_mut().find(|part| part.number == range.part) {
            let start = range.start as usize;
            part.slots[start..start + range.count as usize].fill(NONE);
            part.live -= range.count as usize;
        }
    }

    pub(crate) fn vector_part(&self, number: u32) -> Option<&VectorSlots> {
        self.vectors.iter().find(|part| part.number == number)
    }

    /// Closes the open parts, so that they can be shared; new documents go to new parts.
    pub(crate) fn freeze(&mut self) {
        self.text_open = false;
        self.vectors_open = false;
        self.open_words = 0;
        self.open_vectors = 0;
    }
    /// Number of leading parts that are closed.
    pub(crate) fn closed_text_parts(&self) -> usize {
        self.text.len() - usize::from(self.text_open)
    }

    pub(crate) fn closed_vector_parts(&self) -> usize {
        self.vectors.len() - usize::from(self.vectors_open)
    }
}
