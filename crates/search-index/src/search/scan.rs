//! The exact scan of all vectors.

use crate::bitmap::Bitmap;
use crate::documents::NONE;
use crate::state::State;
use crate::vectors::dot::Kernel;
use crate::vectors::quantize::{Query, exact_dot};

impl State {
    /// Writes the cosine of each document of `context` that has vectors: the best of its vectors.
    pub(crate) fn scan(&self, kernel: Kernel, query: &Query, context: &Bitmap, cosine: &mut [f32]) {
        let dimensions = query.numbers.len();
        for held in &self.vectors {
            let entries = held.part.codes().chunks_exact(dimensions).zip(held.part.scales()).zip(&held.slots);
            for ((codes, scale), slot) in entries {
                if *slot == NONE || !context.contains(*slot) {
                    continue;
                }
                let dot = kernel.dot(codes, &query.numbers) as f32 * scale * query.scale;
                let best = &mut cosine[*slot as usize];
                *best = best.max(dot);
            }
        }
    }

    /// The cosine with all 16 bits; minus infinity without a vector.
    pub(crate) fn exact_cosine(&self, slot: u32, query: &Query) -> f32 {
        let place = self.documents.vectors(slot);
        let Some(held) = self.vector_part(place.part) else { return f32::NEG_INFINITY };
        (place.start as usize..(place.start + place.count) as usize)
            .map(|entry| {
                exact_dot(held.part.codes_of(entry), held.part.fine_of(entry), held.part.scale(entry), &query.exact)
            })
            .fold(f32::NEG_INFINITY, f32::max)
    }
}
