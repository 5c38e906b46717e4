//! Slots that are due during a run.

use agentd_llm::ToolCall;
use agentd_testing_llm::{Gate, Reply, Script};
use serde_json::{Value, json};

use super::{BackgroundWorkers, advance, create, every, id, runs, statuses, trigger, wait_for_run, with};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};
use crate::support::{Eventually, TestApp};

/// Starts a run that waits until the gate is opened, and lets the next slot become due.
async fn overlapped(policy: &str) -> (ChatFixture, Gate, BackgroundWorkers, String, String) {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["Fine."], TEST_USAGE).gated(&gate))).await;
    let job = id(&create(&fixture.app, &with(every(600), &json!({"overlap": policy}))).await);
    advance(&fixture.app, 600);
    let workers = BackgroundWorkers::start(&fixture.app);
    let first = id(&wait_for_runs(&fixture.app, &job, 1).await[0]);
    wait_for_run(&fixture.app, &job, &first, |run| !run["session_id"].is_null()).await;
    advance(&fixture.app, 600);
    wait_for_runs(&fixture.app, &job, 2).await;
    (fixture, gate, workers, job, first)
}

async fn wait_for_runs(app: &TestApp, job: &str, count: usize) -> Vec<Value> {
    let mut eventually = Eventually::new();
    loop {
        let runs = runs(app, job).await;
        if runs.len() >= count {
            return runs;
        }
        eventually.retry().await;
    }
}

async fn wait_until_over(app: &TestApp, job: &str) -> Vec<Value> {
    let mut eventually = Eventually::new();
    loop {
        let runs = runs(app, job).await;
        if !statuses(&runs).iter().any(|status| ["pending", "running"].contains(status)) {
            return runs;
        }
        eventually.retry().await;
    }
}

#[tokio::test]
async fn overlapping_slot_is_skipped_and_recorded() {
    let (fixture, gate, _workers, job, _) = overlapped("skip").await;
    let list = runs(&fixture.app, &job).await;
    assert_eq!(statuses(&list), ["running", "skipped"]);
    assert_eq!(list[1]["error"], "the previous run was still in progress");
    assert_eq!(list[1]["scheduled_for"], "2026-01-05T09:20:00.000Z");
    gate.open();
    assert_eq!(statuses(&wait_until_over(&fixture.app, &job).await), ["success", "skipped"]);
}

#[tokio::test]
async fn buffer_one_queues_a_single_slot() {
    let (fixture, gate, _workers, job, _) = overlapped("buffer_one").await;
    advance(&fixture.app, 600);
    let list = wait_for_runs(&fixture.app, &job, 3).await;
    assert_eq!(statuses(&list), ["running", "pending", "skipped"]);
    assert_eq!(fixture.vendor.requests().len(), 1, "the buffered run waits");
    gate.open();
    assert_eq!(statuses(&wait_until_over(&fixture.app, &job).await), ["success", "success", "skipped"]);
}

#[tokio::test]
async fn allow_policy_runs_concurrently() {
    let (fixture, gate, _workers, job, _) = overlapped("allow").await;
    let second = id(&runs(&fixture.app, &job).await[1]);
    wait_for_run(&fixture.app, &job, &second, |run| !run["session_id"].is_null()).await;
    let third = trigger(&fixture.app, &job).await;
    wait_for_run(&fixture.app, &job, &third, |run| !run["session_id"].is_null()).await;
    assert_eq!(statuses(&runs(&fixture.app, &job).await), ["running"; 3]);
    gate.open();
    assert_eq!(statuses(&wait_until_over(&fixture.app, &job).await), ["success"; 3]);
}

#[tokio::test]
async fn cancel_other_policy_replaces_the_run() {
    let (fixture, gate, _workers, job, first) = overlapped("cancel_other").await;
    let replaced = wait_for_run(&fixture.app, &job, &first, |run| run["status"] == "cancelled").await;
    assert_eq!(replaced["error"], "The run was replaced by a later slot of the job.");
    gate.open();
    assert_eq!(statuses(&wait_until_over(&fixture.app, &job).await), ["cancelled", "success"]);
}

