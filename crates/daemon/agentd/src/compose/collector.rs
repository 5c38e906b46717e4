//! Export of traces, metrics and logs to an OTLP collector, if one is configured.

use std::sync::Arc;

use agentd_base::Clock;
use agentd_core::runtime::{AppContext, Family, MetricList, Metrics, Sample};
use agentd_core::settings::Settings;
use agentd_net::{GuardedClient, Trust};
use agentd_telemetry::{KeyValue, LogRecords, Span, SpanKind, TelemetryConfig, Tracer, number};
use agentd_web::{CompletedRequest, RequestSpans};

/// Returns the HTTP client of the exporters. It trusts the collector's address, because the owner configured it.
fn client(settings: &Settings) -> GuardedClient {
    GuardedClient::new(settings.policy(), Trust::Owner)
}

/// Starts the tasks that export traces and metrics.
pub(super) fn start_export(
    context: &AppContext,
    settings: &Settings,
    telemetry: Option<&TelemetryConfig>,
    metrics: &Arc<Metrics>,
) {
    let Some(telemetry) = telemetry else { return };
    let (client, entropy) = (client(settings), context.entropy.clone());
    if context.tracer.is_enabled() {
        let (tracer, resource) = (context.tracer.clone(), telemetry.resource(&context.instance));
        let (client, entropy) = (client.clone(), entropy.clone());
        context
            .supervise("otlp.traces", move || tracer.clone().export(client.clone(), entropy.clone(), resource.clone()));
    }
    let meter = context.recorder.meter().clone();
    if meter.is_enabled() {
        let metrics = Arc::clone(metrics);
        context.supervise("otlp.metrics", move || {
            let metrics = Arc::clone(&metrics);
            let collect = move || {
                let metrics = Arc::clone(&metrics);
                async move { metrics.values().await }
            };
            meter.clone().export(client.clone(), entropy.clone(), collect)
        });
    }
}

/// Returns the counter of log records by outcome, if log records are exported.
pub(super) fn log_record_metrics(records: &LogRecords) -> MetricList {
    let mut metrics = MetricList::default();
    if records.is_enabled() {
        let help = "Log records by their outcome at the collector (sent, dropped), since the daemon started.";
        let family = Family::counter("svc_otlp_log_records_total", help).by(&["outcome"]);
        metrics.read(family, records, async |records| {
            let counts = records.counts().unwrap_or_default();
            Ok(Sample::each([("sent", counts.sent), ("dropped", counts.dropped)]))
        });
    }
    metrics
}

/// Starts the task that exports log records.
pub(super) fn start_log_export(
    context: &AppContext,
    settings: &Settings,
    telemetry: &TelemetryConfig,
    records: &LogRecords,
) {
    if !records.is_enabled() {
        return;
    }
    let (client, records, entropy) = (client(settings), records.clone(), context.entropy.clone());
    let resource = telemetry.resource(&context.instance);
    context.supervise("otlp.logs", move || records.clone().export(client.clone(), entropy.clone(), resource.clone()));
}

/// Records spans of API requests. Probes and metrics are excluded, because they are frequent and carry no information.
struct TraceRequests {
    tracer: Tracer,
    clock: Clock,
}

/// Returns the recorder of request spans, if traces are exported.
pub(super) fn request_spans(context: &AppContext) -> Option<Arc<dyn RequestSpans>> {
    let (tracer, clock) = (context.tracer.clone(), context.clock.clone());
    tracer.is_enabled().then(|| Arc::new(TraceRequests { tracer, clock }) as Arc<dyn RequestSpans>)
}

impl RequestSpans for TraceRequests {
    fn record(&self, request: &CompletedRequest<'_>) {
        if !request.route.starts_with("/api/") {
            return;
        }
        self.tracer.record(|| {
            let ended_at = self.clock.now();
            let status = request.status;
            let mut attributes = vec![
                KeyValue::new("http.request.method", request.method.as_str().to_owned()),
                KeyValue::new("http.route", request.route.to_owned()),
                number("http.response.status_code", u64::from(status.as_u16())),
            ];
            // Client errors (4xx) are not errors of a server span.
            let is_error = status.is_server_error();
            if is_error {
                attributes.push(KeyValue::new("error.type", status.as_str().to_owned()));
            }
            Span {
                context: request.trace.context,
                parent: request.trace.parent,
                name: format!("{} {}", request.method, request.route),
                kind: SpanKind::Server,
                started_at: ended_at - request.elapsed,
                ended_at,
                attributes,
                error: is_error.then(|| status.to_string()),
            }
        });
    }
}
