//! Kills during proactive turns: no cause is lost or handled twice.

use std::collections::BTreeSet;

use agentd_base::Clock;
use agentd_llm::Vendor;
use agentd_testing_llm::{FakeVendor, Gate};

use super::*;
use crate::support::{Eventually, TestProcess};

const JOBS: usize = 20;

#[tokio::test]
async fn interrupted_proactive_turn_is_not_restarted() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::by(move |request| match is_proactive(request) {
        true => Reply::text(["a", "b"], TEST_USAGE).gated(&held),
        false => Reply::failure(DocumentedFailure::WrongKey),
    });
    let mut fixture = ChatFixture::with(script).await;
    enable(&fixture.app, json!({"delivery": "slack:#owner"})).await;
    scheduler::create(&fixture.app, &once("2026-01-05T10:00:00Z", "report")).await;
    advance(&fixture.app, HOUR);
    fixture.app.run_workers().await;
    assert_eq!(list(&fixture.app).await[0]["status"], "running");
    fixture.app.stop_within(Duration::ZERO).await;
    gate.open();
    fixture.app.try_start().await.expect("start the daemon");
    // With replicas the lease must expire first.
    advance(&fixture.app, 60);
    for _ in 0..2 {
        let turns = run_until_settled(&fixture.app).await;
        assert_eq!((turns.len(), &turns[0]["status"]), (1, &json!("interrupted")), "{turns:?}");
        advance(&fixture.app, HOUR);
    }
    assert_eq!(proactive_requests(&fixture).len(), 1);
    let sent = fixture.app.get("/api/notifications").send().await.expect_status(200).json();
    assert_eq!(sent["total"], 0, "an incomplete answer is not sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_and_repeat_no_cause() {
    let reply = Reply::text(["It ", "failed."], TEST_USAGE).delayed(Duration::from_millis(60));
    let vendor = FakeVendor::start(Vendor::Openai, Script::always(reply)).await.expect("a fake vendor");
    let mut process = TestProcess::with_owner().await;
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    process.create_agent("scout").await;
    let due = Clock::system().now() + Duration::from_secs(6);
    for number in 0..JOBS {
        // The condition can no longer be evaluated when the job is due, so no model is called.
        let job = json!({
            "name": format!("job {number}"), "goal": "Say how things are.", "agent_id": "scout",
            "schedule": {"type": "at", "datetime": due},
            "condition": {"type": "expression", "expression": "now < timestamp(job.created_at) + duration('1s') || 1 / run_count > 0"},
        });
        process.post("/api/scheduler/jobs").json(&job).send().await.expect_status(201);
    }
    let mut eventually = Eventually::new();
    loop {
        let failed = process.get("/api/scheduler/jobs?status=failed").send().await.expect_status(200).json();
        if failed["count"] == JOBS {
            break;
        }
        eventually.retry().await;
    }
    assert_eq!(vendor.requests().len(), 0);
    let quiet = json!({"start": "00:00", "end": "00:00"});
    let settings = json!({"enabled": true, "quiet_hours": quiet, "max_per_day": 100, "delivery": "slack:#owner"});
    let slack = json!({"slack": {"enabled": true}});
    process.put("/api/channels/settings").json(&slack).send().await.expect_status(200);
    process.put("/api/settings/strategy").json(&json!({"planning": "off"})).send().await.expect_status(200);
    process.put("/api/settings/proactive").json(&settings).send().await.expect_status(200);
    // Each start checks immediately and begins as many turns as there are permits.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(700)).await;
        process.kill();
        process.spawn().await;
    }
    let mut eventually = Eventually::new();
    let turns = loop {
        let list = process.get("/api/scheduler/proactive?limit=200").send().await.expect_status(200).json();
        let turns = list["turns"].as_array().expect("turns").clone();
        if turns.len() == JOBS && turns.iter().all(|turn| turn["status"] != "running") {
            break turns;
        }
        eventually.retry().await;
    };
    let causes: BTreeSet<&str> = turns.iter().filter_map(|turn| turn["cause_id"].as_str()).collect();
    assert_eq!(causes.len(), JOBS, "each cause once");
    let count = |status: &str| turns.iter().filter(|turn| turn["status"] == status).count();
    assert_eq!(count("success") + count("interrupted"), JOBS, "{turns:?}");
    assert!(vendor.requests().len() <= JOBS, "{} model calls", vendor.requests().len());
    let sent = process.get("/api/notifications?limit=200").send().await.expect_status(200).json();
    assert_eq!(sent["total"], count("success"), "each answer is sent once");
}
