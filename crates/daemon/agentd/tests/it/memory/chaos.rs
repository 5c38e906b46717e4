//! Memory after `kill -9`: every acknowledged episode is found by keyword and semantic search, and no deleted one
//! is.
//! The doctor verifies that index, counts and rows agree.
//!
//! The daemon runs in a separate process of this test binary, with the embedder of the tests.

#![allow(clippy::disallowed_methods, reason = "tests start processes")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd::config::{Config, ConfigSource};
use agentd::lifecycle::{Running, WorkerMode};
use agentd_base::{Clock, Entropy, Secret};
use agentd_testing_inference::FakeEmbedder;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::checker::{assert_agrees, doctor};
use crate::support::process::BINARY;
use crate::support::{ScratchDatabase, TestFolder, TestRequest, watchdog};

const FOLDER: &str = "AGENTD_TEST_VICTIM_FOLDER";
const DATABASE: &str = "AGENTD_TEST_VICTIM_DATABASE";
/// Number of kills; `make chaos-memory` sets a higher one.
const KILLS: &str = "AGENTD_TEST_MEMORY_KILLS";
const DEFAULT_KILLS: usize = 5;
const CLIENTS: usize = 4;
/// Maximum number of acknowledgements before a kill.
const MAX_PROGRESS: f64 = 80.0;
/// Maximum wait for progress of the load.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the daemon. Its workers run continuously, so that kills also hit index writes.
#[test]
#[ignore = "started by the chaos test"]
fn victim() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("started by the other test"));
    // Exits when the test ends, because the pipe is closed.
    std::thread::spawn(|| {
        let mut nothing = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut nothing);
        std::process::exit(0);
    });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let source = ConfigSource {
            port: Some("0".to_owned()),
            data_dir: Some(folder.join("data")),
            program: Some(BINARY.into()),
            database_url: std::env::var(DATABASE).ok().map(Secret::new),
            ..ConfigSource::default()
        };
        let mut config = Config::from_source(source).expect("a valid configuration");
        config.embedder = Some(Arc::new(FakeEmbedder::new()));
        let running = Running::start(config, Clock::system(), Entropy::system(), WorkerMode::Manual).await;
        let running = running.expect("start the daemon");
        std::fs::write(folder.join("address.new"), running.address.to_string()).expect("written");
        std::fs::rename(folder.join("address.new"), folder.join("address")).expect("renamed");
        loop {
            running.daemon.workers.run_until_idle().await.expect("the workers succeed");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

struct Victim {
    folder: TestFolder,
    database: Option<ScratchDatabase>,
    child: Option<Child>,
    address: SocketAddr,
    client: reqwest::Client,
    key: Option<String>,
}

impl Victim {
    async fn start() -> Self {
        watchdog::watch_this_test();
        let mut victim = Self {
            folder: TestFolder::create(),
            database: ScratchDatabase::create().await,
            child: None,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            client: reqwest::Client::builder().no_proxy().build().expect("a client"),
            key: None,
        };
        victim.spawn().await;
        let account = json!({"username": "owner", "password": "correct horse"});
        victim.request(reqwest::Method::POST, "/api/auth/register").json(&account).send().await.expect_status(201);
        let key = victim.request(reqwest::Method::POST, "/api/auth/keys").json(&json!({"name": "test"})).send().await;
        victim.key = key.expect_status(200).json()["key"].as_str().map(str::to_owned);
        victim
    }

    async fn spawn(&mut self) {
        let address = self.folder.path().join("address");
        let _ = std::fs::remove_file(&address);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log"));
        let mut command = Command::new(std::env::current_exe().expect("path of the test binary"));
        command.args(["memory::chaos::victim", "--exact", "--ignored", "--nocapture"]);
        command.env(FOLDER, self.folder.path()).stdin(Stdio::piped()).stdout(Stdio::null());
        if let Some(database) = &self.database {
            command.env(DATABASE, database.url());
        }
        self.child = Some(command.stderr(log.expect("a log file")).spawn().expect("start the process"));
        for _ in 0..3000 {
            if let Ok(text) = std::fs::read_to_string(&address) {
                self.address = text.parse().expect("an address");
                return;
            }
            let exited = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            assert!(exited.is_none(), "the daemon exited at start: {}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the daemon did not start: {}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// `kill -9`
    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("reaped");
        }
    }

    fn request(&self, method: reqwest::Method, path: &str) -> TestRequest {
        TestRequest::new(&self.client, method, self.address, path, self.key.as_deref())
    }

    async fn search(&self, query: &str) -> Value {
        let path = format!("/api/memory/search?{query}");
        self.request(reqwest::Method::GET, &path).send().await.expect_status(200).json()
    }

    async fn doctor(&self) {
        let database = self.database.as_ref().map(ScratchDatabase::url);
        assert_agrees(&doctor(&self.folder.path().join("data"), database).await);
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Acknowledged changes.
#[derive(Default)]
struct Acknowledged {
    /// Episode id and its unique word.
    stored: BTreeMap<String, String>,
    deleted: BTreeMap<String, String>,
}

#[derive(Default)]
struct Shared {
    acknowledged: Mutex<Acknowledged>,
    progress: watch::Sender<usize>,
}

fn content(word: &str) -> String {
    format!("Whale {word} of the northern sea was seen by Ada Lovelace in Munich")
}

/// Stores and deletes episodes until a request fails.
async fn load(client: reqwest::Client, base: String, key: String, name: String, shared: Arc<Shared>) {
    for number in 0_usize.. {
        let word = format!("{name}n{number}");
        let stored = client.post(format!("{base}/api/memory/episodes")).bearer_auth(&key);
        let Ok(answer) = stored.json(&json!({"content": content(&word)})).send().await else { return };
        // Only a complete response is an acknowledgement.
        let Ok(episode) = answer.json::<Value>().await else { return };
        let Some(id) = episode["id"].as_str() else { return };
        shared.acknowledged.lock().unwrap().stored.insert(id.to_owned(), word);
        shared.progress.send_modify(|progress| *progress += 1);
        if number % 3 != 2 {
            continue;
        }
        // Deletes the oldest remaining episode, possibly of an earlier run. Its state is unknown until the
        // acknowledgement.
        let Some((id, word)) = shared.acknowledged.lock().unwrap().stored.pop_first() else { continue };
        let deleted = client.delete(format!("{base}/api/memory/episodes/{id}")).bearer_auth(&key).send().await;
        let Ok(answer) = deleted else { return };
        if !answer.status().is_success() || answer.bytes().await.is_err() {
            return;
        }
        shared.acknowledged.lock().unwrap().deleted.insert(id, word);
        shared.progress.send_modify(|progress| *progress += 1);
    }
}

async fn assert_acknowledged(victim: &Victim, acknowledged: &Acknowledged, known: &BTreeSet<String>) {
    for (id, word) in acknowledged.stored.iter().filter(|(id, _)| !known.contains(*id)) {
        let answer = victim.search(&format!("q={word}&mode=keyword")).await;
        assert_eq!((&answer["total"], &answer["results"][0]["episode"]["id"]), (&json!(1), &json!(id)), "{answer}");
        let answer = victim.search(&format!("q={}&mode=semantic&limit=100", content(word).replace(' ', "+"))).await;
        let found = answer["results"].as_array().expect("results").iter().any(|hit| hit["episode"]["id"] == *id);
        assert!(found, "{id} is not found by semantic search");
    }
    for (id, word) in acknowledged.deleted.iter().filter(|(id, _)| !known.contains(*id)) {
        assert_eq!(victim.search(&format!("q={word}&mode=keyword")).await["total"], 0, "{id} was deleted");
        let answer = victim.search(&format!("q={}&mode=semantic&limit=100", content(word).replace(' ', "+"))).await;
        let found = answer["results"].as_array().expect("results").iter().any(|hit| hit["episode"]["id"] == *id);
        assert!(!found, "{id} was deleted but is found by semantic search");
        let path = format!("/api/memory/episodes/{id}");
        victim.request(reqwest::Method::GET, &path).send().await.expect_status(404);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_under_load_lose_and_resurrect_nothing() {
    let kills = std::env::var(KILLS).map_or(DEFAULT_KILLS, |kills| kills.parse().expect("a number"));
    let mut victim = Victim::start().await;
    let entropy = Entropy::seeded(4);
    let shared: Arc<Shared> = Arc::default();
    let mut known = BTreeSet::new();
    for round in 0..kills {
        let tasks: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (base, key) = (format!("http://{}", victim.address), victim.key.clone().expect("a key"));
                let name = format!("zq{round}c{client}");
                tokio::spawn(load(victim.client.clone(), base, key, name, Arc::clone(&shared)))
            })
            .collect();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
        let enough = *shared.progress.borrow() + 1 + (MAX_PROGRESS * entropy.unit()) as usize;
        let mut progress = shared.progress.subscribe();
        let reached =
            tokio::time::timeout(PROGRESS_TIMEOUT, progress.wait_for(|progress| *progress >= enough)).await.is_ok();
        assert!(reached, "round {round} makes no progress: {}", victim.log());
        victim.kill();
        for task in tasks {
            task.await.expect("the load ends");
        }
        // Checks the state either after the kill or after the restart.
        if round % 2 == 0 {
            victim.doctor().await;
        }
        victim.spawn().await;
        let acknowledged = std::mem::take(&mut *shared.acknowledged.lock().unwrap());
        assert_acknowledged(&victim, &acknowledged, &known).await;
        if round % 2 == 1 {
            victim.doctor().await;
        }
        known.extend(acknowledged.stored.keys().chain(acknowledged.deleted.keys()).cloned());
        *shared.acknowledged.lock().unwrap() = acknowledged;
    }
    let acknowledged = std::mem::take(&mut *shared.acknowledged.lock().unwrap());
    assert!(
        acknowledged.deleted.len() >= kills && acknowledged.stored.len() > kills,
        "the load was too light to show anything"
    );
    // Checks all again, because some were deleted after their first check.
    assert_acknowledged(&victim, &acknowledged, &BTreeSet::new()).await;
    victim.doctor().await;
}
