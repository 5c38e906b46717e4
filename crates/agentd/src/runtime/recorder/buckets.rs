//! A histogram in few buckets that only grow, as Prometheus wants to see one: nothing is ever taken away.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Recorded by any number of threads.
#[derive(Debug)]
pub(in crate::runtime) struct Buckets {
    /// Upper bounds in microseconds, ascending.
    bounds_us: &'static [u64],
    /// One for each bound, and one beyond them all.
    counts: Box<[AtomicU64]>,
    sum_us: AtomicU64,
}

/// What was recorded until now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::runtime) struct BucketCounts {
    pub(in crate::runtime) bounds_us: &'static [u64],
    pub(in crate::runtime) counts: Vec<u64>,
    pub(in crate::runtime) sum_us: u64,
}

impl Buckets {
    pub(in crate::runtime) fn new(bounds_us: &'static [u64]) -> Self {
        let counts = (0..=bounds_us.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds_us, counts, sum_us: AtomicU64::new(0) }
    }

    pub(in crate::runtime) fn record(&self, elapsed: Duration) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let position = self.bounds_us.partition_point(|bound| *bound < micros);
        if let Some(count) = self.counts.get(position) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    pub(in crate::runtime) fn read(&self) -> BucketCounts {
        BucketCounts {
            bounds_us: self.bounds_us,
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

impl BucketCounts {
    /// Nothing yet.
    pub(in crate::runtime) fn none(bounds_us: &'static [u64]) -> Self {
        Self { bounds_us, counts: vec![0; bounds_us.len() + 1], sum_us: 0 }
    }

    pub(in crate::runtime) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds one with the same bounds.
    pub(in crate::runtime) fn merge(&mut self, other: &Self) {
        for (here, there) in self.counts.iter_mut().zip(&other.counts) {
            *here = here.saturating_add(*there);
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }
}
