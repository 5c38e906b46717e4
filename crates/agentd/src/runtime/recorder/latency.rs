//! How long things took: a histogram that can be merged, so that a percentile of a week or of several daemons
//! is computed from what was measured and never from percentiles.

use std::time::Duration;

use histogram::{AtomicHistogram32, Config, Histogram};

/// 32 buckets between each power of two: a value is at most 3.2 % from what is shown of it.
const GROUPING_POWER: u8 = 5;
/// In microseconds, 19 hours.
const MAX_VALUE_POWER: u8 = 36;

/// Recorded by any number of threads.
#[derive(Debug)]
pub(super) struct AtomicLatency(AtomicHistogram32);

impl Default for AtomicLatency {
    fn default() -> Self {
        Self(AtomicHistogram32::with_config(&config()))
    }
}

impl AtomicLatency {
    pub(super) fn record(&self, elapsed: Duration) {
        let longest = (1 << MAX_VALUE_POWER) - 1;
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(longest).min(longest);
        // Only what is out of range is refused.
        let _ = self.0.increment(micros);
    }

    /// What was recorded since the last call.
    pub(super) fn drain(&self) -> Latency {
        Latency(Histogram::from(&self.0.drain()))
    }

    /// The same, without taking it away.
    pub(super) fn load(&self) -> Latency {
        Latency(Histogram::from(&self.0.load()))
    }
}

#[allow(clippy::expect_used, reason = "of constants")]
fn config() -> Config {
    Config::new(GROUPING_POWER, MAX_VALUE_POWER).expect("powers within the limits")
}

/// How long each of a number of things took.
#[derive(Debug, Clone)]
pub struct Latency(Histogram);

impl Default for Latency {
    fn default() -> Self {
        Self(Histogram::with_config(&config()))
    }
}

impl Latency {
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.as_slice().iter().sum()
    }

    pub fn merge(&mut self, other: &Self) {
        for (here, there) in self.0.as_mut_slice().iter_mut().zip(other.0.as_slice()) {
            *here = here.saturating_add(*there);
        }
    }

    /// The time that this share of the things took at most, in milliseconds; `None` of nothing.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "below 2^36")]
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let found = self.0.quantile_bucket(share).ok()??;
        Some(found.end() as f64 / 1e3)
    }

    /// Number and count of each bucket that is not empty, as variable-length integers; numbers as distances.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut last = 0;
        let buckets = self.0.as_slice().iter().enumerate().filter(|(_, count)| **count > 0);
        for (bucket, &count) in buckets {
            write_integer(&mut bytes, (bucket - last) as u64);
            write_integer(&mut bytes, count);
            last = bucket;
        }
        bytes
    }

    /// Adds what [`Self::to_bytes`] made. What is no such thing ends it.
    pub fn merge_bytes(&mut self, mut bytes: &[u8]) {
        let mut bucket = 0usize;
        while let (Some(distance), Some(count)) = (read_integer(&mut bytes), read_integer(&mut bytes)) {
            bucket = bucket.saturating_add(usize::try_from(distance).unwrap_or(usize::MAX));
            let Some(here) = self.0.as_mut_slice().get_mut(bucket) else { return };
            *here = here.saturating_add(count);
        }
    }
}

/// Seven bits a byte, the lowest first.
fn write_integer(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap_or_default());
}

fn read_integer(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(micros: &[u64]) -> Latency {
        let recorded = AtomicLatency::default();
        micros.iter().for_each(|&micros| recorded.record(Duration::from_micros(micros)));
        recorded.drain()
    }

    proptest! {
        #[test]
        fn a_percentile_of_merged_parts_is_that_of_the_whole(
            parts in prop::collection::vec(prop::collection::vec(0u64..100_000_000, 0..50), 1..6),
            share in 0.0f64..=1.0,
        ) {
            let mut merged = Latency::default();
            for part in &parts {
                merged.merge_bytes(&of(part).to_bytes());
            }
            let mut all: Vec<u64> = parts.concat();
            prop_assert_eq!(merged.count(), all.len() as u64);
            prop_assert_eq!(merged.quantile_ms(share), of(&all).quantile_ms(share));
            all.sort_unstable();
            let rank = ((share * all.len() as f64).ceil() as usize).clamp(1, all.len().max(1));
            match (all.get(rank - 1), merged.quantile_ms(share)) {
                (None, shown) => prop_assert_eq!(shown, None),
                (Some(&true_value), Some(shown)) => {
                    let true_ms = true_value as f64 / 1e3;
                    prop_assert!(shown >= true_ms - 1e-9 && shown <= true_ms * 1.033 + 0.001, "{shown} of {true_ms}");
                }
                (Some(_), None) => prop_assert!(false, "nothing of something"),
            }
        }

        #[test]
        fn bytes_of_anything_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            Latency::default().merge_bytes(&bytes);
        }
    }

    #[test]
    fn what_is_longer_than_anything_counts() {
        let recorded = AtomicLatency::default();
        recorded.record(Duration::MAX);
        assert_eq!((recorded.load().count(), recorded.drain().count(), recorded.load().count()), (1, 1, 0));
    }
}
