//! Runs that stop: cancelled by a user, timed out, interrupted by a restart, or waiting for an approval.

use agentd_llm::ToolCall;
use agentd_store::{StoreError, Tx, args};
use agentd_testing_llm::{Gate, Reply, Script};
use serde_json::{Value, json};

use super::{
    BackgroundWorkers, advance, create, events, every, id, run, runs, statuses, trigger, types, wait_for_run, with,
};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};
use crate::support::{Eventually, TestApp};

fn gated(gate: &Gate) -> Script {
    Script::always(Reply::text(["Fine."], TEST_USAGE).gated(gate))
}

fn cancel_path(job: &str, run: &str) -> String {
    format!("/api/scheduler/jobs/{job}/runs/{run}/cancel")
}

/// Returns the metrics once `turns` turns have ended with this status.
async fn wait_for_metric(app: &TestApp, status: &str, turns: u32) -> String {
    let line = format!("svc_tasks_total{{status=\"{status}\"}} {turns}\n");
    let mut eventually = Eventually::new();
    loop {
        // The metrics are cached for one second.
        advance(app, 1);
        let metrics = app.get("/api/metrics/prometheus").send().await.text();
        if metrics.contains(&line) {
            return metrics;
        }
        eventually.retry().await;
    }
}

#[tokio::test]
async fn cancelling_a_run_aborts_the_model_call() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(gated(&gate)).await;
    let app = &fixture.app;
    let retry = json!({"retry": {"max_attempts": 5, "strategy": "fixed", "base_delay": 0}});
    let job = id(&create(app, &with(every(600), &retry)).await);
    let run_id = trigger(app, &job).await;
    let workers = BackgroundWorkers::start(app);
    let running = wait_for_run(app, &job, &run_id, |run| !run["session_id"].is_null()).await;
    let mut eventually = Eventually::new();
    while fixture.vendor.requests().is_empty() {
        eventually.retry().await;
    }
    let stopped = app.post(&cancel_path(&job, &run_id)).send().await.expect_status(200).json();
    assert_eq!((&stopped["status"], &stopped["error"]), (&json!("cancelled"), &json!("The run was cancelled.")));
    drop(workers);
    let session = running["session_id"].as_str().expect("a session");
    let log = fixture.follow(session).stream().await.collect().await;
    assert_eq!(log.last().map(|event| event.data["code"].clone()), Some(json!("cancelled")));
    fixture.vendor.wait_for_aborted(1).await;
    app.post(&cancel_path(&job, &run_id)).send().await.expect_error(409, "run_ended");
    app.run_workers().await;
    assert_eq!(statuses(&runs(app, &job).await), ["cancelled"], "there is no further attempt");
    assert_eq!(types(&events(app, "task.").await), ["task.queued", "task.started", "task.failed"]);
}

#[tokio::test]
async fn pending_run_is_cancelled_before_it_starts() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    let job = id(&create(app, &every(600)).await);
    let run_id = trigger(app, &job).await;
    let stopped = app.post(&cancel_path(&job, &run_id)).send().await.expect_status(200).json();
    assert_eq!((&stopped["status"], &stopped["attempt"]), (&json!("cancelled"), &json!(0)));
    app.run_workers().await;
    assert!(fixture.vendor.requests().is_empty());
    app.post(&cancel_path(&job, "run_unknown")).send().await.expect_error(404, "run_not_found");
}

#[tokio::test]
async fn attempt_ends_at_its_time_limit() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(gated(&gate)).await;
    let app = &fixture.app;
    let limits = json!({"time_limit_seconds": 60, "retry": {"max_attempts": 2, "strategy": "fixed", "base_delay": 0}});
    let job = id(&create(app, &with(every(86_400), &limits)).await);
    let run_id = trigger(app, &job).await;
    let _workers = BackgroundWorkers::start(app);
    let first = wait_for_run(app, &job, &run_id, |run| !run["session_id"].is_null()).await;
    advance(app, 59);
    assert_eq!(run(app, &job, &run_id).await["status"], "running");
    advance(app, 1);
    let second = wait_for_run(app, &job, &run_id, |run| {
        run["attempt"] == 2 && run["status"] == "running" && run["session_id"] != first["session_id"]
    })
    .await;
    assert!(second["error"].as_str().is_some_and(|error| error.contains("60 seconds")), "{second}");
    advance(app, 60);
    let ended = wait_for_run(app, &job, &run_id, |run| run["completed_at"] != Value::Null).await;
    assert_eq!(ended["status"], "timeout");
    let failures = events(app, "task.failed").await;
    assert_eq!(types(&failures), ["task.failed"]);
    assert_eq!((&failures[0].1["code"], &failures[0].1["error"]), (&json!("timeout"), &ended["error"]));
    assert_eq!(failures[0].1["reason"], "timeout");
    let metrics = wait_for_metric(app, "timeout", 2).await;
    assert!(metrics.contains("svc_tasks_total{status=\"cancelled\"} 0\n"), "both attempts timed out: {metrics}");
}

