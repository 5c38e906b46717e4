//! The vector of a document in its talk: its own, half of the one before it and a third of the one before that,
//! brought to length 1. It is not stored: its cosine follows from the cosines of the three, and its length, which no
//! query changes, is remembered until a neighbour changes. A document of several vectors is long enough to be
//! understood by itself, and neither takes part nor gives.

use std::convert::Infallible;

use super::Weights;
use crate::documents::NONE;
use crate::state::State;
use crate::vectors::dot::Kernel;

impl State {
    /// The cosine of the blend; `cosine` gives that of a document by itself, minus infinity without a vector, and so
    /// does this.
    #[inline]
    pub(crate) fn blended<E>(
        &self,
        slot: u32,
        weights: &Weights,
        kernel: Kernel,
        cosine: impl Fn(u32) -> Result<f32, E>,
    ) -> Result<f32, E> {
        let documents = &self.documents;
        let own = cosine(slot)?;
        let mut before = documents.previous(slot);
        if before == NONE || !documents.has_single_vector(slot) {
            return Ok(own);
        }
        let mut sum = own;
        for share in weights.before {
            if documents.has_single_vector(before) {
                sum += share * cosine(before)?;
            }
            before = documents.previous(before);
            if before == NONE {
                break;
            }
        }
        Ok(sum / self.blend_norm(slot, weights, kernel))
    }

    /// [`Self::blended`] out of the cosines that the scan found.
    #[inline]
    pub(crate) fn blended_of(&self, slot: u32, weights: &Weights, kernel: Kernel, cosine: &[f32]) -> f32 {
        let Ok(blended) = self.blended(slot, weights, kernel, |slot| Ok::<_, Infallible>(cosine[slot as usize]));
        blended
    }

    pub(crate) fn blend_norm(&self, slot: u32, weights: &Weights, kernel: Kernel) -> f32 {
        if let Some(norm) = self.documents.blend_norm(slot) {
            return norm;
        }
        let mut members = vec![(slot, 1.0_f32)];
        let mut before = self.documents.previous(slot);
        for share in weights.before {
            if before == NONE {
                break;
            }
            if self.documents.has_single_vector(before) {
                members.push((before, share));
            }
            before = self.documents.previous(before);
        }
        let mut square = 0.0;
        for (index, (a, weight_a)) in members.iter().enumerate() {
            square += weight_a * weight_a;
            for (b, weight_b) in &members[index + 1..] {
                square += 2.0 * weight_a * weight_b * self.likeness(*a, *b, kernel);
            }
        }
        // Opposite vectors could cancel out; nothing is gained by dividing by next to nothing.
        let norm = square.max(0.01).sqrt();
        self.documents.set_blend_norm(slot, norm);
        norm
    }

    /// The cosine of two documents' first vectors, of 8 bits a number.
    fn likeness(&self, a: u32, b: u32, kernel: Kernel) -> f32 {
        let (first, second) = (self.documents.vectors(a), self.documents.vectors(b));
        let (Some(of_first), Some(of_second)) = (self.vector_part(first.part), self.vector_part(second.part)) else {
            return 0.0;
        };
        let (first, second) = (first.start as usize, second.start as usize);
        let numbers: Vec<i16> =
            of_second.part.codes_of(second).iter().map(|code| i16::from(code.cast_signed())).collect();
        let dot = kernel.dot(of_first.part.codes_of(first), &numbers);
        dot as f32 * of_first.part.scale(first) * of_second.part.scale(second)
    }
}
