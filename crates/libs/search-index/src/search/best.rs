//! The best so many of many, in the documented order.

use std::cmp::Ordering;

/// Scores are told apart to a millionth: what differs by less is the noise of adding up in another order.
const STEPS: f32 = 1e6;
/// Whose scores differ by more are told apart, whatever the noise.
pub(crate) const NOISE: f32 = 2.0 / STEPS;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) slot: u32,
    pub(crate) score: f32,
    pub(crate) occurred_at: i64,
    pub(crate) row: u64,
}

impl Candidate {
    fn step(&self) -> i64 {
        (self.score * STEPS).round() as i64
    }

    /// Better ones first: score, then the later, then the greater row.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        (other.step(), other.occurred_at, other.row).cmp(&(self.step(), self.occurred_at, self.row))
    }
}

/// Keeps the best `wanted` of what it is offered, in little more memory than they need.
#[derive(Debug)]
pub(crate) struct Best {
    wanted: usize,
    kept: Vec<Candidate>,
    /// Whoever scores clearly less than this cannot be among them.
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

    /// Sorted, the best first.
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
        fn it_keeps_what_sorting_all_would(scores in proptest::collection::vec(0_u8..40, 0..2000), wanted in 0_usize..300) {
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
