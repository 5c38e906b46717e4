//! Metrics for a collector, with the same names as in the Prometheus endpoint.
//!
//! Counters and gauges are read from the domains before each export; histograms are recorded continuously. The
//! Prometheus endpoint does not use this module.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use agentd_base::Entropy;
use agentd_net::GuardedClient;
use opentelemetry::metrics::{AsyncInstrument, MeterProvider as _};
use opentelemetry::{KeyValue, metrics};
use opentelemetry_otlp::MetricExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Temporality};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::config::{Destination, TelemetryConfig};
use crate::export::{Transport, metric_exporter};

const SCOPE: &str = "agentd";

/// Value of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricPoint {
    pub attributes: Vec<KeyValue>,
    pub value: f64,
}

/// Counter or gauge with its current values.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricFamily {
    pub name: &'static str,
    pub help: &'static str,
    pub is_counter: bool,
    pub points: Vec<MetricPoint>,
}

/// Values of the last collection by family name. An entry is created with its instrument and never removed.
type Observed = Arc<Mutex<HashMap<&'static str, Vec<MetricPoint>>>>;

#[derive(Debug)]
struct Shared {
    destination: Destination,
    interval: Duration,
    reader: SharedReader,
    meter: metrics::Meter,
    /// The reader works only while its provider exists.
    _provider: SdkMeterProvider,
    observed: Observed,
    stop: watch::Sender<bool>,
    is_finished: watch::Sender<bool>,
}

/// Records and exports metrics. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Meter(Option<Arc<Shared>>);

impl Meter {
    /// Returns a meter that records nothing.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Creates a meter whose metrics are sent by [`export`](Self::export); disabled if no metrics collector is
    /// configured.
    #[must_use]
    pub fn new(config: &TelemetryConfig, resource: Resource) -> Self {
        let Some(destination) = config.metrics.clone() else { return Self::off() };
        let reader = SharedReader::default();
        let provider = SdkMeterProvider::builder().with_reader(reader.clone()).with_resource(resource).build();
        Self(Some(Arc::new(Shared {
            destination,
            interval: config.metric_interval,
            reader,
            meter: provider.meter(SCOPE),
            _provider: provider,
            observed: Observed::default(),
            stop: watch::Sender::new(false),
            is_finished: watch::Sender::new(false),
        })))
    }

    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Creates a histogram with these upper bounds; it records nothing if the meter is disabled.
    #[must_use]
    pub fn histogram(
        &self,
        name: &'static str,
        help: &'static str,
        bounds: impl IntoIterator<Item = f64>,
    ) -> Histogram {
        Histogram(self.0.as_ref().map(|shared| {
            let bounds = bounds.into_iter().collect();
            shared.meter.f64_histogram(name).with_description(help).with_boundaries(bounds).build()
        }))
    }

    /// Sends metrics at the configured interval until [`shut_down`](Self::shut_down), and then once more. `collect`
    /// reads counters and gauges.
    pub async fn export<C, F>(self, client: GuardedClient, entropy: Entropy, collect: C)
    where
        C: Fn() -> F + Send + Sync,
        F: Future<Output = Vec<MetricFamily>> + Send,
    {
        let Some(shared) = self.0 else { return };
        let mut stops = shared.stop.subscribe();
        let delivery = Transport { client, entropy }.deliver(&shared.destination, shared.stop.subscribe());
        match metric_exporter(&delivery) {
            Ok(exporter) => loop {
                let is_last = tokio::select! {
                    () = tokio::time::sleep(shared.interval) => false,
                    _ = stops.wait_for(|is_stopped| *is_stopped) => true,
                };
                shared.observe(collect().await);
                shared.send(&exporter).await;
                if is_last {
                    break;
                }
            },
            Err(error) => tracing::error!(%error, "metric exporter failed to start"),
        }
        shared.is_finished.send_replace(true);
    }

    /// Sends the last values, once, and ends the export; stops after `limit`.
    pub async fn shut_down(&self, limit: Duration) {
        let Some(shared) = &self.0 else { return };
        let mut is_finished = shared.is_finished.subscribe();
        shared.stop.send_replace(true);
        if tokio::time::timeout(limit, is_finished.wait_for(|is_finished| *is_finished)).await.is_err() {
            tracing::warn!("collector too slow at shutdown; last metrics lost");
        }
    }
}

