//! Vector of a document in its talk: its own, half of the preceding one and a third of the one before that, normalized.
//! It is not stored: its cosine follows from the cosines of the three, and its length, which does not depend on the
//! query, is cached until a neighbour changes. A document with several vectors is long enough to be understood on its
//! own, and does not take part.

use super::weights::Weights;
use crate::documents::{Blend, NONE};
use crate::state::State;
use crate::vectors::dot::Kernel;

impl State {
    /// Returns the cosine of the blend. `cosine` returns that of a single document; both are minus infinity without a
    /// vector.
    pub(crate) fn blended<E>(
        &self,
        slot: u32,
        weights: &Weights,
        kernel: Kernel,
        cosine: impl Fn(u32) -> Result<f32, E>,
    ) -> Result<f32, E> {
        let blend = self.blend(slot, weights, kernel);
        let mut sum = blend.own * cosine(slot)?;
        for (share, before) in blend.before {
            if share != 0.0 {
                sum += share * cosine(before)?;
            }
        }
        Ok(sum)
    }

    /// Returns the maximum difference of [`Self::blended`] with and without second bytes; `fineness` is that of the
    /// query.
    pub(crate) fn blended_reach(&self, slot: u32, weights: &Weights, kernel: Kernel, fineness: f32) -> f32 {
        let blend = self.blend(slot, weights, kernel);
        let before = blend.before.iter().filter(|(share, _)| *share != 0.0);
        let others: f32 = before.map(|(share, slot)| share.abs() * self.greatest_scale(*slot)).sum();
        (blend.own.abs() * self.greatest_scale(slot) + others) * fineness
    }

    /// Prefetches the data that [`Self::blended`] reads for whole first bytes.
    pub(crate) fn fetch_blended(&self, slot: u32, weights: &Weights, kernel: Kernel) {
        self.fetch_codes(slot);
        let before = self.blend(slot, weights, kernel).before;
        before.iter().filter(|(share, _)| *share != 0.0).for_each(|(_, slot)| self.fetch_codes(*slot));
    }

    /// Computes [`Self::blended`] from the cosines of the scan: without branches, for every document.
    #[inline]
    pub(crate) fn blended_of(&self, slot: u32, weights: &Weights, kernel: Kernel, cosine: &[f32]) -> f32 {
        let own = cosine[slot as usize];
        if own == f32::NEG_INFINITY {
            return own;
        }
        let Blend { own: share, before: [(first, one), (second, two)] } = self.blend(slot, weights, kernel);
        share * own + first * cosine[one as usize] + second * cosine[two as usize]
    }

    #[inline]
    pub(crate) fn blend(&self, slot: u32, weights: &Weights, kernel: Kernel) -> Blend {
        self.documents.blend(slot).unwrap_or_else(|| self.find_blend(slot, weights, kernel))
    }

    #[cold]
    fn find_blend(&self, slot: u32, weights: &Weights, kernel: Kernel) -> Blend {
        let documents = &self.documents;
        let mut blend = Blend::alone(slot);
        let mut before = documents.previous(slot);
        if before != NONE && documents.has_single_vector(slot) {
            for (share, place) in weights.before.into_iter().zip(&mut blend.before) {
                if documents.has_single_vector(before) {
                    *place = (share, before);
                }
                before = documents.previous(before);
                if before == NONE {
                    break;
                }
            }
            let length = self.blend_length(slot, &blend, kernel);
            blend.own /= length;
            blend.before.iter_mut().for_each(|(share, _)| *share /= length);
        }
        documents.set_blend(slot, &blend);
        blend
    }

    /// Returns the length of the sum of the vectors.
    fn blend_length(&self, slot: u32, blend: &Blend, kernel: Kernel) -> f32 {
        let mut members = vec![(slot, blend.own)];
        members.extend(blend.before.iter().filter(|(share, _)| *share != 0.0).map(|(share, slot)| (*slot, *share)));
        let mut square = 0.0;
        for (index, (a, weight_a)) in members.iter().enumerate() {
            square += weight_a * weight_a;
            for (b, weight_b) in &members[index + 1..] {
                square += 2.0 * weight_a * weight_b * self.similarity(*a, *b, kernel);
            }
        }
        // Opposite vectors could cancel each other; avoids a division by almost zero.
        square.max(0.01).sqrt()
    }

    /// Returns the cosine of the first vectors of two documents, with 8 bits per number.
    fn similarity(&self, a: u32, b: u32, kernel: Kernel) -> f32 {
        let (first, second) = (self.documents.vectors(a), self.documents.vectors(b));
        let (Some(of_first), Some(of_second)) = (self.vector_part(first.part), self.vector_part(second.part)) else {
            return 0.0;
        };
        let (first, second) = (first.start as usize, second.start as usize);
        let mut codes = Vec::new();
        of_second.part.read_codes(second, &mut codes);
        let numbers: Vec<i16> = codes.iter().map(|code| i16::from(code.cast_signed())).collect();
        of_first.part.read_codes(first, &mut codes);
        let dot = kernel.dot(&codes, &numbers);
        dot as f32 * of_first.part.scale(first) * of_second.part.scale(second)
    }
}
