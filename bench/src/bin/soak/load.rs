//! Continuous mixed load on a daemon.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd_bench::Outcome;
use agentd_bench::daemon::{DaemonUnderTest, binary};
use agentd_bench::load::{Connection, render, streamed};
use agentd_llm::{ToolCall, Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, RecordedRequest, Reply, Script};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

const USAGE: Usage = Usage {
    input_tokens: 200,
    output_tokens: 30,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
    source: UsageSource::Provider,
};
/// Maximum number of retained conversations and episodes; older ones are deleted.
const CONVERSATIONS: usize = 100;
const EPISODES: usize = 1_000;
const MESSAGES_PER_CONVERSATION: usize = 8;
const BACKUP_INTERVAL: Duration = Duration::from_secs(600);
const TOPICS: [&str; 12] = [
    "garden",
    "boiler",
    "invoice",
    "holiday",
    "bicycle",
    "school",
    "recipe",
    "router",
    "insurance",
    "concert",
    "tax",
    "cat",
];

/// Pause between two steps, as a factor.
#[derive(Debug)]
pub(super) struct Pace(AtomicU64);

impl Pace {
    /// Adjusts the factor; `against` is the ratio of used to permitted CPU time.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a factor")]
    pub(super) fn adjust(&self, against: f64) {
        let factor = self.0.load(Ordering::Relaxed) as f64 * against.clamp(0.5, 2.0);
        self.0.store(factor.clamp(20.0, 100_000.0) as u64, Ordering::Relaxed);
    }

    async fn rest(&self, milliseconds: u64) {
        tokio::time::sleep(Duration::from_millis(milliseconds * self.0.load(Ordering::Relaxed) / 1_000)).await;
    }
}

#[derive(Debug, Default)]
struct Counts {
    turns: AtomicU64,
    episodes: AtomicU64,
    searches: AtomicU64,
    delivered: AtomicU64,
    runs: AtomicU64,
    streams: AtomicU64,
    devices: AtomicU64,
    settings: AtomicU64,
    backups: AtomicU64,
}

fn increment(count: &AtomicU64) -> u64 {
    count.fetch_add(1, Ordering::Relaxed)
}

/// State shared by all parts of the load.
#[derive(Debug)]
struct Shared {
    daemon: Arc<DaemonUnderTest>,
    counts: Counts,
    pace: Arc<Pace>,
}

pub(super) struct Load {
    pub(super) pace: Arc<Pace>,
    shared: Arc<Shared>,
    parts: Vec<(&'static str, JoinHandle<Outcome<()>>)>,
    _vendor: FakeVendor,
}

/// Performs the request of a message; replies to jobs and other messages.
fn answer(request: &RecordedRequest, runs: &AtomicU64) -> Reply {
    // A vendor without recording does not parse requests either.
    let body: Value = serde_json::from_slice(&request.bytes).unwrap_or_default();
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let asked = messages.last().filter(|last| last["role"] == "user").and_then(|last| last["content"].as_str());
    let asked = asked.unwrap_or_default();
    if asked.starts_with("Write") {
        let note = json!({"path": format!("notes/{}.txt", asked.len()), "content": asked});
        let calls = vec![
            ToolCall::new("a", "write_file", note),
            ToolCall::new("b", "memory_search", json!({"query": "when does the boiler get its service"})),
        ];
        return Reply::tool_calls(calls, USAGE);
    }
    if body["messages"].to_string().contains("Look after the house") {
        increment(runs);
    }
    Reply::text(["I ", "have ", "looked ", "after ", "it, ", "and ", "all ", "is ", "well ", "now."], USAGE)
}

impl Load {
    pub(super) async fn begin(daemon: Arc<DaemonUnderTest>, archive: PathBuf) -> Outcome<Self> {
        let pace = Arc::new(Pace(AtomicU64::new(1_000)));
        let shared =
            Arc::new(Shared { daemon: Arc::clone(&daemon), counts: Counts::default(), pace: Arc::clone(&pace) });
        let counting = Arc::clone(&shared);
        let script = Script::by(move |request| answer(request, &counting.counts.runs));
        let vendor = FakeVendor::start_without_recording(Vendor::Openai, script).await?;
        let sink = sink(Arc::clone(&shared)).await?;
        let provider = json!({"api_key": "key", "base_url": vendor.base_url().to_string()});
        daemon.call("PUT", "/api/providers/openai/key", &provider)?;
        daemon.call("PUT", "/api/settings/agent", &json!({"default_provider": "openai", "default_model": "any"}))?;
        daemon.call(
            "POST",
            "/api/agents",
            &json!({"svc_name": "scout", "user_name": "A", "archetype": "assistant"}),
        )?;
        for event in ["task.started", "memory.stored", "task.completed"] {
            let hook = json!({"name": event, "event_type": event, "hook_type": "http",
                "config": {"url": sink, "queued": true}});
            daemon.call("POST", "/api/hooks", &hook)?;
        }
        let job = json!({"name": "each second", "goal": "Look after the house.", "agent_id": "scout",
            "schedule": {"type": "every", "interval": 1}});
        daemon.call("POST", "/api/scheduler/jobs", &job)?;
        let parts = vec![
            ("chat", tokio::spawn(chat(Arc::clone(&shared), 0))),
            ("more chat", tokio::spawn(chat(Arc::clone(&shared), 1))),
            ("episodes", tokio::spawn(episodes(Arc::clone(&shared)))),
            ("searches", tokio::spawn(searches(Arc::clone(&shared)))),
            ("streams", tokio::spawn(streams(Arc::clone(&shared)))),
            ("devices", tokio::spawn(devices(Arc::clone(&shared)))),
            ("settings", tokio::spawn(settings(Arc::clone(&shared)))),
            ("backups", tokio::spawn(backups(Arc::clone(&shared), archive))),
        ];
        Ok(Self { pace, shared, parts, _vendor: vendor })
    }

