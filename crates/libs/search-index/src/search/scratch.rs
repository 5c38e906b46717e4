//! Room to count in: arrays of one number a slot, kept between searches because getting such memory anew costs more
//! than using it.

use std::ops::Range;

use parking_lot::Mutex;

use crate::bitmap::Bitmap;
use crate::text::Posting;

/// How many are kept: more searches than this at once allocate their own.
const KEPT: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Keyword score of each slot.
    pub(crate) keyword: Vec<f32>,
    /// Cosine of each slot's best vector.
    pub(crate) cosine: Vec<f32>,
    /// The same for the share of each further thread.
    pub(crate) shares: Vec<Vec<f32>>,
    slots: usize,
    /// Slots that hold one of the terms themselves.
    pub(crate) holds_term: Bitmap,
    /// One term's weight in each slot; zero but while a term is being scored.
    pub(crate) term: Vec<f32>,
    /// Where `term` is not zero.
    pub(crate) touched: Vec<Range<u32>>,
    pub(crate) postings: Vec<Posting>,
}

impl Scratch {
    /// Before anything else.
    pub(crate) fn begin(&mut self, slots: usize) {
        self.slots = slots;
        self.keyword.clear();
        self.cosine.clear();
        self.holds_term = Bitmap::default();
    }

    /// Before words are scored.
    pub(crate) fn begin_words(&mut self) {
        let slots = self.slots;
        self.keyword.resize(slots, 0.0);
        self.term.clear();
        self.term.resize(slots, 0.0);
        self.touched.clear();
        self.holds_term = Bitmap::with_len(slots);
    }

    /// Before vectors are scanned.
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
        if idle.len() < KEPT {
            idle.push(scratch);
        }
        result
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.idle.lock().iter().map(Scratch::memory_bytes).sum()
    }
}
