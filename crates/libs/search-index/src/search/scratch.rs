//! Scratch buffers with one number per slot, retained between searches because allocating such memory costs more than
//! using it.

use std::ops::Range;

use parking_lot::Mutex;

use crate::bitmap::Bitmap;
use crate::text::Posting;

/// Maximum number of retained buffers: further concurrent searches allocate their own.
const MAX_RETAINED: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Keyword score of each slot.
    pub(crate) keyword: Vec<f32>,
    /// Cosine of each slot's best vector.
    pub(crate) cosine: Vec<f32>,
    /// Cosines of the shares of further threads.
    pub(crate) shares: Vec<Vec<f32>>,
    slots: usize,
    /// Slots that contain one of the terms themselves.
    pub(crate) holds_term: Bitmap,
    /// Weight of one term in each slot; zero unless a term is being scored.
    pub(crate) term: Vec<f32>,
    /// Ranges where `term` is not zero.
    pub(crate) touched: Vec<Range<u32>>,
    pub(crate) postings: Vec<Posting>,
}

impl Scratch {
    /// Called first.
    pub(crate) fn begin(&mut self, slots: usize) {
        self.slots = slots;
        self.keyword.clear();
        self.cosine.clear();
        self.holds_term = Bitmap::default();
    }

    /// Called before keyword scoring.
    pub(crate) fn begin_words(&mut self) {
        let slots = self.slots;
        self.keyword.resize(slots, 0.0);
        self.term.clear();
        self.term.resize(slots, 0.0);
        self.touched.clear();
        self.holds_term = Bitmap::with_len(slots);
    }

    /// Called before the vector scan.
    pub(crate) fn begin_meaning(&mut self) {
        self.cosine.resize(self.slots, f32::NEG_INFINITY);
    }

    fn memory_bytes(&self) -> usize {
        let shares: usize = self.shares.iter().map(Vec::capacity).sum();
        (self.keyword.capacity() + self.cosine.capacity() + self.term.capacity() + shares) * 4
            + self.touched.capacity() * size_of::<Range<u32>>()
            + self.postings.capacity() * size_of::<Posting>()
            + self.holds_term.memory_bytes()
    }
}

#[derive(Debug, Default)]
pub(crate) struct ScratchPool {
    idle: Mutex<Vec<Scratch>>,
}

impl ScratchPool {
    pub(crate) fn with<R>(&self, run: impl FnOnce(&mut Scratch) -> R) -> R {
        let mut scratch = self.idle.lock().pop().unwrap_or_default();
        let result = run(&mut scratch);
        let mut idle = self.idle.lock();
        if idle.len() < MAX_RETAINED {
            idle.push(scratch);
        }
        result
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.idle.lock().iter().map(Scratch::memory_bytes).sum()
    }
}
