//! In-memory measurements until they are stored: durations and errors of turns, model calls, tool calls and requests.
//!
//! Invariants: recording waits only for the lock of a histogram, which is held for a few additions, and allocates
//! nothing for a known label. The number of labels is bounded. Values that are not stored yet are lost if the process
//! ends; `rollups` stores the counts that must not be lost.
//!
//! Values are reset to zero when they are taken for storage. Metrics must be cumulative, so the recorder additionally
//! has counters for each label and histograms with few buckets.

mod histograms;
mod latency;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use agentd_telemetry::Meter;
use arc_swap::ArcSwap;
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::Notify;

pub(super) use histograms::{HistogramFamily, LabelledHistogram};
pub use latency::{Latency, LatencySum};

/// Maximum number of labels per series. Further labels are recorded as `other`.
const MAX_LABELS: usize = 512;
/// Maximum number of provider labels. It is lower because each provider has a histogram among the metrics.
const MAX_PROVIDERS: usize = 32;
const OTHER: &str = "other";
/// Upper bounds of the metric buckets in microseconds, from milliseconds to minutes.
const BOUNDS_US: &[u64] = &[
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

/// Measured kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Series {
    /// Requests by method and route.
    Request,
    /// All requests together, computed when they are read, so that queries over long periods need not sum hundreds of
    /// routes.
    Requests,
    /// Turns from start to end.
    Turn,
    /// Turns until the first token of the answer.
    FirstToken,
    /// Model calls by provider.
    ModelCall,
    /// Tool calls by tool.
    Tool,
}

impl Series {
    /// Series that are recorded rather than computed.
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

/// Measurements of one label.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    pub latency: Latency,
    /// Number of failed operations.
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
    /// `None` for requests, which the metrics count themselves.
    since_start: Option<SinceStart>,
}

/// Cumulative values since the daemon started.
#[derive(Debug)]
struct SinceStart {
    count: AtomicU64,
    sum_us: AtomicU64,
    errors: AtomicU64,
    histogram: LabelledHistogram,
}

/// Totals of a label since the daemon started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) count: u64,
    pub(super) sum_us: u64,
    pub(super) errors: u64,
}

/// Histograms of one metric for Prometheus, each with the values of its labels.
pub(super) type LabelledHistograms = Vec<(Vec<String>, Histogram)>;

/// Histograms among the metrics. Series with user-defined labels have one histogram for all labels, to bound the size
/// of the exposition.
#[derive(Debug)]
struct Histograms {
    turns: (HistogramFamily, LabelledHistogram),
    first_tokens: (HistogramFamily, LabelledHistogram),
    tools: (HistogramFamily, LabelledHistogram),
    /// By provider.
    model_calls: HistogramFamily,
}

impl Histograms {
    fn new(meter: &Meter) -> Self {
        let family = |name, help, labels| HistogramFamily::new(meter, (name, help), labels, BOUNDS_US);
        let one = |name, help| {
            let family = family(name, help, &[]);
            let histogram = family.with(&[]);
            (family, histogram)
        };
        Self {
            turns: one("svc_turn_duration_seconds", "Duration of agent turns, including the wait for approvals."),
            first_tokens: one("svc_turn_first_token_seconds", "Time until the first token of the answer of a turn."),
            tools: one("svc_tool_call_duration_seconds", "Duration of tool calls of all tools."),
            model_calls: family(
                "svc_model_call_duration_seconds",
                "Duration of model calls until the last token, by provider.",
                &["provider"],
            ),
        }
    }

    /// Returns the histogram of a label; `None` for requests, which the metrics count themselves.
    fn histogram_for(&self, series: Series, label: &str) -> Option<LabelledHistogram> {
        match series {
            Series::Request | Series::Requests => None,
            Series::Turn => Some(self.turns.1.clone()),
            Series::FirstToken => Some(self.first_tokens.1.clone()),
            Series::Tool => Some(self.tools.1.clone()),
            Series::ModelCall => Some(self.model_calls.with(&[label])),
        }
    }
}

type Slots = HashMap<Box<str>, Arc<Slot>>;

#[derive(Debug)]
struct Inner {
    meter: Meter,
    histograms: Histograms,
    series: [ArcSwap<Slots>; Series::RECORDED.len()],
    is_off: AtomicBool,
    has_pending: AtomicBool,
    notify: Arc<Notify>,
}

/// Recorder of measurements. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Inner>);

impl Default for Recorder {
    fn default() -> Self {
        Self::new(Meter::off())
    }
}

impl Recorder {
    /// Creates a recorder that also exports to `meter`.
    #[must_use]
    pub fn new(meter: Meter) -> Self {
        let histograms = Histograms::new(&meter);
        Self(Arc::new(Inner {
            meter,
            histograms,
            series: Default::default(),
            is_off: AtomicBool::default(),
            has_pending: AtomicBool::default(),
            notify: Arc::default(),
        }))
    }

