//! The slot table: one dense number for each document, and what is known of it beside its terms.
//!
//! Slots ascend in the order of arrival. A removed document leaves a dead slot until a merge closes the gap
//! ([`Documents::close_gaps`]). The episodes of one agent are linked in the order of their time, as long as no more
//! than [`CONTEXT_GAP`] lies between neighbours: such a chain is a *talk*. Documents without an agent
//! have no neighbours, since nothing says that they belong together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::bitmap::Bitmap;
use crate::hashing::FastHashing;
use crate::timeline::Timeline;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;
/// Neighbours further apart do not belong to one talk; microseconds.
pub(crate) const CONTEXT_GAP: i64 = 3_600_000_000;

/// How far a document lends its words to its neighbours, and borrows theirs.
pub(crate) const WINDOW: usize = 4;
const REACH_UNKNOWN: u8 = 0xff;
const REACH_SCATTERED: u8 = 0xfe;

/// Where the neighbours of a slot are, up to [`WINDOW`] on either side. Talks mostly arrive turn by turn, and then
/// they are simply the slots beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// So many slots just before and just after, and no others.
    Beside { before: usize, after: usize },
    /// Only the links tell.
    Scattered,
}

/// What is stored of a document beside terms and vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) row: u64,
    pub(crate) agent: u64,
    pub(crate) source: u64,
    pub(crate) occurred_at: i64,
    /// Words in the text.
    pub(crate) length: u32,
    /// The text ends by asking.
    pub(crate) asks: bool,
}

/// Where a document's vectors are: `count` entries from `start` of the part with that number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VectorPlace {
    pub(crate) part: u32,
    pub(crate) start: u32,
    pub(crate) count: u32,
}

impl VectorPlace {
    pub(crate) const NOWHERE: Self = Self { part: NONE, start: 0, count: 0 };
}

#[derive(Debug, Default)]
pub(crate) struct Documents {
    rows: Vec<u64>,
    agents: Vec<u64>,
    sources: Vec<u64>,
    occurred_at: Vec<i64>,
    lengths: Vec<u32>,
    asks: Bitmap,
    vectors: Vec<VectorPlace>,
    previous: Vec<u32>,
    next: Vec<u32>,
    /// Documents of exactly one vector.
    single: Bitmap,
    /// Length of the vector that blends a document with those before it, as bits of an f32; NaN: not known yet.
    blend_norms: Vec<AtomicU32>,
    /// How the neighbours within [`WINDOW`] are reached, see [`Reach`].
    reaches: Vec<AtomicU8>,
    alive: Bitmap,
    slots: HashMap<u64, u32, FastHashing>,
    timelines: HashMap<u64, Timeline, FastHashing>,
    total_length: u64,
    with_vectors: usize,
}

impl Documents {
    /// Slots, dead ones too.
    pub(crate) fn slot_count(&self) -> u32 {
        self.rows.len() as u32
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn with_vectors(&self) -> usize {
        self.with_vectors
    }

    /// Words in all documents.
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
        self.blend_norms.reserve(more);
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
            asks: self.asks.contains(slot),
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
    pub(crate) fn asks(&self, slot: u32) -> bool {
        self.asks.contains(slot)
    }

    /// The one before it in the same talk, or `NONE`.
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
    pub(crate) fn vectors(&self, slot: u32) -> VectorPlace {
        self.vectors[slot as usize]
    }

    /// The slots of one agent's documents, in no order that may be relied upon.
    pub(crate) fn slots_of_agent(&self, agent: u64) -> impl Iterator<Item = u32> + '_ {
        self.timelines.get(&agent).into_iter().flat_map(Timeline::slots).filter(|slot| self.is_alive(*slot))
    }

    #[inline]
    pub(crate) fn blend_norm(&self, slot: u32) -> Option<f32> {
        let norm = f32::from_bits(self.blend_norms[slot as usize].load(Ordering::Relaxed));
        (!norm.is_nan()).then_some(norm)
    }

    #[inline]
    pub(crate) fn has_single_vector(&self, slot: u32) -> bool {
        self.single.contains(slot)
    }

    #[inline]
    pub(crate) fn reach(&self, slot: u32) -> Reach {
        match self.reaches[slot as usize].load(Ordering::Relaxed) {
            REACH_UNKNOWN => self.find_reach(slot),
            REACH_SCATTERED => Reach::Scattered,
            known => Reach::Beside { before: usize::from(known & 0xf), after: usize::from(known >> 4) },
        }
    }

