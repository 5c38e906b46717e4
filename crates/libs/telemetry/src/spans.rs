//! Export of finished spans.
//!
//! Span ids are known before a span is recorded: they are derived from the session and also shown by the daemon itself.
//! A span may end in a different process than the one in which it began. So spans are not started and ended by the
//! SDK's tracer, but passed to its processor when finished.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agentd_base::trace::{SpanId, TraceContext};
use agentd_base::{Entropy, Timestamp};
use agentd_net::GuardedClient;
use opentelemetry::trace::{self, SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{Array, Context, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks, SpanProcessor};

use crate::batch::{BatchLimits, ItemCounts, Queue};
use crate::config::{Destination, TelemetryConfig};
use crate::export::{ExportBatch, Transport, run, span_exporter};

const SCOPE: &str = "agentd";

/// Finished operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Context of the span itself.
    pub context: TraceContext,
    pub parent: Option<SpanId>,
    pub name: String,
    pub kind: SpanKind,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub attributes: Vec<KeyValue>,
    /// Reason for the failure, if the operation failed.
    pub error: Option<String>,
}

/// Creates a number attribute, which is signed in OTLP.
#[must_use]
pub fn number(key: &'static str, number: u64) -> KeyValue {
    KeyValue::new(key, i64::try_from(number).unwrap_or(i64::MAX))
}

/// Creates an attribute with a list of texts.
#[must_use]
pub fn text_list(key: &'static str, texts: impl IntoIterator<Item = String>) -> KeyValue {
    KeyValue::new(key, Value::Array(Array::String(texts.into_iter().map(StringValue::from).collect())))
}

fn system_time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or(0))
}

impl Span {
    fn into_data(self, scope: InstrumentationScope) -> SpanData {
        let flags = TraceFlags::default().with_sampled(self.context.is_sampled);
        let trace_id = trace::TraceId::from_bytes(self.context.trace_id.to_bytes());
        let span_id = |id: SpanId| trace::SpanId::from_bytes(id.to_bytes());
        SpanData {
            span_context: SpanContext::new(trace_id, span_id(self.context.span_id), flags, false, TraceState::NONE),
            parent_span_id: self.parent.map_or(trace::SpanId::INVALID, span_id),
            parent_span_is_remote: false,
            span_kind: self.kind,
            name: self.name.into(),
            start_time: system_time(self.started_at),
            // The system clock may have been set back in between.
            end_time: system_time(self.ended_at.max(self.started_at)),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: self.error.map_or(Status::Unset, Status::error),
            instrumentation_scope: scope,
        }
    }
}

/// Returns the approximate size of a span in memory, in bytes.
fn size_of_span(span: &SpanData) -> usize {
    let value_size = |value: &Value| match value {
        Value::String(text) => text.as_str().len(),
        Value::Array(Array::String(texts)) => texts.iter().map(|text| text.as_str().len() + size_of::<String>()).sum(),
        _ => 0,
    };
    let attributes: usize =
        span.attributes.iter().map(|attribute| size_of::<KeyValue>() + value_size(&attribute.value)).sum();
    let status = match &span.status {
        Status::Error { description } => description.len(),
        _ => 0,
    };
    size_of::<SpanData>() + span.name.len() + status + attributes
}

/// Queues finished spans for the export task and drops those that do not fit.
#[derive(Debug)]
struct BoundedSpanProcessor(Queue<SpanData>);

impl BoundedSpanProcessor {
    fn new(limits: BatchLimits) -> Self {
        Self(Queue::new(limits))
    }
}

impl SpanProcessor for BoundedSpanProcessor {
    fn on_start(&self, _span: &mut opentelemetry_sdk::trace::Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            let bytes = size_of_span(&span);
            self.0.push(span, bytes);
        }
    }

    /// Requests an export without waiting, because a collector may be unresponsive.
    fn force_flush(&self) -> OTelSdkResult {
        self.0.flush();
        Ok(())
    }

    /// Ends the export after the queued spans, without waiting; see [`Tracer::shut_down`].
    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        self.0.stop();
        Ok(())
    }
}

#[derive(Debug)]
struct Shared {
    processor: BoundedSpanProcessor,
    destination: Destination,
    scope: InstrumentationScope,
    includes_content: bool,
}

/// Records spans. Cheap to clone; a disabled tracer costs one branch.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<Shared>>);

