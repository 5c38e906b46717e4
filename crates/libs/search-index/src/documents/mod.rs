//! Slot table: a dense number for each document, and its data apart from the terms.
//!
//! Slots are assigned in order of arrival. A removed document leaves a dead slot until a merge closes the gap
//! ([`Documents::close_gaps`]). Episodes of one agent are linked in chronological order if neighbours are at most
//! [`talks::CONTEXT_GAP`] apart: such a chain is a *talk*. Documents without an agent have no neighbours, because
//! nothing relates them.

mod blends;
mod record;
mod talks;
mod timeline;

use std::collections::HashMap;
use std::sync::atomic::AtomicU8;

use crate::bitmap::Bitmap;
use crate::hashing::FastHashing;
pub(crate) use blends::Blend;
use blends::StoredBlend;
pub(crate) use record::{NONE, Record, VectorRange};
pub(crate) use talks::{Reach, WINDOW};
use timeline::Timeline;

/// Marks a slot whose reach has not been computed yet.
const REACH_UNKNOWN: u8 = 0xff;

#[derive(Debug, Default)]
pub(crate) struct Documents {
    rows: Vec<u64>,
    agents: Vec<u64>,
    sources: Vec<u64>,
    occurred_at: Vec<i64>,
    lengths: Vec<u32>,
    is_question: Bitmap,
    vectors: Vec<VectorRange>,
    previous: Vec<u32>,
    next: Vec<u32>,
    /// Documents with exactly one vector.
    single: Bitmap,
    blends: Vec<StoredBlend>,
    /// Cached [`Reach`] of each slot within [`WINDOW`].
    reaches: Vec<AtomicU8>,
    alive: Bitmap,
    slots: HashMap<u64, u32, FastHashing>,
    timelines: HashMap<u64, Timeline, FastHashing>,
    total_length: u64,
    with_vectors: usize,
}

impl Documents {
    /// Returns the number of slots, including dead ones.
    pub(crate) fn slot_count(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn with_vectors(&self) -> usize {
        self.with_vectors
    }

    /// Returns the number of words in all documents.
    pub(crate) fn total_length(&self) -> u64 {
        self.total_length
    }

    pub(crate) fn slot_of(&self, row: u64) -> Option<u32> {
        self.slots.get(&row).copied()
    }

    pub(crate) fn reserve(&mut self, more: usize) {
        self.rows.reserve(more);
        self.agents.reserve(more);
        self.sources.reserve(more);
        self.occurred_at.reserve(more);
        self.lengths.reserve(more);
        self.vectors.reserve(more);
        self.previous.reserve(more);
        self.next.reserve(more);
        self.blends.reserve(more);
        self.reaches.reserve(more);
        self.slots.reserve(more);
    }

    pub(crate) fn record(&self, slot: u32) -> Record {
        let at = slot as usize;
        Record {
            row: self.rows[at],
            agent: self.agents[at],
            source: self.sources[at],
            occurred_at: self.occurred_at[at],
            length: self.lengths[at],
            is_question: self.is_question.contains(slot),
        }
    }

    #[inline]
    pub(crate) fn row(&self, slot: u32) -> u64 {
        self.rows[slot as usize]
    }

    #[inline]
    pub(crate) fn agent(&self, slot: u32) -> u64 {
        self.agents[slot as usize]
    }

    #[inline]
    pub(crate) fn occurred_at(&self, slot: u32) -> i64 {
        self.occurred_at[slot as usize]
    }

    #[inline]
    pub(crate) fn length(&self, slot: u32) -> u32 {
        self.lengths[slot as usize]
    }

    #[inline]
    pub(crate) fn is_question(&self, slot: u32) -> bool {
        self.is_question.contains(slot)
    }

    /// Returns the preceding document in the same talk, or `NONE`.
    #[inline]
    pub(crate) fn previous(&self, slot: u32) -> u32 {
        self.previous[slot as usize]
    }

    #[inline]
    pub(crate) fn next(&self, slot: u32) -> u32 {
        self.next[slot as usize]
    }

    pub(crate) fn alive(&self) -> &Bitmap {
        &self.alive
    }

    #[inline]
    pub(crate) fn is_alive(&self, slot: u32) -> bool {
        self.alive.contains(slot)
    }

    #[inline]
    pub(crate) fn vectors(&self, slot: u32) -> VectorRange {
        self.vectors[slot as usize]
    }

    /// Returns the slots of one agent's documents in unspecified order.
    pub(crate) fn slots_of_agent(&self, agent: u64) -> impl Iterator<Item = u32> + '_ {
        self.timelines.get(&agent).into_iter().flat_map(Timeline::slots).filter(|slot| self.is_alive(*slot))
    }

    #[inline]
    pub(crate) fn has_single_vector(&self, slot: u32) -> bool {
        self.single.contains(slot)
    }