    fn find_reach(&self, slot: u32) -> Reach {
        let (mut before, mut after) = (0, 0);
        let (mut first, mut last) = (slot, slot);
        let mut beside = true;
        while before < WINDOW && self.previous(first) != NONE {
            beside &= self.previous(first) + 1 == first;
            first = self.previous(first);
            before += 1;
        }
        while after < WINDOW && self.next(last) != NONE {
            beside &= self.next(last) == last + 1;
            last = self.next(last);
            after += 1;
        }
        let (code, reach) = if beside {
            ((before | after << 4) as u8, Reach::Beside { before, after })
        } else {
            (REACH_SCATTERED, Reach::Scattered)
        };
        self.reaches[slot as usize].store(code, Ordering::Relaxed);
        reach
    }

    /// Forgets how those near a changed link reach each other: the slot itself and what lies within the window.
    fn forget_reaches_around(&mut self, slot: u32) {
        for backward in [true, false] {
            let mut near = slot;
            for _ in 0..=WINDOW {
                if near == NONE {
                    break;
                }
                *self.reaches[near as usize].get_mut() = REACH_UNKNOWN;
                near = if backward { self.previous(near) } else { self.next(near) };
            }
        }
    }

    pub(crate) fn set_blend_norm(&self, slot: u32, norm: f32) {
        self.blend_norms[slot as usize].store(norm.to_bits(), Ordering::Relaxed);
    }

    /// Appends a document; its row must not be alive. It is linked into its agent's time.
    pub(crate) fn push(&mut self, record: Record) -> u32 {
        let slot = self.append(record);
        self.link(slot);
        slot
    }

    /// Appends without links; [`Self::link_all`] must follow.
    pub(crate) fn append(&mut self, record: Record) -> u32 {
        let slot = self.slot_count();
        self.rows.push(record.row);
        self.agents.push(record.agent);
        self.sources.push(record.source);
        self.occurred_at.push(record.occurred_at);
        self.lengths.push(record.length);
        if record.asks {
            self.asks.insert(slot);
        }
        self.vectors.push(VectorPlace::NOWHERE);
        self.previous.push(NONE);
        self.next.push(NONE);
        self.blend_norms.push(AtomicU32::new(f32::NAN.to_bits()));
        self.reaches.push(AtomicU8::new(REACH_UNKNOWN));
        self.alive.insert(slot);
        self.slots.insert(record.row, slot);
        self.total_length += u64::from(record.length);
        slot
    }

    /// Appends a slot that is dead from the start, to keep the numbering of a part that has dead documents.
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

    /// Whether the row's document was removed.
    pub(crate) fn remove(&mut self, row: u64) -> Option<u32> {
        let slot = self.slots.remove(&row)?;
        self.alive.remove(slot);
        self.total_length -= u64::from(self.length(slot));
        if self.vectors(slot).count > 0 {
            self.with_vectors -= 1;
        }
        self.unlink(slot);
        Some(slot)
    }

    pub(crate) fn set_vectors(&mut self, slot: u32, place: VectorPlace) {
        let before = std::mem::replace(&mut self.vectors[slot as usize], place);
        self.with_vectors = self.with_vectors + usize::from(place.count > 0) - usize::from(before.count > 0);
        self.note_single(slot, place);
        self.forget_blends_from(slot);
    }

    /// Moves the vectors' place without changing what they are.
    pub(crate) fn move_vectors(&mut self, slot: u32, place: VectorPlace) {
        self.vectors[slot as usize] = place;
        self.note_single(slot, place);
    }

    fn note_single(&mut self, slot: u32, place: VectorPlace) {
        if place.count == 1 {
            self.single.insert(slot);
        } else {
            self.single.remove(slot);
        }
    }

    /// Whether two documents, the first just before the second, belong to one talk.
    fn belong(&self, first: u32, second: u32) -> bool {
        self.agent(first) != 0 && self.occurred_at(second).saturating_sub(self.occurred_at(first)) <= CONTEXT_GAP
    }

