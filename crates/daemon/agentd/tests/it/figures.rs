//! Monitoring API, compared with a full scan of the aggregated rows.

use std::time::Duration;

use agentd_llm::{ToolCall, Usage, UsageSource};
use agentd_store::args;
use agentd_testing_llm::{DocumentedFailure, Reply, Script};
use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, create_agent};

const DAY: Duration = Duration::from_secs(86_400);

async fn get(app: &TestApp, path: &str) -> Value {
    app.get(&format!("/api/monitoring/{path}")).send().await.expect_status(200).json()
}

/// Sums the rows of all calls: calls, input, output, cache read, reasoning, and unpriced calls.
async fn scan(app: &TestApp, condition: &str) -> [u64; 6] {
    let mut read = app.running().context().db.read().await.expect("a connection");
    let sql = format!(
        "SELECT COUNT(*) AS calls, CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT) AS input, \
         CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT) AS output, \
         CAST(COALESCE(SUM(cache_read_tokens), 0) AS BIGINT) AS cached, \
         CAST(COALESCE(SUM(reasoning_tokens), 0) AS BIGINT) AS reasoning, \
         COUNT(*) - COUNT(cost_micro_usd) AS unpriced FROM usage WHERE {condition}"
    );
    let row = read.fetch_one(sql, args![]).await.expect("sums");
    ["calls", "input", "output", "cached", "reasoning", "unpriced"].map(|name| row.get(name).expect("a number"))
}

/// Returns the same sums from the `totals` of a response.
fn totals(usage: &Value) -> [u64; 6] {
    ["model_calls", "input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens", "unpriced_calls"]
        .map(|name| usage["totals"][name].as_u64().unwrap_or_else(|| panic!("{name} in {usage}")))
}

fn sum(rows: &Value, field: &str) -> u64 {
    rows.as_array().expect("rows").iter().map(|row| row[field].as_u64().expect("a number")).sum()
}

async fn project(app: &TestApp, name: &str) -> String {
    let project = app.post("/api/projects").json(&json!({"name": name})).send().await.expect_status(201).json();
    project["id"].as_str().expect("an id").to_owned()
}

/// Runs turns of two agents, inside and outside a project.
async fn run_turns(fixture: &ChatFixture, project: &str) {
    for agent in ["scout", "writer"] {
        fixture.exchange(&json!({"content": "hello", "agent_id": agent})).await;
        let conversation = json!({"agent_id": agent, "project_id": project});
        let made =
            fixture.app.post("/api/chat/conversations").json(&conversation).send().await.expect_status(201).json();
        fixture.exchange(&json!({"content": "hello", "conversation_id": made["id"]})).await;
    }
}

fn script() -> Script {
    let used = Usage {
        input_tokens: 142,
        output_tokens: 17,
        cache_read_tokens: 100,
        cache_write_tokens: 0,
        reasoning_tokens: 8,
        source: UsageSource::Provider,
    };
    Script::always(Reply::text(["fine"], used))
}

