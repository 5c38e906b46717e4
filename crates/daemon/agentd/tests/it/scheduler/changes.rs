//! Changing jobs: partially, completely, and while a run is in progress.

use agentd_testing_llm::{DocumentedFailure, Gate, Reply, Script};
use serde_json::{Value, json};

use super::{BackgroundWorkers, advance, create, every, id, job, run, runs, statuses, trigger, wait_for_run, with};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, create_agent, enable_platform};
use crate::support::{Eventually, TestApp};

async fn app() -> TestApp {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    app
}

async fn put(app: &TestApp, job: &str, body: &Value) -> Value {
    app.put(&format!("/api/scheduler/jobs/{job}")).json(body).send().await.expect_status(200).json()
}

async fn refused(app: &TestApp, job: &str, body: &Value) -> Vec<String> {
    let answer = app.put(&format!("/api/scheduler/jobs/{job}")).json(body).send().await;
    answer.expect_error(400, "invalid_request").bad_fields()
}

fn once(time: &str) -> Value {
    with(every(1), &json!({"schedule": {"type": "at", "datetime": time}}))
}

async fn until_closed(app: &TestApp, id: &str) -> Value {
    let mut eventually = Eventually::new();
    loop {
        let found = job(app, id).await;
        if ["completed", "failed"].contains(&found["status"].as_str().expect("a status")) {
            return found;
        }
        eventually.retry().await;
    }
}

/// Creates a one-time job whose run waits until the gate is opened.
async fn start_run() -> (ChatFixture, Gate, BackgroundWorkers, String, String) {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["Fine."], TEST_USAGE).gated(&gate))).await;
    let job = id(&create(&fixture.app, &once("2026-01-05T10:00:00Z")).await);
    advance(&fixture.app, 3_600);
    let workers = BackgroundWorkers::start(&fixture.app);
    let mut eventually = Eventually::new();
    let first = loop {
        if let Some(run) = runs(&fixture.app, &job).await.first() {
            break id(run);
        }
        eventually.retry().await;
    };
    wait_for_run(&fixture.app, &job, &first, |run| !run["session_id"].is_null()).await;
    (fixture, gate, workers, job, first)
}

#[tokio::test]
async fn date_set_during_a_run_survives_its_end() {
    let (fixture, gate, _workers, made, first) = start_run().await;
    let app = &fixture.app;
    put(app, &made, &json!({"schedule": {"type": "at", "datetime": "2026-01-05T12:00:00Z"}})).await;
    gate.open();
    wait_for_run(app, &made, &first, |run| run["status"] == "success").await;
    let after = job(app, &made).await;
    assert_eq!((&after["status"], &after["next_run_at"]), (&json!("active"), &json!("2026-01-05T12:00:00.000Z")));
    advance(app, 2 * 3_600);
    until_closed(app, &made).await;
    assert_eq!(statuses(&runs(app, &made).await), ["success"; 2]);
}

#[tokio::test]
async fn date_set_before_the_last_attempt_survives_its_failure() {
    let fixture = ChatFixture::with(Script::always(Reply::failure(DocumentedFailure::WrongKey))).await;
    let app = &fixture.app;
    let retry = json!({"retry": {"max_attempts": 2, "strategy": "fixed", "base_delay": 60}});
    let made = id(&create(app, &with(once("2026-01-05T10:00:00Z"), &retry)).await);
    advance(app, 3_600);
    app.run_workers().await;
    put(app, &made, &json!({"schedule": {"type": "at", "datetime": "2026-01-05T12:00:00Z"}})).await;
    advance(app, 60);
    app.run_workers().await;
    assert_eq!(statuses(&runs(app, &made).await), ["failed"]);
    let after = job(app, &made).await;
    assert_eq!((&after["status"], &after["next_run_at"]), (&json!("active"), &json!("2026-01-05T12:00:00.000Z")));
}

#[tokio::test]
async fn one_time_job_paused_during_its_run_completes() {
    let (fixture, gate, _workers, made, first) = start_run().await;
    let app = &fixture.app;
    app.post(&format!("/api/scheduler/jobs/{made}/pause")).send().await.expect_status(200);
    gate.open();
    wait_for_run(app, &made, &first, |run| run["status"] == "success").await;
    assert_eq!(until_closed(app, &made).await["status"], "completed");
}

