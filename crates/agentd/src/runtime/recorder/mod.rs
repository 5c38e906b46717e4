//! What a daemon measures of itself, in memory, until it is stored: how long turns, calls of models and tools
//! took, and how many failed. Requests are measured beside the metrics.
//!
//! Invariants: recording takes no lock and, once a label is known, allocates nothing; the number of labels is
//! bounded. What was not stored yet is lost with the process: counts that must not be are kept by `rollups`.

mod latency;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;

pub use latency::Latency;

/// Of each series; what comes later is recorded as `other`.
const MAX_LABELS: usize = 512;
const OTHER: &str = "other";

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Series {
    /// Of each method and route.
    Request,
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
    pub const ALL: [Self; 5] = [Self::Request, Self::Turn, Self::FirstToken, Self::ModelCall, Self::Tool];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
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

#[derive(Debug, Default)]
struct Slot {
    latency: latency::AtomicLatency,
    errors: AtomicU64,
}

type Slots = HashMap<Box<str>, Arc<Slot>>;

#[derive(Debug, Default)]
struct Inner {
    series: [ArcSwap<Slots>; Series::ALL.len()],
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
            slot_for(slots, label).record(elapsed, is_error);
        }
        if !self.0.has_news.load(Ordering::Relaxed) && !self.0.has_news.swap(true, Ordering::Relaxed) {
            self.0.news.notify_one();
        }
    }

    fn slots(&self, series: Series) -> &ArcSwap<Slots> {
        let [requests, turns, first_tokens, model_calls, tools] = &self.0.series;
        match series {
            Series::Request => requests,
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

    fn read(&self, read: fn(&Slot) -> Recorded) -> Vec<(Series, Box<str>, Recorded)> {
        let of_series = |series: Series| {
            let slots = self.slots(series).load_full();
            let recorded = slots.iter().map(|(label, slot)| (series, label.clone(), read(slot)));
            recorded.filter(|(_, _, recorded)| recorded.latency.count() > 0).collect::<Vec<_>>()
        };
        Series::ALL.into_iter().flat_map(of_series).collect()
    }
}

impl Slot {
    fn record(&self, elapsed: Duration, is_error: bool) {
        self.latency.record(elapsed);
        if is_error {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A label's slot, made where it is new. Whoever comes at the same time gets the same.
fn slot_for(slots: &ArcSwap<Slots>, label: &str) -> Arc<Slot> {
    let made = Arc::new(Slot::default());
    slots.rcu(|known| {
        let mut known = Slots::clone(known);
        let label = if known.len() < MAX_LABELS { label } else { OTHER };
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
