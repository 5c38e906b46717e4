//! What is left of the queue after `kill -9`: every event arrives, no more often twice than there were kills times
//! deliveries under way, and nothing stays `processing`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agentd_base::Entropy;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::receiver::{Answer, Receiver};
use crate::support::{Eventually, TestProcess};

/// `make chaos` asks for more of both.
const KILLS: &str = "AGENTD_TEST_HOOK_KILLS";
const EVENTS: &str = "AGENTD_TEST_HOOK_EVENTS";
const AT_ONCE: usize = 64;
/// A queue that does not get on at all is not waited for longer.
const STUCK: Duration = Duration::from_secs(120);

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The id of the episode, where it was acknowledged.
async fn remember(process: &TestProcess, text: String) -> Option<String> {
    let (client, address, key) = process.client();
    let request = client.post(format!("http://{address}/api/memory/episodes")).bearer_auth(key);
    let answer = request.json(&json!({"content": text})).send().await.ok()?;
    answer.json::<Value>().await.ok()?["id"].as_str().map(str::to_owned)
}

/// Queues deliveries for a hook that holds them; answers the ids of their events.
async fn fill(process: &TestProcess, hook: &str, count: usize) -> Vec<String> {
    let requests = futures_util::stream::iter(0..count).map(|_| async move {
        let path = format!("/api/hooks/{hook}/test-delivery");
        let delivery = process.request(reqwest::Method::POST, &path).send().await.expect_status(202).json();
        delivery["event_id"].as_str().unwrap().to_owned()
    });
    requests.buffer_unordered(8).collect().await
}

async fn make(process: &TestProcess, url: &str, enabled: bool) -> String {
    let hook = json!({
        "name": "sink", "event_type": "memory.stored", "hook_type": "http", "enabled": enabled,
        "config": {"url": url, "queued": true, "retry_delay_s": 1},
    });
    let hook = process.post("/api/hooks").json(&hook).send().await.expect_status(201).json();
    hook["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_no_delivery() {
    let (kills, events) = (number(KILLS, 3), number(EVENTS, 150));
    let receiver = Receiver::start().await;
    // So slow that something is always under way when the daemon is killed.
    receiver.always(Answer::Late(Duration::from_millis(50)));
    let mut process = TestProcess::with_owner().await;
    process.put("/api/settings/memory").json(&json!({"entity_extraction": "off"})).send().await.expect_status(200);
    let held = make(&process, &receiver.url(), false).await;
    let mut told = fill(&process, &held, events).await;
    let hook = make(&process, &receiver.url(), true).await;
    process.put(&format!("/api/hooks/{held}")).json(&json!({"enabled": true})).send().await.expect_status(200);
    let entropy = Entropy::seeded(7);
    for round in 0..=kills {
        // Some of these are still to be matched when the daemon is killed.
        for at in 0..5 {
            if let Some(id) =
                remember(&process, format!("Episode {at} of round {round} has words of its own zq{round}n{at}")).await
            {
                told.push(id);
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
            // An episode is known by its own id: nobody was told that of its event.
            let id = event["data"]["episode_id"].as_str().or(event["id"].as_str()).unwrap();
            *times.entry(format!("{}/{id}", event["type"])).or_default() += 1;
        }
        let ids: BTreeSet<&str> = times.keys().filter_map(|key| Some(key.rsplit_once('/')?.1)).collect();
        wanted.iter().all(|id| ids.contains(id.as_str())).then_some(times)
    };
    let begun = tokio::time::Instant::now();
    let mut eventually = Eventually::new();
    let times = loop {
        if let Some(times) = arrived(&told) {
            break times;
        }
        assert!(begun.elapsed() < STUCK, "deliveries are missing: {} of {}", receiver.received().len(), told.len());
        eventually.look_again().await;
    };
    println!("{hook}: {} events, {} requests", times.len(), times.values().sum::<usize>());
    let doubled: usize = times.values().map(|count| count - 1).sum();
    assert!(doubled <= kills * AT_ONCE, "{doubled} came twice");
    // The last lease is over soon after the last kill.
    let mut eventually = Eventually::new();
    loop {
        let stats =
            process.get("/api/hooks/deliveries/queue-stats").send().await.expect_status(200).json()["stats"].clone();
        if stats["pending"] == 0 && stats["processing"] == 0 && stats["failed"] == 0 {
            assert_eq!(stats["dead_letter"], 0, "{stats}");
            break;
        }
        assert!(begun.elapsed() < STUCK, "something is left: {stats}");
        eventually.look_again().await;
    }
}
