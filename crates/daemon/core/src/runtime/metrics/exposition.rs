//! Prometheus text exposition format, version 0.0.4, written by `prometheus-client`.
//!
//! Every family is written with its type even without values, because dashboards and rules rely on it.

use std::fmt;

use bytes::Bytes;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::source::{Family, FamilyKind, Sample};

/// Suffix that the encoder adds to the names of counters.
const COUNTER_SUFFIX: &str = "_total";
/// Up to this value, an `f64` represents every integer exactly.
const MAX_INTEGER: f64 = (1_u64 << 53) as f64;

/// Family with its current values.
#[derive(Debug)]
pub(super) enum FamilySnapshot {
    Values {
        family: Family,
        samples: Vec<Sample>,
    },
    Histograms {
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        /// Histograms, each with the values of its labels.
        series: Vec<(Vec<String>, Histogram)>,
    },
}

impl FamilySnapshot {
    /// Creates a family without labels that has one value.
    pub(super) fn one(family: Family, value: f64) -> Self {
        Self::Values { family, samples: vec![Sample { labels: Vec::new(), value }] }
    }
}

/// Returns the text exposition of these families, in their order.
pub(super) fn text(families: Vec<FamilySnapshot>) -> Bytes {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot(families)));
    let mut text = String::new();
    if let Err(error) = encode(&mut text, &registry) {
        tracing::error!(%error, "metrics not encoded");
    }
    text.into()
}

#[derive(Debug)]
struct Snapshot(Vec<FamilySnapshot>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| match family {
            FamilySnapshot::Values { family, samples } => write_values(&mut encoder, family, samples),
            FamilySnapshot::Histograms { name, help, labels, series } => {
                let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
                series
                    .iter()
                    .try_for_each(|(values, histogram)| histogram.encode(metric.encode_family(&pairs(labels, values))?))
            }
        })
    }
}

fn write_values(encoder: &mut DescriptorEncoder<'_>, family: &Family, samples: &[Sample]) -> fmt::Result {
    let (name, kind) = match family.kind {
        FamilyKind::Counter => (family.name.strip_suffix(COUNTER_SUFFIX).unwrap_or(family.name), MetricType::Counter),
        FamilyKind::Gauge => (family.name, MetricType::Gauge),
    };
    let mut metric = encoder.encode_descriptor(name, family.help, None, kind)?;
    for sample in samples {
        let labels = pairs(family.labels, &sample.labels);
        let mut line = metric.encode_family(&labels)?;
        match (family.kind, as_integer(sample.value)) {
            (FamilyKind::Counter, Some(value)) => line.encode_counter::<NoLabelSet, _, f64>(&value, None)?,
            (FamilyKind::Counter, None) => line.encode_counter::<NoLabelSet, _, f64>(&sample.value, None)?,
            (FamilyKind::Gauge, Some(value)) => line.encode_gauge(&value)?,
            (FamilyKind::Gauge, None) => line.encode_gauge(&sample.value)?,
        }
    }
    Ok(())
}

fn pairs<'a>(labels: &[&'static str], values: &'a [String]) -> Vec<(&'static str, &'a str)> {
    labels.iter().copied().zip(values.iter().map(String::as_str)).collect()
}

/// Returns the value as an integer if it is one, so that it is written without a decimal point.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a whole number in range")]
fn as_integer(value: f64) -> Option<u64> {
    (value.fract() == 0.0 && (0.0..MAX_INTEGER).contains(&value)).then_some(value as u64)
}

#[allow(clippy::cast_precision_loss, reason = "metric values may be approximate")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(families: Vec<FamilySnapshot>) -> String {
        String::from_utf8(text(families).to_vec()).unwrap()
    }

    #[test]
    fn families_are_written_in_prometheus_format() {
        let histogram = Histogram::new([0.0025, 0.5, 10.0]);
        [0.002, 0.5, 20.0].into_iter().for_each(|value| histogram.observe(value));
        let sample = |label: &str, value| Sample { labels: vec![label.to_owned()], value };
        let text = lines(vec![
            FamilySnapshot::Values {
                family: Family::counter("svc_a_total", "Counts\nthings.").by(&["kind"]),
                samples: vec![sample("x", 1_000_000.0), sample("y", 0.25)],
            },
            FamilySnapshot::one(Family::gauge("svc_b", "A gauge."), -1.5),
            FamilySnapshot::Values { family: Family::counter("svc_c_total", "Nothing yet."), samples: Vec::new() },
            FamilySnapshot::Histograms {
                name: "svc_d_seconds",
                help: "h",
                labels: &["l"],
                series: vec![(vec!["v".into()], histogram)],
            },
            FamilySnapshot::Histograms { name: "svc_e_seconds", help: "h", labels: &[], series: Vec::new() },
        ]);
        let expected = r#"# HELP svc_a_total Counts\nthings.
# TYPE svc_a_total counter
svc_a_total{kind="x"} 1000000
svc_a_total{kind="y"} 0.25
# HELP svc_b A gauge.
# TYPE svc_b gauge
svc_b -1.5
# HELP svc_c_total Nothing yet.
# TYPE svc_c_total counter
# HELP svc_d_seconds h
# TYPE svc_d_seconds histogram
svc_d_seconds_bucket{l="v",le="0.0025"} 1
svc_d_seconds_bucket{l="v",le="0.5"} 2
svc_d_seconds_bucket{l="v",le="10"} 2
svc_d_seconds_bucket{l="v",le="+Inf"} 3
svc_d_seconds_sum{l="v"} 20.502
svc_d_seconds_count{l="v"} 3
# HELP svc_e_seconds h
# TYPE svc_e_seconds histogram
"#;
        assert_eq!(text, expected);
    }

    proptest! {
        #[test]
        fn label_value_round_trips_on_one_line(value in "\\PC*|[\\n\"\\\\]{0,8}") {
            let family = Family::gauge("m", "h").by(&["l"]);
            let text = lines(vec![FamilySnapshot::Values {
                family,
                samples: vec![Sample { labels: vec![value.clone()], value: 1.5 }],
            }]);
            let line = text.strip_prefix("# HELP m h\n# TYPE m gauge\n").unwrap();
            let inner = line.strip_prefix("m{l=\"").and_then(|rest| rest.strip_suffix("\"} 1.5\n")).unwrap();
            prop_assert!(!inner.contains('\n'));
            let mut read = String::new();
            let mut characters = inner.chars();
            while let Some(character) = characters.next() {
                read.push(match (character, character == '\\') {
                    (_, true) => match characters.next() { Some('n') => '\n', Some(other) => other, None => panic!() },
                    (other, false) => { prop_assert!(other != '"'); other }
                });
            }
            prop_assert_eq!(read, value);
        }
    }
}
