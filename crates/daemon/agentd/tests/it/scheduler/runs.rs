//! Execution of runs: turns, attempts, conditions, delivery and events.

use agentd_testing_llm::{DocumentedFailure, Gate, Reply, Script};
use serde_json::{Value, json};

use super::{
    BackgroundWorkers, advance, create, events, every, id, job, run, runs, statuses, trigger, types, wait_for_run, with,
};
use crate::support::Eventually;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, enable_platform};

fn successful_reply() -> Reply {
    Reply::text(["All ", "is well."], TEST_USAGE)
}

fn failing_reply() -> Reply {
    Reply::failure(DocumentedFailure::WrongKey)
}

#[tokio::test]
async fn due_job_runs_as_a_turn_of_its_agent() {
    let fixture = ChatFixture::with(Script::always(successful_reply())).await;
    let app = &fixture.app;
    let made = create(app, &every(600)).await;
    let before = app.get("/api/scheduler/status").send().await.expect_status(200).json();
    assert_eq!(before["jobs_checked_last_tick"], 0);
    advance(app, 600);
    app.run_workers().await;
    let list = runs(app, &id(&made)).await;
    assert_eq!(statuses(&list), ["success"]);
    let done = &list[0];
    assert_eq!((&done["output"], &done["error"], &done["attempt"]), (&json!("All is well."), &Value::Null, &json!(1)));
    assert_eq!((&done["cause"], &done["scheduled_for"]), (&json!("schedule"), &json!("2026-01-05T09:10:00.000Z")));
    assert_eq!(run(app, &id(&made), &id(done)).await, *done);
    let after = job(app, &id(&made)).await;
    assert_eq!((&after["run_count"], &after["last_run_at"]), (&json!(1), &json!("2026-01-05T09:10:00.000Z")));
    assert_eq!(after["next_run_at"], "2026-01-05T09:20:00.000Z");
    let session = done["session_id"].as_str().expect("a session");
    let log = fixture.follow(session).stream().await.collect().await;
    assert_eq!(log.last().map(|event| event.event.as_str()), Some("done"), "the session can be followed");
    let prompt = fixture.vendor.requests().remove(0).body.to_string();
    assert!(prompt.contains("Say how things are.") && prompt.contains("report"), "{prompt}");
    let stats = app.get(&format!("/api/scheduler/jobs/{}/stats", id(&made))).send().await.expect_status(200).json();
    assert_eq!(
        (&stats["total_runs"], &stats["success_rate"], &stats["last_status"]),
        (&json!(1), &json!(1.0), &json!("success"))
    );
    assert_eq!(stats["next_runs"].as_array().map(Vec::len), Some(5));
    let all = app.get("/api/scheduler/stats").send().await.expect_status(200).json();
    assert_eq!((&all["total_runs_today"], &all["success_rate"]), (&json!(1), &json!(1.0)));
    app.get(&format!("/api/scheduler/jobs/{}/runs/run_unknown", id(&made)))
        .send()
        .await
        .expect_error(404, "run_not_found");
    let filtered = app
        .get(&format!("/api/scheduler/jobs/{}/runs?status=failed", id(&made)))
        .send()
        .await
        .expect_status(200)
        .json();
    assert_eq!(filtered, json!({"runs": [], "total": 0}));
}