impl Shared {
    /// Replaces the current values. Creates an instrument for each new family.
    fn observe(&self, families: Vec<MetricFamily>) {
        self.observed.lock().values_mut().for_each(Vec::clear);
        for MetricFamily { name, help, is_counter, points } in families {
            let is_new = self.observed.lock().insert(name, points).is_none();
            if !is_new {
                continue;
            }
            let observed = Arc::clone(&self.observed);
            let callback = move |instrument: &dyn AsyncInstrument<f64>| {
                for point in observed.lock().get(name).into_iter().flatten() {
                    instrument.observe(point.value, &point.attributes);
                }
            };
            // The provider retains the instrument.
            if is_counter {
                self.meter.f64_observable_counter(name).with_description(help).with_callback(callback).build();
            } else {
                self.meter.f64_observable_gauge(name).with_description(help).with_callback(callback).build();
            }
        }
    }

    async fn send(&self, exporter: &MetricExporter) {
        let mut metrics = ResourceMetrics::default();
        match self.reader.collect(&mut metrics) {
            Ok(()) => {
                // Failures are logged by the delivery.
                let _outcome = exporter.export(&metrics).await;
            }
            Err(error) => tracing::warn!(%error, "metrics not collected"),
        }
    }
}

/// Histogram that is recorded for a collector.
#[derive(Debug, Clone, Default)]
pub struct Histogram(Option<metrics::Histogram<f64>>);

impl Histogram {
    pub fn record(&self, value: f64, attributes: &[KeyValue]) {
        if let Some(histogram) = &self.0 {
            histogram.record(value, attributes);
        }
    }
}

/// Reader that stays accessible after it was given to the provider.
#[derive(Debug, Clone, Default)]
struct SharedReader(Arc<ManualReader>);

impl MetricReader for SharedReader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;

    use super::*;
    use crate::config::DaemonOptions;
    use crate::options::Variables;

    fn meter() -> Meter {
        let variables = Variables::from_iter([("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://c")]);
        let config = TelemetryConfig::parse(&DaemonOptions::default(), &variables).unwrap().unwrap();
        Meter::new(&config, config.resource("one"))
    }

    /// Returns names and values or counts of the metrics to be sent.
    fn collected(shared: &Shared) -> Vec<(String, Vec<f64>)> {
        let mut metrics = ResourceMetrics::default();
        shared.reader.collect(&mut metrics).unwrap();
        let request = ExportMetricsServiceRequest::from(&metrics);
        let all = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        let number = |value: Option<Value>| match value {
            Some(Value::AsDouble(value)) => value,
            other => panic!("{other:?}"),
        };
        let mut found: Vec<_> = all
            .flat_map(|scope| scope.metrics)
            .map(|metric| {
                let values = match metric.data.unwrap() {
                    Data::Sum(sum) => sum.data_points.into_iter().map(|point| number(point.value)).collect(),
                    Data::Gauge(gauge) => gauge.data_points.into_iter().map(|point| number(point.value)).collect(),
                    Data::Histogram(all) => {
                        all.data_points.iter().flat_map(|p| p.bucket_counts.clone()).map(|c| c as f64).collect()
                    }
                    other => panic!("{other:?}"),
                };
                (metric.name, values)
            })
            .collect();
        found.sort_by(|(left, _), (right, _)| left.cmp(right));
        found
    }

    #[test]
    fn values_of_the_last_collection_are_sent() {
        let meter = meter();
        let shared = meter.0.as_ref().unwrap();
        let point = |kind: &'static str, value| MetricPoint { attributes: vec![KeyValue::new("kind", kind)], value };
        let families = |count, gauges: &[MetricPoint]| {
            vec![
                MetricFamily { name: "a_total", help: "h", is_counter: true, points: vec![point("x", count)] },
                MetricFamily { name: "b", help: "h", is_counter: false, points: gauges.to_vec() },
            ]
        };
        meter.histogram("c_seconds", "h", [0.1, 1.0]).record(0.5, &[]);
        shared.observe(families(2.0, &[point("x", 5.0)]));
        let expected = |count, gauges: &[f64]| {
            let mut all = vec![("a_total".to_owned(), vec![count])];
            if !gauges.is_empty() {
                all.push(("b".to_owned(), gauges.to_vec()));
            }
            all.push(("c_seconds".to_owned(), vec![0.0, 1.0, 0.0]));
            all
        };
        assert_eq!(collected(shared), expected(2.0, &[5.0]));
        // A counter is sent as its current value, without summing up, and a gauge that disappeared is not repeated.
        shared.observe(families(3.0, &[]));
        assert_eq!(collected(shared), expected(3.0, &[]));
    }

    #[test]
    fn disabled_meter_records_nothing() {
        Meter::off().histogram("c_seconds", "h", [0.1]).record(0.5, &[]);
        assert!(!Meter::off().is_enabled());
    }
}
