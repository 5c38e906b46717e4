//! Traces: propagation, export to a collector, and log correlation.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_base::Secret;
use agentd_base::trace::{TraceContext, with_context};
use agentd_llm::{ToolCall, Vendor};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Value, json};

use crate::hooks::receiver::{Answer, Receiver};
use crate::skills::Server;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, started};
use crate::support::{Eventually, TestApp, TestProcess};

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SECRET_TEXT: &str = "a word that nobody else may read";

/// Starts a daemon that exports its spans to the receiver.
async fn traced(collector: &Receiver, script: Script, content: bool) -> ChatFixture {
    let address = collector.address;
    let app = TestApp::start_with(|source| {
        source.otlp_endpoint = Some(format!("http://{address}"));
        source.otlp_headers = Some(Secret::new("authorization=Bearer%20very-secret".to_owned()));
        source.otlp_content = content.then(|| "true".to_owned());
    })
    .await;
    ChatFixture::on(app, script).await
}

/// Returns attribute values; integers are text, as in OTLP JSON.
fn values(attributes: &[KeyValue]) -> Value {
    let value = |value: &any_value::Value| match value {
        any_value::Value::StringValue(text) => json!(text),
        any_value::Value::IntValue(number) => json!(number.to_string()),
        any_value::Value::DoubleValue(number) => json!(number),
        other => json!(format!("{other:?}")),
    };
    let pair = |attribute: &KeyValue| {
        let found = attribute.value.as_ref().and_then(|found| found.value.as_ref()).expect("a value");
        (attribute.key.clone(), value(found))
    };
    attributes.iter().map(pair).collect::<serde_json::Map<_, _>>().into()
}

fn span_json(span: &Span) -> Value {
    json!({
        "traceId": hex::encode(&span.trace_id),
        "spanId": hex::encode(&span.span_id),
        "parentSpanId": hex::encode(&span.parent_span_id),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": span.start_time_unix_nano,
        "endTimeUnixNano": span.end_time_unix_nano,
        "attributes": values(&span.attributes),
    })
}

/// Returns all received spans after checking their OTLP format.
fn spans(collector: &Receiver) -> Vec<Value> {
    let mut spans = Vec::new();
    for received in collector.received() {
        assert_eq!(received.path, "/v1/traces");
        assert_eq!(received.header("content-type"), "application/x-protobuf");
        assert_eq!(received.header("authorization"), "Bearer very-secret");
        let request = ExportTraceServiceRequest::decode(received.bytes).expect("OTLP");
        let resource = request.resource_spans[0].resource.as_ref().expect("a resource");
        assert_eq!(values(&resource.attributes)["service.name"], "agentd");
        for span in &request.resource_spans[0].scope_spans[0].spans {
            assert!(span.trace_id.len() == 16 && span.span_id.len() == 8, "{span:?}");
            assert!([0, 8].contains(&span.parent_span_id.len()), "{span:?}");
            assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
            assert!((1..=5).contains(&span.kind), "{span:?}");
            spans.push(span_json(span));
        }
    }
    spans
}

fn attributes(of: &Value) -> BTreeMap<String, Value> {
    let pairs = of["attributes"].as_object().expect("attributes").iter();
    pairs.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Waits for the spans of a turn and returns all spans of its trace.
async fn spans_of_turn(collector: &Receiver, trace: &str) -> Vec<Value> {
    let mut eventually = Eventually::new();
    loop {
        let found: Vec<Value> = spans(collector).into_iter().filter(|span| span["traceId"] == trace).collect();
        let has = |name: &str| found.iter().any(|span| span["name"].as_str().is_some_and(|own| own.starts_with(name)));
        if has("invoke_agent") && has("POST /api/chat/messages/stream") {
            return found;
        }
        eventually.retry_with(&found).await;
    }
}

fn named<'s>(spans: &'s [Value], name: &str) -> Vec<&'s Value> {
    spans.iter().filter(|span| span["name"].as_str().is_some_and(|own| own.starts_with(name))).collect()
}

