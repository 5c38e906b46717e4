//! The vector of a document in its talk: its own, half of the one before it and a third of the one before that,
//! brought to length 1. It is not stored: its cosine follows from the cosines of the three, and its length, which no
//! query changes, is remembered until a neighbour changes. A document of several vectors is long enough to be
//! understood by itself, and neither takes part nor gives.

use super::weights::Weights;
use crate::documents::{Blend, NONE};
use crate::state::State;
use crate::vectors::dot::Kernel;

impl State {
    /// The cosine of the blend; `cosine` gives that of a document by itself, minus infinity without a vector, and so
    /// does this.
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

    /// By how much [`Self::blended`] of cosines with and without second bytes can differ; `fineness` is the query's.
    pub(crate) fn blended_reach(&self, slot: u32, weights: &Weights, kernel: Kernel, fineness: f32) -> f32 {
        let blend = self.blend(slot, weights, kernel);
        let before = blend.before.iter().filter(|(share, _)| *share != 0.0);
        let others: f32 = before.map(|(share, slot)| share.abs() * self.greatest_scale(*slot)).sum();
        (blend.own.abs() * self.greatest_scale(slot) + others) * fineness
    }

    /// Has the processor fetch what [`Self::blended`] of whole first bytes reads.
    pub(crate) fn fetch_blended(&self, slot: u32, weights: &Weights, kernel: Kernel) {
        self.fetch_codes(slot);
        let before = self.blend(slot, weights, kernel).before;
        before.iter().filter(|(share, _)| *share != 0.0).for_each(|(_, slot)| self.fetch_codes(*slot));
    }

    /// [`Self::blended`] out of the cosines that the scan found: without a branch, for every document.
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

    /// The length of the sum of the vectors.
    fn blend_length(&self, slot: u32, blend: &Blend, kernel: Kernel) -> f32 {
        let mut members = vec![(slot, blend.own)];
        members.extend(blend.before.iter().filter(|(share, _)| *share != 0.0).map(|(share, slot)| (*slot, *share)));
        let mut square = 0.0;
        for (index, (a, weight_a)) in members.iter().enumerate() {
            square += weight_a * weight_a;
            for (b, weight_b) in &members[index + 1..] {
                square += 2.0 * weight_a * weight_b * self.likeness(*a, *b, kernel);
            }
        }
        // Opposite vectors could cancel out; nothing is gained by dividing by next to nothing.
        square.max(0.01).sqrt()
    }

    /// The cosine of two documents' first vectors, of 8 bits a number.
    fn likeness(&self, a: u32, b: u32, kernel: Kernel) -> f32 {
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
