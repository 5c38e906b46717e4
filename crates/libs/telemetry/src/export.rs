//! OpenTelemetry exporters over the guarded client, and the loop that feeds them from a queue.

use agentd_base::Entropy;
use agentd_net::GuardedClient;
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, MetricExporter, Protocol, RetryPolicy, SpanExporter, WithExportConfig,
    WithHttpConfig,
};
use opentelemetry_sdk::metrics::Temporality;
use tokio::sync::watch;

use crate::batch::Queue;
use crate::config::Destination;
use crate::delivery::Delivery;

/// Dependencies of an export.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    pub(crate) client: GuardedClient,
    pub(crate) entropy: Entropy,
}

impl Transport {
    pub(crate) fn deliver(&self, destination: &Destination, stops: watch::Receiver<bool>) -> Delivery {
        Delivery::new(self.client.clone(), destination.clone(), self.entropy.clone(), stops)
    }
}

/// Exporter of one signal.
pub(crate) trait ExportBatch<T> {
    /// Returns whether the collector accepted the request.
    fn export(&self, batch: Vec<T>) -> impl Future<Output = bool> + Send;
}

/// Exports batches until the queue is stopped.
pub(crate) async fn run<T>(queue: &Queue<T>, delivery: &Delivery, exporter: &impl ExportBatch<T>) {
    loop {
        let batch = queue.next_batch().await;
        if batch.is_empty() {
            break;
        }
        let count = batch.len();
        let rejected = if exporter.export(batch).await { delivery.take_rejected().min(count) } else { count };
        queue.record_outcome(count - rejected, rejected);
    }
    queue.finish();
}

fn configured<B: WithExportConfig + WithHttpConfig>(builder: B, delivery: &Delivery) -> B {
    let destination = delivery.destination();
    let builder = builder
        .with_endpoint(destination.url.as_str())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(destination.timeout)
        .with_http_client(delivery.clone())
        .with_retry_policy(RetryPolicy::disabled());
    match destination.compression {
        Some(compression) => builder.with_compression(compression),
        None => builder,
    }
}

pub(crate) fn span_exporter(delivery: &Delivery) -> Result<SpanExporter, ExporterBuildError> {
    configured(SpanExporter::builder().with_http(), delivery).build()
}

pub(crate) fn log_exporter(delivery: &Delivery) -> Result<LogExporter, ExporterBuildError> {
    configured(LogExporter::builder().with_http(), delivery).build()
}

pub(crate) fn metric_exporter(delivery: &Delivery) -> Result<MetricExporter, ExporterBuildError> {
    let builder = MetricExporter::builder().with_http().with_temporality(Temporality::Cumulative);
    configured(builder, delivery).build()
}