impl Tracer {
    /// Returns a tracer that records nothing.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Queues spans until [`export`](Self::export) sends them; disabled if no trace collector is configured.
    #[must_use]
    pub fn new(config: &TelemetryConfig) -> Self {
        let Some(destination) = config.traces.clone() else { return Self::off() };
        Self(Some(Arc::new(Shared {
            processor: BoundedSpanProcessor::new(config.span_batches),
            destination,
            scope: InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION")).build(),
            includes_content: config.includes_content,
        })))
    }

    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Whether spans may include the content of messages and tool calls.
    #[must_use]
    pub fn includes_content(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.includes_content)
    }

    /// Records a span; `make` is called only if the tracer is enabled.
    pub fn record(&self, make: impl FnOnce() -> Span) {
        if let Some(shared) = &self.0 {
            shared.processor.on_end(make().into_data(shared.scope.clone()));
        }
    }

    /// Returns `None` if the tracer is disabled.
    #[must_use]
    pub fn counts(&self) -> Option<ItemCounts> {
        self.0.as_ref().map(|shared| shared.processor.0.counts())
    }

    /// Exports spans until [`shut_down`](Self::shut_down).
    pub async fn export(self, client: GuardedClient, entropy: Entropy, resource: Resource) {
        let Some(shared) = self.0 else { return };
        let queue = &shared.processor.0;
        let delivery = Transport { client, entropy }.deliver(&shared.destination, queue.stops());
        match span_exporter(&delivery) {
            Ok(mut exporter) => {
                exporter.set_resource(&resource);
                run(queue, &delivery, &Exporter(exporter)).await;
            }
            Err(error) => {
                tracing::error!(%error, "span exporter failed to start");
                queue.finish();
            }
        }
    }

    /// Sends the queued spans once and ends the export, within `limit`.
    pub async fn shut_down(&self, limit: Duration) {
        let Some(shared) = &self.0 else { return };
        if !shared.processor.0.drain(limit).await {
            tracing::warn!("collector too slow at shutdown; last spans lost");
        }
    }
}

struct Exporter(SpanExporter);

impl ExportBatch<SpanData> for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> bool {
        self.0.export(batch).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
    use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;

    use super::*;

    fn span(traceparent: &str) -> Span {
        Span {
            context: TraceContext::parse(traceparent).unwrap(),
            parent: SpanId::parse("00000000000000ff"),
            name: "chat m".to_owned(),
            kind: SpanKind::Client,
            started_at: Timestamp::from_micros(1_700_000_000_000_001),
            ended_at: Timestamp::from_micros(1_700_000_000_500_000),
            attributes: vec![
                KeyValue::new("gen_ai.request.model", "m"),
                number("gen_ai.usage.input_tokens", u64::MAX),
                text_list("gen_ai.response.finish_reasons", ["stop".to_owned()]),
            ],
            error: Some("it was too slow".to_owned()),
        }
    }

    const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn encoded_span_has_its_ids_and_times() {
        let data = span(SAMPLED).into_data(InstrumentationScope::default());
        let groups = group_spans_by_resource_and_scope(vec![data], &ResourceAttributesWithSchema::default());
        let span = &groups[0].scope_spans[0].spans[0];
        assert_eq!(span.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes());
        assert_eq!(span.span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
        assert_eq!(span.parent_span_id, 0xff_u64.to_be_bytes());
        assert_eq!((span.kind, span.name.as_str()), (3, "chat m"));
        assert_eq!(span.start_time_unix_nano, 1_700_000_000_000_001_000);
        assert_eq!(span.end_time_unix_nano, 1_700_000_000_500_000_000);
        let status = span.status.as_ref().unwrap();
        assert_eq!((status.code, status.message.as_str()), (2, "it was too slow"));
    }

    #[test]
    fn span_does_not_end_before_it_begins() {
        let (started_at, ended_at) = (Timestamp::from_micros(5), Timestamp::from_micros(-3));
        let data = Span { started_at, ended_at, parent: None, error: None, ..span(SAMPLED) };
        let data = data.into_data(InstrumentationScope::default());
        assert_eq!((data.start_time, data.end_time), (system_time(started_at), system_time(started_at)));
        assert_eq!((data.parent_span_id, data.status), (trace::SpanId::INVALID, Status::Unset));
    }

    #[tokio::test]
    async fn processor_drops_by_bytes_and_ignores_unsampled_spans() {
        let delay = Duration::from_millis(1);
        let processor = BoundedSpanProcessor::new(BatchLimits { queue_items: 1_000, batch_items: 1_000, delay });
        let scope = InstrumentationScope::default;
        processor.on_end(span(&SAMPLED.replace("-01", "-00")).into_data(scope()));
        assert_eq!(processor.0.counts(), ItemCounts::default());
        let content = || KeyValue::new("content", "x".repeat(1 << 20));
        for _ in 0..10 {
            processor.on_end(Span { attributes: vec![content()], ..span(SAMPLED) }.into_data(scope()));
        }
        assert_eq!(processor.0.counts().dropped, 3, "7 MiB fit into 8 MiB with what a span itself takes");
        processor.force_flush().unwrap();
        assert_eq!(processor.0.next_batch().await.len(), 1, "a batch has a MiB");
        processor.shutdown().unwrap();
        assert!(*processor.0.stops().borrow());
    }
}
