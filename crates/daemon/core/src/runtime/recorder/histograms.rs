//! Cumulative histograms with few buckets, for Prometheus and for the collector if one is configured.

use std::sync::Arc;
use std::time::Duration;

use agentd_telemetry::{KeyValue, Meter};
use prometheus_client::metrics::histogram::Histogram;

/// Histograms of one metric.
#[derive(Debug)]
pub(crate) struct HistogramFamily {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) labels: &'static [&'static str],
    /// Upper bounds in microseconds, ascending.
    bounds_us: &'static [u64],
    exported: agentd_telemetry::Histogram,
}

/// Histogram of one label set. Thread-safe; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct LabelledHistogram {
    prometheus: Histogram,
    exported: agentd_telemetry::Histogram,
    attributes: Arc<[KeyValue]>,
}

#[allow(clippy::cast_precision_loss, reason = "bounds are minutes at most")]
fn seconds(bounds_us: &'static [u64]) -> impl Iterator<Item = f64> {
    bounds_us.iter().map(|bound| *bound as f64 / 1e6)
}

impl HistogramFamily {
    pub(crate) fn new(
        meter: &Meter,
        (name, help): (&'static str, &'static str),
        labels: &'static [&'static str],
        bounds_us: &'static [u64],
    ) -> Self {
        Self { name, help, labels, bounds_us, exported: meter.histogram(name, help, seconds(bounds_us)) }
    }

    /// Creates a histogram for these label values.
    pub(crate) fn with(&self, values: &[&str]) -> LabelledHistogram {
        let attribute = |(label, value): (&&'static str, &&str)| KeyValue::new(*label, (*value).to_owned());
        LabelledHistogram {
            prometheus: Histogram::new(seconds(self.bounds_us)),
            exported: self.exported.clone(),
            attributes: self.labels.iter().zip(values).map(attribute).collect(),
        }
    }
}

impl LabelledHistogram {
    pub(crate) fn record(&self, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        self.prometheus.observe(seconds);
        self.exported.record(seconds, &self.attributes);
    }

    /// Returns the histogram for the Prometheus exposition.
    pub(crate) fn prometheus(&self) -> Histogram {
        self.prometheus.clone()
    }
}
