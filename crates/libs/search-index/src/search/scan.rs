//! Scan of all vectors by their first four bits per number. Large scans are distributed among threads, because a single
//! core would dominate the latency of a semantic search: each idle thread takes the next run of blocks. The search
//! itself never waits for a thread that has not started, and can do other work first.
//!
//! The searching thread holds the index's read lock until no helper is active, so all of them see one state.

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

/// Number of vectors processed together; one word of a bitmap.
const BLOCK: usize = 64;
/// Minimum number of blocks per thread; with fewer, a thread costs more than it gains.
const MIN_BLOCKS_PER_THREAD: usize = 400;
/// Number of blocks taken at once: about 50 µs of work.
const BLOCKS_PER_RUN: usize = 64;
/// Maximum number of threads; more are limited by the memory bus.
const MAX_THREADS: usize = 4;

/// Returns the number of threads for a number of blocks.
fn threads_for(blocks: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (blocks / MIN_BLOCKS_PER_THREAD).clamp(1, MAX_THREADS.min(cores))
}

/// Returns which entries of a block are selected, and the first of their slots if all are consecutive, as is usual.
fn selected_entries(slots: &[u32], context: &Bitmap) -> (u64, Option<u32>) {
    let first = slots[0];
    // Free of branches, so that the comparison is vectorized.
    let in_a_row =
        slots.iter().zip(0_u32..).fold(true, |all, (slot, index)| all & (*slot == first.wrapping_add(index)));
    if in_a_row && first != NONE {
        let there = u64::MAX >> (BLOCK - slots.len());
        return (context.bits_from(first) & there, Some(first));
    }
    let wanted = slots
        .iter()
        .enumerate()
        .fold(0, |bits, (index, slot)| bits | u64::from(*slot != NONE && context.contains(*slot)) << index);
    (wanted, None)
}

/// Query and selection of a scan.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) kernel: Kernel,
    pub(crate) query: Arc<Query>,
    /// Documents whose vectors are compared.
    pub(crate) context: Arc<Bitmap>,
}

/// Running scan. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Scan(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    wanted: Selection,
    /// Total number of blocks of all parts.
    blocks: usize,
    run: usize,
    slots: usize,
    /// First block that is not taken.
    next: AtomicUsize,
    helping: Mutex<Helping>,
    /// Signalled when a helper has finished.
    finished: Condvar,
}

#[derive(Debug, Default)]
struct Helping {
    is_closed: bool,
    at_work: usize,
    /// A helper panicked.
    has_failed: bool,
    /// Spare buffers for helpers, and their results.
    spare: Vec<Vec<f32>>,
    found: Vec<Vec<f32>>,
}

impl Scan {
    /// Starts a scan on other threads. `state` is protected by `lock`, which is held until the scan is over; `spare`
    /// contains buffers of earlier scans.
    pub(crate) fn begin(lock: &Arc<RwLock<State>>, state: &State, wanted: Selection, spare: Vec<Vec<f32>>) -> Self {
        let threads = threads_for(state.vector_blocks());
        Self::begin_with((threads, BLOCKS_PER_RUN), lock, state, wanted, spare)
    }

