//! Creating, reading, changing, pausing and deleting jobs.

use serde_json::{Value, json};

use super::{advance, create, every, id, job, runs, statuses, trigger, with};
use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, create_agent, enable_platform};

async fn app() -> TestApp {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    app
}

async fn refused(app: &TestApp, job: &Value) -> Vec<String> {
    app.post("/api/scheduler/jobs").json(job).send().await.expect_error(400, "invalid_request").bad_fields()
}

#[tokio::test]
async fn job_is_stored_as_given() {
    let app = app().await;
    enable_platform(&app, "slack").await;
    let wanted = json!({
        "name": " Morning report ", "goal": "Say how things are.", "agent_id": "scout",
        "schedule": {"type": "cron", "expression": "30 8 * * 1-5", "timezone": "Europe/Berlin"},
        "delivery": {"channel": "slack:#reports"},
        "condition": {"type": "expression", "expression": "run_count < 100 && now.getDayOfWeek() != 0"},
        "retry": {"max_attempts": 4, "strategy": "linear", "base_delay": 30},
        "overlap": "buffer_one", "misfire": "skip", "execution_mode": "approval_required",
        "time_limit_seconds": 120, "model": "openai/gpt-5",
    });
    let made = create(&app, &wanted).await;
    assert!(id(&made).starts_with("job_"));
    assert_eq!(
        (&made["name"], &made["status"], &made["run_count"]),
        (&json!("Morning report"), &json!("active"), &json!(0))
    );
    assert_eq!(made["schedule"], wanted["schedule"]);
    assert_eq!(made["delivery"], json!({"channel": "slack:#reports", "format": "markdown"}));
    for field in ["condition", "retry", "overlap", "misfire", "execution_mode", "time_limit_seconds", "model", "goal"] {
        assert_eq!(made[field], wanted[field], "{field}");
    }
    // 09:00 UTC is 10:00 in Berlin, so the next run is tomorrow.
    assert_eq!((&made["next_run_at"], &made["last_run_at"]), (&json!("2026-01-06T07:30:00.000Z"), &Value::Null));
    assert!(made["human_readable"].as_str().is_some_and(|text| text.contains("Berlin")), "{made}");
    let agent = app.get("/api/agents/scout").send().await.expect_status(200).json();
    assert_eq!(made["agent_id"], agent["id"]);
    assert_eq!(job(&app, &id(&made)).await, made);
    let unknown = "/api/scheduler/jobs/job_unknown";
    app.get(unknown).send().await.expect_error(404, "job_not_found");
    app.put(unknown).json(&json!({})).send().await.expect_error(404, "job_not_found");
    app.delete(unknown).send().await.expect_error(404, "job_not_found");
    let unknown_agent = with(every(60), &json!({"agent_id": "nobody"}));
    app.post("/api/scheduler/jobs").json(&unknown_agent).send().await.expect_error(404, "agent_not_found");
}

