//! `kill -9` between claim and completion: every slot has exactly one run, and every run completes.

use std::time::Duration;

use agentd_base::Clock;
use agentd_llm::Vendor;
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::{Value, json};

use crate::support::chat_fixture::TEST_USAGE;
use crate::support::{Eventually, TestProcess};

const JOBS: usize = 24;
/// Number of kills; `make chaos` sets a higher one.
const KILLS: &str = "AGENTD_TEST_SCHEDULER_KILLS";

async fn jobs(process: &TestProcess) -> Vec<Value> {
    let list = process.get("/api/scheduler/jobs?limit=200").send().await.expect_status(200).json();
    list["jobs"].as_array().expect("jobs").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_slot_has_exactly_one_run_despite_kills() {
    let kills = std::env::var(KILLS).ok().and_then(|kills| kills.parse().ok()).unwrap_or(4);
    let script = Script::always(Reply::text(["All ", "is ", "well."], TEST_USAGE).delayed(Duration::from_millis(120)));
    let vendor = FakeVendor::start(Vendor::Openai, script).await.expect("a fake vendor");
    let mut process = TestProcess::with_owner().await;
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    process.create_agent("scout").await;
    for number in 0..JOBS {
        // A few jobs are due at each time during the kills.
        let due = Clock::system().now() + Duration::from_millis(2_000 + u64::try_from(number / 4).expect("few") * 600);
        let job = json!({
            "name": format!("job {number}"), "goal": "Say how things are.", "agent_id": "scout",
            "schedule": {"type": "at", "datetime": due},
            "retry": {"max_attempts": 10, "strategy": "fixed", "base_delay": 0},
        });
        process.post("/api/scheduler/jobs").json(&job).send().await.expect_status(201);
    }
    tokio::time::sleep(Duration::from_millis(2_200)).await;
    for _ in 0..kills {
        process.kill();
        process.spawn().await;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    let mut eventually = Eventually::new();
    let all = loop {
        let all = jobs(&process).await;
        if all.iter().all(|job| job["status"] != "active") {
            break all;
        }
        eventually.retry().await;
    };
    assert_eq!(all.len(), JOBS);
    for job in &all {
        let id = job["id"].as_str().expect("an id");
        let path = format!("/api/scheduler/jobs/{id}/runs");
        let list = process.get(&path).send().await.expect_status(200).json();
        assert_eq!((&list["total"], &list["runs"][0]["status"]), (&json!(1), &json!("success")), "{list}");
        assert_eq!((&job["status"], &job["run_count"]), (&json!("completed"), &json!(1)));
    }
    let request_count = vendor.requests().iter().filter(|request| !request.body.is_null()).count();
    assert!(
        (JOBS..=JOBS + kills * 8).contains(&request_count),
        "{request_count} model calls for {JOBS} runs and {kills} kills"
    );
}
