//! Health probes and metrics over HTTP.

use std::time::Duration;

use agentd_operations::monitoring::Phase;
use serde_json::json;

use crate::support::TestApp;
use crate::support::chat_fixture::ChatFixture;

#[tokio::test]
async fn probes_report_the_state_of_the_daemon() {
    let app = TestApp::start().await;
    let health = app.get("/health").send().await.expect_status(200).json();
    assert_eq!((&health["status"], &health["version"]), (&json!("healthy"), &json!(env!("CARGO_PKG_VERSION"))));
    assert!(health["uptime_seconds"].is_u64());
    assert_eq!(app.get("/health/live").send().await.expect_status(200).json()["status"], "alive");
    assert_eq!(app.get("/health/ready").send().await.expect_status(200).json()["status"], "ready");
    let public = app.get("/api/health").send().await.expect_status(200).json();
    assert_eq!(public, json!({"status": "healthy", "bootstrap_mode": true, "version": env!("CARGO_PKG_VERSION")}));
    let index = app.get("/api/").send().await.expect_status(200).json();
    assert_eq!(index["name"], "agentd");
    for (name, path) in index["links"].as_object().expect("links") {
        let path = path.as_str().expect("a path");
        let answer = app.get(path).send().await;
        assert!(answer.status.is_success(), "{name}: {path} returned {}", answer.status);
    }
}

#[tokio::test]
async fn unavailable_database_makes_the_daemon_unready_but_alive() {
    let app = TestApp::with_owner().await;
    app.get("/health/ready").send().await.expect_status(200);
    app.running().context().db.close().await;
    // The result is cached for one second.
    app.get("/health/ready").send().await.expect_status(200);
    app.clock.advance(Duration::from_secs(1));
    let answer = app.get("/health/ready").send().await.expect_error(503, "database_unavailable");
    assert_eq!(answer.header("retry-after"), Some("1"));
    app.get("/health/live").send().await.expect_status(200);
    assert_eq!(app.get("/health").send().await.expect_status(200).json()["status"], "degraded");
    app.get("/api/metrics/prometheus").send().await.expect_status(200);
}

#[tokio::test]
async fn restore_blocks_requests_but_not_probes() {
    let app = TestApp::with_owner().await;
    let readiness = app.running().readiness().clone();
    let guard = readiness.begin_restore().expect("a ready daemon");
    let answer = app.get("/health/ready").send().await.expect_error(503, "restoring");
    assert_eq!(answer.header("retry-after"), Some("1"));
    app.get("/api/agents").send().await.expect_error(503, "restoring");
    app.post("/api/auth/keys").json(&json!({"name": "x"})).send().await.expect_error(503, "restoring");
    assert_eq!(app.get("/health").send().await.expect_status(200).json()["status"], "restoring");
    app.get("/health/live").send().await.expect_status(200);
    app.get("/api/metrics/prometheus").send().await.expect_status(200);
    drop(guard);
    assert_eq!(readiness.phase(), Phase::Ready);
    app.get("/health/ready").send().await.expect_status(200);
    app.get("/api/agents").send().await.expect_status(200);
}

#[tokio::test]
async fn draining_daemon_is_unready() {
    let app = TestApp::with_owner().await;
    app.running().readiness().set_draining();
    app.get("/health/ready").send().await.expect_error(503, "draining");
    app.get("/health/live").send().await.expect_status(200);
}

/// Returns the value of a sample, by its name with labels.
pub fn value(text: &str, sample: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ')?.parse().ok())
}

