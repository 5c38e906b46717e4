//! Slots that fall into a run.

use agentd_llm::Gate;
use agentd_llm::fake::{Reply, Script};
use serde_json::{Value, json};

use super::{AtWork, advance, create, every, id, runs, statuses, trigger, until, with};
use crate::support::talk::{COUNTED, Talk};
use crate::support::{Eventually, TestApp};

/// A run that goes on until the gate is opened, and the slot after it.
async fn overlapped(policy: &str) -> (Talk, Gate, AtWork, String, String) {
    let gate = Gate::new();
    let talk = Talk::with(Script::always(Reply::text(["Fine."], COUNTED).gated(&gate))).await;
    let job = id(&create(&talk.app, &with(every(600), &json!({"overlap": policy}))).await);
    advance(&talk.app, 600);
    let at_work = AtWork::start(&talk.app);
    let first = id(&wait_for_runs(&talk.app, &job, 1).await[0]);
    until(&talk.app, &job, &first, |run| !run["session_id"].is_null()).await;
    advance(&talk.app, 600);
    wait_for_runs(&talk.app, &job, 2).await;
    (talk, gate, at_work, job, first)
}

async fn wait_for_runs(app: &TestApp, job: &str, count: usize) -> Vec<Value> {
    let mut eventually = Eventually::new();
    loop {
        let runs = runs(app, job).await;
        if runs.len() >= count {
            return runs;
        }
        eventually.look_again().await;
    }
}

async fn wait_until_over(app: &TestApp, job: &str) -> Vec<Value> {
    let mut eventually = Eventually::new();
    loop {
        let runs = runs(app, job).await;
        if !statuses(&runs).iter().any(|status| ["pending", "running"].contains(status)) {
            return runs;
        }
        eventually.look_again().await;
    }
}

#[tokio::test]
async fn a_slot_is_left_out_and_stays_visible() {
    let (talk, gate, _at_work, job, _) = overlapped("skip").await;
    let list = runs(&talk.app, &job).await;
    assert_eq!(statuses(&list), ["running", "skipped"]);
    assert_eq!(list[1]["error"], "the run before was still under way");
    assert_eq!(list[1]["scheduled_for"], "2026-01-05T09:20:00.000Z");
    gate.open();
    assert_eq!(statuses(&wait_until_over(&talk.app, &job).await), ["success", "skipped"]);
}

#[tokio::test]
async fn one_slot_may_wait_for_the_end_of_the_run() {
    let (talk, gate, _at_work, job, _) = overlapped("buffer_one").await;
    advance(&talk.app, 600);
    let list = wait_for_runs(&talk.app, &job, 3).await;
    assert_eq!(statuses(&list), ["running", "pending", "skipped"]);
    assert_eq!(talk.vendor.requests().len(), 1, "it waits");
    gate.open();
    assert_eq!(statuses(&wait_until_over(&talk.app, &job).await), ["success", "success", "skipped"]);
}

#[tokio::test]
async fn runs_may_go_side_by_side() {
    let (talk, gate, _at_work, job, _) = overlapped("allow").await;
    let second = id(&runs(&talk.app, &job).await[1]);
    until(&talk.app, &job, &second, |run| !run["session_id"].is_null()).await;
    let third = trigger(&talk.app, &job).await;
    until(&talk.app, &job, &third, |run| !run["session_id"].is_null()).await;
    assert_eq!(statuses(&runs(&talk.app, &job).await), ["running"; 3]);
    gate.open();
    assert_eq!(statuses(&wait_until_over(&talk.app, &job).await), ["success"; 3]);
}

#[tokio::test]
async fn a_later_slot_may_take_the_place_of_the_run() {
    let (talk, gate, _at_work, job, first) = overlapped("cancel_other").await;
    let replaced = until(&talk.app, &job, &first, |run| run["status"] == "cancelled").await;
    assert_eq!(replaced["error"], "A later slot of the job took its place.");
    gate.open();
    assert_eq!(statuses(&wait_until_over(&talk.app, &job).await), ["cancelled", "success"]);
}

#[tokio::test]
async fn what_run_all_makes_up_for_goes_one_after_the_other() {
    let talk = Talk::saying(&["Fine."]).await;
    let app = &talk.app;
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
