//! Validation: errors of the schema and of the domain are reported together. Equivalent forms are accepted, such as
//! integers written as fractions and times without an offset.

use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::chat_fixture::create_agent;

async fn refused(app: &TestApp, method: &str, path: &str, body: Value) -> Vec<String> {
    let request = app.request(method.parse().expect("a method"), path).json(&body);
    let mut fields = request.send().await.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    fields
}

#[tokio::test]
async fn schema_and_domain_errors_are_reported_together() {
    let app = TestApp::with_owner().await;
    // Without any agent, a missing agent cannot be defaulted.
    let missing = refused(&app, "POST", "/api/scheduler/jobs", json!({})).await;
    assert_eq!(missing, ["agent_id", "goal", "name", "schedule"]);
    let past = json!({"name": "n", "goal": "g", "schedule": {"type": "at", "datetime": "2001-01-01T00:00:00Z"}});
    assert_eq!(refused(&app, "POST", "/api/scheduler/jobs", past).await, ["agent_id", "schedule.datetime"]);
    create_agent(&app, "scout").await;
    let agent = json!({"svc_name": "BAD", "profile": {"provider": "nope"}});
    let found = refused(&app, "POST", "/api/agents", agent.clone()).await;
    assert_eq!(found, ["archetype", "profile.provider", "svc_name", "user_name"]);
    assert_eq!(app.get("/api/agents").send().await.json()["agents"].as_array().map(Vec::len), Some(1));
    let change = json!({"evolution_choice": "x", "user_name": " "});
    assert_eq!(refused(&app, "PATCH", "/api/agents/scout", change).await, ["evolution_choice", "user_name"]);

    let job = json!({"name": "n", "goal": "g", "schedule": {"type": "cron", "expression": "x", "timezone": "Mars"},
        "condition": {"expression": "1 +"}, "retry": {"max_attempts": 99}});
    let found = refused(&app, "POST", "/api/scheduler/jobs", job).await;
    assert!(found.contains(&"retry.max_attempts".to_owned()), "{found:?}");
    assert!(found.contains(&"condition.expression".to_owned()), "{found:?}");
    assert!(found.iter().any(|field| field.starts_with("schedule")), "{found:?}");

    let hook = json!({"name": "", "event_type": "x", "hook_type": "http"});
    assert_eq!(refused(&app, "POST", "/api/hooks", hook).await, ["config.url", "event_type", "name"]);
    let webhook = app.post("/api/webhooks").json(&json!({"name": "ci"})).send().await.expect_status(201).json();
    let path = format!("/api/webhooks/{}", webhook["id"].as_str().expect("an id"));
    assert_eq!(refused(&app, "PUT", &path, json!({"name": "", "secret": "a"})).await, ["name", "secret"]);
    let episode = json!({"content": "ok", "importance": 7, "occurred_at": "x"});
    assert_eq!(refused(&app, "POST", "/api/memory/episodes", episode).await, ["importance", "occurred_at"]);
    let tool = json!({"name": "a b", "description": "", "kind": "python"});
    assert_eq!(
        refused(&app, "POST", "/api/settings/skills/custom", tool).await,
        ["description", "name", "source_code"]
    );
    let search = app.get("/api/memory/search?q=&limit=0&start_date=x&end_date=y").send().await;
    let found = search.expect_error(400, "invalid_request").bad_fields();
    assert_eq!(found, ["q", "limit", "start_date", "end_date"]);
}

#[tokio::test]
async fn setup_steps_report_all_errors_together() {
    let app = TestApp::start().await;
    let provider = json!({"provider": "nope", "api_key": "", "model": "two words"});
    assert_eq!(refused(&app, "POST", "/api/setup/provider", provider).await, ["api_key", "model", "provider"]);
    assert_eq!(refused(&app, "POST", "/api/setup/provider", json!({"provider": "nope"})).await, ["provider"]);
    app.post("/api/setup/nothing").json(&json!({})).send().await.expect_error(404, "not_found");
}

#[tokio::test]
async fn integer_can_be_written_as_a_fraction() {
    let app = TestApp::with_owner().await;
    let changed = app.put("/api/settings/agent").json(&json!({"max_tool_rounds": 5.0})).send().await;
    assert_eq!(changed.expect_status(200).json()["max_tool_rounds"], json!(5));
    app.get("/api/memory/episodes?limit=5.0").send().await.expect_status(200);
    create_agent(&app, "scout").await;
    let job = json!({"name": "n", "goal": "g", "schedule": {"type": "every", "interval": 60.0},
        "time_limit_seconds": 60.0});
    let job = app.post("/api/scheduler/jobs").json(&job).send().await.expect_status(201).json();
    assert_eq!((&job["schedule"]["interval"], &job["time_limit_seconds"]), (&json!(60), &json!(60)));
    let refused = app.put("/api/settings/agent").json(&json!({"max_tool_rounds": 5.5})).send().await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["max_tool_rounds"]);
}

#[tokio::test]
async fn times_are_accepted_in_common_formats() {
    let app = TestApp::with_owner().await;
    let hook = json!({"name": "h", "event_type": "memory.stored", "hook_type": "http",
        "config": {"url": "http://127.0.0.1:9/"}});
    let hook = app.post("/api/hooks").json(&hook).send().await.expect_status(201).json();
    let hook = hook["id"].as_str().expect("an id");
    for time in ["2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00+00:00", "9999-12-31"] {
        app.get(&format!("/api/memory/search?q=a&end_date={time}")).send().await.expect_status(200);
        app.get(&format!("/api/hooks/{hook}/executions?since={time}")).send().await.expect_status(200);
    }
    app.get(&format!("/api/hooks/{hook}/analytics?start=2026-01-04&end=2026-01-05T10:00:00"))
        .send()
        .await
        .expect_status(200);
    app.get("/api/scheduler/calendar-data?start=2026-01-01T00:00:00+00:00").send().await.expect_status(200);
    let episode = json!({"content": "It rained.", "occurred_at": "2026-01-01T10:00:00"});
    let made = app.post("/api/memory/episodes").json(&episode).send().await.expect_status(201).json();
    assert_eq!(made["occurred_at"], "2026-01-01T10:00:00.000Z");
    let refused = app.get("/api/memory/search?q=a&start_date=soon").send().await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["start_date"]);
}

#[tokio::test]
async fn empty_or_deeply_nested_body_is_reported() {
    let app = TestApp::with_owner().await;
    let send = async |body: Vec<u8>| app.post("/api/agents").body("application/json", body).send().await;
    let empty = send(Vec::new()).await.expect_error(400, "malformed_json");
    assert!(empty.text().contains("The body is empty"), "{}", empty.text());
    let deep = send("[".repeat(200).into_bytes()).await.expect_error(400, "malformed_json");
    assert!(deep.text().contains("nested deeper than 128 levels"), "{}", deep.text());
}
