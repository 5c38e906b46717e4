//! What a daemon measures of itself, in memory, until it is stored: how long turns, calls of models and tools
//! took, and how many failed. Requests are measured beside the metrics.
//!
//! Invariants: recording takes no lock and, once a label is known, allocates nothing; the number of labels is
//! bounded. What was not stored yet is lost with the process: counts that must not be are kept by `rollups`.
//!
//! What is taken to be stored starts from nothing again. The metrics want what only grows, so each label has that
//! besides, in few buckets.

mod buckets;
mod latency;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

pub(super) use buckets::{BucketCounts, Buckets};
pub use latency::{Latency, LatencySum};

/// Of each series; what comes later is recorded as `other`.
const MAX_LABELS: usize = 512;
/// Many more than there are, since each has a histogram among the metrics.
const MAX_PROVIDERS: usize = 32;
const OTHER: &str = "other";
/// Upper bounds of what the metrics show, in microseconds: from what answers at once to what takes minutes.
pub(super) const BOUNDS_US: &[u64] = &[
    10_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
];

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Series {
    /// Of each method and route.
    Request,
    /// The same requests together, made when they are read: over a long period nobody adds up hundreds of routes.
    Requests,
    /// Turns from their beginning to their end.
    Turn,
    /// Turns until the first word of the answer.
    FirstToken,
    /// Of each provider.
    ModelCall,
    /// Of each tool.
    Tool,
}

impl Series {
    /// Those that are recorded.
    const RECORDED: [Self; 5] = [Self::Request, Self::Turn, Self::FirstToken, Self::ModelCall, Self::Tool];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Requests => "requests",
            Self::Turn => "turn",
            Self::FirstToken => "first_token",
            Self::ModelCall => "model_call",
            Self::Tool => "tool",
        }
    }
}

/// What was recorded of one label.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    pub latency: Latency,
    /// How many of them failed.
    pub errors: u64,
}

impl Recorded {
    pub fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.errors = self.errors.saturating_add(other.errors);
    }
}

#[derive(Debug)]
struct Slot {
    latency: latency::AtomicLatency,
    errors: AtomicU64,
    /// `None` of requests, which the metrics count themselves.
    since_start: Option<SinceStart>,
}

/// What only grows.
#[derive(Debug)]
struct SinceStart {
    buckets: Buckets,
    errors: AtomicU64,
}

type Slots = HashMap<Box<str>, Arc<Slot>>;

#[derive(Debug, Default)]
struct Inner {
    series: [ArcSwap<Slots>; Series::RECORDED.len()],
    is_off: AtomicBool,
    has_news: AtomicBool,
    news: Arc<Notify>,
}

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Inner>);

impl Recorder {
    /// Records nothing from now on: to measure what recording costs.
    pub fn turn_off(&self) {
        self.0.is_off.store(true, Ordering::Relaxed);
    }

    pub fn record(&self, series: Series, label: &str, elapsed: Duration, is_error: bool) {
        if self.0.is_off.load(Ordering::Relaxed) {
            return;
        }
        let slots = self.slots(series);
        if let Some(slot) = slots.load().get(label) {
            slot.record(elapsed, is_error);
        } else {
            slot_for(slots, label, series).record(elapsed, is_error);
        }
        if !self.0.has_news.load(Ordering::Relaxed) && !self.0.has_news.swap(true, Ordering::Relaxed) {
            self.0.news.notify_one();
        }
    }

    fn slots(&self, series: Series) -> &ArcSwap<Slots> {
        let [requests, turns, first_tokens, model_calls, tools] = &self.0.series;
        match series {
            Series::Request | Series::Requests => requests,
            Series::Turn => turns,
            Series::FirstToken => first_tokens,
            Series::ModelCall => model_calls,
            Series::Tool => tools,
        }
    }

    /// Told when something is recorded after [`Self::drain`].
    #[must_use]
    pub fn news(&self) -> Arc<Notify> {
        Arc::clone(&self.0.news)
    }

    #[must_use]
    pub fn has_news(&self) -> bool {
        self.0.has_news.load(Ordering::Relaxed)
    }

    /// Takes what was recorded since the last call.
    #[must_use]
    pub fn drain(&self) -> Vec<(Series, Box<str>, Recorded)> {
        self.0.has_news.store(false, Ordering::Relaxed);
        self.read(|slot| Recorded { latency: slot.latency.drain(), errors: slot.errors.swap(0, Ordering::Relaxed) })
    }

    /// The same, without taking it away.
    #[must_use]
    pub fn load(&self) -> Vec<(Series, Box<str>, Recorded)> {
        self.read(|slot| Recorded { latency: slot.latency.load(), errors: slot.errors.load(Ordering::Relaxed) })
    }