/// Creates a vendor that calls `list_files` and then answers.
fn call_tool_and_answer() -> Script {
    Script::by(|request| {
        let has_looked = request.body.to_string().contains("tool_call_id");
        if has_looked {
            return Reply::text([SECRET_TEXT], TEST_USAGE);
        }
        Reply::tool_calls(vec![ToolCall::new("v0", "list_files", json!({}))], TEST_USAGE)
    })
}

#[tokio::test]
async fn turn_is_exported_as_spans_of_the_calling_trace() {
    let collector = Receiver::start().await;
    let fixture = traced(&collector, call_tool_and_answer(), false).await;
    let chat_request = fixture.send(&json!({"content": SECRET_TEXT})).header("traceparent", GIVEN);
    let events = chat_request.stream().await.collect().await;
    let session = started(&events, "session_id");
    let spans = spans_of_turn(&collector, TRACE).await;

    let request = named(&spans, "POST /api/chat/messages/stream")[0];
    assert_eq!((&request["parentSpanId"], &request["kind"]), (&json!("00f067aa0ba902b7"), &json!(2)));
    assert_eq!(attributes(request)["http.response.status_code"], "200");
    let turn = named(&spans, "invoke_agent scout")[0];
    assert_eq!(turn["parentSpanId"], request["spanId"]);
    let turn_attributes = attributes(turn);
    assert_eq!(turn_attributes["gen_ai.operation.name"], "invoke_agent");
    assert_eq!(turn_attributes["gen_ai.usage.input_tokens"], "14");
    assert_eq!(turn_attributes["agentd.session.id"], session);
    let calls = named(&spans, "chat ");
    assert_eq!(calls.len(), 2, "{spans:?}");
    for call in calls {
        assert_eq!((&call["parentSpanId"], &call["kind"]), (&turn["spanId"], &json!(3)));
        let attributes_of_call = attributes(call);
        assert_eq!(
            (&attributes_of_call["gen_ai.operation.name"], &attributes_of_call["gen_ai.provider.name"]),
            (&json!("chat"), &json!("openai"))
        );
        assert_eq!(attributes_of_call["gen_ai.usage.output_tokens"], "3");
        assert!(
            attributes_of_call.contains_key("gen_ai.request.model")
                && attributes_of_call.contains_key("gen_ai.response.finish_reasons")
        );
    }
    let tool = named(&spans, "execute_tool list_files")[0];
    assert_eq!(tool["parentSpanId"], turn["spanId"]);
    assert_eq!(attributes(tool)["gen_ai.tool.name"], "list_files");
    // The trace of the API has the same ids.
    let shown = fixture.app.get(&format!("/api/chat/sessions/{session}/trace")).send().await.expect_status(200).json();
    assert_eq!((&shown["trace_id"], &shown["span"]["id"]), (&json!(TRACE), &turn["spanId"]));
    let shown: Vec<&Value> =
        shown["span"]["children"].as_array().expect("parts").iter().map(|part| &part["id"]).collect();
    assert!(shown.contains(&&tool["spanId"]), "{shown:?}");
    // Neither content nor secrets are exported.
    for received in collector.received() {
        assert!(!received.body.contains(SECRET_TEXT), "{}", received.body);
        assert!(!received.body.contains("very-secret"), "{}", received.body);
    }
    let metrics = crate::monitoring::scrape(&fixture.app).await;
    assert!(metrics.contains("svc_otlp_spans_total{outcome=\"sent\"}"), "{metrics}");
}

