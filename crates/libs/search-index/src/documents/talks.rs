//! Links between the documents of one talk.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::timeline::Timeline;
use super::{Documents, NONE, REACH_UNKNOWN, Record};
use crate::hashing::FastHashing;

/// Maximum distance of neighbours in a talk, in microseconds.
pub(crate) const CONTEXT_GAP: i64 = 3_600_000_000;

/// Number of neighbours on each side that share their term weights.
pub(crate) const WINDOW: usize = 4;
const REACH_SCATTERED: u8 = 0xfe;

/// Positions of the neighbours of a slot, up to [`WINDOW`] on each side. Talks mostly arrive turn by turn, so the
/// neighbours usually have adjacent slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The given number of slots directly before and after.
    Beside { before: usize, after: usize },
    /// Only reachable by links.
    Scattered,
}

impl Documents {
    /// Appends a document, whose row must not be alive, and links it into its agent's timeline.
    pub(crate) fn push(&mut self, record: Record) -> u32 {
        let slot = self.append(record);
        self.link(slot);
        slot
    }

    /// Removes the row's document and returns its slot.
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

    /// Clears the reach of the slot and of its neighbours within the window after a link has changed.
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

    /// Whether two successive documents belong to one talk.
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
            // The other side, if any, is unaffected.
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

    /// Rebuilds all links, after [`Self::append`].
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
}
