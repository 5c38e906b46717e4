//! Mergeable latency histograms. Percentiles over a week or over several daemons are computed from the merged
//! measurements, never from other percentiles.

use std::time::Duration;

use histogram::{AtomicHistogram32, Config, Histogram, Quantile, SparseHistogram};

/// 32 buckets between consecutive powers of two, so the relative error is at most 3.2 %.
const GROUPING_POWER: u8 = 5;
/// Power of two of the largest value in microseconds, about 19 hours.
const MAX_VALUE_POWER: u8 = 36;

/// Latency histogram for concurrent recording.
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
        // Fails only for values out of range.
        let _ = self.0.increment(micros);
    }

    /// Returns and resets what was recorded since the last call.
    pub(super) fn drain(&self) -> Latency {
        Latency(SparseHistogram::from(&Histogram::from(&self.0.drain())))
    }

    /// Returns what was recorded, without resetting it.
    pub(super) fn load(&self) -> Latency {
        Latency(SparseHistogram::from(&Histogram::from(&self.0.load())))
    }
}

#[allow(clippy::expect_used, reason = "both values are constants")]
fn config() -> Config {
    Config::new(GROUPING_POWER, MAX_VALUE_POWER).expect("powers within the limits")
}

/// Sparse latency histogram. Its size grows with the number of distinct buckets.
#[derive(Debug, Clone)]
pub struct Latency(SparseHistogram);

impl Default for Latency {
    fn default() -> Self {
        Self(SparseHistogram::with_config(&config()))
    }
}

impl Latency {
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count().iter().sum()
    }

    pub fn merge(&mut self, other: &Self) {
        if other.0.is_empty() {
            return;
        }
        // All histograms have the same configuration, and no bucket reaches 2^64.
        if let Ok(sum) = self.0.checked_add(&other.0) {
            self.0 = sum;
        }
    }

    /// Returns the quantile `share` in milliseconds; `None` if the histogram is empty.
    #[must_use]
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let [found] = self.quantiles_ms([share]);
        found
    }

    /// Returns several quantiles in milliseconds, in one pass.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "below 2^36")]
    pub fn quantiles_ms<const N: usize>(&self, shares: [f64; N]) -> [Option<f64>; N] {
        let found = self.0.quantiles(&shares).ok().flatten();
        shares.map(|share| Some(found.as_ref()?.get(&Quantile::new(share).ok()?)?.end() as f64 / 1e3))
    }

    /// Encodes the index and count of each non-empty bucket as variable-length integers. Indexes are delta-encoded.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut last = 0;
        for (&bucket, &count) in self.0.index().iter().zip(self.0.count()) {
            write_integer(&mut bytes, u64::from(bucket - last));
            write_integer(&mut bytes, count);
            last = bucket;
        }
        bytes
    }

    /// Decodes the output of [`Self::to_bytes`]. Invalid input results in an empty histogram.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (mut buckets, mut counts) = (Vec::new(), Vec::new());
        let (mut bytes, mut bucket) = (bytes.iter(), 0_u64);
        while let (Some(distance), Some(count)) = (read_integer(&mut bytes), read_integer(&mut bytes)) {
            bucket = bucket.saturating_add(distance);
            buckets.push(u32::try_from(bucket).unwrap_or(u32::MAX));
            counts.push(count);
        }
        SparseHistogram::from_parts(config(), buckets, counts).map(Self).unwrap_or_default()
    }
}

/// Sums many encoded histograms without decoding each into a histogram.
#[derive(Debug)]
pub struct LatencySum {
    counts: Box<[u64]>,
    /// Buckets below `begin` and from `end` on are empty.
    begin: usize,
    end: usize,
}

impl Default for LatencySum {
    fn default() -> Self {
        Self { counts: vec![0; config().total_buckets()].into(), begin: usize::MAX, end: 0 }
    }
}

