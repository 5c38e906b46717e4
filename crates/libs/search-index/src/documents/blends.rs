//! Weights of the cosines that form a document's blend, see the ranking. Cached, because every search needs them for
//! every document.

use std::sync::atomic::{AtomicU32, Ordering};

use super::record::NONE;

/// Weighted sum of cosines: the document's own and those of up to two predecessors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Blend {
    pub(crate) own: f32,
    /// Share and slot; a share of zero has no effect, and its slot is the document's own.
    pub(crate) before: [(f32, u32); 2],
}

impl Blend {
    /// Returns the blend of a document without predecessors.
    pub(crate) fn alone(slot: u32) -> Self {
        Self { own: 1.0, before: [(0.0, slot); 2] }
    }
}

/// Computed during concurrent searches, which all compute the same value.
#[derive(Debug)]
pub(super) struct StoredBlend {
    /// Bits of an f32; NaN if unknown.
    own: AtomicU32,
    shares: [AtomicU32; 2],
    slots: [AtomicU32; 2],
}

impl Default for StoredBlend {
    fn default() -> Self {
        Self {
            own: AtomicU32::new(f32::NAN.to_bits()),
            shares: [const { AtomicU32::new(0) }; 2],
            slots: [const { AtomicU32::new(NONE) }; 2],
        }
    }
}

impl StoredBlend {
    #[inline]
    pub(super) fn get(&self) -> Option<Blend> {
        // Written last and read first, so that the other fields are visible.
        let own = f32::from_bits(self.own.load(Ordering::Acquire));
        let before = |at: usize| {
            (f32::from_bits(self.shares[at].load(Ordering::Relaxed)), self.slots[at].load(Ordering::Relaxed))
        };
        (!own.is_nan()).then(|| Blend { own, before: [before(0), before(1)] })
    }

    pub(super) fn set(&self, blend: &Blend) {
        for (at, (share, slot)) in blend.before.iter().enumerate() {
            self.shares[at].store(share.to_bits(), Ordering::Relaxed);
            self.slots[at].store(*slot, Ordering::Relaxed);
        }
        self.own.store(blend.own.to_bits(), Ordering::Release);
    }

    pub(super) fn forget(&mut self) {
        *self.own.get_mut() = f32::NAN.to_bits();
    }

    pub(super) fn rename(&mut self, rename: impl Fn(u32) -> u32) {
        for slot in &mut self.slots {
            *slot.get_mut() = rename(*slot.get_mut());
        }
    }
}
