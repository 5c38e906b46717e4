//! Recovery of the queue after `kill -9`. Every event arrives, each kill repeats at most the concurrent deliveries, and
//! no delivery stays `processing`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agentd_base::Entropy;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::receiver::{Answer, Receiver};
use crate::support::{Eventually, TestProcess};

/// Environment variables with the number of kills and events; `make chaos` sets higher ones.
const KILLS: &str = "AGENTD_TEST_HOOK_KILLS";
const EVENTS: &str = "AGENTD_TEST_HOOK_EVENTS";
const MAX_CONCURRENT_DELIVERIES: usize = 64;
/// Maximum time without completion before the test fails.
const MAX_WAIT: Duration = Duration::from_secs(120);

fn count_from_env(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Stores an episode; returns its id if the request was acknowledged.
async fn remember(process: &TestProcess, text: String) -> Option<String> {
    let (client, address, key) = process.client();
    let request = client.post(format!("http://{address}/api/memory/episodes")).bearer_auth(key);
    let answer = request.json(&json!({"content": text})).send().await.ok()?;
    answer.json::<Value>().await.ok()?["id"].as_str().map(str::to_owned)
}

/// Queues test deliveries for a disabled hook; returns the ids of their events.
async fn queue_test_deliveries(process: &TestProcess, hook: &str, count: usize) -> Vec<String> {
    let requests = futures_util::stream::iter(0..count).map(|_| async move {
        let path = format!("/api/hooks/{hook}/test-delivery");
        let delivery = process.request(reqwest::Method::POST, &path).send().await.expect_status(202).json();
        delivery["event_id"].as_str().unwrap().to_owned()
    });
    requests.buffer_unordered(8).collect().await
}

async fn create_hook(process: &TestProcess, url: &str, enabled: bool) -> String {
    let hook = json!({
        "name": "sink", "event_type": "memory.stored", "hook_type": "http", "enabled": enabled,
        "config": {"url": url, "queued": true, "retry_delay_s": 1},
    });
    let hook = process.post("/api/hooks").json(&hook).send().await.expect_status(201).json();
    hook["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_no_delivery() {
    let (kills, events) = (count_from_env(KILLS, 3), count_from_env(EVENTS, 150));
    let receiver = Receiver::start().await;
    // Slow enough for some deliveries to be in progress at each kill.
    receiver.always(Answer::Late(Duration::from_millis(50)));
    let mut process = TestProcess::with_owner().await;
    process.put("/api/settings/memory").json(&json!({"entity_extraction": "off"})).send().await.expect_status(200);
    let held = create_hook(&process, &receiver.url(), false).await;
    let mut expected = queue_test_deliveries(&process, &held, events).await;
    let hook = create_hook(&process, &receiver.url(), true).await;
    process.put(&format!("/api/hooks/{held}")).json(&json!({"enabled": true})).send().await.expect_status(200);
    let entropy = Entropy::seeded(7);
    for round in 0..=kills {
        // Some of these events are not yet matched to hooks when the daemon is killed.
        for at in 0..5 {
            if let Some(id) =
                remember(&process, format!("Episode {at} of round {round} has words of its own zq{round}n{at}")).await
            {
                expected.push(id);
            }
        }
        if round < kills {
            tokio::time::sleep(Duration::from_millis(300).mul_f64(entropy.unit())).await;
            process.kill();
            process.spawn().await;
        }
    }
    let arrived = |wanted: &[String]| {
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for got in receiver.received() {
            let event = got.event();
            // Episodes are identified by their own id, because the id of their event is not known.
            let id = event["data"]["episode_id"].as_str().or(event["id"].as_str()).unwrap();
            *times.entry(format!("{}/{id}", event["type"])).or_default() += 1;
        }
        let ids: BTreeSet<&str> = times.keys().filter_map(|key| Some(key.rsplit_once('/')?.1)).collect();
        wanted.iter().all(|id| ids.contains(id.as_str())).then_some(times)
    };
    let begun = tokio::time::Instant::now();
    let mut eventually = Eventually::new();
    let times = loop {
        if let Some(times) = arrived(&expected) {
            break times;
        }
        assert!(
            begun.elapsed() < MAX_WAIT,
            "deliveries are missing: {} of {}",
            receiver.received().len(),
            expected.len()
        );
        eventually.retry().await;
    };
    println!("{hook}: {} events, {} requests", times.len(), times.values().sum::<usize>());
    let duplicates: usize = times.values().map(|count| count - 1).sum();
    assert!(duplicates <= kills * MAX_CONCURRENT_DELIVERIES, "{duplicates} deliveries were repeated");
    // The last lease expires soon after the last kill.
    let mut eventually = Eventually::new();
    loop {
        let stats =
            process.get("/api/hooks/deliveries/queue-stats").send().await.expect_status(200).json()["stats"].clone();
        if stats["pending"] == 0 && stats["processing"] == 0 && stats["failed"] == 0 {
            assert_eq!(stats["dead_letter"], 0, "{stats}");
            break;
        }
        assert!(begun.elapsed() < MAX_WAIT, "deliveries remain: {stats}");
        eventually.retry().await;
    }
}
