//! The exact scan of all vectors.

use crate::bitmap::Bitmap;
use crate::documents::NONE;
use crate::error::IndexError;
use crate::state::State;
use crate::vectors::dot::Kernel;
use crate::vectors::quantize::Query;

/// Vectors that are looked at together.
const BLOCK: usize = 64;

impl State {
    /// Writes the cosine of each document of `context` that has vectors: the best of its vectors.
    pub(crate) fn scan(&self, kernel: Kernel, query: &Query, context: &Bitmap, cosine: &mut [f32]) {
        let dimensions = query.numbers.len();
        let mut dots = [0_i32; BLOCK];
        for held in &self.vectors {
            let blocks = held.part.codes().chunks(BLOCK * dimensions);
            for ((codes, scales), slots) in blocks.zip(held.part.scales().chunks(BLOCK)).zip(held.slots.chunks(BLOCK)) {
                let wanted = |slot: u32| slot != NONE && context.contains(slot);
                let count = slots.iter().filter(|slot| wanted(**slot)).count();
                // Of few, each by itself; of many, all at once, the others in vain.
                if count * 4 >= BLOCK {
                    kernel.dots(codes, &query.numbers, &mut dots);
                }
                for (place, (slot, scale)) in slots.iter().zip(scales).enumerate() {
                    if count == 0 || !wanted(*slot) {
                        continue;
                    }
                    if count * 4 < BLOCK {
                        dots[place] = kernel.dot(&codes[place * dimensions..(place + 1) * dimensions], &query.numbers);
                    }
                    let found = dots[place] as f32 * scale * query.scale;
                    let best = &mut cosine[*slot as usize];
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