    /// What was recorded of a series since the daemon started, by label, with how many of it failed.
    #[must_use]
    pub(super) fn since_start(&self, series: Series) -> Vec<(Box<str>, BucketCounts, u64)> {
        let slots = self.slots(series).load_full();
        #[allow(clippy::borrowed_box, reason = "as the map gives it")]
        let read = |(label, slot): (&Box<str>, &Arc<Slot>)| {
            let since_start = slot.since_start.as_ref()?;
            Some((label.clone(), since_start.buckets.read(), since_start.errors.load(Ordering::Relaxed)))
        };
        slots.iter().filter_map(read).collect()
    }

    fn read(&self, read: fn(&Slot) -> Recorded) -> Vec<(Series, Box<str>, Recorded)> {
        let mut all = Vec::new();
        let mut requests = Recorded::default();
        for series in Series::RECORDED {
            let slots = self.slots(series).load_full();
            for (label, slot) in slots.iter() {
                let recorded = read(slot);
                if recorded.latency.count() == 0 {
                    continue;
                }
                if series == Series::Request {
                    requests.merge(&recorded);
                }
                all.push((series, label.clone(), recorded));
            }
        }
        if requests.latency.count() > 0 {
            all.push((Series::Requests, "".into(), requests));
        }
        all
    }
}

impl Slot {
    fn new(series: Series) -> Self {
        let since_start = || SinceStart { buckets: Buckets::new(BOUNDS_US), errors: AtomicU64::new(0) };
        Self {
            latency: latency::AtomicLatency::default(),
            errors: AtomicU64::new(0),
            since_start: (series != Series::Request).then(since_start),
        }
    }

    fn record(&self, elapsed: Duration, is_error: bool) {
        self.latency.record(elapsed);
        if is_error {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(since_start) = &self.since_start {
            since_start.buckets.record(elapsed);
            if is_error {
                since_start.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A label's slot, made where it is new. Whoever comes at the same time gets the same.
fn slot_for(slots: &ArcSwap<Slots>, label: &str, series: Series) -> Arc<Slot> {
    let made = Arc::new(Slot::new(series));
    let most = if series == Series::ModelCall { MAX_PROVIDERS } else { MAX_LABELS };
    slots.rcu(|known| {
        let mut known = Slots::clone(known);
        let label = if known.len() < most { label } else { OTHER };
        known.entry(label.into()).or_insert_with(|| Arc::clone(&made));
        known
    });
    let known = slots.load();
    known.get(label).or_else(|| known.get(OTHER)).map_or(made, Arc::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_was_recorded_and_is_taken_once() {
        let recorder = Recorder::default();
        recorder.record(Series::Tool, "shell", Duration::from_millis(3), false);
        recorder.record(Series::Tool, "shell", Duration::from_millis(5), true);
        recorder.record(Series::Turn, "", Duration::from_millis(7), false);
        assert!(recorder.has_news());
        assert_eq!(recorder.load().len(), 2);
        let taken = recorder.drain();
        let (series, label, tool) = taken.last().unwrap();
        assert_eq!((*series, &**label, tool.latency.count(), tool.errors), (Series::Tool, "shell", 2, 1));
        assert!(recorder.drain().is_empty() && !recorder.has_news());
        let since_start = recorder.since_start(Series::Tool);
        let (label, counts, errors) = since_start.first().unwrap();
        assert_eq!((&**label, counts.count(), counts.sum_us, *errors), ("shell", 2, 8_000, 1), "that only grows");
        recorder.record(Series::Request, "GET /a", Duration::from_millis(3), false);
        recorder.record(Series::Request, "GET /b", Duration::from_millis(5), true);
        let taken = recorder.drain();
        let (series, label, together) = taken.last().unwrap();
        assert_eq!((*series, &**label, together.latency.count(), together.errors), (Series::Requests, "", 2, 1));
        recorder.turn_off();
        recorder.record(Series::Turn, "", Duration::from_millis(7), false);
        assert!(recorder.drain().is_empty());
    }

    #[test]
    fn labels_are_bounded_and_nothing_is_lost_of_those_beyond() {
        let recorder = Recorder::default();
        for number in 0..2 * MAX_LABELS {
            recorder.record(Series::Tool, &number.to_string(), Duration::from_millis(1), false);
        }
        let taken = recorder.drain();
        assert_eq!(taken.len(), MAX_LABELS + 1);
        assert_eq!(taken.iter().map(|(_, _, tool)| tool.latency.count()).sum::<u64>(), 2 * MAX_LABELS as u64);
    }
}