#[tokio::test]
async fn run_interrupted_by_a_restart_is_retried() {
    let gate = Gate::new();
    let mut fixture = ChatFixture::with(gated(&gate)).await;
    let job = id(&create(&fixture.app, &every(600)).await);
    let run_id = trigger(&fixture.app, &job).await;
    let workers = BackgroundWorkers::start(&fixture.app);
    wait_for_run(&fixture.app, &job, &run_id, |run| !run["session_id"].is_null()).await;
    drop(workers);
    fixture.app.stop_within(std::time::Duration::from_millis(1_500)).await;
    fixture.app.try_start().await.expect("start the daemon");
    let app = &fixture.app;
    let waiting = run(app, &job, &run_id).await;
    assert_eq!((&waiting["status"], &waiting["attempt"]), (&json!("pending"), &json!(1)), "{waiting}");
    assert!(waiting["error"].as_str().is_some_and(|error| error.contains("the attempt was complete")), "{waiting}");
    gate.open();
    app.run_workers().await;
    let done = run(app, &job, &run_id).await;
    assert_eq!((&done["status"], &done["attempt"]), (&json!("success"), &json!(2)));
    assert!(!types(&events(app, "task.").await).contains(&"task.failed"));
    let ends = events(app, "scheduler.").await;
    assert_eq!(types(&ends), ["scheduler.started", "scheduler.stopped", "scheduler.started"]);
}

#[tokio::test]
async fn run_waits_for_approval_beyond_its_time_limit() {
    let script = Script::queue([
        Reply::tool_calls(
            vec![ToolCall::new("c1", "write_file", json!({"path": "a.txt", "content": "hello"}))],
            TEST_USAGE,
        ),
        Reply::text(["Written."], TEST_USAGE),
    ]);
    let fixture = ChatFixture::with(script).await;
    let app = &fixture.app;
    let careful = json!({"execution_mode": "approval_required", "time_limit_seconds": 60});
    let job = id(&create(app, &with(every(86_400), &careful)).await);
    let run_id = trigger(app, &job).await;
    app.run_workers().await;
    advance(app, 600);
    app.run_workers().await;
    assert_eq!(run(app, &job, &run_id).await["status"], "running", "waiting does not count toward the time limit");
    let list = app.get("/api/chat/approvals?status=pending").send().await.expect_status(200).json();
    let approval = id(&list["approvals"][0]);
    let path = format!("/api/chat/approvals/{approval}");
    app.post(&path).json(&json!({"decision": "approve"})).send().await.expect_status(200);
    let done = wait_for_run(app, &job, &run_id, |run| run["completed_at"] != Value::Null).await;
    assert_eq!(
        (&done["status"], &done["output"], &done["attempt"]),
        (&json!("success"), &json!("Written."), &json!(1))
    );
}

#[tokio::test]
async fn waiting_for_approval_does_not_count_toward_the_time_limit() {
    let gate = Gate::new();
    let script = Script::queue([
        Reply::tool_calls(
            vec![ToolCall::new("c1", "write_file", json!({"path": "a.txt", "content": "hello"}))],
            TEST_USAGE,
        ),
        Reply::text(["Written."], TEST_USAGE).gated(&gate),
    ]);
    let fixture = ChatFixture::with(script).await;
    let app = &fixture.app;
    let careful = json!({"execution_mode": "approval_required", "time_limit_seconds": 60});
    let job = id(&create(app, &with(every(86_400), &careful)).await);
    let run_id = trigger(app, &job).await;
    app.run_workers().await;
    advance(app, 50);
    let list = app.get("/api/chat/approvals?status=pending").send().await.expect_status(200).json();
    let path = format!("/api/chat/approvals/{}", id(&list["approvals"][0]));
    app.post(&path).json(&json!({"decision": "approve"})).send().await.expect_status(200);
    let workers = BackgroundWorkers::start(app);
    let mut eventually = Eventually::new();
    while fixture.vendor.requests().len() < 2 {
        eventually.retry().await;
    }
    drop(workers);
    // Fifty seconds of waiting and fifty seconds of execution.
    advance(app, 50);
    let keep = app.running().daemon.workers.find("scheduler.keep").expect("the worker");
    keep.run_once().await.expect("run the worker");
    assert_eq!(run(app, &job, &run_id).await["status"], "running");
    let _workers = BackgroundWorkers::start(app);
    advance(app, 10);
    let ended = wait_for_run(app, &job, &run_id, |run| run["completed_at"] != Value::Null).await;
    assert_eq!(ended["status"], "timeout");
}

#[tokio::test]
async fn claim_without_a_task_expires() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(gated(&gate)).await;
    let app = &fixture.app;
    let job = id(&create(app, &with(every(86_400), &json!({"overlap": "allow"}))).await);
    let working = trigger(app, &job).await;
    let workers = BackgroundWorkers::start(app);
    wait_for_run(app, &job, &working, |run| !run["session_id"].is_null()).await;
    drop(workers);
    // The state of a run when the database was unavailable for both its start and its release.
    let lost = trigger(app, &job).await;
    let (context, claimed) = (app.running().context(), lost.clone());
    let owner = std::sync::Arc::clone(&context.instance);
    let claim = async move |tx: &mut Tx| {
        let until = tx.clock().now() + std::time::Duration::from_secs(30);
        let sql = "UPDATE job_runs SET status = 'running', owner = $2, fence = fence + 1, due_at = $3 WHERE id = $1";
        tx.execute(sql, args![claimed.as_str(), &*owner, until]).await
    };
    context.db.write::<_, StoreError, _>(claim).await.expect("claimed");
    let keep = app.running().daemon.workers.find("scheduler.keep").expect("the worker");
    for _ in 0..4 {
        advance(app, 10);
        keep.run_once().await.expect("run the worker");
    }
    let _workers = BackgroundWorkers::start(app);
    wait_for_run(app, &job, &lost, |run| !run["session_id"].is_null()).await;
}