#[tokio::test]
async fn one_time_job_with_a_missed_date_completes_on_resume() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    let made = id(&create(app, &once("2026-01-05T10:00:00Z")).await);
    app.post(&format!("/api/scheduler/jobs/{made}/pause")).send().await.expect_status(200);
    advance(app, 7_200);
    app.run_workers().await;
    let resumed = app.post(&format!("/api/scheduler/jobs/{made}/resume")).send().await.expect_status(200).json();
    assert_eq!((&resumed["status"], &resumed["next_run_at"]), (&json!("completed"), &Value::Null));
    app.run_workers().await;
    let list = runs(app, &made).await;
    assert_eq!(statuses(&list), ["skipped"]);
    assert_eq!(list[0]["scheduled_for"], "2026-01-05T10:00:00.000Z");
    assert_eq!(list[0]["error"], "the slot passed while the job was paused");
}

#[tokio::test]
async fn buffered_run_is_cancelled_by_a_pause() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["Fine."], TEST_USAGE).gated(&gate))).await;
    let app = &fixture.app;
    let made = id(&create(app, &with(every(600), &json!({"overlap": "buffer_one"}))).await);
    let first = trigger(app, &made).await;
    let _workers = BackgroundWorkers::start(app);
    wait_for_run(app, &made, &first, |run| !run["session_id"].is_null()).await;
    advance(app, 600);
    let mut eventually = Eventually::new();
    let waiting = loop {
        if let Some(run) = runs(app, &made).await.iter().find(|run| run["cause"] == "schedule") {
            break id(run);
        }
        eventually.retry().await;
    };
    app.post(&format!("/api/scheduler/jobs/{made}/pause")).send().await.expect_status(200);
    let stopped = run(app, &made, &waiting).await;
    assert_eq!(stopped["status"], "cancelled");
    assert_eq!(stopped["error"], "The job was paused before the run started.");
    gate.open();
    let done = wait_for_run(app, &made, &first, |run| run["completed_at"] != Value::Null).await;
    assert_eq!((&done["status"], &job(app, &made).await["status"]), (&json!("success"), &json!("paused")));
}

#[tokio::test]
async fn completed_job_can_be_written_back_unchanged() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    let made = id(&create(app, &once("2026-01-05T10:00:00Z")).await);
    advance(app, 3_600);
    app.run_workers().await;
    let read = job(app, &made).await;
    assert_eq!(read["status"], "completed");
    let back = put(app, &made, &with(read.clone(), &json!({"name": "other"}))).await;
    assert_eq!((&back["name"], &back["status"]), (&json!("other"), &json!("completed")));
    let past = json!({"schedule": {"type": "at", "datetime": "2026-01-05T09:30:00Z"}});
    assert_eq!(refused(app, &made, &past).await, ["schedule.datetime"]);
}

#[tokio::test]
async fn nested_objects_are_updated_field_by_field() {
    let app = app().await;
    enable_platform(&app, "slack").await;
    let rules = json!({"retry": {"max_attempts": 4, "strategy": "linear", "base_delay": 7.5},
        "delivery": {"channel": "slack:#a", "format": "json"}});
    let made = id(&create(&app, &with(every(600), &rules)).await);
    let changed = put(&app, &made, &json!({"retry": {"max_attempts": 2}, "delivery": {"channel": "slack:#b"}})).await;
    assert_eq!(changed["retry"], json!({"max_attempts": 2, "strategy": "linear", "base_delay": 7.5}));
    assert_eq!(changed["delivery"], json!({"channel": "slack:#b", "format": "json"}));
    let changed = put(&app, &made, &json!({"retry": {"base_delay": 1.0}, "delivery": {"format": "text"}})).await;
    assert_eq!(changed["retry"], json!({"max_attempts": 2, "strategy": "linear", "base_delay": 1}));
    assert_eq!(changed["delivery"], json!({"channel": "slack:#b", "format": "text"}));
    put(&app, &made, &json!({"delivery": null, "retry": null})).await;
    assert_eq!(refused(&app, &made, &json!({"delivery": {"format": "text"}})).await, ["delivery.channel"]);
    let reset = put(&app, &made, &json!({"retry": {"max_attempts": 2}})).await;
    assert_eq!(reset["retry"], json!({"max_attempts": 2, "strategy": "exponential", "base_delay": 60}));
    for delay in [json!(-1), json!(86_401), json!("5")] {
        assert!(!refused(&app, &made, &json!({"retry": {"base_delay": delay}})).await.is_empty(), "{delay}");
    }
}