    /// Returns an error if a part has ended, because that is a failure.
    pub(super) fn check(&self) -> Outcome<()> {
        match self.parts.iter().find(|(_, part)| part.is_finished()) {
            Some((name, _)) => {
                Err(format!("{name} came to an end; its error is in the log of the daemon, or above").into())
            }
            None => Ok(()),
        }
    }

    /// Returns the number of things acknowledged by the daemon.
    pub(super) fn stored(&self) -> u64 {
        let counts = &self.shared.counts;
        [&counts.turns, &counts.episodes, &counts.delivered, &counts.runs]
            .map(|count| count.load(Ordering::Relaxed))
            .iter()
            .sum()
    }

    pub(super) fn summary(&self) -> String {
        let Counts { turns, episodes, searches, delivered, runs, streams, devices, settings, backups } =
            &self.shared.counts;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        format!(
            "{} turns, {} episodes, {} searches, {} deliveries, {} runs of jobs, {} clients of streams, {} connections of \
             devices, {} changes of settings, {} backups",
            load(turns),
            load(episodes),
            load(searches),
            load(delivered),
            load(runs),
            load(streams),
            load(devices),
            load(settings),
            load(backups)
        )
    }

    pub(super) async fn end(self) -> Outcome<()> {
        for (_, part) in &self.parts {
            part.abort();
        }
        for (name, part) in self.parts {
            match part.await {
                Err(error) if error.is_cancelled() => {}
                Ok(Err(error)) => return Err(format!("{name}: {error}").into()),
                ended => return Err(format!("{name}: {ended:?}").into()),
            }
        }
        Ok(())
    }
}

/// Receives the requests of hooks.
async fn sink(shared: Arc<Shared>) -> Outcome<String> {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let take = move || {
        increment(&shared.counts.delivered);
        std::future::ready("taken")
    };
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(take)).await });
    Ok(url)
}

impl Shared {
    async fn connect(&self) -> Outcome<Connection> {
        Connection::open(&self.daemon.address).await
    }

    async fn ask(&self, connection: &mut Connection, method: &str, path: &str, body: &Value) -> Outcome<Value> {
        let body = if body.is_null() { None } else { Some(body.to_string()) };
        let request = render(method, path, &self.daemon.key, body.as_deref(), true);
        let (status, answer) = connection.ask(request.as_bytes()).await?;
        if !(200..300).contains(&status) {
            return Err(format!("{method} {path} answered {status}: {answer}").into());
        }
        Ok(serde_json::from_str(&answer)?)
    }
}

async fn chat(shared: Arc<Shared>, nth: u64) -> Outcome<()> {
    let mut connection = shared.connect().await?;
    let mut kept = VecDeque::new();
    let conversation = json!({"agent_id": "scout", "execution_mode": "autonomous"});
    for number in 0_u64.. {
        let made = shared.ask(&mut connection, "POST", "/api/chat/conversations", &conversation).await?;
        let id = made["id"].as_str().ok_or("no id")?.to_owned();
        for message in 0..MESSAGES_PER_CONVERSATION {
            let topic = TOPICS[(number as usize + message) % TOPICS.len()];
            let verb = if message % 4 == 3 { "Write" } else { "Tell" };
            let content = format!("{verb} me what is new about the {topic}, question {message} of {number} by {nth}.");
            let body = json!({"conversation_id": id, "content": content}).to_string();
            let request = render("POST", "/api/chat/messages/stream", &shared.daemon.key, Some(&body), false);
            streamed(&shared.daemon.address, request.as_bytes(), "event: start", "event: done").await?;
            increment(&shared.counts.turns);
            shared.pace.rest(150).await;
        }
        kept.push_back(id);
        if kept.len() > CONVERSATIONS
            && let Some(oldest) = kept.pop_front()
        {
            let path = format!("/api/chat/conversations/{oldest}");
            shared.ask(&mut connection, "DELETE", &path, &Value::Null).await?;
        }
    }
    Ok(())
}

