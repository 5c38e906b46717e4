//! Log output: each machine-readable line is a JSON object with the id of its request.

use agentd_llm::{Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::{Value, json};

use crate::support::TestProcess;

#[tokio::test]
async fn log_lines_of_a_turn_carry_the_id_of_the_request_that_started_it() {
    let mut process = TestProcess::with_owner().await;
    process.terminate().await;
    process.spawn_after("export SVC_LOG_FORMAT=json").await;
    let usage = Usage {
        input_tokens: 1,
        output_tokens: 1,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        source: UsageSource::Provider,
    };
    let script = Script::always(Reply::text(["Paris"].into_iter(), usage));
    let vendor = FakeVendor::start_without_recording(Vendor::Openai, script).await.expect("a fake vendor");
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let settings = json!({"default_provider": "openai", "default_model": "fake"});
    process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    let agent = process.create_agent("scout").await;
    let conversation = process.post("/api/chat/conversations").json(&json!({"agent_id": agent["id"]})).send().await;
    let conversation = conversation.expect_status(201).json();
    let message = json!({"conversation_id": conversation["id"], "content": "Which capital?"});
    let request = process.post("/api/chat/messages/stream").header("x-request-id", "asked-once").json(&message);
    let answer = request.send().await.expect_status(200);
    assert!(answer.text().contains("Paris"), "{}", answer.text());
    process.terminate().await;

    let log = process.log();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let spans_of = |message: &str| -> Vec<Value> {
        let matching = lines.iter().filter(|line| line["fields"]["message"] == message);
        matching.flat_map(|line| line["spans"].as_array().cloned().unwrap_or_default()).collect()
    };
    let ended = spans_of("turn ended");
    assert!(ended.iter().any(|span| span["request_id"] == "asked-once"), "{ended:?}");
    let answered = spans_of("request completed");
    let is_request = |span: &&Value| span["request_id"] == "asked-once";
    let answered = answered.iter().find(is_request).expect("the line of the request");
    assert_eq!((&answered["method"], &answered["route"]), (&json!("POST"), &json!("/api/chat/messages/stream")));
}

#[tokio::test]
async fn log_lines_of_a_command_carry_the_id_of_its_request() {
    let mut process = TestProcess::with_owner().await;
    process.terminate().await;
    process.spawn_after("export SVC_LOG_FORMAT=json").await;
    crate::cli::agentd(&process, &["keys", "list"]).await.success();
    process.terminate().await;

    let log = process.log();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let answered = lines.filter(|line| line["fields"]["message"] == "request completed");
    let spans: Vec<Value> = answered.flat_map(|line| line["spans"].as_array().cloned().unwrap_or_default()).collect();
    let listed = spans.iter().find(|span| span["route"] == "/api/auth/keys").expect("the line of the request");
    assert!(listed["request_id"].as_str().is_some_and(|id| id.starts_with("req_")), "{listed}");
}

#[tokio::test]
async fn ready_line_names_version_configuration_database_and_telemetry() {
    let mut process = TestProcess::with_owner().await;
    process.terminate().await;
    process
        .spawn_after("export SVC_LOG_FORMAT=json OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:9/v1/traces")
        .await;
    let log = process.log();
    let mut lines = log.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_ready =
        |line: &Value| line["fields"]["message"].as_str().is_some_and(|text| text.starts_with("agentd is ready"));
    let ready = lines.find(is_ready).expect("the ready line")["fields"].clone();
    assert_eq!(ready["version"], env!("CARGO_PKG_VERSION"), "{ready}");
    assert_eq!(ready["config.file"], "none", "{ready}");
    assert_eq!(ready["telemetry"], "traces to http://127.0.0.1:9", "{ready}");
    let engine = if process.database_url().is_some() { "PostgreSQL " } else { "SQLite /" };
    assert!(ready["database"].as_str().is_some_and(|database| database.starts_with(engine)), "{ready}");
    assert!(!ready["database"].as_str().is_some_and(|database| database.contains('@')), "{ready}");
}
