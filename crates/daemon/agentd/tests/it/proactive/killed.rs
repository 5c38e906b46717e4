//! A daemon that ends in the middle: nothing is told twice, and nothing is lost that had not begun.

use std::collections::BTreeSet;

use agentd_base::Clock;
use agentd_llm::Vendor;
use agentd_testing_llm::{FakeVendor, Gate};

use super::*;
use crate::support::{Eventually, TestProcess};

const JOBS: usize = 20;

#[tokio::test]
async fn a_turn_that_a_restart_cut_off_is_not_begun_again() {
    let gate = Gate::new();
    let held = gate.clone();
    let script = Script::by(move |request| match is_proactive(request) {
        true => Reply::text(["a", "b"], COUNTED).gated(&held),
        false => Reply::failure(DocumentedFailure::WrongKey),
    });
    let mut talk = Talk::with(script).await;
    enable(&talk.app, json!({"delivery": "slack:#owner"})).await;
    scheduler::create(&talk.app, &once("2026-01-05T10:00:00Z", "report")).await;
    advance(&talk.app, HOUR);
    talk.app.run_workers().await;
    assert_eq!(list(&talk.app).await[0]["status"], "running");
    talk.app.stop_within(Duration::ZERO).await;
    gate.open();
    talk.app.try_start().await.expect("the daemon starts");
    // Where another daemon might hold it, its lease has to end first.
    advance(&talk.app, 60);
    for _ in 0..2 {
        let turns = settled(&talk.app).await;
        assert_eq!((turns.len(), &turns[0]["status"]), (1, &json!("interrupted")), "{turns:?}");
        advance(&talk.app, HOUR);
    }
    assert_eq!(asked(&talk).len(), 1);
    let sent = talk.app.get("/api/notifications").send().await.expect_status(200).json();
    assert_eq!(sent["total"], 0, "what was not said to its end is not sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_no_cause_and_repeat_none() {
    let reply = Reply::text(["It ", "failed."], COUNTED).delayed(Duration::from_millis(60));
    let vendor = FakeVendor::start(Vendor::Openai, Script::always(reply)).await.expect("a fake vendor");
    let mut process = TestProcess::with_owner().await;
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    process.make_agent("scout").await;
    let due = Clock::system().now() + Duration::from_secs(6);
    for number in 0..JOBS {
        // A condition that cannot be evaluated any more when the job is due, so that no model is asked.
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
        eventually.look_again().await;
    }
    assert_eq!(vendor.requests().len(), 0);
    let quiet = json!({"start": "00:00", "end": "00:00"});
    let settings = json!({"enabled": true, "quiet_hours": quiet, "max_per_day": 100, "delivery": "slack:#owner"});
    let slack = json!({"slack": {"enabled": true}});
    process.put("/api/channels/settings").json(&slack).send().await.expect_status(200);
    process.put("/api/settings/strategy").json(&json!({"planning": "off"})).send().await.expect_status(200);
    process.put("/api/settings/proactive").json(&settings).send().await.expect_status(200);
    // Each start looks at once, and begins as many as there are places.
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
        eventually.look_again().await;
    };
    let causes: BTreeSet<&str> = turns.iter().filter_map(|turn| turn["cause_id"].as_str()).collect();
    assert_eq!(causes.len(), JOBS, "each once");
    let count = |status: &str| turns.iter().filter(|turn| turn["status"] == status).count();
    assert_eq!(count("success") + count("interrupted"), JOBS, "{turns:?}");
    assert!(vendor.requests().len() <= JOBS, "{} questions", vendor.requests().len());
    let sent = process.get("/api/notifications?limit=200").send().await.expect_status(200).json();
    assert_eq!(sent["total"], count("success"), "what was said is sent, once");
}