    fn join(&mut self, first: u32, second: u32) {
        let belong = first != NONE && second != NONE && self.belong(first, second);
        if first != NONE {
            self.next[first as usize] = if belong { second } else { NONE };
        }
        if second != NONE {
            self.previous[second as usize] = if belong { first } else { NONE };
        }
    }

    fn link(&mut self, slot: u32) {
        let agent = self.agent(slot);
        let key = self.order_key(slot);
        let mut timeline = self.timelines.remove(&agent).unwrap_or_default();
        let at = timeline.insert(slot, |other| self.order_key(other) < key);
        if agent != 0 {
            let before = timeline.before(at).find(|other| self.is_alive(*other)).unwrap_or(NONE);
            let after = timeline.after(at).find(|other| self.is_alive(*other)).unwrap_or(NONE);
            self.join(before, slot);
            self.join(slot, after);
        }
        self.timelines.insert(agent, timeline);
        self.forget_blends_from(slot);
        self.forget_reaches_around(slot);
    }

    fn order_key(&self, slot: u32) -> (i64, u64) {
        (self.occurred_at(slot), self.row(slot))
    }

    fn unlink(&mut self, slot: u32) {
        self.forget_reaches_around(slot);
        let (before, after) = (self.previous(slot), self.next(slot));
        if before == NONE || after == NONE {
            // The other side, if any, was and stays apart.
            if before != NONE {
                self.next[before as usize] = NONE;
            }
            if after != NONE {
                self.previous[after as usize] = NONE;
            }
        } else {
            self.join(before, after);
        }
        self.previous[slot as usize] = NONE;
        self.next[slot as usize] = NONE;
        if after != NONE {
            self.forget_blends_from(after);
        }
        let agent = self.agent(slot);
        if let Some(mut timeline) = self.timelines.remove(&agent)
            && timeline.note_death(|slot| self.is_alive(slot))
        {
            self.timelines.insert(agent, timeline);
        }
    }

    /// The blend of a document reaches two documents back.
    fn forget_blends_from(&mut self, slot: u32) {
        let mut slot = slot;
        for _ in 0..3 {
            if slot == NONE {
                return;
            }
            self.set_blend_norm(slot, f32::NAN);
            slot = self.next(slot);
        }
    }

    /// Links everything anew, after [`Self::append`].
    pub(crate) fn link_all(&mut self) {
        let mut timelines: HashMap<u64, Vec<u32>, FastHashing> = HashMap::default();
        let mut last: Option<(u64, Vec<u32>)> = None;
        for slot in self.alive.iter() {
            let agent = self.agent(slot);
            if last.as_ref().is_none_or(|(known, _)| *known != agent) {
                let mine = timelines.remove(&agent).unwrap_or_default();
                if let Some((agent, slots)) = last.replace((agent, mine)) {
                    timelines.insert(agent, slots);
                }
            }
            if let Some((_, slots)) = &mut last {
                slots.push(slot);
            }
        }
        timelines.extend(last);
        self.timelines.clear();
        for (agent, mut slots) in timelines {
            if !slots.is_sorted_by_key(|slot| self.order_key(*slot)) {
                slots.sort_by_cached_key(|slot| self.order_key(*slot));
            }
            if agent != 0 {
                for pair in slots.windows(2) {
                    self.join(pair[0], pair[1]);
                }
            }
            self.timelines.insert(agent, Timeline::from_sorted(slots));
        }
    }

    /// Drops the given slots, which must be dead; the rest moves up. Answers what each slot is called now.
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
        retain(&mut self.blend_norms, rename);
        retain(&mut self.reaches, rename);
        for reach in &mut self.reaches {
            *reach.get_mut() = REACH_UNKNOWN;
        }
        for link in self.previous.iter_mut().chain(&mut self.next) {
            *link = rename(*link);
        }
        for bits in [&mut self.alive, &mut self.asks, &mut self.single] {
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
        self.rows.capacity() * (4 * 8 + 4 * 4 + 1 + size_of::<VectorPlace>())
            + self.slots.capacity() * 17
            + self.timelines.values().map(Timeline::memory_bytes).sum::<usize>()
            + self.alive.memory_bytes()
            + self.asks.memory_bytes()
    }
}

/// What slots are called after gaps were closed.
#[derive(Debug)]
pub(crate) struct Renumbering {
    first: u32,
    names: Vec<u32>,
}

impl Renumbering {
    /// `NONE` for what was dropped, and for `NONE`.
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