#[tokio::test]
async fn required_fields_cannot_be_cleared_nor_the_status_set() {
    let app = app().await;
    let made = id(&create(&app, &every(600)).await);
    let fields = ["name", "goal", "schedule", "agent_id", "overlap", "misfire", "execution_mode", "time_limit_seconds"];
    for field in fields {
        assert_eq!(refused(&app, &made, &json!({field: null})).await, [field]);
    }
    let answer = app.put(&format!("/api/scheduler/jobs/{made}")).json(&json!({"status": "paused"})).send().await;
    let answer = answer.expect_error(400, "invalid_request");
    assert_eq!(answer.bad_fields(), ["status"]);
    assert!(answer.text().contains("/pause"), "{}", answer.text());
    put(&app, &made, &json!({"status": "active", "name": "other"})).await;
}

#[tokio::test]
async fn delivery_requires_a_reachable_channel() {
    let app = app().await;
    let made = id(&create(&app, &every(600)).await);
    for channel in ["icq:1", "http://127.0.0.1/x", "https://example.org/x", "nowhere"] {
        assert_eq!(refused(&app, &made, &json!({"delivery": {"channel": channel}})).await, ["delivery.channel"]);
    }
    let answer =
        app.post("/api/scheduler/jobs").json(&with(every(60), &json!({"delivery": {"channel": "http://a.b/"}})));
    let answer = answer.send().await.expect_error(400, "invalid_request");
    assert!(answer.text().contains("webhook:<url>"), "{}", answer.text());
    // Blocked addresses are rejected immediately, not when the message is sent.
    let metadata = json!({"delivery": {"channel": "webhook:http://169.254.169.254/latest"}});
    assert_eq!(refused(&app, &made, &metadata).await, ["delivery.channel"]);
    let answer = app.post("/api/scheduler/jobs").json(&with(every(60), &metadata)).send().await;
    let answer = answer.expect_error(400, "invalid_request");
    assert!(answer.text().contains("security.allowed_hosts"), "{}", answer.text());
    enable_platform(&app, "discord").await;
    for channel in ["discord:1", "webhook:https://example.org/x", "email:ada@example.org"] {
        put(&app, &made, &json!({"delivery": {"channel": channel}})).await;
    }
}

#[tokio::test]
async fn next_run_is_corrected_after_a_clock_was_one_year_ahead() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    let (resumed, changed) = (id(&create(app, &every(600)).await), id(&create(app, &every(600)).await));
    let start = app.clock.clock().now();
    advance(app, 365 * 86_400);
    app.run_workers().await;
    app.clock.set(start);
    for waiting in [&resumed, &changed] {
        let next = job(app, waiting).await["next_run_at"].to_string();
        assert!(next.starts_with("\"2027-"), "{next}");
    }
    let path = |action: &str| format!("/api/scheduler/jobs/{resumed}/{action}");
    app.post(&path("pause")).send().await.expect_status(200);
    let back = app.post(&path("resume")).send().await.expect_status(200).json();
    assert_eq!(back["next_run_at"], "2026-01-05T09:10:00.000Z");
    let back = put(app, &changed, &json!({"name": "renamed"})).await;
    assert_eq!(back["next_run_at"], "2026-01-05T09:10:00.000Z");
    let before = runs(app, &changed).await.len();
    advance(app, 600);
    app.run_workers().await;
    assert_eq!(runs(app, &changed).await.len(), before + 1);
    assert_eq!(job(app, &changed).await["next_run_at"], "2026-01-05T09:20:00.000Z");
}