    /// Meter that exports metrics to a collector.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.0.meter
    }

    /// Disables recording, to measure its cost.
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
            self.slot_for(slots, label, series).record(elapsed, is_error);
        }
        if !self.0.has_pending.load(Ordering::Relaxed) && !self.0.has_pending.swap(true, Ordering::Relaxed) {
            self.0.notify.notify_one();
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

    /// Notified at the first recording after [`Self::drain`].
    #[must_use]
    pub fn notify(&self) -> Arc<Notify> {
        Arc::clone(&self.0.notify)
    }

    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.0.has_pending.load(Ordering::Relaxed)
    }

    /// Returns and resets all measurements since the last call.
    #[must_use]
    pub fn drain(&self) -> Vec<(Series, Box<str>, Recorded)> {
        self.0.has_pending.store(false, Ordering::Relaxed);
        self.read(|slot| Recorded { latency: slot.latency.drain(), errors: slot.errors.swap(0, Ordering::Relaxed) })
    }

    /// Returns all measurements since the last [`Self::drain`], without resetting them.
    #[must_use]
    pub fn load(&self) -> Vec<(Series, Box<str>, Recorded)> {
        self.read(|slot| Recorded { latency: slot.latency.load(), errors: slot.errors.load(Ordering::Relaxed) })
    }

    /// Totals of a series since the daemon started, by label.
    #[must_use]
    pub(super) fn since_start(&self, series: Series) -> Vec<(Box<str>, Total)> {
        let slots = self.slots(series).load_full();
        #[allow(clippy::borrowed_box, reason = "as the map gives it")]
        let read = |(label, slot): (&Box<str>, &Arc<Slot>)| Some((label.clone(), slot.since_start.as_ref()?.read()));
        slots.iter().filter_map(read).collect()
    }

    /// Returns all histograms among the metrics, by label set.
    #[must_use]
    pub(super) fn histograms(&self) -> Vec<(&HistogramFamily, LabelledHistograms)> {
        let Histograms { turns, first_tokens, tools, model_calls } = &self.0.histograms;
        let slots = self.slots(Series::ModelCall).load_full();
        #[allow(clippy::borrowed_box, reason = "as the map gives it")]
        let read = |(label, slot): (&Box<str>, &Arc<Slot>)| {
            Some((vec![label.to_string()], slot.since_start.as_ref()?.histogram.prometheus()))
        };
        let mut providers: Vec<_> = slots.iter().filter_map(read).collect();
        providers.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        let one = [turns, first_tokens, tools].into_iter();
        let one = one.map(|(family, histogram)| (family, vec![(Vec::new(), histogram.prometheus())]));
        one.chain([(model_calls, providers)]).collect()
    }

    /// Returns the slot of a label and creates it if needed. Concurrent callers get the same slot.
    fn slot_for(&self, slots: &ArcSwap<Slots>, label: &str, series: Series) -> Arc<Slot> {
        let max_labels = if series == Series::ModelCall { MAX_PROVIDERS } else { MAX_LABELS };
        // The histogram carries the label under which the slot is stored.
        let own = Arc::new(Slot::new(self.0.histograms.histogram_for(series, label)));
        let other = Arc::new(Slot::new(self.0.histograms.histogram_for(series, OTHER)));
        slots.rcu(|known| {
            let mut known = Slots::clone(known);
            let (label, made) = if known.len() < max_labels { (label, &own) } else { (OTHER, &other) };
            known.entry(label.into()).or_insert_with(|| Arc::clone(made));
            known
        });
        let known = slots.load();
        known.get(label).or_else(|| known.get(OTHER)).map_or(own, Arc::clone)
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
    fn new(histogram: Option<LabelledHistogram>) -> Self {
        let since_start = |histogram| SinceStart {
            count: AtomicU64::new(0),
            sum_us: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            histogram,
        };
        Self {
            latency: latency::AtomicLatency::default(),
            errors: AtomicU64::new(0),
            since_start: histogram.map(since_start),
        }
    }

    fn record(&self, elapsed: Duration, is_error: bool) {
        self.latency.record(elapsed);
        if is_error {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(since_start) = &self.since_start {
            since_start.record(elapsed, is_error);
        }
    }
}

impl SinceStart {
    fn record(&self, elapsed: Duration, is_error: bool) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if is_error {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        self.histogram.record(elapsed);
    }

    fn read(&self) -> Total {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Total { count: read(&self.count), sum_us: read(&self.sum_us), errors: read(&self.errors) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_returns_measurements_once() {
        let recorder = Recorder::default();
        recorder.record(Series::Tool, "shell", Duration::from_millis(3), false);
        recorder.record(Series::Tool, "shell", Duration::from_millis(5), true);
        recorder.record(Series::Turn, "", Duration::from_millis(7), false);
        assert!(recorder.has_pending());
        assert_eq!(recorder.load().len(), 2);
        let taken = recorder.drain();
        let (series, label, tool) = taken.last().unwrap();
        assert_eq!((*series, &**label, tool.latency.count(), tool.errors), (Series::Tool, "shell", 2, 1));
        assert!(recorder.drain().is_empty() && !recorder.has_pending());
        let since_start = recorder.since_start(Series::Tool);
        let total = Total { count: 2, sum_us: 8_000, errors: 1 };
        assert_eq!(since_start, [("shell".into(), total)], "totals are not reset");
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
    fn labels_over_the_limit_are_counted_as_other() {
        let recorder = Recorder::default();
        for number in 0..2 * MAX_LABELS {
            recorder.record(Series::Tool, &number.to_string(), Duration::from_millis(1), false);
        }
        let taken = recorder.drain();
        assert_eq!(taken.len(), MAX_LABELS + 1);
        assert_eq!(taken.iter().map(|(_, _, tool)| tool.latency.count()).sum::<u64>(), 2 * MAX_LABELS as u64);
    }
}
