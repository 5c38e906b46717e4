//! Effect of hostile schemas, conversations and code on other users: each attack runs against a release daemon while
//! another client requests `/health/live` every five milliseconds. Prints the duration of the attack, the percentiles
//! of those responses, and the maximum memory used by the machine. Reference: the same client without an attack, in the
//! same run. Every attack is self-limited: none uses more than four gigabytes, whatever the daemon does.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agentd_bench::Outcome;
use agentd_bench::daemon::{DaemonUnderTest, binary};
use agentd_bench::figures::Sample;
use agentd_bench::load::{Connection, render, streamed};
use agentd_llm::{ToolCall, Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

const PAUSE: Duration = Duration::from_millis(5);
const CALM: Duration = Duration::from_secs(3);
const USAGE: Usage = Usage {
    input_tokens: 10,
    output_tokens: 2,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
    source: UsageSource::Provider,
};

/// Code run by agents, with the name under which a message requests it.
const CODE: [(&str, &str); 6] = [
    ("shared memory that is dropped", include_str!("shared_memory.py")),
    ("unix sockets that are filled", include_str!("unix_sockets.py")),
    ("loopback connections that are filled", include_str!("loopback.py")),
    ("millions of empty files in /tmp", include_str!("empty_files.py")),
    ("a workspace of mode 0", "import os\nos.chmod('.', 0)\n"),
    (
        "ten sparse files of a gigabyte",
        "for number in range(10):\n    open(f'sparse{number}', 'wb').truncate(1 << 30)\n",
    ),
];

fn main() -> Outcome<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())
}

/// Returns a schema that multiplies the work for a deeply nested value, and such a value.
fn multiplying() -> (Value, Value) {
    let node = json!({"$ref": "#/$defs/node"});
    let schema = json!({"type": "object", "$ref": "#/$defs/node", "$defs": {"node": {"anyOf": [
        {"properties": {"a": node}, "required": ["x"]},
        {"properties": {"a": node}, "required": ["y"]},
    ]}}});
    let deep = (0..60).fold(json!({}), |inside, _| json!({ "a": inside }));
    (schema, deep)
}

/// Calls the requested tool once; then the turn ends.
fn answer(request: &RecordedRequest) -> Reply {
    let messages = request.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(last) = messages.last().filter(|last| last["role"] == "user") else {
        return Reply::text(["Done."], USAGE);
    };
    let asked = last["content"].as_str().unwrap_or_default();
    let call = |name: &str, input: Value| ToolCall::new("c", name, input);
    match (asked, CODE.iter().find(|(name, _)| *name == asked)) {
        (_, Some((_, code))) => Reply::tool_calls(vec![call("python", json!({ "code": code }))], USAGE),
        ("validate", None) => {
            let calls = (0..32).map(|number| ToolCall::new(format!("c{number}"), "mine", multiplying().1)).collect();
            Reply::tool_calls(calls, USAGE)
        }
        _ => Reply::text(["Yes."], USAGE),
    }
}

/// Daemon under attack, and measurements.
struct Target {
    daemon: DaemonUnderTest,
}

impl Target {
    /// Sends a message, waits for the end of the reply and returns its text.
    async fn turn(&self, body: &Value) -> Outcome<String> {
        let body = body.to_string();
        let request = render("POST", "/api/chat/messages/stream", &self.daemon.key, Some(&body), false);
        Ok(streamed(&self.daemon.address, request.as_bytes(), "event: start", "event: done").await?.body)
    }

    /// Runs an attack while a client checks the daemon's health.
    async fn attack(&self, name: &str, attack: impl Future<Output = Outcome<String>>) -> Outcome<()> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (address, over) = (self.daemon.address.clone(), Arc::clone(&is_over));
        let free_before = free_megabytes();
        let probing = tokio::spawn(async move {
            let mut connection = Connection::open(&address).await?;
            let request = render("GET", "/health/live", "", None, true);
            let (mut answers, mut least) = (Vec::new(), free_before);
            while !over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let (status, _) = connection.ask(request.as_bytes()).await?;
                if status != 200 {
                    return Err(format!("/health/live answered {status}").into());
                }
                answers.push(asked.elapsed().as_secs_f64() * 1000.0);
                least = least.min(free_megabytes());
                tokio::time::sleep(PAUSE).await;
            }
            Outcome::Ok((Sample::new(answers), least))
        });
        let started = Instant::now();
        let said = attack.await;
        let took = started.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let (answers, least) = probing.await??;
        println!(
            "{name:<40} {:>6.1} s   health p50 {:>5.2} ms  p99 {:>6.2} ms  max {:>6.2} ms   memory {:>5} MB",
            took.as_secs_f64(),
            answers.median(),
            answers.percentile(0.99),
            answers.percentile(1.0),
            free_before.saturating_sub(least),
        );
        match said {
            Ok(said) => println!("    {said}"),
            Err(error) => println!("    failed: {error}"),
        }
        Ok(())
    }
}