#[tokio::test]
async fn missed_slots_of_run_all_run_one_after_another() {
    let fixture = ChatFixture::saying(&["Fine."]).await;
    let app = &fixture.app;
    let job = id(&create(app, &with(every(600), &json!({"misfire": "run_all"}))).await);
    advance(app, 15 * 600 + 300);
    app.run_workers().await;
    let list = runs(app, &job).await;
    assert_eq!(list.len(), 15, "ten runs, and the slots before them");
    assert_eq!(statuses(&list).iter().filter(|status| **status == "success").count(), 10);
    let mut slots: Vec<&str> = list.iter().filter_map(|run| run["scheduled_for"].as_str()).collect();
    slots.sort_unstable();
    slots.dedup();
    assert_eq!(slots.len(), 15, "each slot once");
}

#[tokio::test]
async fn open_runs_of_a_job_are_limited() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["Fine."], TEST_USAGE).gated(&gate))).await;
    let app = &fixture.app;
    let job = id(&create(app, &with(every(600), &json!({"overlap": "allow"}))).await);
    for _ in 0..100 {
        trigger(app, &job).await;
    }
    let path = format!("/api/scheduler/jobs/{job}/trigger");
    let refused = app.post(&path).send().await.expect_error(429, "too_many_open_runs");
    assert_eq!(refused.header("retry-after"), Some("10"));
    let chain = json!({"name": "alone", "jobs": [job], "edges": []});
    let chain = id(&app.post("/api/scheduler/chains").json(&chain).send().await.expect_status(201).json());
    let path = format!("/api/scheduler/chains/{chain}/trigger");
    app.post(&path).send().await.expect_error(429, "too_many_open_runs");
    let workers = BackgroundWorkers::start(app);
    advance(app, 600);
    let list = wait_for_runs(app, &job, 101).await;
    assert_eq!(
        (&list[100]["status"], &list[100]["error"]),
        (&json!("skipped"), &json!("open run limit of the job reached (100)"))
    );
    gate.open();
    wait_until_over(app, &job).await;
    drop(workers);
    trigger(app, &job).await;
}

#[tokio::test]
async fn slot_behind_a_waiting_run_does_not_keep_the_worker_busy() {
    let call = || {
        let call = ToolCall::new("c1", "write_file", json!({"path": "a.txt", "content": "hello"}));
        Reply::tool_calls(vec![call], TEST_USAGE)
    };
    let text_reply = || Reply::text(["Written."], TEST_USAGE);
    let fixture = ChatFixture::with(Script::queue([call(), text_reply(), call(), text_reply()])).await;
    let app = &fixture.app;
    let careful = json!({"execution_mode": "approval_required", "overlap": "buffer_one"});
    let job = id(&create(app, &with(every(600), &careful)).await);
    for _ in 0..2 {
        advance(app, 600);
        app.run_workers().await;
    }
    assert_eq!(statuses(&runs(app, &job).await), ["running", "pending"]);
    let starter = app.running().daemon.workers.find("scheduler.runs").expect("the worker");
    let now = app.clock.clock().now();
    assert!(starter.idle_until().is_some_and(|until| until > now), "{:?}", starter.idle_until());
    assert!(starter.interval() >= std::time::Duration::from_millis(900), "{:?}", starter.interval());
    let _workers = BackgroundWorkers::start(app);
    for _ in 0..2 {
        let mut eventually = Eventually::new();
        let approval = loop {
            let list = app.get("/api/chat/approvals?status=pending").send().await.expect_status(200).json();
            if list["total"] == 1 {
                break id(&list["approvals"][0]);
            }
            eventually.retry().await;
        };
        let path = format!("/api/chat/approvals/{approval}");
        app.post(&path).json(&json!({"decision": "approve"})).send().await.expect_status(200);
    }
    assert_eq!(statuses(&wait_until_over(app, &job).await), ["success", "success"]);
}
