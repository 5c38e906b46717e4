//! Requests and calls of models by the minute. Minutes that are over for a while are kept in memory, so that a day that
//! is evaluated every few seconds is read once.

use std::collections::BTreeMap;

use agentd_base::Timestamp;
use agentd_core::rollups::{LatencyBucket, Period, Rollups};
use agentd_core::runtime::{Latency, Series};
use agentd_store::StoreError;

pub(super) const MINUTE_MICROS: i64 = 60_000_000;
/// Daemons store a minute soon after its end.
const STILL_COMING: i64 = 5 * MINUTE_MICROS;
/// Read at once.
const HOUR_MICROS: i64 = 60 * MINUTE_MICROS;
/// A day, and what the minutes at its ends may add.
const KEPT: i64 = 24 * HOUR_MICROS + 10 * MINUTE_MICROS;

/// What was measured of a series in a minute.
#[derive(Debug, Clone, Default)]
struct Measured {
    errors: u64,
    count: u64,
    /// Of requests.
    latency: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
struct Minute {
    requests: Measured,
    model_calls: Measured,
}

/// What was measured since a time.
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
    known: BTreeMap<i64, Minute>,
    /// From where to where minutes are known.
    from: i64,
    to: i64,
}

fn by_minute(buckets: Vec<LatencyBucket>) -> BTreeMap<i64, Minute> {
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
    Ok(by_minute(rollups.latencies(period, &[Series::Requests, Series::ModelCall]).await?))
}

impl Minutes {
    /// Sums since each of `since`, which are beginnings of minutes.
    pub(super) async fn sums(
        &mut self,
        rollups: &Rollups,
        now: Timestamp,
        since: &[Timestamp],
    ) -> Result<BTreeMap<Timestamp, Sums>, StoreError> {
        let Some(first) = since.iter().min().map(|first| first.as_micros()) else { return Ok(BTreeMap::new()) };
        let this_minute = now.as_micros().div_euclid(MINUTE_MICROS) * MINUTE_MICROS;
        let over = this_minute - STILL_COMING;
        self.fill(rollups, first, over).await?;
        let fresh = read(rollups, first.max(over), this_minute + MINUTE_MICROS).await?;
        let mut since: Vec<Timestamp> = since.to_vec();
        since.sort_unstable();
        since.dedup();
        let mut minutes = fresh.iter().rev().chain(self.known.range(..over).rev()).peekable();
        let (mut sums, mut latency, mut found) = (Sums::default(), Latency::default(), BTreeMap::new());
        // The newest first, so that each period goes on from the shorter one.
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

    /// Makes the minutes from `first` to `over` known.
    async fn fill(&mut self, rollups: &Rollups, first: i64, over: i64) -> Result<(), StoreError> {
        // The clock was set back, or nobody asked for long.
        if self.to > over || self.to < over - KEPT {
            *self = Self { known: BTreeMap::new(), from: over, to: over };
        }
        while self.to < over {
            let to = over.min(self.to + HOUR_MICROS);
            self.known.extend(read(rollups, self.to, to).await?);
            self.to = to;
        }
        while self.from > first {
            let from = first.max(self.from - HOUR_MICROS);
            self.known.extend(read(rollups, from, self.from).await?);
            self.from = from;
        }
        self.from = self.from.max(over - KEPT);
        self.known = self.known.split_off(&self.from);
        Ok(())
    }
}
