//! Selection of the best candidates in the documented order.

use std::cmp::Ordering;

/// Number of score steps per unit: smaller differences are rounding noise.
const SCORE_STEPS: f32 = 1e6;
/// Scores that differ by more than this are different regardless of noise.
pub(crate) const NOISE: f32 = 2.0 / SCORE_STEPS;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) slot: u32,
    pub(crate) score: f32,
    pub(crate) occurred_at: i64,
    pub(crate) row: u64,
}

impl Candidate {
    fn step(&self) -> i64 {
        (self.score * SCORE_STEPS).round() as i64
    }

    /// Orders better candidates first: by score, then later time, then greater row.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        (other.step(), other.occurred_at, other.row).cmp(&(self.step(), self.occurred_at, self.row))
    }
}

/// Retains the best `wanted` candidates, with little more memory than they need.
#[derive(Debug)]
pub(crate) struct Best {
    wanted: usize,
    kept: Vec<Candidate>,
    /// Candidates with a clearly lower score cannot be among the best.
    bar: f32,
}

impl Best {
    pub(crate) fn new(wanted: usize) -> Self {
        Self { wanted, kept: Vec::new(), bar: f32::NEG_INFINITY }
    }

    #[inline]
    pub(crate) fn offer(&mut self, score: f32, candidate: impl FnOnce() -> Candidate) {
        if score < self.bar || self.wanted == 0 {
            return;
        }
        self.kept.push(candidate());
        if self.kept.len() >= self.wanted.saturating_mul(2).saturating_add(256) {
            self.cut();
            self.bar = self.kept.iter().fold(f32::INFINITY, |least, kept| least.min(kept.score)) - NOISE;
        }
    }

    fn cut(&mut self) {
        if self.kept.len() > self.wanted {
            self.kept.select_nth_unstable_by(self.wanted - 1, Candidate::order);
            self.kept.truncate(self.wanted);
        }
    }

    /// Returns the candidates sorted, best first.
    pub(crate) fn finish(mut self) -> Vec<Candidate> {
        if self.wanted > 0 {
            self.cut();
        }
        self.kept.sort_unstable_by(Candidate::order);
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn selection_equals_sorting_all(scores in proptest::collection::vec(0_u8..40, 0..2000), wanted in 0_usize..300) {
            let all: Vec<Candidate> = (0_u32..)
                .zip(&scores)
                .map(|(slot, score)| Candidate {
                    slot,
                    score: f32::from(*score) / 40.0,
                    occurred_at: i64::from(slot % 7),
                    row: u64::from(slot),
                })
                .collect();
            let mut best = Best::new(wanted);
            all.iter().for_each(|candidate| best.offer(candidate.score, || *candidate));
            let mut sorted = all;
            sorted.sort_by(Candidate::order);
            sorted.truncate(wanted);
            prop_assert_eq!(best.finish(), sorted);
        }
    }
}
