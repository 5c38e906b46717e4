//! What is left of the queue after `kill -9`: every event arrives, no more often twice than there were kills times
//! deliveries under way, and nothing stays `processing`.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_base::Entropy;
use serde_json::{Value, json};

use super::receiver::Receiver;
use crate::support::TestProcess;

/// `make chaos` asks for more of both.
const KILLS: &str = "AGENTD_TEST_HOOK_KILLS";
const EVENTS: &str = "AGENTD_TEST_HOOK_EVENTS";
const AT_ONCE: usize = 64;
/// A queue that does not get on at all is not waited for longer.
const STUCK: Duration = Duration::from_secs(120);

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

async fn remember(process: &TestProcess, text: String) -> Option<String> {
    let (client, address, key) = process.client();
    let request = client.post(format!("http://{address}/api/memory/episodes")).bearer_auth(key);
    let answer = request.json(&json!({"content": text})).send().await.ok()?;
    answer.json::<Value>().await.ok()?["id"].as_str().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_no_delivery() {
    let (kills, events) = (number(KILLS, 3), number(EVENTS, 150));
    let receiver = Receiver::start().await;
    let mut process = TestProcess::with_owner().await;
    process.put("/api/settings/memory").json(&json!({"entity_extraction": "off"})).send().await.expect_status(200);
    let hook = json!({
        "name": "sink", "event_type": "memory.stored", "hook_type": "http",
        "config": {"url": receiver.url(), "queued": true, "retry_delay_s": 1},
    });
    let hook = process.post("/api/hooks").json(&hook).send().await.expect_status(201).json();
    let hook = hook["id"].as_str().unwrap().to_owned();
    let entropy = Entropy::seeded(7);
    let mut told = Vec::new();
    for round in 0..=kills {
        // Some of them are still to be matched, queued or sent when the daemon is killed.
        for at in 0..events.div_ceil(kills + 1) {
            if let Some(id) =
                remember(&process, format!("Episode {at} of round {round} has its own words zq{round}n{at}")).await
            {
                told.push(id);
            }
        }
        if round < kills {
            tokio::time::sleep(Duration::from_millis(200).mul_f64(entropy.unit())).await;
            process.kill();
            process.spawn().await;
        }
    }
    let arrived = |episodes: &[String]| {
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for got in receiver.received() {
            *times.entry(got.event()["data"]["episode_id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        episodes.iter().all(|id| times.contains_key(id)).then_some(times)
    };
    let begun = tokio::time::Instant::now();
    let times = loop {
        if let Some(times) = arrived(&told) {
            break times;
        }
        assert!(begun.elapsed() < STUCK, "deliveries are missing: {} of {}", receiver.received().len(), told.len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let doubled: usize = times.values().map(|count| count - 1).sum();
    assert!(doubled <= kills * AT_ONCE, "{doubled} came twice");
    // The last lease is over soon after the last kill.
    loop {
        let path = format!("/api/hooks/{hook}/deliveries");
        let stats = process.get(&path).send().await.expect_status(200).json()["stats"].clone();
        if stats["pending"] == 0 && stats["processing"] == 0 && stats["failed"] == 0 {
            assert_eq!(stats["dead_letter"], 0, "{stats}");
            break;
        }
        assert!(begun.elapsed() < STUCK, "something is left: {stats}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
