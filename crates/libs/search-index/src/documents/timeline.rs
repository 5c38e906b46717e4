//! Slots of one agent in chronological order. Dead ones are removed once they are the majority.

use super::record::NONE;

#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    slots: Vec<u32>,
    dead: usize,
}

impl Timeline {
    pub(crate) fn from_sorted(slots: Vec<u32>) -> Self {
        Self { slots, dead: 0 }
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().copied()
    }

    /// Inserts the slot after those for which `is_before` holds, and returns its position. New episodes usually come
    /// last.
    pub(crate) fn insert(&mut self, slot: u32, is_before: impl Fn(u32) -> bool) -> usize {
        let at = match self.slots.last() {
            Some(last) if !is_before(*last) => self.slots.partition_point(|other| is_before(*other)),
            _ => self.slots.len(),
        };
        self.slots.insert(at, slot);
        at
    }

    /// Iterates over the slots before a position, nearest first.
    pub(crate) fn before(&self, at: usize) -> impl Iterator<Item = u32> + '_ {
        self.slots[..at].iter().rev().copied()
    }

    pub(crate) fn after(&self, at: usize) -> impl Iterator<Item = u32> + '_ {
        self.slots[at + 1..].iter().copied()
    }

    /// Counts a dead slot. Returns false if no slot is left.
    pub(crate) fn note_death(&mut self, is_alive: impl Fn(u32) -> bool) -> bool {
        self.dead += 1;
        if self.dead * 2 > self.slots.len() {
            self.slots.retain(|slot| is_alive(*slot));
            self.dead = 0;
        }
        !self.slots.is_empty()
    }

    pub(crate) fn renumber(&mut self, number: impl Fn(u32) -> u32) {
        let before = self.slots.len();
        self.slots.retain_mut(|slot| {
            *slot = number(*slot);
            *slot != NONE
        });
        self.dead = self.dead.saturating_sub(before - self.slots.len());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * 4
    }
}
