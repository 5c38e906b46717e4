//! Out of which cosines a document's blend is made, see the ranking. Remembered, because a search asks it of
//! every document.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Documents, NONE, retain};

/// A weighted sum of cosines: a document's own and those of up to two before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Blend {
    pub(crate) own: f32,
    /// Share and slot; a share of zero counts for nothing, and its slot is the document's own.
    pub(crate) before: [(f32, u32); 2],
}

impl Blend {
    /// A document that is understood by itself.
    pub(crate) fn alone(slot: u32) -> Self {
        Self { own: 1.0, before: [(0.0, slot); 2] }
    }
}

/// Found out during searches, side by side: all who find it out find the same. An array for each number, because a
/// search first reads those that decide whether the rest is needed.
#[derive(Debug, Default)]
pub(super) struct Blends {
    /// As bits of an f32; NaN: not known; negative: the two before do not stand in the two slots before.
    own: Vec<AtomicU32>,
    shares: Vec<[AtomicU32; 2]>,
    slots: Vec<[AtomicU32; 2]>,
}

impl Blends {
    pub(super) const BYTES_A_SLOT: usize = 5 * size_of::<AtomicU32>();

    pub(super) fn reserve(&mut self, more: usize) {
        self.own.reserve(more);
        self.shares.reserve(more);
        self.slots.reserve(more);
    }

    /// For one more slot.
    pub(super) fn push_unknown(&mut self) {
        self.own.push(AtomicU32::new(f32::NAN.to_bits()));
        self.shares.push([const { AtomicU32::new(0) }; 2]);
        self.slots.push([const { AtomicU32::new(NONE) }; 2]);
    }

    #[inline]
    fn get(&self, slot: usize) -> Option<Blend> {
        // Written last, read first: what belongs to it is there then.
        let own = f32::from_bits(self.own[slot].load(Ordering::Acquire));
        let [first_share, second_share] = &self.shares[slot];
        let [first, second] = &self.slots[slot];
        let share = |share: &AtomicU32| f32::from_bits(share.load(Ordering::Relaxed));
        (!own.is_nan()).then(|| Blend {
            own: own.abs(),
            before: [
                (share(first_share), first.load(Ordering::Relaxed)),
                (share(second_share), second.load(Ordering::Relaxed)),
            ],
        })
    }

    fn set(&self, slot: u32, blend: &Blend) {
        let at = slot as usize;
        for (place, (share, before)) in blend.before.iter().enumerate() {
            self.shares[at][place].store(share.to_bits(), Ordering::Relaxed);
            self.slots[at][place].store(*before, Ordering::Relaxed);
        }
        self.own[at].store(signed(slot, blend).to_bits(), Ordering::Release);
    }

    fn forget(&mut self, slot: usize) {
        *self.own[slot].get_mut() = f32::NAN.to_bits();
    }

    /// Drops the slots that `rename` calls `NONE`; the others, which stay in order, move up.
    pub(super) fn close_gaps(&mut self, rename: impl Fn(u32) -> u32 + Copy) {
        retain(&mut self.own, rename);
        retain(&mut self.shares, rename);
        retain(&mut self.slots, rename);
        for slot in self.slots.iter_mut().flatten() {
            *slot.get_mut() = rename(*slot.get_mut());
        }
        // Who was apart may stand in a row now, and the other way round.
        for slot in 0..self.own.len() {
            if let (Some(blend), Ok(name)) = (self.get(slot), u32::try_from(slot)) {
                *self.own[slot].get_mut() = signed(name, &blend).to_bits();
            }
        }
    }
}

/// The share of a document's own cosine, with the sign that says whether the two before stand in the slots before.
fn signed(slot: u32, blend: &Blend) -> f32 {
    let is_before =
        |(distance, (share, before)): (u32, &(f32, u32))| *share == 0.0 || slot.checked_sub(distance) == Some(*before);
    if (1..).zip(&blend.before).all(is_before) { blend.own } else { -blend.own }
}

impl Documents {
    #[inline]
    pub(crate) fn blend(&self, slot: u32) -> Option<Blend> {
        self.blends.get(slot as usize)
    }

    pub(crate) fn set_blend(&self, slot: u32, blend: &Blend) {
        self.blends.set(slot, blend);
    }

    /// The blends of slots in a row, as shares of a document's own cosine and of those in the two slots before it.
    /// Where that is not how it is made, or nobody knows yet, the first of them is NaN.
    #[inline]
    pub(crate) fn blends_in_a_row(&self, slots: Range<usize>) -> impl Iterator<Item = (f32, [f32; 2])> + '_ {
        let own = self.blends.own.get(slots.clone()).unwrap_or_default();
        let shares = self.blends.shares.get(slots).unwrap_or_default();
        own.iter().zip(shares).map(|(own, [first, second])| {
            let own = f32::from_bits(own.load(Ordering::Acquire));
            let share = |share: &AtomicU32| f32::from_bits(share.load(Ordering::Relaxed));
            (if own > 0.0 { own } else { f32::NAN }, [share(first), share(second)])
        })
    }

    /// The blend of a document reaches two documents back.
    pub(super) fn forget_blends_from(&mut self, slot: u32) {
        let mut slot = slot;
        for _ in 0..3 {
            if slot == NONE {
                return;
            }
            self.blends.forget(slot as usize);
            slot = self.next(slot);
        }
    }
}
