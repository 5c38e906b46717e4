//! Export of log records with their fields and trace context.

use std::sync::Arc;
use std::time::Duration;

use agentd_base::{Entropy, trace};
use agentd_net::GuardedClient;
use opentelemetry::logs::{AnyValue, LogRecord as _};
use opentelemetry::{InstrumentationScope, SpanId, TraceFlags, TraceId};
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::LogExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter as _, LogProcessor, SdkLogRecord, SdkLoggerProvider};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use crate::batch::{ItemCounts, Queue};
use crate::config::{Destination, TelemetryConfig};
use crate::export::{ExportBatch, Transport, log_exporter, run};

/// Libraries used by the export itself, whose records would cause further exports without end.
const OWN_LIBRARIES: [&str; 7] = ["h2", "hyper", "hyper_util", "opentelemetry", "reqwest", "rustls", "tower"];

type Record = (SdkLogRecord, InstrumentationScope);

#[derive(Debug)]
struct Shared {
    queue: Queue<Record>,
    destination: Destination,
}

/// Log records of a process. Cheap to clone. Created before logging starts.
#[derive(Debug, Clone, Default)]
pub struct LogRecords(Option<Arc<Shared>>);

impl LogRecords {
    /// Queues records until [`export`](Self::export) sends them; disabled if no log collector is configured.
    #[must_use]
    pub fn new(config: Option<&TelemetryConfig>) -> Self {
        let shared = config.and_then(|config| {
            let destination = config.logs.clone()?;
            Some(Arc::new(Shared { queue: Queue::new(config.log_batches), destination }))
        });
        Self(shared)
    }

    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Returns `None` if log export is disabled.
    #[must_use]
    pub fn counts(&self) -> Option<ItemCounts> {
        self.0.as_ref().map(|shared| shared.queue.counts())
    }

    /// Returns a subscriber layer that queues the records accepted by `is_logged`; `None` if log export is disabled.
    #[must_use]
    pub fn layer<S>(&self, is_logged: fn(&Metadata<'_>) -> bool) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let processor = BoundedLogProcessor(Arc::clone(self.0.as_ref()?));
        let provider = SdkLoggerProvider::builder().with_log_processor(processor).build();
        Some(
            OpenTelemetryTracingBridge::new(&provider)
                .with_filter(filter_fn(move |metadata| is_exported(metadata) && is_logged(metadata))),
        )
    }

    /// Exports records until [`shut_down`](Self::shut_down).
    pub async fn export(self, client: GuardedClient, entropy: Entropy, resource: Resource) {
        let Some(shared) = self.0 else { return };
        let queue = &shared.queue;
        let delivery = Transport { client, entropy }.deliver(&shared.destination, queue.stops());
        match log_exporter(&delivery) {
            Ok(mut exporter) => {
                exporter.set_resource(&resource);
                run(queue, &delivery, &Exporter(exporter)).await;
            }
            Err(error) => {
                tracing::error!(%error, "log exporter failed to start");
                queue.finish();
            }
        }
    }

    /// Sends the queued records once and ends the export, within `limit`.
    pub async fn shut_down(&self, limit: Duration) {
        if let Some(shared) = &self.0 {
            shared.queue.drain(limit).await;
        }
    }
}

fn is_exported(metadata: &Metadata<'_>) -> bool {
    let library = metadata.target().split("::").next().unwrap_or_default();
    !OWN_LIBRARIES.contains(&library)
}

/// Queues records for the export task and drops those that do not fit.
#[derive(Debug)]
struct BoundedLogProcessor(Arc<Shared>);

impl LogProcessor for BoundedLogProcessor {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        if let Some(context) = trace::current() {
            let flags = TraceFlags::default().with_sampled(context.is_sampled);
            record.set_trace_context(
                TraceId::from_bytes(context.trace_id.to_bytes()),
                SpanId::from_bytes(context.span_id.to_bytes()),
                Some(flags),
            );
        }
        self.0.queue.push((record.clone(), scope.clone()), size_of_record(record));
    }

    /// Requests an export without waiting, because a collector may be unresponsive.
    fn force_flush(&self) -> OTelSdkResult {
        self.0.queue.flush();
        Ok(())
    }

    /// Ends the export after the queued records, without waiting; see [`LogRecords::shut_down`].
    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        self.0.queue.stop();
        Ok(())
    }
}

/// Returns the approximate size of a record in memory, in bytes.
fn size_of_record(record: &SdkLogRecord) -> usize {
    let value_size = |value: &AnyValue| match value {
        AnyValue::String(text) => text.as_str().len(),
        AnyValue::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    let attributes: usize = record
        .attributes_iter()
        .map(|(_, value)| size_of::<(opentelemetry::Key, AnyValue)>() + value_size(value))
        .sum();
    size_of::<Record>() + record.body().map_or(0, value_size) + attributes
}

struct Exporter(LogExporter);

impl ExportBatch<Record> for Exporter {
    async fn export(&self, batch: Vec<Record>) -> bool {
        let records: Vec<_> = batch.iter().map(|(record, scope)| (record, scope)).collect();
        self.0.export(LogBatch::new(&records)).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use agentd_base::trace::{TraceContext, with_context};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::config::DaemonOptions;
    use crate::options::Variables;

    fn records() -> LogRecords {
        let variables = Variables::from_iter([
            ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://c"),
            ("OTEL_BLRP_SCHEDULE_DELAY", "10"),
        ]);
        LogRecords::new(TelemetryConfig::parse(&DaemonOptions::default(), &variables).unwrap().as_ref())
    }

    #[tokio::test]
    async fn record_has_fields_and_trace_context() {
        let records = records();
        let subscriber = tracing_subscriber::registry().with(records.layer(|_| true));
        let context = TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let _log = tracing::subscriber::set_default(subscriber);
        with_context(context, async { tracing::warn!(items = 7, "queue full") }).await;
        tracing::warn!(target: "hyper::client", "emitted by the exporter");
        let queue = &records.0.as_ref().unwrap().queue;
        let batch = queue.next_batch().await;
        assert_eq!(batch.len(), 1, "{batch:?}");
        let (record, _) = &batch[0];
        assert_eq!(record.body(), Some(&AnyValue::from("queue full")));
        assert!(record.attributes_iter().any(|(key, value)| key.as_str() == "items" && *value == AnyValue::Int(7)));
        let found = record.trace_context().unwrap();
        assert_eq!(found.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(found.span_id.to_string(), "00f067aa0ba902b7");
    }

    #[tokio::test]
    async fn records_beyond_the_queue_are_dropped() {
        let records = records();
        let subscriber = tracing_subscriber::registry().with(records.layer(|_| true));
        let _log = tracing::subscriber::set_default(subscriber);
        for _ in 0..2_050 {
            tracing::info!("x");
        }
        assert_eq!(records.counts().unwrap().dropped, 2);
    }
}
