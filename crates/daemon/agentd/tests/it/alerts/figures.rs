//! Variables that alert conditions can use, read through the preview.

use std::time::Duration;

use agentd_testing_llm::{DocumentedFailure, Reply, Script};
use serde_json::{Value, json};

use super::{ALERTS, create};
use crate::hooks::receiver::{Answer, Receiver};
use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};

async fn preview(app: &TestApp, condition: &str, period_minutes: u64) -> Value {
    let body = json!({"condition": condition, "threshold": 5, "period_minutes": period_minutes});
    app.post(&format!("{ALERTS}/preview")).json(&body).send().await.expect_status(200).json()
}

async fn variables(app: &TestApp, period_minutes: u64) -> Value {
    preview(app, "true", period_minutes).await["variables"].clone()
}

#[tokio::test]
async fn preview_returns_the_result_and_stores_nothing() {
    let app = TestApp::with_owner().await;
    let found = preview(&app, "disk_percent >= 0 && threshold == 5", 5).await;
    assert_eq!((&found["would_fire"], &found["value"]), (&json!(true), &found["variables"]["disk_percent"]));
    assert_eq!(preview(&app, "dead_letters > threshold", 5).await["would_fire"], false);
    let unknown = preview(&app, "budget_percent > threshold", 5).await;
    assert_eq!((&unknown["would_fire"], &unknown["value"]), (&json!(null), &json!(null)));
    let names: Vec<&String> = found["variables"].as_object().unwrap().keys().collect();
    assert_eq!(names.len(), 16, "{names:?}");
    let alerts = app.get(ALERTS).send().await.expect_status(200).json();
    assert_eq!(alerts["alerts"].as_array().unwrap().len(), super::BUNDLED_COUNT);
}

#[tokio::test]
async fn usage_is_counted_exactly_in_every_period() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["Fine."], TEST_USAGE))).await;
    let app = &fixture.app;
    fixture.exchange(&json!({"content": "One.", "agent_id": "scout"})).await;
    app.run_workers().await;
    // Crosses the end of the quarter-hour interval in which usage is aggregated.
    app.clock.advance(Duration::from_secs(14 * 60));
    app.run_workers().await;
    fixture.exchange(&json!({"content": "Two.", "agent_id": "scout"})).await;
    app.run_workers().await;
    app.clock.advance(Duration::from_secs(4 * 60));
    app.run_workers().await;
    fixture.exchange(&json!({"content": "Three.", "agent_id": "scout"})).await;
    for (period, calls) in [(1, 1), (5, 2), (10, 2), (20, 3), (1_440, 3)] {
        let seen = variables(app, period).await;
        let tokens = f64::from(calls * 10);
        assert_eq!(
            (&seen["tokens"], &seen["model_calls"]),
            (&json!(tokens), &json!(f64::from(calls))),
            "{period}: {seen}"
        );
        assert_eq!(seen["failed_model_calls"], 0.0);
        app.run_workers().await;
        assert_eq!(variables(app, period).await["tokens"], tokens, "also after aggregation");
    }
    app.put("/api/settings/agent").json(&json!({"daily_token_limit": 60})).send().await.expect_status(200);
    assert_eq!(variables(app, 5).await["budget_percent"], 50.0);
    app.clock.advance(Duration::from_secs(30 * 60));
    app.run_workers().await;
    let later = variables(app, 5).await;
    assert_eq!((&later["tokens"], &later["model_calls"]), (&json!(0.0), &json!(0.0)));
    assert_eq!(variables(app, 60).await["model_calls"], 3.0);
}

#[tokio::test]
async fn requests_are_counted_before_and_after_they_are_stored() {
    let app = TestApp::with_owner().await;
    let unknown = create(&app, &json!({"name": "x", "condition": "error_rate > 0.5"})).await;
    assert!(!unknown.is_empty());
    for _ in 0..20 {
        app.get("/api/agents").send().await.expect_status(200);
    }
    let now = variables(&app, 1).await;
    assert!(now["requests_per_minute"].as_f64().is_some_and(|rate| rate >= 10.0), "{now}");
    assert!(now["latency_p95_ms"].as_f64().is_some_and(|latency| latency > 0.0) && now["error_rate"] == 0.0, "{now}");
    app.clock.advance(Duration::from_secs(60));
    app.run_workers().await;
    // Stored, read, cached, and read again with new data.
    for minutes in [2, 30, 31, 60] {
        let seen = variables(&app, minutes).await;
        let requests = seen["requests_per_minute"].as_f64().unwrap() * minutes as f64;
        assert!(requests >= 20.0, "{minutes}: {seen}");
        app.clock.advance(Duration::from_secs(600));
        app.run_workers().await;
    }
    assert!(variables(&app, 1_440).await["requests_per_minute"].as_f64().unwrap() * 1_440.0 >= 20.0);
    app.clock.advance(Duration::from_secs(3_600));
    assert_eq!(variables(&app, 1).await["error_rate"], json!(null), "no rate without requests");
}

#[tokio::test]
async fn failed_runs_and_dead_letters_are_counted() {
    let fixture = ChatFixture::with(Script::always(Reply::failure(DocumentedFailure::UnknownModel))).await;
    let (app, receiver) = (&fixture.app, Receiver::start().await);
    let job = json!({
        "name": "report", "goal": "Say how things are.", "agent_id": "scout",
        "schedule": {"type": "every", "interval": 600},
    });
    let job = app.post("/api/scheduler/jobs").json(&job).send().await.expect_status(201).json();
    for _ in 0..3 {
        app.post(&format!("/api/scheduler/jobs/{}/trigger", job["id"].as_str().unwrap()))
            .send()
            .await
            .expect_status(202);
        app.run_workers().await;
        app.run_workers().await;
    }
    receiver.always(Answer::Status(410));
    let alert = super::create(app, &super::firing(&receiver)).await;
    super::evaluate(app).await;
    let seen = variables(app, 5).await;
    assert_eq!((&seen["failed_runs"], &seen["consecutive_failed_runs"]), (&json!(3.0), &json!(3.0)), "{seen}");
    assert_eq!(seen["dead_letters"], 1.0, "the notice of {alert}");
    app.clock.advance(Duration::from_secs(600));
    let later = variables(app, 5).await;
    assert_eq!(
        (&later["failed_runs"], &later["consecutive_failed_runs"], &later["dead_letters"]),
        (&json!(0.0), &json!(0.0), &json!(0.0))
    );
    assert_eq!(variables(app, 60).await["consecutive_failed_runs"], 3.0);
}