#[tokio::test]
async fn every_step_of_a_run_emits_an_event() {
    let fixture = ChatFixture::with(Script::queue([failing_reply(), successful_reply()])).await;
    let app = &fixture.app;
    let retry = json!({"retry": {"max_attempts": 2, "strategy": "fixed", "base_delay": 30}});
    let made = create(app, &with(every(600), &retry)).await;
    advance(app, 600);
    app.run_workers().await;
    assert_eq!(statuses(&runs(app, &id(&made)).await), ["pending"]);
    advance(app, 30);
    app.run_workers().await;
    let list = runs(app, &id(&made)).await;
    assert_eq!((statuses(&list), &list[0]["attempt"]), (vec!["success"], &json!(2)));
    let emitted = events(app, "task.").await;
    assert_eq!(types(&emitted), ["task.queued", "task.started", "task.retrying", "task.started", "task.completed"]);
    for (event_type, data) in &emitted {
        assert_eq!((&data["job_id"], &data["run_id"]), (&made["id"], &list[0]["id"]), "{event_type}");
        assert_eq!((&data["origin"], &data["agent_id"]), (&json!("scheduler"), &made["agent_id"]), "{event_type}");
    }
    let retrying = &emitted[2].1;
    assert_eq!((&retrying["attempt"], &retrying["next_attempt_at"]), (&json!(1), &json!("2026-01-05T09:10:30.000Z")));
    let completed = &emitted[4].1;
    assert_eq!((&completed["output"], &completed["total_tokens"]), (&json!("All is well."), &json!(10)));
    let ticks = events(app, "scheduler.").await;
    assert_eq!(types(&ticks), ["scheduler.started", "scheduler.tick"], "a tick without due jobs emits no event");
    assert_eq!(ticks[1].1, json!({"due": 1, "run_ids": [list[0]["id"]]}));
}

#[tokio::test]
async fn chat_turns_emit_task_events() {
    let fixture = ChatFixture::with(Script::queue([successful_reply(), failing_reply()])).await;
    fixture.exchange(&json!({"content": "Hello", "agent_id": "scout"})).await;
    fixture.exchange(&json!({"content": "Hello", "agent_id": "scout"})).await;
    let emitted = events(&fixture.app, "task.").await;
    let expected = ["task.queued", "task.started", "task.completed", "task.queued", "task.started", "task.failed"];
    assert_eq!(types(&emitted), expected);
    assert!(emitted.iter().all(|(_, data)| data["origin"] == "chat" && data["job_id"].is_null()), "{emitted:?}");
    assert_eq!((&emitted[5].1["reason"], &emitted[5].1["code"]), (&json!("error"), &json!("auth")));
}

#[tokio::test]
async fn recurring_job_stays_active_after_failed_attempts() {
    let fixture = ChatFixture::with(Script::always(failing_reply())).await;
    let app = &fixture.app;
    let retry = json!({"retry": {"max_attempts": 3, "strategy": "exponential", "base_delay": 10}});
    let made = create(app, &with(every(600), &retry)).await;
    advance(app, 600);
    app.run_workers().await;
    for (delay, attempts) in [(10, 1), (20, 2)] {
        let waiting = &runs(app, &id(&made)).await[0];
        assert_eq!((&waiting["status"], &waiting["attempt"]), (&json!("pending"), &json!(attempts)));
        assert!(waiting["error"].as_str().is_some_and(|error| error.len() > 10), "{waiting}");
        advance(app, delay - 1);
        app.run_workers().await;
        assert_eq!(runs(app, &id(&made)).await[0]["attempt"], attempts, "no attempt before the delay has passed");
        advance(app, 1);
        app.run_workers().await;
    }
    let failed = &runs(app, &id(&made)).await[0];
    assert_eq!((&failed["status"], &failed["attempt"]), (&json!("failed"), &json!(3)));
    assert_eq!(job(app, &id(&made)).await["status"], "active");
    let emitted = events(app, "task.").await;
    assert_eq!(types(&emitted).iter().filter(|name| **name == "task.failed").count(), 1, "{:?}", types(&emitted));
    assert_eq!(fixture.vendor.requests().len(), 3);
}