async fn assert_equal_to_scan(app: &TestApp) {
    let all = scan(app, "1 = 1").await;
    let usage = get(app, "usage?days=365").await;
    assert_eq!(totals(&usage), all, "{usage}");
    for list in ["by_agent", "by_source", "by_key"] {
        assert_eq!(sum(&usage[list], "input_tokens"), all[1], "{list} of {usage}");
        assert_eq!(sum(&usage[list], "output_tokens"), all[2], "{list} of {usage}");
    }
    for agent in usage["by_agent"].as_array().expect("agents") {
        let id = agent["agent_id"].as_str().expect("an id");
        let scanned = scan(app, &format!("agent_id = '{id}'")).await;
        assert_eq!(agent["input_tokens"], scanned[1], "{agent}");
    }
    let tokens = get(app, "tokens").await;
    assert_eq!(tokens["total_used"], all[1] + all[2], "{tokens}");
    assert_eq!(tokens["unpriced_calls"], all[5], "{tokens}");
    let models: u64 =
        tokens["by_model"].as_object().expect("models").values().map(|m| m["total_tokens"].as_u64().unwrap()).sum();
    assert_eq!(models, all[1] + all[2]);
    for (name, model) in tokens["by_model"].as_object().expect("models") {
        assert_eq!(&model["model"], name);
    }
    assert_eq!(sum(&tokens["by_project"], "tokens_used"), all[1] + all[2], "{tokens}");
    let percentages: f64 =
        tokens["by_project"].as_array().unwrap().iter().map(|row| row["percentage"].as_f64().unwrap()).sum();
    assert!((percentages - 100.0).abs() < 0.05, "{tokens}");
    let month = get(app, "tokens/history?period=month").await;
    assert_eq!((month.as_array().unwrap().len(), sum(&month, "total_tokens")), (30, all[1] + all[2]));
    let analytics = get(app, "analytics").await;
    assert_eq!(analytics["totals"]["tokens"], all[1] + all[2], "{analytics}");
    assert_eq!(analytics["totals"]["unpriced_calls"], all[5]);
    assert_eq!(sum(&analytics["daily"], "tokens"), all[1] + all[2]);
}

#[tokio::test]
async fn totals_equal_a_full_scan_before_and_after_compaction() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    create_agent(app, "writer").await;
    let garden = project(app, "Garden").await;
    for _ in 0..4 {
        run_turns(&fixture, &garden).await;
        assert_equal_to_scan(app).await;
        app.clock.advance(DAY / 2);
        app.run_workers().await;
    }
    for _ in 0..6 {
        app.clock.advance(DAY);
        app.run_workers().await;
        assert_equal_to_scan(app).await;
    }
    let mut read = app.running().context().db.read().await.expect("a connection");
    let sql = "SELECT COUNT(*) AS rows FROM usage_rollups WHERE span = 900";
    let narrow: u64 = read.fetch_one(sql, args![]).await.unwrap().get("rows").unwrap();
    assert_eq!(narrow, 0, "each completed day is compacted into one row");
    drop(read);
    let usage = get(app, "usage?days=365").await;
    assert_eq!((&usage["totals"]["turns"], sum(&usage["by_source"], "turns")), (&json!(16), 16), "{usage}");
    assert_eq!(usage["by_source"][0]["source"], "chat");
    let tokens = get(app, "tokens").await;
    let of_garden = tokens["by_project"].as_array().unwrap().iter().find(|row| row["project_id"] == json!(garden));
    assert_eq!(of_garden.unwrap()["project_name"], "Garden");
    app.delete(&format!("/api/projects/{garden}")).send().await;
    app.run_workers().await;
    let tokens = get(app, "tokens").await;
    let of_garden = tokens["by_project"].as_array().unwrap().iter().find(|row| row["project_id"] == json!(garden));
    assert_eq!(of_garden.unwrap()["project_name"], "Deleted project", "the usage is retained: {tokens}");
    let unassigned = tokens["by_project"].as_array().unwrap().iter().find(|row| row["project_id"] == "unassigned");
    assert_eq!(unassigned.expect("usage without a project")["project_name"], "Unassigned");
}

#[tokio::test]
async fn days_use_the_timezone_of_the_profile_and_include_empty_ones() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    app.put("/api/settings/profile").json(&json!({"timezone": "Asia/Kathmandu"})).send().await.expect_status(200);
    fixture.exchange(&json!({"content": "hello"})).await;
    let day = get(app, "tokens/history?period=day").await;
    let hours = day.as_array().unwrap();
    assert_eq!((hours.len(), &hours[23]["total_tokens"], &hours[0]["total_tokens"]), (24, &json!(159), &json!(0)));
    assert!(hours[23]["date"].as_str().unwrap().contains(":15:00"), "hours in the time zone: {day}");
    app.clock.advance(DAY);
    let week = get(app, "tokens/history?period=week").await;
    let days = week.as_array().unwrap();
    assert_eq!((days.len(), &days[6]["total_tokens"], &days[5]["total_tokens"]), (7, &json!(0), &json!(159)));
    let trend = &get(app, "tokens").await["trend"];
    assert_eq!(trend, &json!({"direction": "up", "change_percent": null}));
    app.clock.advance(7 * DAY);
    assert_eq!(get(app, "tokens").await["trend"], json!({"direction": "down", "change_percent": -100.0}));
}