#[tokio::test]
async fn invalid_job_is_rejected_with_all_bad_fields() {
    let app = app().await;
    let cron = |expression: &str, zone: &str| {
        with(
            every(60),
            &json!({"schedule":
        {"type": "cron", "expression": expression, "timezone": zone}}),
        )
    };
    assert_eq!(refused(&app, &cron("61 * * * *", "Europe/Berlin")).await, ["schedule.expression"]);
    assert_eq!(refused(&app, &cron("0 0 31 2 *", "UTC")).await, ["schedule.expression"]);
    assert_eq!(refused(&app, &cron("* * *", "Mars/Olympus")).await.len(), 2);
    for interval in [0, -5, 3_153_600_000_i64] {
        assert_eq!(refused(&app, &every(interval)).await, ["schedule.interval"]);
    }
    // Without a type the other fields cannot be checked.
    for schedule in [json!({}), json!({"interval": 50}), json!({"type": "foo"})] {
        let mut job = every(60);
        job["schedule"] = schedule;
        assert_eq!(refused(&app, &job).await, ["schedule.type"], "{job}");
    }
    for status in ["bogus", "completed"] {
        assert_eq!(refused(&app, &with(every(60), &json!({"status": status}))).await, ["status"]);
    }
    let past = with(every(60), &json!({"schedule": {"type": "at", "datetime": "2026-01-05T08:59:59Z"}}));
    assert_eq!(refused(&app, &past).await, ["schedule.datetime"]);
    let never = with(every(60), &json!({"schedule": {"type": "at", "datetime": "tomorrow"}}));
    assert_eq!(refused(&app, &never).await, ["schedule.datetime"]);
    refused(&app, &with(every(60), &json!({"schedule": {"type": "sometimes"}}))).await;
    let wrong = json!({
        "name": "  ", "delivery": {"channel": "nowhere"}, "time_limit_seconds": 10,
        "condition": {"type": "expression", "expression": "runs > 3"},
        "schedule": {"type": "every", "interval": 0},
    });
    let fields = refused(&app, &with(every(60), &wrong)).await;
    for field in ["name", "delivery.channel", "condition.expression", "schedule.interval"] {
        assert!(fields.iter().any(|bad| bad == field), "{field} in {fields:?}");
    }
    for expression in
        ["", "run_count", "job.nothing == 1", "1 +", "[1,2].all(x, [1,2].all(y, last_run.output.all(z, true)))"]
    {
        let bad = with(every(60), &json!({"condition": {"type": "expression", "expression": expression}}));
        assert!(!refused(&app, &bad).await.is_empty(), "{expression}");
    }
    let page = app.get("/api/scheduler/jobs?limit=201&status=lost&offset=-1").send().await.expect_status(400);
    assert_eq!(page.bad_fields().len(), 3);
    assert_eq!(app.get("/api/scheduler/jobs").send().await.expect_status(200).json()["count"], 0);
}

#[tokio::test]
async fn job_can_be_created_paused() {
    let app = app().await;
    assert_eq!(create(&app, &with(every(60), &json!({"status": "active"}))).await["status"], "active");
    let made = create(&app, &with(every(60), &json!({"status": "paused"}))).await;
    assert_eq!((&made["status"], &made["next_run_at"]), (&json!("paused"), &Value::Null));
    let path = format!("/api/scheduler/jobs/{}/resume", id(&made));
    let resumed = app.post(&path).send().await.expect_status(200).json();
    assert_eq!(resumed["status"], "active");
    assert!(resumed["next_run_at"].is_string(), "{resumed}");
}

#[tokio::test]
async fn dates_use_the_time_zone_of_the_profile_by_default() {
    let app = app().await;
    app.put("/api/settings/profile").json(&json!({"timezone": "America/New_York"})).send().await.expect_status(200);
    let naive = with(every(60), &json!({"schedule": {"type": "at", "datetime": "2026-01-05T12:00:00"}}));
    assert_eq!(create(&app, &naive).await["next_run_at"], "2026-01-05T17:00:00.000Z");
    let offset = with(every(60), &json!({"schedule": {"type": "at", "datetime": "2026-01-05T17:00:00Z"}}));
    let shown = "Once, on Monday, 5 January 2026 at 12:00 (America/New_York)";
    assert_eq!(create(&app, &offset).await["human_readable"], shown);
    let zoned = with(
        every(60),
        &json!({"schedule":
        {"type": "at", "datetime": "2026-01-05T12:00:00", "timezone": "Asia/Tokyo"}}),
    );
    refused(&app, &zoned).await;
}

