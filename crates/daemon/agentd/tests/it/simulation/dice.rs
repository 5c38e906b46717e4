//! Random decisions of a seed.

use std::time::Duration;

use agentd_base::Entropy;

/// Source of all random decisions, so that a seed always makes the same decisions.
#[derive(Debug)]
pub struct Dice(Entropy);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Entropy::seeded(seed))
    }

    /// Returns a number in `0..count`.
    pub fn below(&self, count: u64) -> u64 {
        u64::from_le_bytes(self.0.bytes()) % count.max(1)
    }

    pub fn index(&self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).expect("an index")
    }

    /// Returns true with a probability of `percent`.
    pub fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn one_of<'a, T>(&self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    pub fn milliseconds(&self, min: u64, max: u64) -> Duration {
        Duration::from_millis(min + self.below(max - min + 1))
    }

    /// Returns a seed for another generator.
    pub fn seed(&self) -> u64 {
        u64::from_le_bytes(self.0.bytes())
    }
}
