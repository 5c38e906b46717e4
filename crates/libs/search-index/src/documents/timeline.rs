//! The slots of one agent in the order of time. Dead ones stay until they are the greater part.

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

    /// Puts the slot behind those for which `is_before` holds, and says where. New episodes mostly come last.
    pub(crate) fn insert(&mut self, slot: u32, is_before: impl Fn(u32) -> bool) -> usize {
        let at = match self.slots.last() {
            Some(last) if !is_before(*last) => self.slots.partition_point(|other| is_before(*other)),
            _ => self.slots.len(),
        };
        self.slots.insert(at, slot);
        at
    }

    /// Those before a position, the nearest first.
    pub(crate) fn before(&self, at: usize) -> impl Iterator<Item = u32> + '_ {
        self.slots[..at].iter().rev().copied()
    }

    pub(crate) fn after(&self, at: usize) -> impl Iterator<Item = u32> + '_ {
        self.slots[at + 1..].iter().copied()
    }

    /// One more of them died. False: none is left.
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