#[tokio::test]
async fn one_time_job_completes_after_its_run() {
    let fixture = ChatFixture::with(Script::queue([successful_reply(), failing_reply(), successful_reply()])).await;
    let app = &fixture.app;
    let once = |time: &str| with(every(1), &json!({"schedule": {"type": "at", "datetime": time}}));
    let first = create(app, &once("2026-01-05T10:00:00Z")).await;
    advance(app, 3_600);
    app.run_workers().await;
    let second = create(app, &once("2026-01-05T11:00:00Z")).await;
    advance(app, 3_600);
    app.run_workers().await;
    assert_eq!(job(app, &id(&first)).await["status"], "completed");
    let failed = job(app, &id(&second)).await;
    assert_eq!((&failed["status"], &failed["next_run_at"]), (&json!("failed"), &Value::Null));
    let path = format!("/api/scheduler/jobs/{}", id(&second));
    app.post(&format!("{path}/pause")).send().await.expect_error(409, "wrong_state");
    let again = json!({"schedule": {"type": "at", "datetime": "2026-01-05T12:00:00Z"}});
    let back = app.put(&path).json(&again).send().await.expect_status(200).json();
    assert_eq!(back["status"], "active");
    advance(app, 3_600);
    app.run_workers().await;
    assert_eq!(job(app, &id(&second)).await["status"], "completed");
    let list = app.get("/api/scheduler/jobs?status=completed").send().await.expect_status(200).json();
    assert_eq!(list["count"], 2);
}

#[tokio::test]
async fn condition_decides_whether_a_run_starts() {
    let fixture = ChatFixture::with(Script::queue([successful_reply(), failing_reply()])).await;
    let app = &fixture.app;
    let condition = json!({"condition": {"type": "expression",
        "expression": "last_run == null || (last_run.status == 'success' && last_run.output.contains('well'))"}});
    let made = create(app, &with(every(600), &condition)).await;
    for _ in 0..3 {
        advance(app, 600);
        app.run_workers().await;
    }
    let list = runs(app, &id(&made)).await;
    assert_eq!(statuses(&list), ["success", "failed", "skipped"]);
    assert_eq!(list[2]["error"], "the condition was false");
    assert_eq!(list[2]["session_id"], Value::Null);
    let skipped = events(app, "task.skipped").await;
    assert_eq!(skipped[0].1["reason"], "the condition was false");
    let shown = job(app, &id(&made)).await;
    // A skipped run does not count as a result.
    assert_eq!((&shown["run_count"], &shown["last_run_status"]), (&json!(2), &json!("failed")));
}

