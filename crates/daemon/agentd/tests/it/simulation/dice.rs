//! What a seed decides.

use std::time::Duration;

use agentd_base::Entropy;

/// Everything that is decided at random comes from here, so the same seed decides the same.
#[derive(Debug)]
pub struct Dice(Entropy);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Entropy::seeded(seed))
    }

    /// One of `0..count`.
    pub fn below(&self, count: u64) -> u64 {
        u64::from_le_bytes(self.0.bytes()) % count.max(1)
    }

    pub fn index(&self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).expect("a place in memory")
    }

    /// True in `percent` of all cases.
    pub fn chance(&self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn one_of<'a, T>(&self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    pub fn milliseconds(&self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least + 1))
    }

    /// For generators of others.
    pub fn seed(&self) -> u64 {
        u64::from_le_bytes(self.0.bytes())
    }
}
