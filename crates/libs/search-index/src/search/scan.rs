//! The scan of all vectors, by their first four bits a number. Many are shared among cores, because one core alone is
//! what a search by meaning would wait for: whoever has time takes the next run of blocks. So nobody waits for a thread
//! that has not begun yet, and the search itself can do something else first.
//!
//! Whoever asked holds the index's lock for reading until no helper is at work, so all of them see one state.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex, RwLock};

use super::pool;
use crate::bitmap::Bitmap;
use crate::documents::NONE;
use crate::error::IndexError;
use crate::state::State;
use crate::vectors::dot::Kernel;
use crate::vectors::quantize::Query;

/// Vectors that are looked at together; a word of a bitmap.
const BLOCK: usize = 64;
/// Below this a thread costs more than it brings.
const BLOCKS_A_THREAD: usize = 400;
/// Blocks that are taken at once: some 50 µs of work.
const RUN: usize = 64;
/// More share the same memory bus in vain, and leave nothing to others.
const MOST_THREADS: usize = 4;

/// Over how many threads so many blocks are spread.
fn threads_for(blocks: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (blocks / BLOCKS_A_THREAD).clamp(1, MOST_THREADS.min(cores))
}

/// Which entries of a block are wanted, and the first of their slots if all of them stand in a row, as they mostly do.
fn wanted_of(slots: &[u32], context: &Bitmap) -> (u64, Option<u32>) {
    let first = slots[0];
    // No branch in it, so that many are compared at once.
    let in_a_row =
        slots.iter().zip(0_u32..).fold(true, |all, (slot, place)| all & (*slot == first.wrapping_add(place)));
    if in_a_row && first != NONE {
        let there = u64::MAX >> (BLOCK - slots.len());
        return (context.bits_from(first) & there, Some(first));
    }
    let wanted = slots
        .iter()
        .enumerate()
        .fold(0, |bits, (place, slot)| bits | u64::from(*slot != NONE && context.contains(*slot)) << place);
    (wanted, None)
}

/// What is looked for, and where.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) kernel: Kernel,
    pub(crate) query: Arc<Query>,
    /// The documents whose vectors count.
    pub(crate) context: Arc<Bitmap>,
}

/// A scan that has begun. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Scan(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    wanted: Wanted,
    /// Of all parts together.
    blocks: usize,
    run: usize,
    slots: usize,
    /// The first block that nobody has taken.
    next: AtomicUsize,
    helping: Mutex<Helping>,
    /// One of them has finished.
    finished: Condvar,
}

#[derive(Debug, Default)]
struct Helping {
    is_closed: bool,
    at_work: usize,
    /// One of them panicked.
    has_failed: bool,
    /// Room for what helpers find, and what they found.
    spare: Vec<Vec<f32>>,
    found: Vec<Vec<f32>>,
}

impl Scan {
    /// Lets other threads begin. `state` is what `lock` holds, and stays held until the scan is over; `spare` is room
    /// that earlier scans gave back.
    pub(crate) fn begin(lock: &Arc<RwLock<State>>, state: &State, wanted: Wanted, spare: Vec<Vec<f32>>) -> Self {
        let threads = threads_for(state.vector_blocks());
        Self::begin_with((threads, RUN), lock, state, wanted, spare)
    }

    /// [`Self::begin`] with so many threads, which take so many blocks at once.
    pub(crate) fn begin_with(
        (threads, run): (usize, usize),
        lock: &Arc<RwLock<State>>,
        state: &State,
        wanted: Wanted,
        spare: Vec<Vec<f32>>,
    ) -> Self {
        let shared = Arc::new(Shared {
            wanted,
            blocks: state.vector_blocks(),
            run,
            slots: state.documents.slot_count() as usize,
            next: AtomicUsize::new(0),
            helping: Mutex::new(Helping { spare, ..Helping::default() }),
            finished: Condvar::new(),
        });
        for _ in 1..threads {
            let (lock, shared) = (Arc::clone(lock), Arc::clone(&shared));
            pool::spawn(move || shared.help(&lock));
        }
        Self(shared)
    }

    /// Writes the cosine of each document of the context that has vectors: the best of its vectors. Answers the room
    /// that is not needed any more.
    pub(crate) fn finish(self, state: &State, cosine: &mut [f32]) -> Vec<Vec<f32>> {
        if let Some(first) = self.0.take() {
            self.0.work(first, state, cosine);
        }
        self.0.close();
        let mut helping = self.0.helping.lock();
        if helping.has_failed {
            // What it took is missing.
            state.scan_share(0..self.0.blocks, &self.0.wanted, cosine);
        }
        let mut spare = std::mem::take(&mut helping.spare);
        for own in helping.found.drain(..) {
            for (best, found) in cosine.iter_mut().zip(&own) {
                *best = if *found > *best { *found } else { *best };
            }
            spare.push(own);
        }
        spare
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Shared {
    /// What another thread does.
    fn help(&self, lock: &RwLock<State>) {
        if self.next.load(Ordering::Relaxed) >= self.blocks {
            return;
        }
        let mut own = self.helping.lock().spare.pop().unwrap_or_default();
        own.clear();
        own.resize(self.slots, f32::NEG_INFINITY);
        let Some(first) = self.enter() else {
            self.helping.lock().spare.push(own);
            return;
        };
        // However it ends, it is not waited for any longer.
        let at_work = AtWork(self);
        // Whoever asked holds the lock too, and waits for us; a writer that waits for both must not come between.
        let state = lock.read_recursive();
        self.work(first, &state, &mut own);
        drop(state);
        self.helping.lock().found.push(own);
        drop(at_work);
    }

    /// Becomes one that is waited for, with something to do.
    fn enter(&self) -> Option<usize> {
        let mut helping = self.helping.lock();
        if helping.is_closed {
            return None;
        }
        let first = self.take()?;
        helping.at_work += 1;
        Some(first)
    }

    /// The first of the blocks that are to be done next.
    fn take(&self) -> Option<usize> {
        let first = self.next.fetch_add(self.run, Ordering::Relaxed);
        (first < self.blocks).then_some(first)
    }

    /// Does blocks, and takes more while there are any.
    fn work(&self, first: usize, state: &State, cosine: &mut [f32]) {
        let mut taken = Some(first);
        while let Some(first) = taken {
            state.scan_share(first..(first + self.run).min(self.blocks), &self.wanted, cosine);
            taken = self.take();
        }
    }

    /// Lets nobody in any more, and waits for those who are.
    fn close(&self) {
        self.next.fetch_max(self.blocks, Ordering::Relaxed);
        let mut helping = self.helping.lock();
        helping.is_closed = true;
        while helping.at_work > 0 {
            self.finished.wait(&mut helping);
        }
    }
}

struct AtWork<'a>(&'a Shared);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut helping = self.0.helping.lock();
        helping.at_work -= 1;
        helping.has_failed |= std::thread::panicking();
        drop(helping);
        self.0.finished.notify_all();
    }
}