#[tokio::test]
async fn content_is_exported_if_enabled() {
    let collector = Receiver::start().await;
    let fixture = traced(&collector, call_tool_and_answer(), true).await;
    fixture.send(&json!({"content": SECRET_TEXT})).header("traceparent", GIVEN).stream().await.collect().await;
    let spans = spans_of_turn(&collector, TRACE).await;
    let last = named(&spans, "chat ")
        .into_iter()
        .map(attributes)
        .find(|span| span["gen_ai.output.messages"].as_str().is_some_and(|text| text.contains(SECRET_TEXT)));
    let last = last.expect("the answer");
    let input: Value = serde_json::from_str(last["gen_ai.input.messages"].as_str().expect("text")).expect("JSON");
    assert_eq!(input[0], json!({"role": "user", "parts": [{"type": "text", "content": SECRET_TEXT}]}));
    assert!(attributes(named(&spans, "execute_tool")[0]).contains_key("gen_ai.tool.call.result"));
}

#[tokio::test]
async fn unsampled_trace_is_not_exported() {
    let collector = Receiver::start().await;
    let fixture = traced(&collector, call_tool_and_answer(), false).await;
    let unsampled = GIVEN.replace("-01", "-00");
    fixture.send(&json!({"content": "go"})).header("traceparent", &unsampled).stream().await.collect().await;
    // An invalid header starts a new trace, which is recorded.
    fixture.send(&json!({"content": "go"})).header("traceparent", "00-nonsense").stream().await.collect().await;
    let mut eventually = Eventually::new();
    while named(&spans(&collector), "invoke_agent").is_empty() {
        eventually.retry().await;
    }
    assert!(spans(&collector).iter().all(|span| span["traceId"] != TRACE));
}

async fn count(app: &TestApp, outcome: &str) -> u64 {
    let metrics = crate::monitoring::scrape(app).await;
    let name = format!("svc_otlp_spans_total{{outcome=\"{outcome}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name)).expect("the metric");
    line.parse().expect("a number")
}

#[tokio::test]
async fn export_is_retried_when_the_collector_is_busy() {
    let collector = Receiver::start().await;
    collector
        .then([Answer::With(503, "retry-after", "0".to_owned()), Answer::With(429, "retry-after", "0".to_owned())]);
    let fixture = traced(&collector, call_tool_and_answer(), false).await;
    let received = collector.wait_for(3).await;
    assert_eq!((&received[0].body, &received[1].body), (&received[1].body, &received[2].body));
    let mut eventually = Eventually::new();
    while count(&fixture.app, "sent").await == 0 {
        eventually.retry().await;
    }
    assert_eq!(count(&fixture.app, "dropped").await, 0);
}

#[tokio::test]
async fn failing_collector_loses_only_spans() {
    let collector = Receiver::start().await;
    collector.then([Answer::Status(400)]);
    let fixture = traced(&collector, call_tool_and_answer(), false).await;
    let mut eventually = Eventually::new();
    while count(&fixture.app, "dropped").await == 0 {
        eventually.retry().await;
    }
    // The next batch is sent.
    while count(&fixture.app, "sent").await == 0 {
        fixture.app.get("/api/agents").send().await.expect_status(200);
        eventually.retry().await;
    }
    // A hanging collector delays neither turns nor the shutdown.
    collector.always(Answer::Hang);
    let events = fixture.exchange(&json!({"content": "go"})).await;
    assert_eq!(events.last().expect("an end").event, "done");
    let ChatFixture { mut app, .. } = fixture;
    app.stop().await;
}

#[tokio::test]
async fn pending_spans_are_exported_before_shutdown() {
    let collector = Receiver::start().await;
    let fixture = traced(&collector, call_tool_and_answer(), false).await;
    fixture.send(&json!({"content": "go"})).header("traceparent", GIVEN).stream().await.collect().await;
    let ChatFixture { mut app, .. } = fixture;
    app.stop().await;
    let spans = spans(&collector);
    assert!(!named(&spans, "invoke_agent").is_empty(), "{spans:?}");
}

#[tokio::test]
async fn invalid_collector_configuration_prevents_startup() {
    let process = TestProcess::stopped().await;
    for (name, value, sentence) in [
        ("SVC_OTLP_ENDPOINT", "collector:4318", "SVC_OTLP_ENDPOINT must be the address of a collector"),
        ("SVC_OTLP_HEADERS", "hunter2", "SVC_OTLP_HEADERS: an entry has no `=`"),
        ("SVC_OTLP_CONTENT", "some", "SVC_OTLP_CONTENT is `some`"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "hunter2", "OTEL_EXPORTER_OTLP_TRACES_HEADERS: an entry has no `=`"),
    ] {
        let mut command = process.command();
        command.env("SVC_OTLP_ENDPOINT", "http://127.0.0.1:4318").env(name, value).arg("serve");
        let output = command.output().expect("run the daemon");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains(sentence), "{stderr}");
        assert!(!stderr.contains("hunter2"), "{stderr}");
    }
}

