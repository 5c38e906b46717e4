//! The exact scan of all vectors.

use crate::bitmap::Bitmap;
use crate::documents::NONE;
use crate::error::IndexError;
use crate::state::State;
use crate::vectors::dot::Kernel;
use crate::vectors::quantize::Query;

/// Vectors that are looked at together; a word of a bitmap.
const BLOCK: usize = 64;

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
    pub(crate) fn scan(&self, kernel: Kernel, query: &Query, context: &Bitmap, cosine: &mut [f32]) {
        let dimensions = query.numbers.len();
        let mut dots = [0_i32; BLOCK];
        for held in &self.vectors {
            let blocks = held.part.codes().chunks(BLOCK * dimensions);
            for ((codes, scales), slots) in blocks.zip(held.part.scales().chunks(BLOCK)).zip(held.slots.chunks(BLOCK)) {
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