impl State {
    fn vector_blocks(&self) -> usize {
        self.vectors.iter().map(|held| held.slots.len().div_ceil(BLOCK)).sum()
    }

    /// Some of the blocks, counted through all parts.
    fn scan_share(&self, share: Range<usize>, wanted: &Wanted, cosine: &mut [f32]) {
        let Wanted { kernel, query, context } = wanted;
        let width = query.packed_bytes();
        let mut dots = [0.0; BLOCK];
        let mut before = 0;
        for held in &self.vectors {
            let blocks_here = held.slots.len().div_ceil(BLOCK);
            let first = share.start.saturating_sub(before).min(blocks_here);
            let count = share.end.saturating_sub(before).min(blocks_here) - first;
            before += blocks_here;
            let blocks = held.part.upper().chunks(BLOCK * width);
            let blocks = blocks.zip(held.part.scales().chunks(BLOCK)).zip(held.slots.chunks(BLOCK));
            for ((codes, scales), slots) in blocks.skip(first).take(count) {
                let (wanted, in_a_row) = wanted_of(slots, context);
                // Of few, each by itself; of many, all at once, the others in vain.
                let many = wanted.count_ones() as usize * 4 >= BLOCK;
                if many {
                    query.coarse_dots(*kernel, codes, &mut dots);
                }
                if many
                    && let Some(first) = in_a_row
                    && wanted.count_ones() as usize == slots.len()
                    && let Some(best) = cosine.get_mut(first as usize..first as usize + slots.len())
                {
                    for ((best, dot), scale) in best.iter_mut().zip(&dots).zip(scales) {
                        let found = dot * scale;
                        *best = if found > *best { found } else { *best };
                    }
                    continue;
                }
                let mut rest = wanted;
                while rest != 0 {
                    let place = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    if !many {
                        let one = &codes[place * width..(place + 1) * width];
                        query.coarse_dots(*kernel, one, &mut dots[place..=place]);
                    }
                    let found = dots[place] * scales[place];
                    let best = &mut cosine[slots[place] as usize];
                    *best = best.max(found);
                }
            }
        }
    }

    /// Of the document's vectors; 0 without one.
    pub(crate) fn greatest_scale(&self, slot: u32) -> f32 {
        let place = self.documents.vectors(slot);
        let Some(held) = self.vector_part(place.part) else { return 0.0 };
        let entries = place.start as usize..(place.start + place.count) as usize;
        entries.fold(0.0, |greatest: f32, entry| greatest.max(held.part.scale(entry)))
    }

    /// Has the processor fetch the first bytes of a document's vectors; the first of them will do where it has many.
    pub(crate) fn fetch_codes(&self, slot: u32) {
        let place = self.documents.vectors(slot);
        if let Some(held) = self.vector_part(place.part).filter(|_| place.count > 0) {
            held.part.fetch_codes(place.start as usize);
        }
    }

    /// The cosine with whole first bytes; minus infinity without a vector.
    pub(crate) fn near_cosine(&self, slot: u32, kernel: Kernel, query: &Query) -> f32 {
        let place = self.documents.vectors(slot);
        let mut best = f32::NEG_INFINITY;
        let Some(held) = self.vector_part(place.part) else { return best };
        let mut codes = Vec::with_capacity(query.dimensions() + 1);
        for entry in place.start as usize..(place.start + place.count) as usize {
            held.part.read_codes(entry, &mut codes);
            best = best.max(query.near_dot(kernel, &codes, held.part.scale(entry)));
        }
        best
    }

    /// The cosine with all 16 bits; minus infinity without a vector.
    pub(crate) fn exact_cosine(&self, slot: u32, kernel: Kernel, query: &Query) -> Result<f32, IndexError> {
        let place = self.documents.vectors(slot);
        let mut best = f32::NEG_INFINITY;
        let Some(held) = self.vector_part(place.part) else { return Ok(best) };
        let mut codes = Vec::with_capacity(query.dimensions() + 1);
        let mut fine = Vec::with_capacity(query.dimensions());
        for entry in place.start as usize..(place.start + place.count) as usize {
            held.part.read_codes(entry, &mut codes);
            fine.clear();
            held.part.read_fine(entry, &mut fine)?;
            best = best.max(query.exact_dot(kernel, &codes, &fine, held.part.scale(entry)));
        }
        Ok(best)
    }
}