impl LatencySum {
    /// Adds a histogram encoded by [`Latency::to_bytes`].
    pub fn add(&mut self, bytes: &[u8]) {
        let (mut bytes, mut bucket) = (bytes.iter(), 0_usize);
        while let (Some(distance), Some(count)) = (read_integer(&mut bytes), read_integer(&mut bytes)) {
            bucket = bucket.saturating_add(usize::try_from(distance).unwrap_or(usize::MAX));
            let Some(sum) = self.counts.get_mut(bucket) else { return };
            *sum = sum.saturating_add(count);
            self.begin = self.begin.min(bucket);
            self.end = self.end.max(bucket + 1);
        }
    }

    /// Returns and resets the sum since the last call.
    pub fn take(&mut self) -> Latency {
        let touched = self.begin.min(self.end)..self.end;
        let (mut buckets, mut counts) = (Vec::with_capacity(touched.len()), Vec::with_capacity(touched.len()));
        for (bucket, count) in (0..).zip(&mut self.counts).take(touched.end).skip(touched.start) {
            if *count > 0 {
                buckets.push(bucket);
                counts.push(std::mem::take(count));
            }
        }
        (self.begin, self.end) = (usize::MAX, 0);
        SparseHistogram::from_parts(config(), buckets, counts).map(Latency).unwrap_or_default()
    }
}

/// Writes a LEB128 integer: seven bits per byte, least significant first.
fn write_integer(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap_or_default());
}

/// Reads a LEB128 integer. Optimized for one byte, because most of the many values of a month are small.
#[inline]
fn read_integer(bytes: &mut std::slice::Iter<'_, u8>) -> Option<u64> {
    let first = *bytes.next()?;
    let mut value = u64::from(first & 0x7f);
    if first < 0x80 {
        return Some(value);
    }
    for shift in (7..64).step_by(7) {
        let byte = *bytes.next()?;
        value |= u64::from(byte & 0x7f) << shift;
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

    fn latency(micros: &[u64]) -> Latency {
        let recorded = AtomicLatency::default();
        micros.iter().for_each(|&micros| recorded.record(Duration::from_micros(micros)));
        recorded.drain()
    }

    proptest! {
        #[test]
        fn percentile_of_merged_parts_equals_percentile_of_all_values(
            parts in prop::collection::vec(prop::collection::vec(0u64..100_000_000, 0..50), 1..6),
            share in 0.0f64..=1.0,
        ) {
            let mut merged = Latency::default();
            let mut sum = LatencySum::default();
            for part in &parts {
                merged.merge(&Latency::from_bytes(&latency(part).to_bytes()));
                sum.add(&latency(part).to_bytes());
            }
            prop_assert_eq!(sum.take().to_bytes(), merged.to_bytes());
            prop_assert_eq!(sum.take().count(), 0);
            let mut all: Vec<u64> = parts.concat();
            prop_assert_eq!(merged.count(), all.len() as u64);
            prop_assert_eq!(merged.quantile_ms(share), latency(&all).quantile_ms(share));
            all.sort_unstable();
            let rank = ((share * all.len() as f64).ceil() as usize).clamp(1, all.len().max(1));
            match (all.get(rank - 1), merged.quantile_ms(share)) {
                (None, shown) => prop_assert_eq!(shown, None),
                (Some(&true_value), Some(shown)) => {
                    let true_ms = true_value as f64 / 1e3;
                    prop_assert!(shown >= true_ms - 1e-9 && shown <= true_ms * 1.033 + 0.001, "{shown} of {true_ms}");
                }
                (Some(_), None) => prop_assert!(false, "no percentile of a non-empty histogram"),
            }
        }

        #[test]
        fn decoding_arbitrary_bytes_terminates(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Latency::from_bytes(&bytes).to_bytes();
            let mut sum = LatencySum::default();
            sum.add(&bytes);
            let _ = sum.take().to_bytes();
        }
    }

    #[test]
    fn duration_over_the_maximum_is_counted() {
        let recorded = AtomicLatency::default();
        recorded.record(Duration::MAX);
        assert_eq!((recorded.load().count(), recorded.drain().count(), recorded.load().count()), (1, 1, 0));
    }
}