/// Tools and hooks configured by the owner receive the trace context; pages chosen by a model do not.
#[tokio::test]
async fn trace_context_is_sent_only_to_configured_destinations() {
    let app = crate::skills::app().await;
    let server = Server::start(|_| axum::Json(json!({"ok": true})).into_response()).await;
    let address = server.url("");
    let port = address.rsplit(':').next().expect("a port").trim_end_matches('/');
    let steered = format!("http://{{{{input.host}}}}:{port}/steered");
    for (name, url) in [("own", server.url("/own")), ("steered", steered)] {
        let fields = json!({"name": name, "description": "For tests.", "kind": "http", "request": {"url": url}});
        app.post("/api/settings/skills/custom").json(&fields).send().await.expect_status(201);
    }
    let context = TraceContext::parse(GIVEN);
    with_context(context, crate::skills::call(&app, "own", json!({}))).await.expect("an answer");
    assert_eq!(server.requests()[0].headers.get("traceparent").map(String::as_str), Some(GIVEN));
    let allowed = json!({"allowed_hosts": ["127.0.0.1"]});
    app.put("/api/settings/security").json(&allowed).send().await.expect_status(200);
    with_context(context, crate::skills::call(&app, "steered", json!({"host": "127.0.0.1"}))).await.expect("an answer");
    assert!(!server.requests()[1].headers.contains_key("traceparent"));
}

#[tokio::test]
async fn trace_context_is_sent_to_tool_servers() {
    let app = crate::skills::app().await;
    let server = Server::start(|received| {
        if received.method != "POST" {
            return StatusCode::METHOD_NOT_ALLOWED.into_response();
        }
        let request: Value = serde_json::from_str(&received.body).unwrap_or_default();
        let result = match request["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1"}}),
            "tools/list" => json!({"tools": [{"name": "shout", "inputSchema": {"type": "object"}}]}),
            "tools/call" => json!({"content": [{"type": "text", "text": "HELLO"}]}),
            method if method.starts_with("notifications/") => return StatusCode::ACCEPTED.into_response(),
            _ => {
                let error = json!({"code": -32601, "message": "unknown"});
                return axum::Json(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).into_response();
            }
        };
        axum::Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
    })
    .await;
    let fields = json!({"name": "web", "transport": "http", "url": server.url("/mcp")});
    let made = app.post("/api/settings/skills/mcp").json(&fields).send().await.expect_status(201).json();
    let path = format!("/api/settings/skills/mcp/{}/connect", made["id"].as_str().expect("an id"));
    app.post(&path).send().await.expect_status(200);
    with_context(TraceContext::parse(GIVEN), crate::skills::call(&app, "web_shout", json!({})))
        .await
        .expect("an answer");
    let requests = server.requests();
    let is_call = |body: &str| body.contains("tools/call");
    let called = requests.iter().find(|request| is_call(&request.body)).expect("the call");
    assert_eq!(called.headers.get("traceparent").map(String::as_str), Some(GIVEN));
    let body: Value = serde_json::from_str(&called.body).expect("JSON");
    assert_eq!(body["params"]["_meta"]["traceparent"], GIVEN);
    assert!(
        requests
            .iter()
            .filter(|request| !is_call(&request.body))
            .all(|request| !request.headers.contains_key("traceparent"))
    );
}

