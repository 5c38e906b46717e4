//! Counter with one label, incremented by one atomic addition.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::source::{Family, MetricList, MetricSource, Sample, SourceError};

/// Counter with one label whose values are fixed.
#[derive(Debug)]
pub struct CountBy {
    family: Family,
    values: &'static [&'static str],
    counts: Box<[AtomicU64]>,
}

impl CountBy {
    /// Creates a counter of `family`, whose one label has these values.
    #[must_use]
    pub fn new(family: Family, values: &'static [&'static str]) -> Self {
        Self { family, values, counts: values.iter().map(|_| AtomicU64::new(0)).collect() }
    }

    /// Increments the counter of `value`. An undeclared value counts as the last one.
    pub fn count(&self, value: &str) {
        let position =
            self.values.iter().position(|known| *known == value).unwrap_or(self.values.len().saturating_sub(1));
        if let Some(count) = self.counts.get(position) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl MetricSource for Arc<CountBy> {
    fn family(&self) -> &Family {
        &self.family
    }

    fn samples(&self) -> BoxFuture<'_, Result<Vec<Sample>, SourceError>> {
        #[allow(clippy::cast_precision_loss, reason = "metric values may be approximate")]
        let sample = |(value, count): (&&str, &AtomicU64)| Sample {
            labels: vec![(*value).to_owned()],
            value: count.load(Ordering::Relaxed) as f64,
        };
        let samples = self.values.iter().zip(&self.counts).map(sample).collect();
        async move { Ok(samples) }.boxed()
    }
}

impl MetricList {
    /// Adds a counter with one label; the domain keeps the handle.
    pub fn add_counter(&mut self, counter: &Arc<CountBy>) {
        self.0.push(Box::new(Arc::clone(counter)));
    }
}