#[tokio::test]
async fn usage_of_an_api_key_is_shown_by_name() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    let key = app.post("/api/auth/keys").json(&json!({"name": "laptop"})).send().await.expect_status(200).json();
    let secret = key["key"].as_str().expect("a key").to_owned();
    let request = app.post("/api/chat/messages/stream").json(&json!({"content": "hello"}));
    request.bearer(&secret).stream().await.collect().await;
    let usage = get(app, "usage").await;
    let row = usage["by_key"].as_array().unwrap().iter().find(|row| row["name"] == "laptop").expect("its row");
    assert_eq!((&row["model_calls"], &row["input_tokens"]), (&json!(1), &json!(142)));
}

#[tokio::test]
async fn performance_reports_latency_and_failures() {
    let replies = [
        Reply::tool_calls(
            vec![ToolCall::new("1", "workspace_list", json!({}))],
            crate::support::chat_fixture::TEST_USAGE,
        ),
        Reply::text(["done"], crate::support::chat_fixture::TEST_USAGE),
        Reply::failure(DocumentedFailure::UnknownModel),
    ];
    let fixture = ChatFixture::with(Script::queue(replies)).await;
    let app = &fixture.app;
    for _ in 0..2 {
        fixture.exchange(&json!({"content": "hello"})).await;
    }
    for _ in 0..10 {
        app.get("/api/agents").send().await.expect_status(200);
    }
    for flushed in [false, true] {
        let seen = get(app, "performance").await;
        assert!(seen["requests"]["count"].as_u64() >= Some(10), "{flushed}: {seen}");
        assert_eq!(seen["requests"]["error_rate"], 0.0, "{seen}");
        let agents = seen["routes"].as_array().unwrap().iter().find(|row| row["route"] == "GET /api/agents");
        assert_eq!(agents.unwrap()["count"], 10, "{seen}");
        assert!(seen["routes"].as_array().unwrap().len() <= 20);
        assert_eq!((&seen["turns"]["count"], &seen["turns"]["error_rate"]), (&json!(2), &json!(0.5)), "{seen}");
        let openai = &seen["providers"][0];
        assert_eq!((&openai["name"], &openai["count"]), (&json!("openai"), &json!(3)), "{seen}");
        assert!(openai["p95_ms"].is_number());
        assert!(seen["queues"].as_array().unwrap().iter().any(|queue| queue["queue"] == "hook_deliveries"), "{seen}");
        app.clock.advance(Duration::from_secs(60));
        app.run_workers().await;
    }
    let history = get(app, "performance/history?period=hour").await;
    let points = history["points"].as_array().unwrap();
    assert_eq!((points.len(), &history["granularity"]), (60, &json!("minute")));
    assert_eq!(points.iter().map(|point| point["turns"]["count"].as_u64().unwrap()).sum::<u64>(), 2);
    assert_eq!(points[0]["requests"]["p95_ms"], json!(null), "no percentile without requests");
    for days in [3, 100] {
        for _ in 0..days {
            app.clock.advance(DAY);
            app.run_workers().await;
        }
        let seen = get(app, "performance/history?period=day").await;
        assert_eq!(seen["points"].as_array().unwrap().len(), 24);
    }
    let seen = get(app, "performance").await;
    assert_eq!((&seen["turns"]["count"], &seen["turns"]["error_rate"]), (&json!(0), &json!(null)), "{seen}");
}