    /// Appends without links; [`Self::link_all`] must follow.
    pub(crate) fn append(&mut self, record: Record) -> u32 {
        let slot = self.slot_count();
        self.rows.push(record.row);
        self.agents.push(record.agent);
        self.sources.push(record.source);
        self.occurred_at.push(record.occurred_at);
        self.lengths.push(record.length);
        if record.is_question {
            self.is_question.insert(slot);
        }
        self.vectors.push(VectorRange::NOWHERE);
        self.previous.push(NONE);
        self.next.push(NONE);
        self.blends.push(StoredBlend::default());
        self.reaches.push(AtomicU8::new(REACH_UNKNOWN));
        self.alive.insert(slot);
        self.slots.insert(record.row, slot);
        self.total_length += u64::from(record.length);
        slot
    }

    /// Appends a dead slot, to retain the numbering of a part with dead documents.
    pub(crate) fn append_dead(&mut self, record: Record) {
        let known = self.slots.get(&record.row).copied();
        let slot = self.append(record);
        self.alive.remove(slot);
        self.total_length -= u64::from(record.length);
        match known {
            Some(other) => self.slots.insert(record.row, other),
            None => self.slots.remove(&record.row),
        };
    }

    #[inline]
    pub(crate) fn blend(&self, slot: u32) -> Option<Blend> {
        self.blends[slot as usize].get()
    }

    pub(crate) fn set_blend(&self, slot: u32, blend: &Blend) {
        self.blends[slot as usize].set(blend);
    }

    pub(crate) fn set_vectors(&mut self, slot: u32, range: VectorRange) {
        let before = std::mem::replace(&mut self.vectors[slot as usize], range);
        self.with_vectors = self.with_vectors + usize::from(range.count > 0) - usize::from(before.count > 0);
        self.note_single(slot, range);
        self.forget_blends_from(slot);
    }

    /// Moves the vectors without changing them.
    pub(crate) fn move_vectors(&mut self, slot: u32, range: VectorRange) {
        self.vectors[slot as usize] = range;
        self.note_single(slot, range);
    }

    fn note_single(&mut self, slot: u32, range: VectorRange) {
        if range.count == 1 {
            self.single.insert(slot);
        } else {
            self.single.remove(slot);
        }
    }

    /// The blend of a document depends on up to two preceding documents.
    fn forget_blends_from(&mut self, slot: u32) {
        let mut slot = slot;
        for _ in 0..3 {
            if slot == NONE {
                return;
            }
            self.blends[slot as usize].forget();
            slot = self.next(slot);
        }
    }

    /// Removes the given dead slots, moves the others up, and returns the new numbers.
    pub(crate) fn close_gaps(&mut self, dropped: &Bitmap) -> Renumbering {
        let first = dropped.iter().next().unwrap_or(self.slot_count());
        let mut names = Vec::with_capacity((self.slot_count() - first) as usize);
        let mut kept = first;
        for slot in first..self.slot_count() {
            let drop = dropped.contains(slot) && !self.is_alive(slot);
            names.push(if drop { NONE } else { kept });
            kept += u32::from(!drop);
        }
        let renumbering = Renumbering { first, names };
        let rename = |slot: u32| renumbering.of(slot);
        retain(&mut self.rows, rename);
        retain(&mut self.agents, rename);
        retain(&mut self.sources, rename);
        retain(&mut self.occurred_at, rename);
        retain(&mut self.lengths, rename);
        retain(&mut self.vectors, rename);
        retain(&mut self.previous, rename);
        retain(&mut self.next, rename);
        retain(&mut self.blends, rename);
        for blend in &mut self.blends {
            blend.rename(rename);
        }
        retain(&mut self.reaches, rename);
        for reach in &mut self.reaches {
            *reach.get_mut() = REACH_UNKNOWN;
        }
        for link in self.previous.iter_mut().chain(&mut self.next) {
            *link = rename(*link);
        }
        for bits in [&mut self.alive, &mut self.is_question, &mut self.single] {
            let mut moved = Bitmap::with_len(kept as usize);
            bits.iter().map(rename).filter(|slot| *slot != NONE).for_each(|slot| moved.insert(slot));
            *bits = moved;
        }
        for slot in first..kept {
            if self.alive.contains(slot) {
                self.slots.insert(self.rows[slot as usize], slot);
            }
        }
        for timeline in self.timelines.values_mut() {
            timeline.renumber(rename);
        }
        self.timelines.retain(|_, timeline| !timeline.is_empty());
        renumbering
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.rows.capacity() * (4 * 8 + 3 * 4 + 1 + size_of::<VectorRange>() + size_of::<StoredBlend>())
            + self.slots.capacity() * 17
            + self.timelines.values().map(Timeline::memory_bytes).sum::<usize>()
            + self.alive.memory_bytes()
            + self.is_question.memory_bytes()
    }
}

/// Mapping of old to new slots.
#[derive(Debug)]
pub(crate) struct Renumbering {
    first: u32,
    names: Vec<u32>,
}

impl Renumbering {
    /// Returns `NONE` for removed slots and for `NONE`.
    #[inline]
    pub(crate) fn of(&self, slot: u32) -> u32 {
        if slot < self.first { slot } else { self.names.get((slot - self.first) as usize).copied().unwrap_or(NONE) }
    }
}

fn retain<T>(values: &mut Vec<T>, name: impl Fn(u32) -> u32) {
    let mut slot = 0;
    values.retain(|_| {
        slot += 1;
        name(slot - 1) != NONE
    });
}

#[cfg(test)]
mod tests;
