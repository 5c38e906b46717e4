//! Recovery after `kill -9`: every acknowledged change and every sent token is stored.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_base::Entropy;
use agentd_llm::{Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::TestProcess;

const KILLS: usize = 20;
/// The daemon is killed after a random number of acknowledgements up to this one. A count makes slow and fast machines
/// equally busy, unlike a time.
const MAX_ACKNOWLEDGEMENTS: f64 = 300.0;
/// Maximum time until the load has reached the required number of acknowledgements.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Changes that were acknowledged before the daemon was killed.
#[derive(Default)]
struct Acknowledged {
    agents: BTreeSet<String>,
    titles: Vec<(String, String)>,
    /// Conversations with the text that was streamed.
    replies: Vec<(String, String)>,
}

/// State shared by the tasks of one round.
#[derive(Default)]
struct Round {
    acknowledged: Mutex<Acknowledged>,
    progress: watch::Sender<usize>,
}

impl Round {
    fn record(&self, change: impl FnOnce(&mut Acknowledged)) {
        change(&mut self.acknowledged.lock().unwrap());
        self.progress.send_modify(|progress| *progress += 1);
    }
}

async fn start_slow_vendor(tokens: usize) -> FakeVendor {
    let pieces: Vec<String> = (0..tokens).map(|number| format!("t{number} ")).collect();
    let usage = Usage {
        input_tokens: 5,
        output_tokens: tokens as u64,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        source: UsageSource::Provider,
    };
    let reply = Reply::text(pieces.iter().map(String::as_str), usage).delayed(Duration::from_millis(2));
    FakeVendor::start_without_recording(Vendor::Openai, Script::always(reply)).await.expect("a fake vendor")
}

async fn use_vendor(process: &TestProcess, vendor: &FakeVendor) {
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let settings = json!({"default_provider": "openai", "default_model": "fake"});
    process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
}

/// Keeps the daemon busy until a request fails, and records the acknowledged changes.
async fn generate_load(client: reqwest::Client, base: String, key: String, name: String, round: Arc<Round>) {
    let post = |path: &str, body: Value| client.post(format!("{base}{path}")).bearer_auth(&key).json(&body).send();
    for number in 0.. {
        let agent = format!("{name}-{number}");
        let Ok(answer) =
            post("/api/agents", json!({"svc_name": agent, "user_name": "O", "archetype": "assistant"})).await
        else {
            return;
        };
        // Only a complete response is an acknowledgement.
        if !answer.status().is_success() || answer.bytes().await.is_err() {
            return;
        }
        round.record(|acknowledged| {
            acknowledged.agents.insert(agent.clone());
        });
        let Ok(answer) = post("/api/chat/conversations", json!({"agent_id": agent, "title": agent})).await else {
            return;
        };
        let Ok(conversation) = answer.json::<Value>().await else { return };
        let Some(id) = conversation["id"].as_str().map(str::to_owned) else { return };
        round.record(|acknowledged| acknowledged.titles.push((id.clone(), agent.clone())));
        let Ok(answer) = post("/api/chat/messages/stream", json!({"conversation_id": id, "content": "hello"})).await
        else {
            return;
        };
        let mut slot = 0;
        round.record(|acknowledged| {
            slot = acknowledged.replies.len();
            acknowledged.replies.push((id, String::new()));
        });
        let mut stream = answer.bytes_stream();
        let mut text = String::new();
        while let Some(Ok(bytes)) = stream.next().await {
            text.push_str(&String::from_utf8_lossy(&bytes));
            let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
            let streamed: String = whole
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
                .filter_map(|data| data["content"].as_str().map(str::to_owned))
                .collect();
            round.record(|acknowledged| acknowledged.replies[slot].1 = streamed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_under_load_lose_nothing() {
    let vendor = start_slow_vendor(60).await;
    let mut process = TestProcess::with_owner().await;
    use_vendor(&process, &vendor).await;
    let entropy = Entropy::seeded(20);
    let mut checked_replies = 0;
    for round in 0..KILLS {
        let shared: Arc<Round> = Arc::default();
        let (client, address, key) = process.client();
        let tasks: Vec<_> = (0..6)
            .map(|task| {
                let name = format!("r{round}-c{task}");
                tokio::spawn(generate_load(
                    client.clone(),
                    format!("http://{address}"),
                    key.clone(),
                    name,
                    Arc::clone(&shared),
                ))
            })
            .collect();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
        let enough = (MAX_ACKNOWLEDGEMENTS * entropy.unit()) as usize;
        let mut progress = shared.progress.subscribe();
        let reached = tokio::time::timeout(MAX_WAIT, progress.wait_for(|progress| *progress >= enough)).await.is_ok();
        assert!(reached, "round {round} did not reach {enough} acknowledgements");
        process.kill();
        for task in tasks {
            task.await.expect("the load ends");
        }
        process.spawn().await;

        let listed = process.get("/api/agents").send().await.expect_status(200).json();
        let names: BTreeSet<String> = listed["agents"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|agent| agent["svc_name"].as_str().map(str::to_owned))
            .collect();
        let acknowledged = std::mem::take(&mut *shared.acknowledged.lock().unwrap());
        let missing: Vec<&String> = acknowledged.agents.difference(&names).collect();
        assert!(missing.is_empty(), "round {round} lost the agents {missing:?}");
        for (id, title) in &acknowledged.titles {
            let conversation =
                process.get(&format!("/api/chat/conversations/{id}")).send().await.expect_status(200).json();
            assert_eq!(conversation["title"], *title, "round {round}");
        }
        for (id, streamed) in &acknowledged.replies {
            let conversation =
                process.get(&format!("/api/chat/conversations/{id}")).send().await.expect_status(200).json();
            let messages = conversation["messages"].as_array().expect("messages");
            for message in messages {
                assert_ne!(message["status"], "running", "round {round} left a reply running: {message}");
            }
            if streamed.is_empty() {
                continue;
            }
            let reply = messages.iter().find(|message| message["role"] == "assistant").expect("a reply");
            let content = reply["content"].as_str().expect("text");
            assert!(content.starts_with(streamed.as_str()), "round {round}: sent `{streamed}`, stored `{content}`");
            assert!(["interrupted", "complete"].contains(&reply["status"].as_str().unwrap_or_default()), "{reply}");
            checked_replies += 1;
        }
    }
    assert!(checked_replies > KILLS, "too few replies were checked: {checked_replies}");
    assert!(process.terminate().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_daemon_on_the_same_database_file_is_rejected() {
    if std::env::var_os("AGENTD_TEST_DATABASE_URL").is_some() {
        // Several daemons may share a PostgreSQL database.
        return;
    }
    let process = TestProcess::with_owner().await;
    let mut second = process.command();
    second.env("SVC_PORT", "0");
    let output = tokio::task::spawn_blocking(move || second.output().expect("the command runs")).await.expect("waited");
    assert!(!output.status.success());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("another daemon") && stderr.contains("already uses"), "{stderr}");
    process.get("/api/agents").send().await.expect_status(200);
}
