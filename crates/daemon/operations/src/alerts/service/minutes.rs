//! Per-minute sums of requests and model calls. Completed minutes are cached in memory, so that a period of a day,
//! evaluated every few seconds, is read only once.

use std::collections::BTreeMap;

use agentd_base::Timestamp;
use agentd_core::rollups::{LatencyBucket, Period, Rollups};
use agentd_core::runtime::{Latency, Series};
use agentd_store::StoreError;

pub(super) const MINUTE_MICROS: i64 = 60_000_000;
/// Age at which a minute is complete: daemons store a minute soon after its end.
const COMPLETION_DELAY: i64 = 5 * MINUTE_MICROS;
/// Length of the range per read.
const HOUR_MICROS: i64 = 60 * MINUTE_MICROS;
/// Maximum length of the cached range: one day plus the partial minutes at its ends.
const MAX_CACHED: i64 = 24 * HOUR_MICROS + 10 * MINUTE_MICROS;

/// Measurements of a series in a minute.
#[derive(Debug, Clone, Default)]
struct Measured {
    errors: u64,
    count: u64,
    /// Latency histogram of requests.
    latency: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
struct Minute {
    requests: Measured,
    model_calls: Measured,
}

/// Measurements since a time.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub(super) requests: u64,
    pub(super) failed_requests: u64,
    pub(super) latency_p95_ms: Option<f64>,
    pub(super) model_calls: u64,
    pub(super) failed_model_calls: u64,
}

#[derive(Debug, Default)]
pub(super) struct Minutes {
    cached: BTreeMap<i64, Minute>,
    /// Range of cached minutes.
    from: i64,
    to: i64,
}

fn group_by_minute(buckets: Vec<LatencyBucket>) -> BTreeMap<i64, Minute> {
    let mut minutes: BTreeMap<i64, (Minute, Latency)> = BTreeMap::new();
    for bucket in buckets {
        let measured = Latency::from_bytes(&bucket.histogram);
        let (minute, latency) = minutes.entry(bucket.at.as_micros()).or_default();
        let of_series = match bucket.series {
            Series::ModelCall => &mut minute.model_calls,
            _ => {
                latency.merge(&measured);
                &mut minute.requests
            }
        };
        of_series.count += measured.count();
        of_series.errors += bucket.errors;
    }
    let packed = |(at, (mut minute, latency)): (i64, (Minute, Latency))| {
        minute.requests.latency = latency.to_bytes();
        (at, minute)
    };
    minutes.into_iter().map(packed).collect()
}

async fn read(rollups: &Rollups, from: i64, to: i64) -> Result<BTreeMap<i64, Minute>, StoreError> {
    let period = Period { from: Timestamp::from_micros(from), to: Timestamp::from_micros(to) };
    Ok(group_by_minute(rollups.latencies(period, &[Series::Requests, Series::ModelCall]).await?))
}

impl Minutes {
    /// Returns the sums since each of `since`, which are starts of minutes.
    pub(super) async fn sums(
        &mut self,
        rollups: &Rollups,
        now: Timestamp,
        since: &[Timestamp],
    ) -> Result<BTreeMap<Timestamp, Sums>, StoreError> {
        let Some(first) = since.iter().min().map(|first| first.as_micros()) else { return Ok(BTreeMap::new()) };
        let this_minute = now.as_micros().div_euclid(MINUTE_MICROS) * MINUTE_MICROS;
        let complete_until = this_minute - COMPLETION_DELAY;
        self.fill_cache(rollups, first, complete_until).await?;
        let recent = read(rollups, first.max(complete_until), this_minute + MINUTE_MICROS).await?;
        let mut since: Vec<Timestamp> = since.to_vec();
        since.sort_unstable();
        since.dedup();
        let mut minutes = recent.iter().rev().chain(self.cached.range(..complete_until).rev()).peekable();
        let (mut sums, mut latency, mut found) = (Sums::default(), Latency::default(), BTreeMap::new());
        // Newest first, so that each period extends the next shorter one.
        for since in since.into_iter().rev() {
            while let Some((_, minute)) = minutes.next_if(|(at, _)| **at >= since.as_micros()) {
                sums.requests += minute.requests.count;
                sums.failed_requests += minute.requests.errors;
                sums.model_calls += minute.model_calls.count;
                sums.failed_model_calls += minute.model_calls.errors;
                latency.merge(&Latency::from_bytes(&minute.requests.latency));
            }
            found.insert(since, Sums { latency_p95_ms: latency.quantile_ms(0.95), ..sums.clone() });
        }
        Ok(found)
    }

    /// Caches the minutes from `first` to `complete_until`.
    async fn fill_cache(&mut self, rollups: &Rollups, first: i64, complete_until: i64) -> Result<(), StoreError> {
        // The clock was set back, or no alert was evaluated for a long time.
        if self.to > complete_until || self.to < complete_until - MAX_CACHED {
            *self = Self { cached: BTreeMap::new(), from: complete_until, to: complete_until };
        }
        while self.to < complete_until {
            let to = complete_until.min(self.to + HOUR_MICROS);
            self.cached.extend(read(rollups, self.to, to).await?);
            self.to = to;
        }
        while self.from > first {
            let from = first.max(self.from - HOUR_MICROS);
            self.cached.extend(read(rollups, from, self.from).await?);
            self.from = from;
        }
        self.from = self.from.max(complete_until - MAX_CACHED);
        self.cached = self.cached.split_off(&self.from);
        Ok(())
    }
}
