//! Metric sources that are read at scrape time.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

/// Maximum number of label sets per family. For further ones, the first label is `other`.
const MAX_LABEL_SETS: usize = 256;
const OTHER: &str = "other";
const MAX_LABEL_VALUE_CHARACTERS: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    Counter,
    Gauge,
}

/// Metric with its name, help text, kind and label names.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: FamilyKind,
    /// Label names. The first label may have any number of values; each other label has a few fixed values.
    pub labels: &'static [&'static str],
}

/// Value of one label set; `labels` are the label values in the order of the family's labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub labels: Vec<String>,
    pub value: f64,
}

impl Family {
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: FamilyKind::Counter, labels: &[] }
    }

    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: FamilyKind::Gauge, labels: &[] }
    }

    #[must_use]
    pub const fn by(self, labels: &'static [&'static str]) -> Self {
        Self { labels, ..self }
    }
}

impl Sample {
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "metric values may be approximate")]
    pub fn of(labels: Vec<String>, count: u64) -> Self {
        Self { labels, value: count as f64 }
    }

    /// Creates the sample of a family without labels.
    #[must_use]
    pub fn one(count: u64) -> Vec<Self> {
        vec![Self::of(Vec::new(), count)]
    }

    /// Creates the sample of a family without labels that is a duration.
    #[must_use]
    pub fn seconds(time: Duration) -> Vec<Self> {
        vec![Self { labels: Vec::new(), value: time.as_secs_f64() }]
    }

    /// Creates a sample in seconds from a count of microseconds.
    #[must_use]
    pub fn micros(labels: Vec<String>, micros: u64) -> Self {
        let sample = Self::of(labels, micros);
        Self { value: sample.value / 1e6, ..sample }
    }

    /// Creates the samples of a family with one label.
    pub fn each<'l>(counts: impl IntoIterator<Item = (&'l str, u64)>) -> Vec<Self> {
        counts.into_iter().map(|(label, count)| Self::of(vec![label.to_owned()], count)).collect()
    }
}

/// Error of a source. The family is omitted from that scrape, and the error is logged.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

pub trait MetricSource: Send + Sync {
    fn family(&self) -> &Family;

    /// Reads the current values. Must be cheap: the endpoint is public, although it is read at most once per second.
    fn samples(&self) -> BoxFuture<'_, Result<Vec<Sample>, SourceError>>;
}

/// Source backed by a function.
struct FunctionSource<F> {
    family: Family,
    read: F,
}

impl<F> FunctionSource<F> {
    fn new(family: Family, read: F) -> Self {
        Self { family, read }
    }
}

impl<F, R> MetricSource for FunctionSource<F>
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = Result<Vec<Sample>, SourceError>> + Send + 'static,
{
    fn family(&self) -> &Family {
        &self.family
    }

    fn samples(&self) -> BoxFuture<'_, Result<Vec<Sample>, SourceError>> {
        (self.read)().boxed()
    }
}

/// Metrics of a domain, which are read at scrape time.
#[derive(Default)]
pub struct MetricList(pub(super) Vec<Box<dyn MetricSource>>);

impl std::fmt::Debug for MetricList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|source| source.family().name)).finish()
    }
}

impl MetricList {
    /// Adds a metric that `read` reads from `owner`. It must be cheap: the endpoint is public, although it is read at
    /// most once per second.
    pub fn read<T, F, R>(&mut self, family: Family, owner: &T, read: F)
    where
        T: Clone + Send + Sync + 'static,
        F: Fn(T) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Sample>, SourceError>> + Send + 'static,
    {
        let owner = owner.clone();
        self.0.push(Box::new(FunctionSource::new(family, move || read(owner.clone()))));
    }
}

/// State of a counter, which never decreases even if its source restarts from a lower value.
#[derive(Debug, Clone, Copy, Default)]
struct MonotonicCounter {
    last_read: f64,
    exposed: f64,
}

/// Source with its state between scrapes.
pub(super) struct Registered {
    source: Box<dyn MetricSource>,
    /// Label sets with their own line, in order of arrival.
    seen: Mutex<HashMap<Vec<String>, MonotonicCounter>>,
}

impl Registered {
    pub(super) fn new(source: Box<dyn MetricSource>) -> Self {
        Self { source, seen: Mutex::default() }
    }

    /// Reads the family with its current lines; `None` if the source fails.
    pub(super) async fn read(&self) -> Option<(Family, Vec<Sample>)> {
        let family = *self.source.family();
        match self.source.samples().await {
            Ok(samples) => Some((family, self.limit_samples(family, samples))),
            Err(error) => {
                tracing::debug!(metric = family.name, %error, "failed to read metric; omitting it");
                None
            }
        }
    }