#[tokio::test]
async fn hooks_and_messages_continue_the_trace_of_their_cause() {
    let receiver = Receiver::start().await;
    let fixture = ChatFixture::saying(&["Yes."]).await;
    let app = &fixture.app;
    let message = json!({"channel": format!("webhook:{}", receiver.url()), "template": "done"});
    for (name, hook_type, config) in [
        ("at-once", "http", json!({"url": receiver.url()})),
        ("queued", "http", json!({"url": receiver.url(), "queued": true})),
        ("message", "builtin", message),
    ] {
        let hook = json!({"name": name, "event_type": "task.completed", "hook_type": hook_type, "config": config});
        app.post("/api/hooks").json(&hook).send().await.expect_status(201);
    }
    let events = fixture.send(&json!({"content": "go"})).header("traceparent", GIVEN).stream().await.collect().await;
    let session = started(&events, "session_id");
    let shown = app.get(&format!("/api/chat/sessions/{session}/trace")).send().await.expect_status(200).json();
    let expected = format!("00-{TRACE}-{}-01", shown["span"]["id"].as_str().expect("an id"));
    let mut eventually = Eventually::new();
    while receiver.received().len() < 3 {
        app.run_workers().await;
        eventually.retry().await;
    }
    for received in receiver.received() {
        assert_eq!(received.header("traceparent"), expected, "{received:?}");
    }
}

/// Log lines of a turn contain its trace id in both formats, also for an interrupted turn.
#[tokio::test]
async fn log_lines_contain_the_trace_id_and_a_killed_turn_keeps_its_trace() {
    let mut process = TestProcess::with_owner().await;
    let pieces: Vec<String> = (0..400).map(|number| format!("t{number} ")).collect();
    let reply = Reply::text(pieces.iter().map(String::as_str), TEST_USAGE).delayed(Duration::from_millis(5));
    let vendor = FakeVendor::start(Vendor::Openai, Script::always(reply)).await.expect("a fake vendor");
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let settings = json!({"default_provider": "openai", "default_model": "fake"});
    process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    process.create_agent("scout").await;
    let message = json!({"content": "Tell me."});
    let chat_request = process.post("/api/chat/messages/stream").header("traceparent", GIVEN).json(&message);
    let mut stream = chat_request.stream().await;
    let mut session = None;
    for _ in 0..5 {
        let event = stream.next().await.expect("next event");
        session = session.or_else(|| event.data["session_id"].as_str().map(str::to_owned));
    }
    process.kill();
    drop(stream);
    process.spawn_after("export SVC_LOG_FORMAT=json").await;
    let path = format!("/api/chat/sessions/{}/trace", session.expect("a session"));
    let shown = process.get(&path).send().await.expect_status(200).json();
    assert_eq!((&shown["trace_id"], &shown["span"]["status"]), (&json!(TRACE), &json!("interrupted")));
    let call = &shown["span"]["children"].as_array().expect("parts").iter().find(|part| part["type"] == "model_call");
    let call = call.expect("the interrupted call");
    assert_eq!(
        (&call["status"], &call["started_at"], &call["duration_ms"]),
        (&json!("interrupted"), &Value::Null, &Value::Null)
    );
    assert_eq!(call["tokens"]["source"], "estimated");
    process.terminate().await;
    let log = process.log();
    let text = log.lines().find(|line| line.contains(TRACE) && !line.starts_with('{'));
    assert!(text.is_some(), "{log}");
    let is_interrupted =
        |line: &&str| line.starts_with('{') && line.contains("session interrupted") && line.contains(TRACE);
    assert!(log.lines().find(is_interrupted).is_some(), "{log}");
}