#[tokio::test]
async fn jobs_are_listed_newest_first_with_total_count() {
    let app = app().await;
    create_agent(&app, "other").await;
    let mut ids = Vec::new();
    for number in 0..5 {
        let agent = if number == 4 { "other" } else { "scout" };
        let made = create(&app, &with(every(600), &json!({"name": format!("job {number}"), "agent_id": agent}))).await;
        ids.push(id(&made));
        advance(&app, 1);
    }
    app.post(&format!("/api/scheduler/jobs/{}/pause", ids[1])).send().await.expect_status(200);
    let list = async |query: &str| {
        let list = app.get(&format!("/api/scheduler/jobs?{query}")).send().await.expect_status(200).json();
        let names: Vec<String> = list["jobs"].as_array().expect("jobs").iter().map(id).collect();
        (names, list["count"].as_u64().expect("a count"))
    };
    assert_eq!(list("limit=2&offset=1").await, (vec![ids[3].clone(), ids[2].clone()], 5));
    assert_eq!(list("status=paused").await, (vec![ids[1].clone()], 1));
    assert_eq!(list("agent_id=other").await, (vec![ids[4].clone()], 1));
    assert_eq!(list("status=completed").await, (vec![], 0));
    let stats = app.get("/api/scheduler/stats").send().await.expect_status(200).json();
    assert_eq!((&stats["total_jobs"], &stats["active_jobs"]), (&json!(5), &json!(4)));
    assert_eq!(stats["jobs_by_status"], json!({"active": 4, "paused": 1, "completed": 0, "failed": 0}));
    assert_eq!((&stats["success_rate"], &stats["avg_duration_seconds"]), (&Value::Null, &Value::Null));
    let status = app.get("/api/scheduler/status").send().await.expect_status(200).json();
    assert_eq!((&status["running"], &status["tick_interval_seconds"]), (&json!(true), &json!(1)));
    let metrics = app.get("/api/metrics/prometheus").send().await.expect_status(200).text();
    assert!(metrics.contains("svc_scheduler_jobs_active 4"), "{metrics}");
}

#[tokio::test]
async fn idempotent_requests_create_one_job_and_one_run() {
    let app = app().await;
    let post = || app.post("/api/scheduler/jobs").header("idempotency-key", "once").json(&every(60));
    let first = post().send().await.expect_status(201).json();
    let again = post().send().await.expect_status(201);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.json(), first);
    let trigger = || app.post(&format!("/api/scheduler/jobs/{}/trigger", id(&first))).header("idempotency-key", "now");
    let run = trigger().send().await.expect_status(202).json();
    assert_eq!(trigger().send().await.expect_status(202).json(), run);
    assert_eq!(runs(&app, &id(&first)).await.len(), 1);
}

#[tokio::test]
async fn fields_are_updated_individually_and_a_new_schedule_starts_now() {
    let app = app().await;
    enable_platform(&app, "slack").await;
    let made = create(
        &app,
        &with(
            every(600),
            &json!({"delivery": {"channel": "slack:#a"},
        "retry": {"max_attempts": 3, "strategy": "fixed", "base_delay": 5}}),
        ),
    )
    .await;
    let path = format!("/api/scheduler/jobs/{}", id(&made));
    let change = async |body: Value| app.put(&path).json(&body).send().await.expect_status(200).json();
    advance(&app, 300);
    let renamed = change(json!({"name": "other"})).await;
    assert_eq!((&renamed["name"], &renamed["next_run_at"]), (&json!("other"), &made["next_run_at"]));
    assert_eq!(renamed["delivery"], made["delivery"]);
    let cleared = change(json!({"delivery": null, "retry": null})).await;
    assert_eq!((&cleared["delivery"], &cleared["retry"]["max_attempts"]), (&Value::Null, &json!(1)));
    let moved = change(json!({"schedule": {"type": "every", "interval": 3600}})).await;
    assert_eq!(moved["next_run_at"], "2026-01-05T10:05:00.000Z");
    let same = change(json!({"schedule": {"type": "every", "interval": 3600}, "goal": "Else."})).await;
    assert_eq!(same["next_run_at"], "2026-01-05T10:05:00.000Z", "an unchanged schedule keeps its next run");
    let bad = app.put(&path).json(&json!({"name": " ", "schedule": {"type": "every", "interval": 0}})).send().await;
    let mut fields = bad.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["name", "schedule.interval"]);
    assert_eq!(job(&app, &id(&made)).await["goal"], "Else.");
}