    /// Like [`Self::begin`], with a given number of threads and blocks taken at once.
    pub(crate) fn begin_with(
        (threads, run): (usize, usize),
        lock: &Arc<RwLock<State>>,
        state: &State,
        wanted: Selection,
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

    /// Writes the cosine of each document of the context with vectors: that of its best vector. Returns unused buffers.
    pub(crate) fn finish(self, state: &State, cosine: &mut [f32]) -> Vec<Vec<f32>> {
        if let Some(first) = self.0.take() {
            self.0.work(first, state, cosine);
        }
        self.0.close();
        let mut helping = self.0.helping.lock();
        if helping.has_failed {
            // The blocks of a panicked helper are missing.
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
    /// Runs on a helper thread.
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
        // Ensures that the helper is not waited for after it ends.
        let at_work = HelperGuard(self);
        // The searching thread holds the lock too and waits for this helper; a waiting writer must not come in between.
        let state = lock.read_recursive();
        self.work(first, &state, &mut own);
        drop(state);
        self.helping.lock().found.push(own);
        drop(at_work);
    }

    /// Registers a helper, if there is work left.
    fn enter(&self) -> Option<usize> {
        let mut helping = self.helping.lock();
        if helping.is_closed {
            return None;
        }
        let first = self.take()?;
        helping.at_work += 1;
        Some(first)
    }

    /// Returns the first of the next blocks to process.
    fn take(&self) -> Option<usize> {
        let first = self.next.fetch_add(self.run, Ordering::Relaxed);
        (first < self.blocks).then_some(first)
    }

    /// Processes blocks, and takes more while there are any.
    fn work(&self, first: usize, state: &State, cosine: &mut [f32]) {
        let mut taken = Some(first);
        while let Some(first) = taken {
            state.scan_share(first..(first + self.run).min(self.blocks), &self.wanted, cosine);
            taken = self.take();
        }
    }

    /// Rejects new helpers and waits for active ones.
    fn close(&self) {
        self.next.fetch_max(self.blocks, Ordering::Relaxed);
        let mut helping = self.helping.lock();
        helping.is_closed = true;
        while helping.at_work > 0 {
            self.finished.wait(&mut helping);
        }
    }
}

struct HelperGuard<'a>(&'a Shared);

impl Drop for HelperGuard<'_> {
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

    /// Processes a range of the blocks of all parts.
    fn scan_share(&self, share: Range<usize>, wanted: &Selection, cosine: &mut [f32]) {
        let Selection { kernel, query, context } = wanted;
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
                let (wanted, in_a_row) = selected_entries(slots, context);
                // A few selected vectors are processed individually; many are processed together with the others.
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
                    let index = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    if !many {
                        let one = &codes[index * width..(index + 1) * width];
                        query.coarse_dots(*kernel, one, &mut dots[index..=index]);
                    }
                    let found = dots[index] * scales[index];
                    let best = &mut cosine[slots[index] as usize];
                    *best = best.max(found);
                }
            }
        }
    }

    /// Returns the greatest scale of the document's vectors; 0 without one.
    pub(crate) fn greatest_scale(&self, slot: u32) -> f32 {
        let range = self.documents.vectors(slot);
        let Some(held) = self.vector_part(range.part) else { return 0.0 };
        let entries = range.start as usize..(range.start + range.count) as usize;
        entries.fold(0.0, |greatest: f32, entry| greatest.max(held.part.scale(entry)))
    }

    /// Prefetches the first bytes of a document's vectors; the first vector if it has many.
    pub(crate) fn fetch_codes(&self, slot: u32) {
        let range = self.documents.vectors(slot);
        if let Some(held) = self.vector_part(range.part).filter(|_| range.count > 0) {
            held.part.fetch_codes(range.start as usize);
        }
    }

    /// Returns the cosine with whole first bytes; minus infinity without a vector.
    pub(crate) fn near_cosine(&self, slot: u32, kernel: Kernel, query: &Query) -> f32 {
        let range = self.documents.vectors(slot);
        let mut best = f32::NEG_INFINITY;
        let Some(held) = self.vector_part(range.part) else { return best };
        let mut codes = Vec::with_capacity(query.dimensions() + 1);
        for entry in range.start as usize..(range.start + range.count) as usize {
            held.part.read_codes(entry, &mut codes);
            best = best.max(query.near_dot(kernel, &codes, held.part.scale(entry)));
        }
        best
    }

    /// Returns the cosine with all 16 bits; minus infinity without a vector.
    pub(crate) fn exact_cosine(&self, slot: u32, kernel: Kernel, query: &Query) -> Result<f32, IndexError> {
        let range = self.documents.vectors(slot);
        let mut best = f32::NEG_INFINITY;
        let Some(held) = self.vector_part(range.part) else { return Ok(best) };
        let mut codes = Vec::with_capacity(query.dimensions() + 1);
        let mut fine = Vec::with_capacity(query.dimensions());
        for entry in range.start as usize..(range.start + range.count) as usize {
            held.part.read_codes(entry, &mut codes);
            fine.clear();
            held.part.read_fine(entry, &mut fine)?;
            best = best.max(query.exact_dot(kernel, &codes, &fine, held.part.scale(entry)));
        }
        Ok(best)
    }
}
