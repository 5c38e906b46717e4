//! The exact scan of all vectors. Of many vectors each core takes a share, because one core alone is what
//! a search by meaning would wait for.

use std::ops::Range;

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

impl State {
    /// Writes the cosine of each document of `context` that has vectors: the best of its vectors.
    /// `spare` is room for the other threads.
    pub(crate) fn scan(
        &self,
        kernel: Kernel,
        query: &Query,
        context: &Bitmap,
        cosine: &mut [f32],
        spare: &mut Vec<Vec<f32>>,
    ) {
        self.scan_over(threads_for(self.vector_blocks()), kernel, query, context, cosine, spare);
    }

    fn vector_blocks(&self) -> usize {
        self.vectors.iter().map(|held| held.slots.len().div_ceil(BLOCK)).sum()
    }

    /// [`Self::scan`] over so many threads.
    pub(crate) fn scan_over(
        &self,
        threads: usize,
        kernel: Kernel,
        query: &Query,
        context: &Bitmap,
        cosine: &mut [f32],
        spare: &mut Vec<Vec<f32>>,
    ) {
        let share = self.vector_blocks().div_ceil(threads.max(1));
        spare.resize_with(threads.saturating_sub(1), Vec::new);
        std::thread::scope(|scope| {
            for (number, own) in spare.iter_mut().enumerate() {
                own.clear();
                own.resize(cosine.len(), f32::NEG_INFINITY);
                let shared = share * (number + 1)..share * (number + 2);
                let taken = shared.clone();
                let work = move || self.scan_share(taken, kernel, query, context, own);
                if std::thread::Builder::new().name("vectors".to_owned()).spawn_scoped(scope, work).is_err() {
                    // There is no thread left in the system; slower is better than not at all.
                    self.scan_share(shared, kernel, query, context, cosine);
                }
            }
            self.scan_share(0..share, kernel, query, context, cosine);
        });
        for own in spare.iter() {
            for (best, found) in cosine.iter_mut().zip(own) {
                *best = if *found > *best { *found } else { *best };
            }
        }
    }

    /// [`Self::scan`] of some of the blocks, counted through all parts.
    fn scan_share(&self, share: Range<usize>, kernel: Kernel, query: &Query, context: &Bitmap, cosine: &mut [f32]) {
        let dimensions = query.numbers.len();
        let mut dots = [0_i32; BLOCK];
        let mut before = 0;
        for held in &self.vectors {
            let blocks_here = held.slots.len().div_ceil(BLOCK);
            let first = share.start.saturating_sub(before).min(blocks_here);
            let count = share.end.saturating_sub(before).min(blocks_here) - first;
            before += blocks_here;
            let blocks = held.part.codes().chunks(BLOCK * dimensions);
            let blocks = blocks.zip(held.part.scales().chunks(BLOCK)).zip(held.slots.chunks(BLOCK));
            for ((codes, scales), slots) in blocks.skip(first).take(count) {
                let (wanted, in_a_row) = wanted_of(slots, context);
                // Of few, each by itself; of many, all at once, the others in vain.
                let many = wanted.count_ones() as usize * 4 >= BLOCK;
                if many {
                    kernel.dots(codes, &query.numbers, &mut dots);
                }
                if many
                    && let Some(first) = in_a_row
                    && wanted.count_ones() as usize == slots.len()
                    && let Some(best) = cosine.get_mut(first as usize..first as usize + slots.len())
                {
                    for ((best, dot), scale) in best.iter_mut().zip(&dots).zip(scales) {
                        let found = *dot as f32 * scale * query.scale;
                        *best = if found > *best { found } else { *best };
                    }
                    continue;
                }
                let mut rest = wanted;
                while rest != 0 {
                    let place = rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    if !many {
                        dots[place] = kernel.dot(&codes[place * dimensions..(place + 1) * dimensions], &query.numbers);
                    }
                    let found = dots[place] as f32 * scales[place] * query.scale;
                    let best = &mut cosine[slots[place] as usize];
                    *best = best.max(found);
                }
            }
        }
    }

    /// The cosine with all 16 bits; minus infinity without a vector.
    pub(crate) fn exact_cosine(&self, slot: u32, kernel: Kernel, query: &Query) -> Result<f32, IndexError> {
        let place = self.documents.vectors(slot);
        let mut best = f32::NEG_INFINITY;
        let Some(held) = self.vector_part(place.part) else { return Ok(best) };
        let mut fine = Vec::with_capacity(query.numbers.len());
        for entry in place.start as usize..(place.start + place.count) as usize {
            fine.clear();
            held.part.read_fine(entry, &mut fine)?;
            best = best.max(query.exact_dot(kernel, held.part.codes_of(entry), &fine, held.part.scale(entry)));
        }
        Ok(best)
    }
}