#[tokio::test]
async fn job_shows_its_last_result_and_can_be_filtered_by_failure() {
    let fixture = ChatFixture::with(Script::queue([failing_reply(), successful_reply()])).await;
    let app = &fixture.app;
    let made = create(app, &every(600)).await;
    create(app, &with(every(86_400), &json!({"name": "other"}))).await;
    let failing = async || {
        let list = app.get("/api/scheduler/jobs?failing=true").send().await.expect_status(200).json();
        assert_eq!(list["count"], list["jobs"].as_array().expect("jobs").len());
        list["jobs"].as_array().expect("jobs").iter().map(|job| job["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((&made["last_run_status"], failing().await), (&Value::Null, vec![]));
    advance(app, 600);
    app.run_workers().await;
    assert_eq!(job(app, &id(&made)).await["last_run_status"], "failed");
    assert_eq!(failing().await, [json!("report")]);
    let all = app.get("/api/scheduler/jobs?failing=false").send().await.expect_status(200).json();
    assert_eq!((&all["count"], &all["jobs"][0]["last_run_status"]), (&json!(2), &Value::Null));
    let changed = json!({"name": "renamed"});
    let path = format!("/api/scheduler/jobs/{}", id(&made));
    assert_eq!(app.put(&path).json(&changed).send().await.expect_status(200).json()["last_run_status"], "failed");
    advance(app, 600);
    app.run_workers().await;
    assert_eq!(job(app, &id(&made)).await["last_run_status"], "success");
    assert_eq!(failing().await, Vec::<Value>::new());
}

#[tokio::test]
async fn run_without_a_model_fails_with_a_message() {
    let app = crate::support::TestApp::with_owner().await;
    crate::support::chat_fixture::create_agent(&app, "scout").await;
    let made = create(&app, &every(600)).await;
    advance(&app, 600);
    app.run_workers().await;
    let list = runs(&app, &id(&made)).await;
    assert_eq!((statuses(&list), &list[0]["attempt"]), (vec!["failed"], &json!(1)));
    assert!(
        list[0]["error"].as_str().is_some_and(|error| error.contains("model") || error.contains("provider")),
        "{list:?}"
    );
    let emitted = events(&app, "task.").await;
    assert_eq!(types(&emitted), ["task.queued", "task.failed"]);
    assert_eq!((&emitted[1].1["reason"], &emitted[1].1["session_id"]), (&json!("error"), &Value::Null));
}

#[tokio::test]
async fn output_is_sent_to_the_delivery_channel() {
    let fixture = ChatFixture::with(Script::queue([successful_reply(), failing_reply()])).await;
    let app = &fixture.app;
    enable_platform(app, "slack").await;
    let made =
        create(app, &with(every(600), &json!({"delivery": {"channel": "slack:#reports", "format": "json"}}))).await;
    advance(app, 600);
    app.run_workers().await;
    advance(app, 600);
    app.run_workers().await;
    let list = app.get("/api/notifications").send().await.expect_status(200).json();
    assert_eq!(list["total"], 2);
    let texts: Vec<Value> = {
        let mut texts = Vec::new();
        for notification in list["notifications"].as_array().expect("a list").iter().rev() {
            let path = format!("/api/notifications/{}", id(notification));
            texts.push(app.get(&path).send().await.expect_status(200).json());
        }
        texts
    };
    assert_eq!(
        (&texts[0]["platform"], &texts[0]["channel"], &texts[0]["subject"]),
        (&json!("slack"), &json!("#reports"), &json!("report"))
    );
    let body: Value = serde_json::from_str(texts[0]["body"].as_str().expect("a body")).expect("JSON");
    assert_eq!(
        (&body["output"], &body["status"], &body["job_id"]),
        (&json!("All is well."), &json!("success"), &made["id"])
    );
    assert_eq!(texts[1]["subject"], "report failed");
}

#[tokio::test]
async fn concurrent_requests_per_provider_are_limited() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(successful_reply().gated(&gate))).await;
    let app = &fixture.app;
    let mut ids = Vec::new();
    for _ in 0..30 {
        ids.push(id(&create(app, &every(600)).await));
    }
    advance(app, 600);
    let workers = BackgroundWorkers::start(app);
    let mut eventually = Eventually::new();
    while fixture.vendor.requests().len() < 8 {
        eventually.retry().await;
    }
    for job in &ids {
        let run = runs(app, job).await.remove(0);
        wait_for_run(app, job, &id(&run), |run| run["status"] == "running").await;
    }
    assert_eq!(fixture.vendor.requests().len(), 8, "the other runs wait for a permit");
    gate.open();
    for job in &ids {
        let run = runs(app, job).await.remove(0);
        wait_for_run(app, job, &id(&run), |run| run["status"] == "success").await;
    }
    drop(workers);
    assert_eq!(fixture.vendor.requests().len(), 30, "one request per run");
    let tick = events(app, "scheduler.tick").await;
    assert_eq!((tick.len(), &tick[0].1["due"]), (1, &json!(30)));
}

#[tokio::test]
async fn trigger_runs_now_and_keeps_the_schedule() {
    let fixture = ChatFixture::with(Script::always(successful_reply())).await;
    let app = &fixture.app;
    let made = create(app, &every(600)).await;
    let first = trigger(app, &id(&made)).await;
    let refused = app.post(&format!("/api/scheduler/jobs/{}/trigger", id(&made))).send().await;
    let refused = refused.expect_error(409, "run_in_progress");
    assert!(refused.text().contains(&first), "{}", refused.text());
    app.run_workers().await;
    let done = run(app, &id(&made), &first).await;
    assert_eq!(
        (&done["status"], &done["cause"], &done["scheduled_for"]),
        (&json!("success"), &json!("manual"), &Value::Null)
    );
    assert_eq!(job(app, &id(&made)).await["next_run_at"], made["next_run_at"]);
    let path = format!("/api/scheduler/jobs/{}/runs/{first}/cancel", id(&made));
    app.post(&path).send().await.expect_error(409, "run_ended");
}
