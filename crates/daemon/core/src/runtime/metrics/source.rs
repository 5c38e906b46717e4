//! Figures that are read from a domain when somebody asks.

use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

/// A family keeps this many label sets; of what comes later the first label is `other`.
const MAX_LABEL_SETS: usize = 256;
const OTHER: &str = "other";
const MAX_VALUE_CHARACTERS: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    Counter,
    Gauge,
}

/// One metric: its name, what it says, and the names of its labels.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: FamilyKind,
    /// The first may have any number of values, each other one a few that are known.
    pub labels: &'static [&'static str],
}

/// One value; `labels` in the order of the family's.
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
    #[allow(clippy::cast_precision_loss, reason = "a figure for people and graphs")]
    pub fn of(labels: Vec<String>, count: u64) -> Self {
        Self { labels, value: count as f64 }
    }

    /// The value of a family without labels.
    #[must_use]
    pub fn one(count: u64) -> Vec<Self> {
        vec![Self::of(Vec::new(), count)]
    }

    /// The same for one that is a time.
    #[must_use]
    pub fn seconds(time: Duration) -> Vec<Self> {
        vec![Self { labels: Vec::new(), value: time.as_secs_f64() }]
    }

    /// What was counted in millionths.
    #[must_use]
    pub fn micros(labels: Vec<String>, micros: u64) -> Self {
        let sample = Self::of(labels, micros);
        Self { value: sample.value / 1e6, ..sample }
    }

    /// The values of a family with one label.
    pub fn each<'l>(counts: impl IntoIterator<Item = (&'l str, u64)>) -> Vec<Self> {
        counts.into_iter().map(|(label, count)| Self::of(vec![label.to_owned()], count)).collect()
    }
}

/// Why a source has nothing to say now. It is left out of that scrape and logged.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

pub trait MetricSource: Send + Sync {
    fn family(&self) -> &Family;

    /// The present values. Must be cheap: the endpoint is public, though asked only once a second.
    fn samples(&self) -> BoxFuture<'_, Result<Vec<Sample>, SourceError>>;
}

/// A source from a function.
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

/// Figures of a domain, which are read when somebody asks for them.
#[derive(Default)]
pub struct MetricList(pub(super) Vec<Box<dyn MetricSource>>);

impl std::fmt::Debug for MetricList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|source| source.family().name)).finish()
    }
}

impl MetricList {
    /// Adds a figure of `owner` that `read` gets. It must be cheap: the endpoint is public, though asked only once a
    /// second.
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

/// What a counter showed: it may only rise, also when its source starts again from less.
#[derive(Debug, Clone, Copy, Default)]
struct Rising {
    last_read: f64,
    shown: f64,
}

/// A source with what must be remembered of it between two scrapes.
pub(super) struct Registered {
    source: Box<dyn MetricSource>,
    /// The label sets that have a line of their own, first come first served.
    seen: Mutex<HashMap<Vec<String>, Rising>>,
}

impl Registered {
    pub(super) fn new(source: Box<dyn MetricSource>) -> Self {
        Self { source, seen: Mutex::default() }
    }

    /// The family with its present lines; `None` where it cannot be read now.
    pub(super) async fn read(&self) -> Option<(Family, Vec<Sample>)> {
        let family = *self.source.family();
        match self.source.samples().await {
            Ok(samples) => Some((family, self.bounded(family, samples))),
            Err(error) => {
                tracing::debug!(metric = family.name, %error, "metric not read and left out");
                None
            }
        }
    }

    /// At most [`MAX_LABEL_SETS`] lines and those for all others, sorted; counters only rise.
    fn bounded(&self, family: Family, samples: Vec<Sample>) -> Vec<Sample> {
        let mut seen = self.seen.lock();
        let mut read: HashMap<Vec<String>, f64> = HashMap::new();
        for Sample { mut labels, value } in samples {
            if let Some(first) = labels.first_mut() {
                *first = bounded_value(first);
            }
            if !seen.contains_key(&labels) && seen.len() >= MAX_LABEL_SETS {
                // The others say what is counted, and sums go by them.
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
                    // What is no longer there counts as nothing: it began anew.
                    let now = read.get(labels).copied().unwrap_or(0.0);
                    rising.shown += if now >= rising.last_read { now - rising.last_read } else { now };
                    rising.last_read = now;
                    Sample { labels: labels.clone(), value: rising.shown }
                })
                .collect(),
        };
        lines.sort_unstable_by(|left, right| left.labels.cmp(&right.labels));
        lines
    }
}

/// A label's value as it is shown: it may be of somebody's choosing, so it is cut, and only what prints stays.
fn bounded_value(value: &str) -> String {
    let shown = |character: char| if character.is_control() { '\u{fffd}' } else { character };
    value.chars().take(MAX_VALUE_CHARACTERS).map(shown).collect()
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
            let mut shown: HashMap<Vec<String>, f64> = HashMap::new();
            for round in rounds {
                let samples = round.iter().map(|(model, value)| Sample {
                    labels: vec![model.to_string(), "input".to_owned()],
                    value: f64::from(*value),
                });
                let lines = registered.bounded(TOKENS, samples.collect());
                prop_assert!(lines.len() <= MAX_LABEL_SETS + 1);
                for Sample { labels, value } in &lines {
                    prop_assert!(*value >= shown.get(labels).copied().unwrap_or(0.0));
                }
                prop_assert!(shown.keys().all(|labels| lines.iter().any(|line| &line.labels == labels)));
                shown = lines.into_iter().map(|line| (line.labels, line.value)).collect();
            }
        }
    }

    #[test]
    fn a_counter_goes_on_after_its_source_began_anew() {
        let registered = registered(Family { labels: &[], ..TOKENS });
        let show = |value| {
            registered.bounded(TOKENS, vec![Sample { labels: Vec::new(), value }]).first().map(|line| line.value)
        };
        assert_eq!(show(100.0), Some(100.0));
        assert_eq!(show(20.0), Some(120.0));
        assert_eq!(show(25.0), Some(125.0));
    }

    #[test]
    fn what_has_no_line_of_its_own_keeps_its_type() {
        let registered = registered(TOKENS);
        let sample = |model: String, kind: &str| Sample { labels: vec![model, kind.to_owned()], value: 1.0 };
        let models = (0..MAX_LABEL_SETS).map(|number| format!("model-{number}\n{}", "x".repeat(200)));
        let samples = models.flat_map(|model| [sample(model.clone(), "input"), sample(model, "output")]);
        let lines = registered.bounded(TOKENS, samples.collect());
        let others: Vec<_> = lines.iter().filter(|line| line.labels[0] == OTHER).collect();
        assert_eq!(others.iter().map(|line| line.labels[1].as_str()).collect::<Vec<_>>(), ["input", "output"]);
        assert_eq!(others.iter().map(|line| line.value).collect::<Vec<_>>(), [128.0, 128.0]);
        assert!(lines.iter().all(|line| line.labels[0].chars().count() <= MAX_VALUE_CHARACTERS));
        assert!(lines.iter().all(|line| !line.labels[0].contains('\n')));
    }

    #[test]
    fn a_gauge_falls_and_its_lines_go() {
        let registered = registered(TOKENS);
        let gauge = Family { kind: FamilyKind::Gauge, ..TOKENS };
        let line = |value| vec![Sample { labels: vec!["a".into(), "b".into()], value }];
        assert_eq!(registered.bounded(gauge, line(5.0)), line(5.0));
        assert_eq!(registered.bounded(gauge, line(2.0)), line(2.0));
        assert_eq!(registered.bounded(gauge, Vec::new()), Vec::new());
    }
}