/// Returns the available memory of the machine.
fn free_megabytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or_default() / 1024
}

/// Returns the result of a tool from the events of a turn.
fn result_of(events: &str) -> String {
    let line =
        events.split("event: tool_result").nth(1).and_then(|rest| rest.lines().find(|line| line.starts_with("data:")));
    line.unwrap_or("no result").chars().take(300).collect()
}

async fn measure() -> Outcome<()> {
    let vendor = FakeVendor::start(Vendor::Openai, Script::by(answer)).await?;
    let folder = tempfile::tempdir()?;
    let daemon = DaemonUnderTest::start_with_owner(folder.path())?;
    let provider = json!({"api_key": "key", "base_url": vendor.base_url().to_string()});
    daemon.call("PUT", "/api/providers/openai/key", &provider)?;
    daemon.call("PUT", "/api/settings/agent", &json!({"default_provider": "openai", "default_model": "any"}))?;
    daemon.call("POST", "/api/agents", &json!({"svc_name": "scout", "user_name": "A", "archetype": "assistant"}))?;
    let mine = json!({"name": "mine", "description": "Any.", "kind": "python", "source_code": "result = 1",
        "input_schema": multiplying().0});
    daemon.call("POST", "/api/settings/skills/custom", &mine)?;
    let target = Target { daemon };

    target
        .attack("nothing", async {
            tokio::time::sleep(CALM).await;
            Ok("the reference".to_owned())
        })
        .await?;
    target
        .attack("256 inputs that multiply a schema", async {
            let message = json!({"content": "validate"});
            let turns = (0..8).map(|_| target.turn(&message));
            let mut said = String::new();
            for turn in futures_util::future::join_all(turns).await {
                said = result_of(&turn?);
            }
            Ok(said)
        })
        .await?;
    target.attack("a conversation of 5,000 messages", long_conversation(&target)).await?;
    for (name, _) in CODE {
        target.attack(name, async { Ok(result_of(&target.turn(&json!({ "content": name })).await?)) }).await?;
    }
    target.attack("a backup of what is left behind", async { backup(folder.path()) }).await?;
    let still = target.turn(&json!({"content": "hello"})).await?;
    println!("afterwards: {}", if still.contains("Yes.") { "it answers" } else { "it does not answer" });
    Ok(())
}

async fn long_conversation(target: &Target) -> Outcome<String> {
    let daemon = &target.daemon;
    let made = daemon.call("POST", "/api/chat/conversations", &json!({}))?;
    let id = made["id"].as_str().ok_or("no id")?.to_owned();
    let mut connection = Connection::open(&daemon.address).await?;
    for number in 0..5_000 {
        let message =
            json!({"conversation_id": id, "role": "user", "content": format!("message {number}")}).to_string();
        let request = render("POST", "/api/chat/messages/inject", &daemon.key, Some(&message), true);
        connection.ask(request.as_bytes()).await?;
    }
    let started = Instant::now();
    target.turn(&json!({"content": "hello", "conversation_id": id})).await?;
    Ok(format!("the next reply took {:.2} s", started.elapsed().as_secs_f64()))
}

#[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
fn backup(data_dir: &std::path::Path) -> Outcome<String> {
    let file = tempfile::tempdir()?;
    let archive = file.path().join("archive");
    let mut command = Command::new(binary());
    let done = command.arg("backup").arg(&archive).env("SVC_DATA_DIR", data_dir).env("SVC_LOG", "warn").output()?;
    let bytes = std::fs::metadata(&archive).map_or(0, |file| file.len());
    let output = String::from_utf8_lossy(if done.status.success() { &done.stdout } else { &done.stderr }).into_owned();
    let output: String = output.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect();
    Ok(format!("{} with {bytes} bytes: {output}", done.status))
}