#[tokio::test]
async fn activity_summary_is_grouped_by_type() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    for _ in 0..7 {
        fixture.exchange(&json!({"content": "hello"})).await;
    }
    let activity = get(app, "activity-summary?hours=1").await;
    let started = &activity["by_type"]["task.started"];
    assert_eq!((&started["count"], started["recent"].as_array().unwrap().len()), (&json!(7), 5), "{activity}");
    assert!(started["last_at"].is_string() && started["recent"][0]["summary"].is_string(), "{activity}");
    let total: u64 = activity["by_type"].as_object().unwrap().values().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(activity["total"], total);
    app.clock.advance(Duration::from_secs(7_200));
    let later = get(app, "activity-summary?hours=1").await;
    assert_eq!(later["by_type"].get("task.started"), None, "{later}");
}

#[tokio::test]
async fn component_health_explains_failures() {
    let fixture = ChatFixture::with(Script::always(Reply::failure(DocumentedFailure::WrongKey))).await;
    let app = &fixture.app;
    app.clock.advance(Duration::from_secs(1));
    let health = get(app, "health").await;
    let ids: Vec<&str> = health["components"].as_array().unwrap().iter().map(|c| c["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["api", "db", "workers", "memory", "ai"], "{health}");
    assert_eq!(get(app, "health/components/ai").await["status"], "unknown", "no model has been called");
    assert_eq!(get(app, "health/components/db").await["status"], "healthy");
    app.get("/api/monitoring/health/components/none").send().await.expect_status(404);
    fixture.exchange(&json!({"content": "hello"})).await;
    app.clock.advance(Duration::from_secs(1));
    let ai = get(app, "health/components/ai").await;
    assert_eq!(ai["status"], "unhealthy", "{ai}");
    assert!(ai["message"].as_str().unwrap().contains("openai"), "{ai}");
    assert_eq!(get(app, "health").await["overall"], "unhealthy");
    let calls = fixture.vendor.requests().len();
    app.clock.advance(Duration::from_secs(600));
    let checked = app.post("/api/monitoring/health/check").send().await.expect_status(200).json();
    let ai = checked["components"].as_array().unwrap().iter().find(|c| c["id"] == "ai").unwrap();
    assert_ne!(ai["status"], "unknown", "{checked}");
    let request_count = fixture.vendor.requests().len() - calls;
    assert_eq!(scan(app, "1 = 1").await[0], 1, "a health check records no usage ({request_count} requests)");
}

#[tokio::test]
async fn out_of_range_parameter_is_reported() {
    let app = TestApp::with_owner().await;
    for (path, field) in [
        ("usage?days=0", "days"),
        ("usage?days=366", "days"),
        ("usage?days=x", "days"),
        ("activity-summary?hours=0", "hours"),
        ("activity-summary?hours=169", "hours"),
        ("tokens/history?period=year", "period"),
        ("performance/history?period=week&granularity=minute", "granularity"),
        ("performance/history?period=never", "period"),
        ("performance/history?granularity=second", "granularity"),
        ("analytics?start=2026-02-01&end=2026-01-01", "start"),
        ("analytics?start=1900-01-01", "start"),
        ("analytics?start=soon", "start"),
    ] {
        let answer = app.get(&format!("/api/monitoring/{path}")).send().await.expect_status(400);
        assert_eq!(answer.bad_fields(), [field], "{path}");
    }
    for path in ["usage?days=365", "activity-summary?hours=168", "performance/history?period=day&granularity=minute"] {
        get(&app, path).await;
    }
    let year = get(&app, "analytics?start=2024-01-01&end=2024-12-31").await;
    assert_eq!(year["daily"].as_array().unwrap().len(), 366);
    assert_eq!(year["totals"]["cost_estimate"], 0.0, "no usage, no cost: {year}");
}

/// Usage recorded while the clock was ahead is counted once, in every view.
#[tokio::test]
async fn clock_jump_neither_loses_nor_duplicates_usage() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    fixture.exchange(&json!({"content": "hello"})).await;
    app.clock.advance(400 * DAY);
    app.run_workers().await;
    fixture.exchange(&json!({"content": "hello"})).await;
    app.run_workers().await;
    let usage = get(app, "usage?days=365").await;
    assert_eq!(usage["totals"]["model_calls"], 1, "within the last year: {usage}");
    assert_eq!(get(app, "tokens").await["total_used"], 2 * 159);
}