pub async fn scrape(app: &TestApp) -> String {
    app.clock.advance(Duration::from_secs(1));
    let answer = app.get("/api/metrics/prometheus").anonymous().send().await.expect_status(200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    answer.text()
}

#[tokio::test]
async fn metrics_exist_and_count() {
    let app = TestApp::with_owner().await;
    let before = scrape(&app).await;
    for family in [
        "svc_tasks_total",
        "svc_token_usage_total",
        "svc_active_sessions",
        "svc_scheduler_jobs_active",
        "svc_build_info",
        "svc_queue_depth",
        "svc_worker_panics_total",
        "svc_worker_items_total",
        "svc_worker_failures_total",
        "svc_worker_last_success_timestamp_seconds",
        "svc_http_requests_total",
        "svc_http_request_duration_seconds",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
        "process_cpu_seconds_total",
        "process_max_fds",
        "svc_disk_bytes",
        "svc_turns_running",
        "svc_turn_duration_seconds",
        "svc_turn_first_token_seconds",
        "svc_model_calls_total",
        "svc_model_call_duration_seconds",
        "svc_tool_calls_total",
        "svc_tool_call_seconds_total",
        "svc_tool_call_duration_seconds",
        "svc_cost_usd_total",
        "svc_unpriced_calls_total",
        "svc_budget_used_tokens",
        "svc_budget_limit_tokens",
    ] {
        assert!(before.contains(&format!("# HELP {family} ")), "{family} is missing");
        assert!(before.contains(&format!("# TYPE {family} ")), "{family} has no type");
    }
    assert_eq!(value(&before, "svc_active_sessions"), Some(1.0));
    assert_eq!(value(&before, "svc_scheduler_jobs_active"), Some(0.0));
    assert_eq!(value(&before, r#"svc_tasks_total{status="completed"}"#), Some(0.0));
    assert!(value(&before, "process_resident_memory_bytes").is_some_and(|bytes| bytes > 1e6));

    for _ in 0..3 {
        app.get("/api/agents").send().await.expect_status(200);
    }
    app.get("/api/agents/nobody").send().await.expect_status(404);
    app.get("/api/agents/somebody").send().await.expect_status(404);
    app.post("/api/auth/login").json(&json!({"username": "owner", "password": "correct horse"})).send().await;
    let after = scrape(&app).await;
    let sample = r#"svc_http_requests_total{route="/api/agents",method="GET",status="2xx"}"#;
    assert_eq!(value(&after, sample).unwrap_or(0.0) - value(&before, sample).unwrap_or(0.0), 3.0);
    let template = r#"svc_http_requests_total{route="/api/agents/{name}",method="GET",status="4xx"}"#;
    assert_eq!(value(&after, template), Some(2.0), "the route template is used instead of the path: {after}");
    assert!(!after.contains("nobody"));
    assert_eq!(value(&after, "svc_active_sessions"), Some(2.0));
    let count = r#"svc_http_request_duration_seconds_count{route="/api/agents",method="GET"}"#;
    assert!(value(&after, count).is_some_and(|count| count >= 3.0));
}

#[tokio::test]
async fn metrics_query_the_database_once_a_second() {
    let app = TestApp::with_owner().await;
    let first = scrape(&app).await;
    app.get("/api/agents").send().await.expect_status(200);
    let again = app.get("/api/metrics/prometheus").send().await.text();
    assert_eq!(again, first, "the same text within one second");
    assert_ne!(scrape(&app).await, first);
}

#[tokio::test]
async fn unknown_paths_and_methods_add_no_series() {
    let app = TestApp::with_owner().await;
    scrape(&app).await;
    for number in 0..50 {
        app.get(&format!("/made-up/{number}")).send().await.expect_status(200);
        let method = reqwest::Method::from_bytes(format!("MADE{number}").as_bytes()).expect("a method");
        app.request(method, "/api/agents").send().await;
    }
    let text = scrape(&app).await;
    assert!(!text.contains("made-up") && !text.contains("MADE"), "{text}");
    let unmatched = r#"svc_http_requests_total{route="unmatched",method="GET",status="2xx"}"#;
    assert_eq!(value(&text, unmatched), Some(50.0), "{text}");
}

/// Unauthenticated requests use no database connection while the result is cached.
#[tokio::test]
async fn unauthenticated_requests_query_the_database_once_a_second() {
    let app = TestApp::with_owner().await;
    let ask = async || {
        app.get("/api/health").anonymous().send().await.expect_status(200);
        app.get("/api/auth/bootstrap").anonymous().send().await.expect_status(200);
        app.get("/api/agents").anonymous().send().await.expect_error(401, "missing_credential");
        app.get("/api/nothing").anonymous().send().await.expect_error(401, "missing_credential");
        app.post("/api/setup/status").anonymous().send().await.expect_error(401, "missing_credential");
    };
    ask().await;
    // All read connections are in use, so a request that needs one would fail.
    let db = &app.running().context().db;
    let readers = if db.dialect() == agentd_store::Dialect::Sqlite { 4 } else { 8 };
    let mut held = Vec::new();
    for _ in 0..readers {
        held.push(db.read().await.expect("a connection"));
    }
    ask().await;
    drop(held);
    app.clock.advance(Duration::from_secs(1));
    ask().await;
}

/// The total does not depend on which models are shown separately.
#[tokio::test]
async fn tokens_of_many_models_are_counted_once() {
    let fixture = ChatFixture::saying(&["x"]).await;
    let ask = async |model: String| {
        fixture.exchange(&json!({"content": "hello", "model": model})).await;
    };
    let shown = async || {
        let text = scrape(&fixture.app).await;
        let lines = text.lines().filter(|line| line.starts_with("svc_token_usage_total{"));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>()
    };
    // Each call uses 7 and 3 tokens.
    for model in 0..30 {
        ask(format!("model-{model:02}")).await;
    }
    assert_eq!(shown().await, 300.0);
    // The ranking of models changes in each round.
    for (round, models) in [(1, 20..30), (2, 0..10), (3, 20..30)] {
        for model in models {
            for _ in 0..round {
                ask(format!("model-{model:02}")).await;
            }
        }
        let calls: usize = 30 + (1..=round).map(|round| 10 * round).sum::<usize>();
        assert_eq!(shown().await, 10.0 * calls as f64, "after round {round}");
    }
}

#[tokio::test]
async fn worker_items_are_counted() {
    let app = TestApp::with_owner().await;
    let agent = json!({"svc_name": "scout", "user_name": "Owner", "archetype": "assistant"});
    app.post("/api/agents").json(&agent).send().await.expect_status(201);
    app.delete("/api/agents/scout").send().await.expect_status(200);
    let items = r#"svc_worker_items_total{worker="agents.purge"}"#;
    let success = r#"svc_worker_last_success_timestamp_seconds{worker="agents.purge"}"#;
    let before = scrape(&app).await;
    assert_eq!((value(&before, items), value(&before, success)), (Some(0.0), None));
    app.run_workers().await;
    let after = scrape(&app).await;
    assert!(value(&after, items).is_some_and(|items| items >= 1.0), "{after}");
    let at = value(&after, success).expect("a successful run");
    let now = app.running().context().clock.now().as_micros() as f64 / 1e6;
    assert!((now - at).abs() < 60.0, "{at}");
    assert_eq!(value(&after, r#"svc_worker_failures_total{worker="agents.purge"}"#), Some(0.0));
}

/// Supervised tasks have a panic counter before anything fails.
#[tokio::test]
async fn supervised_tasks_have_a_panic_counter_from_the_start() {
    let fixture = ChatFixture::saying(&["x"]).await;
    fixture.exchange(&json!({"content": "hello"})).await;
    let text = scrape(&fixture.app).await;
    for task in ["settings.follow", "engine.supervisor"] {
        assert_eq!(value(&text, &format!("svc_worker_panics_total{{worker=\"{task}\"}}")), Some(0.0), "{text}");
    }
}

#[tokio::test]
async fn system_usage_includes_limits_of_the_daemon() {
    let app = TestApp::with_owner().await;
    let system = app.get("/api/monitoring/system").send().await.expect_status(200).json();
    for part in ["cpu", "memory", "disk"] {
        let percent = system[part]["percent"].as_f64().expect("a figure");
        assert!((0.0..=100.0).contains(&percent), "{part}: {percent}");
    }
    assert!(system["cpu"]["cores"].as_f64().expect("a number") > 0.0);
    for (part, figure) in [("memory", "total_bytes"), ("memory", "process_bytes"), ("disk", "total_bytes")] {
        assert!(system[part][figure].as_u64().expect("a number") > 0, "{part}.{figure}: {system}");
    }
    assert_eq!(system["process"]["pid"], std::process::id());
    assert_eq!(system["disk"]["path"], app.data_dir().display().to_string());
    let used = |name: &str| system[name]["used_bytes"].as_u64() <= system[name]["total_bytes"].as_u64();
    assert!(used("memory") && used("disk"), "{system}");
}

/// A component without a measurement is reported as such, and keeps its last value.
#[tokio::test]
async fn component_latency_is_always_a_number() {
    let fixture = ChatFixture::saying(&["x"]).await;
    let health = async || fixture.app.get("/api/monitoring/health").send().await.expect_status(200).json();
    let latencies = |health: &serde_json::Value| -> Vec<(String, f64)> {
        let components = health["components"].as_array().expect("components");
        let state_of = |component: &serde_json::Value| {
            let latency = component["latency"].as_f64().unwrap_or_else(|| panic!("{component}"));
            let is_measured = latency > 0.0;
            assert!(is_measured || component["status"] == "unknown", "{component}");
            assert!(is_measured || component["message"].is_string(), "{component}");
            (component["id"].as_str().expect("an id").to_owned(), latency)
        };
        components.iter().map(state_of).collect()
    };
    let first = latencies(&health().await);
    let ids: Vec<&str> = first.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["api", "db", "workers", "memory", "ai"]);
    assert_eq!(first[4].1, 0.0, "no model was called yet");
    fixture.exchange(&json!({"content": "hello"})).await;
    fixture.app.clock.advance(Duration::from_secs(2));
    let then = latencies(&health().await);
    assert!(then.iter().all(|(_, latency)| *latency > 0.0), "{then:?}");
    // Measurements are stored with their time, so the last latency remains available.
    fixture.app.run_workers().await;
    fixture.app.clock.advance(Duration::from_secs(3_600));
    let later = health().await;
    assert_eq!(later["components"][4]["status"], "unknown", "{later}");
    assert!(latencies(&later)[4].1 > 0.0, "{later}");
}