    /// Limits the samples to [`MAX_LABEL_SETS`] lines plus the lines labelled `other`, sorted. Counters never decrease.
    fn limit_samples(&self, family: Family, samples: Vec<Sample>) -> Vec<Sample> {
        let mut seen = self.seen.lock();
        let mut read: HashMap<Vec<String>, f64> = HashMap::new();
        for Sample { mut labels, value } in samples {
            if let Some(first) = labels.first_mut() {
                *first = sanitize_value(first);
            }
            if !seen.contains_key(&labels) && seen.len() >= MAX_LABEL_SETS {
                // The other labels are kept, because sums are grouped by them.
                if let Some(first) = labels.first_mut() {
                    OTHER.clone_into(first);
                }
            }
            seen.entry(labels.clone()).or_default();
            *read.entry(labels).or_default() += value;
        }
        let mut lines: Vec<Sample> = match family.kind {
            FamilyKind::Gauge => read.into_iter().map(|(labels, value)| Sample { labels, value }).collect(),
            FamilyKind::Counter => seen
                .iter_mut()
                .map(|(labels, rising)| {
                    // A missing label set counts as zero: its source restarted.
                    let now = read.get(labels).copied().unwrap_or(0.0);
                    rising.exposed += if now >= rising.last_read { now - rising.last_read } else { now };
                    rising.last_read = now;
                    Sample { labels: labels.clone(), value: rising.exposed }
                })
                .collect(),
        };
        lines.sort_unstable_by(|left, right| left.labels.cmp(&right.labels));
        lines
    }
}

/// Truncates a label value and replaces control characters, because the value may come from untrusted input.
fn sanitize_value(value: &str) -> String {
    let exposed = |character: char| if character.is_control() { '\u{fffd}' } else { character };
    value.chars().take(MAX_LABEL_VALUE_CHARACTERS).map(exposed).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKENS: Family =
        Family { name: "tokens_total", help: "h", kind: FamilyKind::Counter, labels: &["model", "type"] };

    fn registered(family: Family) -> Registered {
        Registered::new(Box::new(FunctionSource::new(family, || async { Ok(Vec::new()) })))
    }

    proptest! {
        #[test]
        fn counters_never_fall_and_lines_are_bounded(
            rounds in prop::collection::vec(prop::collection::vec((0u16..400, 0u32..1000), 0..350), 1..12)
        ) {
            let registered = registered(TOKENS);
            let mut exposed: HashMap<Vec<String>, f64> = HashMap::new();
            for round in rounds {
                let samples = round.iter().map(|(model, value)| Sample {
                    labels: vec![model.to_string(), "input".to_owned()],
                    value: f64::from(*value),
                });
                let lines = registered.limit_samples(TOKENS, samples.collect());
                prop_assert!(lines.len() <= MAX_LABEL_SETS + 1);
                for Sample { labels, value } in &lines {
                    prop_assert!(*value >= exposed.get(labels).copied().unwrap_or(0.0));
                }
                prop_assert!(exposed.keys().all(|labels| lines.iter().any(|line| &line.labels == labels)));
                exposed = lines.into_iter().map(|line| (line.labels, line.value)).collect();
            }
        }
    }

    #[test]
    fn counter_continues_after_its_source_restarts() {
        let registered = registered(Family { labels: &[], ..TOKENS });
        let show = |value| {
            registered.limit_samples(TOKENS, vec![Sample { labels: Vec::new(), value }]).first().map(|line| line.value)
        };
        assert_eq!(show(100.0), Some(100.0));
        assert_eq!(show(20.0), Some(120.0));
        assert_eq!(show(25.0), Some(125.0));
    }

    #[test]
    fn label_sets_over_the_limit_keep_their_other_labels() {
        let registered = registered(TOKENS);
        let sample = |model: String, kind: &str| Sample { labels: vec![model, kind.to_owned()], value: 1.0 };
        let models = (0..MAX_LABEL_SETS).map(|number| format!("model-{number}\n{}", "x".repeat(200)));
        let samples = models.flat_map(|model| [sample(model.clone(), "input"), sample(model, "output")]);
        let lines = registered.limit_samples(TOKENS, samples.collect());
        let others: Vec<_> = lines.iter().filter(|line| line.labels[0] == OTHER).collect();
        assert_eq!(others.iter().map(|line| line.labels[1].as_str()).collect::<Vec<_>>(), ["input", "output"]);
        assert_eq!(others.iter().map(|line| line.value).collect::<Vec<_>>(), [128.0, 128.0]);
        assert!(lines.iter().all(|line| line.labels[0].chars().count() <= MAX_LABEL_VALUE_CHARACTERS));
        assert!(lines.iter().all(|line| !line.labels[0].contains('\n')));
    }

    #[test]
    fn gauge_decreases_and_drops_missing_lines() {
        let registered = registered(TOKENS);
        let gauge = Family { kind: FamilyKind::Gauge, ..TOKENS };
        let line = |value| vec![Sample { labels: vec!["a".into(), "b".into()], value }];
        assert_eq!(registered.limit_samples(gauge, line(5.0)), line(5.0));
        assert_eq!(registered.limit_samples(gauge, line(2.0)), line(2.0));
        assert_eq!(registered.limit_samples(gauge, Vec::new()), Vec::new());
    }
}