#[tokio::test]
async fn blank_model_is_rejected() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    let made = id(&create(app, &every(600)).await);
    for model in ["", "  "] {
        let refused = app.post("/api/scheduler/jobs").json(&with(every(600), &json!({"model": model}))).send().await;
        assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["model"], "{model:?}");
        let refused = app.put(&format!("/api/scheduler/jobs/{made}")).json(&json!({"model": model})).send().await;
        assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["model"], "{model:?}");
    }
}

#[tokio::test]
async fn paused_job_runs_only_when_triggered() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    let made = create(app, &every(600)).await;
    let path = |action: &str| format!("/api/scheduler/jobs/{}/{action}", id(&made));
    app.post(&path("resume")).send().await.expect_error(409, "wrong_state");
    let paused = app.post(&path("pause")).send().await.expect_status(200).json();
    assert_eq!((&paused["status"], &paused["next_run_at"]), (&json!("paused"), &Value::Null));
    app.post(&path("pause")).send().await.expect_error(409, "wrong_state");
    advance(app, 6_000);
    app.run_workers().await;
    assert!(runs(app, &id(&made)).await.is_empty());
    trigger(app, &id(&made)).await;
    app.run_workers().await;
    assert_eq!(statuses(&runs(app, &id(&made)).await), ["success"], "a paused job can be triggered");
    let resumed = app.post(&path("resume")).send().await.expect_status(200).json();
    assert_eq!((&resumed["status"], &resumed["next_run_at"]), (&json!("active"), &json!("2026-01-05T10:50:00.000Z")));
    advance(app, 600);
    app.run_workers().await;
    assert_eq!(runs(app, &id(&made)).await.len(), 2, "slots missed during the pause are not made up");
}

#[tokio::test]
async fn deleting_a_job_deletes_its_runs() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    let made = create(app, &every(600)).await;
    advance(app, 600);
    app.run_workers().await;
    let path = format!("/api/scheduler/jobs/{}", id(&made));
    let waiting = trigger(app, &id(&made)).await;
    assert_eq!(app.delete(&path).send().await.expect_status(200).json(), json!({"deleted": true}));
    for path in [path.clone(), format!("{path}/runs"), format!("{path}/runs/{waiting}"), format!("{path}/stats")] {
        app.get(&path).send().await.expect_error(404, "job_not_found");
    }
    app.post(&format!("{path}/trigger")).send().await.expect_error(404, "job_not_found");
    advance(app, 6_000);
    app.run_workers().await;
    assert_eq!(fixture.vendor.requests().len(), 1, "the pending run did not start");
    let mut read = app.running().context().db.read().await.expect("a connection");
    for table in ["jobs", "job_runs"] {
        let count: u64 = read
            .fetch_one(format!("SELECT COUNT(*) FROM {table}"), agentd_store::args![])
            .await
            .expect("a row")
            .first()
            .expect("a number");
        assert_eq!(count, 0, "{table}");
    }
}

#[tokio::test]
async fn deleting_an_agent_deletes_its_jobs() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    create_agent(app, "other").await;
    let gone = create(app, &every(600)).await;
    let stays = create(app, &with(every(600), &json!({"agent_id": "other"}))).await;
    trigger(app, &id(&gone)).await;
    app.delete("/api/agents/scout").send().await.expect_status(200);
    app.get(&format!("/api/scheduler/jobs/{}", id(&gone))).send().await.expect_error(404, "job_not_found");
    advance(app, 600);
    app.run_workers().await;
    assert_eq!(statuses(&runs(app, &id(&stays)).await), ["success"]);
    assert_eq!(fixture.vendor.requests().len(), 1);
    let mut read = app.running().context().db.read().await.expect("a connection");
    let left: u64 = read
        .fetch_one("SELECT COUNT(*) FROM jobs", agentd_store::args![])
        .await
        .expect("a row")
        .first()
        .expect("a number");
    assert_eq!(left, 1);
}
