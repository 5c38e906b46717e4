//! Export of metrics and logs to an OpenTelemetry collector. Traces have separate tests.

use std::collections::BTreeMap;

use agentd_testing_llm::{Reply, Script};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};
use prost::Message;
use serde_json::json;

use crate::hooks::receiver::{Answer, Receiver};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};
use crate::support::{Eventually, TestApp, TestProcess};

fn string_attributes(attributes: &[KeyValue]) -> BTreeMap<&str, &str> {
    let mut texts = BTreeMap::new();
    for KeyValue { key, value, .. } in attributes {
        if let Some(any_value::Value::StringValue(text)) = value.as_ref().and_then(|value| value.value.as_ref()) {
            texts.insert(key.as_str(), text.as_str());
        }
    }
    texts
}

/// Returns the metrics of the last request.
fn metrics(collector: &Receiver) -> Vec<Metric> {
    let Some(last) = collector.received().into_iter().rfind(|received| received.path == "/in/v1/metrics") else {
        return Vec::new();
    };
    assert_eq!(last.header("content-type"), "application/x-protobuf");
    assert_eq!(last.header("x-tenant"), "seven");
    let request = ExportMetricsServiceRequest::decode(last.bytes).expect("OTLP");
    let resource = request.resource_metrics[0].resource.clone().expect("a resource");
    assert_eq!(string_attributes(&resource.attributes)["service.name"], "ada");
    request.resource_metrics.into_iter().flat_map(|all| all.scope_metrics).flat_map(|scope| scope.metrics).collect()
}

fn find<'m>(metrics: &'m [Metric], name: &str) -> Option<&'m Data> {
    metrics.iter().find(|metric| metric.name == name)?.data.as_ref()
}

fn number(point: &NumberDataPoint) -> f64 {
    match point.value {
        Some(Value::AsDouble(value)) => value,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn metrics_are_exported_under_their_prometheus_names() {
    let collector = Receiver::start().await;
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}/in", collector.address)),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=seven".to_owned()),
        ("OTEL_SERVICE_NAME", "ada".to_owned()),
        ("OTEL_TRACES_EXPORTER", "none".to_owned()),
        ("OTEL_LOGS_EXPORTER", "none".to_owned()),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1000".to_owned()),
    ];
    let app = TestApp::start_with(|source| source.otel = variables.into_iter().collect()).await;
    let fixture = ChatFixture::on(app, Script::always(Reply::text(["x"], TEST_USAGE))).await;
    fixture.exchange(&json!({"content": "hello"})).await;
    let mut eventually = Eventually::new();
    let metrics = loop {
        let metrics = metrics(&collector);
        if find(&metrics, "svc_turn_duration_seconds").is_some() {
            break metrics;
        }
        eventually.retry().await;
    };
    let Some(Data::Histogram(turns)) = find(&metrics, "svc_turn_duration_seconds") else { panic!("{metrics:?}") };
    assert_eq!((turns.data_points[0].count, turns.data_points[0].explicit_bounds[0]), (1, 0.01));
    let Some(Data::Sum(calls)) = find(&metrics, "svc_model_calls_total") else { panic!("{metrics:?}") };
    assert!(calls.is_monotonic);
    let ok =
        calls.data_points.iter().find(|point| string_attributes(&point.attributes)["status"] == "ok").expect("a point");
    assert_eq!((number(ok), string_attributes(&ok.attributes)["provider"]), (1.0, "openai"));
    let Some(Data::Histogram(requests)) = find(&metrics, "svc_http_request_duration_seconds") else {
        panic!("{metrics:?}")
    };
    let routes: Vec<_> =
        requests.data_points.iter().map(|point| string_attributes(&point.attributes)["route"]).collect();
    assert!(routes.contains(&"/api/chat/messages/stream"), "{routes:?}");
    assert!(matches!(find(&metrics, "svc_build_info"), Some(Data::Gauge(_))), "{metrics:?}");
    // A collector that does not respond does not delay the shutdown.
    collector.always(Answer::Hang);
    let ChatFixture { mut app, .. } = fixture;
    app.stop().await;
}

/// Returns all received log records.
fn records(collector: &Receiver) -> Vec<LogRecord> {
    let all = collector.received().into_iter().filter(|received| received.path == "/v1/logs");
    let requests = all.map(|received| ExportLogsServiceRequest::decode(received.bytes).expect("OTLP"));
    let scopes = requests.flat_map(|request| request.resource_logs).flat_map(|all| all.scope_logs);
    scopes.flat_map(|scope| scope.log_records).collect()
}

fn message(record: &LogRecord) -> &str {
    match record.body.as_ref().and_then(|body| body.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text,
        _ => "",
    }
}

#[tokio::test]
async fn log_records_and_spans_of_a_request_share_a_trace() {
    let collector = Receiver::start().await;
    let mut process = TestProcess::stopped().await;
    let variables = format!(
        "export OTEL_EXPORTER_OTLP_ENDPOINT=http://{} OTEL_METRICS_EXPORTER=none OTEL_BLRP_SCHEDULE_DELAY=100 \
         OTEL_BLRP_MAX_QUEUE_SIZE=65536 OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20hunter2",
        collector.address
    );
    process.spawn_after(&variables).await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traceparent = format!("00-{trace}-00f067aa0ba902b7-01");
    process.get("/api/agents").header("traceparent", &traceparent).send().await;
    let is_of_trace =
        |record: &LogRecord| record.trace_id == 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes();
    let mut eventually = Eventually::new();
    while !records(&collector).iter().any(is_of_trace) {
        eventually.retry().await;
    }
    // Shutdown flushes the queues, including the log records from before the daemon was ready.
    assert!(process.terminate().await.success());
    let records = records(&collector);
    let messages: Vec<&str> = records.iter().map(message).collect();
    assert!(messages.contains(&"configuration loaded without a file"), "{messages:?}");
    let loaded = records.iter().find(|record| message(record).starts_with("configuration loaded")).expect("a record");
    assert_eq!((loaded.severity_text.as_str(), loaded.trace_id.len()), ("INFO", 0));
    assert!(messages.iter().any(|message| message.starts_with("shutting down")), "{messages:?}");
    let spans = collector.received().into_iter().filter(|received| received.path == "/v1/traces");
    let requests = spans.map(|received| ExportTraceServiceRequest::decode(received.bytes).expect("OTLP"));
    let scopes = requests.flat_map(|request| request.resource_spans).flat_map(|all| all.scope_spans);
    let names: Vec<String> = scopes.flat_map(|scope| scope.spans).map(|span| span.name).collect();
    assert!(names.contains(&"GET /api/agents".to_owned()), "{names:?}");
    for received in collector.received() {
        assert_eq!(received.header("authorization"), "Bearer hunter2");
        assert!(!received.body.contains("hunter2"), "{}", received.path);
    }
}
