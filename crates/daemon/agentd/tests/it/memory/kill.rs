//! Memory after `kill -9`: every message is remembered exactly once.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_base::Entropy;
use agentd_llm::Vendor;
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::{Value, json};

use crate::support::TestProcess;
use crate::support::chat_fixture::TEST_USAGE;

const KILLS: usize = 6;
const NAMES: [&str; 8] = ["Anna", "Boris", "Clara", "David", "Emma", "Felix", "Greta", "Hugo"];

async fn send(process: &TestProcess, content: &str) {
    let message = json!({"content": content, "agent_id": "scout"});
    let stream = process.post("/api/chat/messages/stream").json(&message).stream().await;
    stream.collect().await;
}

/// Consolidates all conversations. On PostgreSQL the lease of a killed daemon may still be active.
async fn consolidate(process: &TestProcess) {
    for _ in 0..240 {
        let answer = process.post("/api/memory/consolidate/conversations").send().await;
        if answer.status != http::StatusCode::CONFLICT {
            answer.expect_status(200);
            return;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    panic!("the lease was not released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_remembered_once_despite_kills() {
    let script = Script::always(Reply::text(["All right."], TEST_USAGE));
    let vendor = FakeVendor::start_without_recording(Vendor::Openai, script).await.expect("a fake vendor");
    let mut process = TestProcess::with_owner().await;
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    process.create_agent("scout").await;
    process.put("/api/settings/memory").json(&json!({"auto_recall": false})).send().await.expect_status(200);
    let entropy = Entropy::seeded(7);
    let mut contents = Vec::new();
    for round in 0..KILLS {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
        let messages = 2 + (entropy.unit() * 5.0) as usize;
        for (number, name) in NAMES.iter().enumerate().take(messages) {
            let content = format!("{name} works at Siemens in room {round}{number}.");
            send(&process, &content).await;
            contents.push(content);
        }
        process.kill();
        process.spawn().await;
    }
    consolidate(&process).await;
    let again = process.post("/api/memory/consolidate/conversations").send().await.expect_status(200).json();
    assert_eq!(again["processed"], 0, "{again}");
    let list = process.get("/api/memory/episodes?limit=100").send().await.expect_status(200).json();
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for episode in list["episodes"].as_array().expect("episodes") {
        assert_eq!(episode["access_count"], 0, "no episode was merged with itself: {episode}");
        *count.entry(episode["content"].as_str().expect("a content").to_owned()).or_default() += 1;
    }
    let expected: BTreeMap<String, usize> = contents.into_iter().map(|content| (content, 1)).collect();
    assert_eq!(count, expected);
    let stats: Value = process.get("/api/memory/stats").send().await.expect_status(200).json();
    assert_eq!(stats["total_episodes"], expected.len());
}