async fn episodes(shared: Arc<Shared>) -> Outcome<()> {
    let mut connection = shared.connect().await?;
    for number in 0_usize.. {
        let (one, other) = (TOPICS[number % TOPICS.len()], TOPICS[number / TOPICS.len() % TOPICS.len()]);
        let content =
            format!("The {one} and the {other} were seen to on day {number}, for {} euros.", number * 7 % 911);
        shared.ask(&mut connection, "POST", "/api/memory/episodes", &json!({"content": content})).await?;
        increment(&shared.counts.episodes);
        if number % 20 == 19 {
            forget(&shared, &mut connection).await?;
        }
        shared.pace.rest(100).await;
    }
    Ok(())
}

/// Deletes all but the newest items, including those that the daemon remembered by itself.
async fn forget(shared: &Shared, connection: &mut Connection) -> Outcome<()> {
    let path = format!("/api/memory/episodes?limit=100&offset={EPISODES}");
    let older = shared.ask(connection, "GET", &path, &Value::Null).await?;
    for episode in older["episodes"].as_array().ok_or("no episodes")? {
        let path = format!("/api/memory/episodes/{}", episode["id"].as_str().ok_or("no id")?);
        shared.ask(connection, "DELETE", &path, &Value::Null).await?;
    }
    Ok(())
}

async fn searches(shared: Arc<Shared>) -> Outcome<()> {
    let mut connection = shared.connect().await?;
    for number in 0_usize.. {
        let topic = TOPICS[number % TOPICS.len()];
        let path = format!("/api/memory/search?q=what+did+the+{topic}+cost+us&limit=10");
        shared.ask(&mut connection, "GET", &path, &Value::Null).await?;
        shared.ask(&mut connection, "GET", "/api/monitoring/usage", &Value::Null).await?;
        increment(&shared.counts.searches);
        shared.pace.rest(100).await;
    }
    Ok(())
}

/// A page that is opened, watched for a while, and closed without notice.
async fn streams(shared: Arc<Shared>) -> Outcome<()> {
    loop {
        let request = render("GET", "/api/events/stream", &shared.daemon.key, None, true);
        let mut stream = tokio::net::TcpStream::connect(&shared.daemon.address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut buffer = vec![0; 16 * 1024];
        let watching = async {
            while stream.read(&mut buffer).await? > 0 {}
            Outcome::Ok(())
        };
        // The stream only ends when the client closes it.
        if let Ok(ended) = tokio::time::timeout(Duration::from_secs(2), watching).await {
            ended?;
            return Err("the daemon closed the stream of events".into());
        }
        increment(&shared.counts.streams);
        shared.pace.rest(500).await;
    }
}

/// A device that joins, offers a tool, and disconnects; at the end it is deleted.
async fn devices(shared: Arc<Shared>) -> Outcome<()> {
    let mut connection = shared.connect().await?;
    loop {
        let code = shared.ask(&mut connection, "POST", "/api/auth/device/code", &json!({})).await?;
        let pairing = json!({"code": code["code"], "name": "shed", "platform": "linux"});
        let device = shared.ask(&mut connection, "POST", "/api/auth/device/pair", &pairing).await?;
        let token = device["device_token"].as_str().ok_or("no token")?;
        for _ in 0..3 {
            let request =
                format!("ws://{}/api/devices/ws?token={token}", shared.daemon.address).into_client_request()?;
            let stream = tokio::net::TcpStream::connect(&shared.daemon.address).await?;
            let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await?;
            let hello = socket.next().await.ok_or("no hello")??;
            if !hello.to_text()?.contains("hello") {
                return Err(format!("not a hello: {hello}").into());
            }
            increment(&shared.counts.devices);
            shared.pace.rest(500).await;
        }
        let path = format!("/api/devices/{}", device["device_id"].as_str().ok_or("no id")?);
        shared.ask(&mut connection, "DELETE", &path, &Value::Null).await?;
        // At most ten per minute.
        tokio::time::sleep(Duration::from_secs(6)).await;
    }
}

async fn settings(shared: Arc<Shared>) -> Outcome<()> {
    let mut connection = shared.connect().await?;
    for number in 0_u64.. {
        let change = json!({"temperature": if number.is_multiple_of(2) { 0.2 } else { 0.7 }});
        shared.ask(&mut connection, "PUT", "/api/settings/agent", &change).await?;
        increment(&shared.counts.settings);
        shared.pace.rest(2_000).await;
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
async fn backups(shared: Arc<Shared>, archive: PathBuf) -> Outcome<()> {
    loop {
        tokio::time::sleep(BACKUP_INTERVAL).await;
        let mut command = Command::new(binary());
        command
            .arg("backup")
            .arg("--force")
            .arg(&archive)
            .env("SVC_DATA_DIR", &shared.daemon.data_dir)
            .env("SVC_LOG", "warn");
        let done = tokio::task::spawn_blocking(move || command.output()).await??;
        if !done.status.success() {
            return Err(format!("a backup failed: {}", String::from_utf8_lossy(&done.stderr)).into());
        }
        increment(&shared.counts.backups);
    }
}
