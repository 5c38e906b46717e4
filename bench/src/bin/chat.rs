//! Durable chat turns with a fake provider in its own process: turns per second with 32 concurrent turns (20 immediate
//! tokens, `synchronous=FULL`), the daemon's contribution to the time to the first token with 50 concurrent turns, and
//! 500 streams of 200 tokens, which must be complete and in order. Reference: the same client calling the fake provider
//! directly, alternately.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentd_bench::Outcome;
use agentd_bench::daemon::DaemonUnderTest;
use agentd_bench::figures::Sample;
use agentd_bench::load::{StreamedReply, render, streamed_on};
use agentd_llm::{Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::json;

const ROUNDS: usize = 5;

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if std::env::args().nth(1).as_deref() == Some("provider") {
        return runtime.block_on(provide());
    }
    runtime.block_on(measure())
}

/// Roles of the fake provider, and the vendor it simulates: 20 immediate tokens, 200 immediate tokens, or 20 tokens
/// with 20 ms before each.
const ROLES: [(&str, Vendor); 3] =
    [("short", Vendor::Openai), ("long", Vendor::Deepseek), ("paced", Vendor::Openrouter)];

async fn provide() -> Outcome<()> {
    let mut vendors = Vec::new();
    for (role, vendor) in ROLES {
        let reply = match role {
            "long" => reply(200),
            "paced" => reply(20).delayed(Duration::from_millis(20)),
            _ => reply(20),
        };
        let fake = FakeVendor::start_without_recording(vendor, Script::always(reply)).await?;
        println!("{}", fake.base_url());
        vendors.push(fake);
    }
    std::future::pending().await
}

fn reply(tokens: usize) -> Reply {
    let pieces: Vec<String> = (0..tokens).map(|number| format!("t{number} ")).collect();
    let usage = Usage {
        input_tokens: 10,
        output_tokens: tokens as u64,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        source: UsageSource::Provider,
    };
    Reply::text(pieces.iter().map(String::as_str), usage)
}

struct Provider {
    process: Child,
    /// In the order of [`ROLES`].
    base_urls: Vec<String>,
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
fn start_provider() -> Outcome<Provider> {
    use std::io::BufRead;
    let mut process =
        Command::new(std::env::current_exe()?).arg("provider").stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let output = process.stdout.take().ok_or("no output")?;
    let lines = std::io::BufReader::new(output).lines().take(ROLES.len());
    let base_urls = lines.collect::<Result<Vec<_>, _>>()?;
    Ok(Provider { process, base_urls })
}

impl Provider {
    fn base_url(&self, role: &str) -> &str {
        let index = ROLES.iter().position(|(name, _)| *name == role).unwrap_or_default();
        self.base_urls.get(index).map_or("", |url| url.trim_end_matches('/'))
    }
}

/// Kind of request, with the marks of its first token and its end.
#[derive(Clone)]
struct Target {
    address: String,
    request: Arc<Vec<u8>>,
    first: &'static str,
    end: &'static str,
}

impl Target {
    fn daemon(daemon: &DaemonUnderTest, role: &str) -> Self {
        let vendor = ROLES.iter().find(|(name, _)| *name == role).map_or("", |(_, vendor)| vendor.id());
        let body = json!({"agent_id": "bench", "content": "hello", "model": format!("{vendor}/fake")}).to_string();
        let request = render("POST", "/api/chat/messages/stream", &daemon.key, Some(&body), true);
        Self {
            address: daemon.address.clone(),
            request: Arc::new(request.into_bytes()),
            first: "event: token",
            end: "event: done",
        }
    }

    fn provider(provider: &Provider, role: &str) -> Self {
        let body = json!({
            "model": "fake", "stream": true, "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": "hello"}],
        });
        let url = provider.base_url(role).trim_start_matches("http://");
        let (address, path) =
            url.split_once('/').map_or((url, String::new()), |(host, path)| (host, format!("/{path}")));
        let request = render("POST", &format!("{path}/chat/completions"), "k", Some(&body.to_string()), true);
        Self { address: address.to_owned(), request: Arc::new(request.into_bytes()), first: "t0 ", end: "[DONE]" }
    }

    /// Sends `total` requests on `at_once` connections, which start `apart` from each other.
    async fn run(&self, total: usize, at_once: usize, apart: Duration) -> Outcome<(Duration, Vec<StreamedReply>)> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut connections = Vec::new();
        for _ in 0..at_once {
            let stream = tokio::net::TcpStream::connect(&self.address).await?;
            stream.set_nodelay(true)?;
            connections.push(stream);
        }
        let started = Instant::now();
        let mut tasks = Vec::new();
        for (number, mut stream) in connections.into_iter().enumerate() {
            let (target, next) = (self.clone(), Arc::clone(&next));
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(apart * u32::try_from(number).unwrap_or_default()).await;
                let mut replies = Vec::new();
                while next.fetch_add(1, Ordering::Relaxed) < total {
                    replies.push(streamed_on(&mut stream, &target.request, target.first, target.end).await?);
                }
                Outcome::Ok(replies)
            }));
        }
        let mut replies = Vec::new();
        for task in tasks {
            replies.extend(task.await??);
        }
        Ok((started.elapsed(), replies))
    }
}

async fn measure() -> Outcome<()> {
    let provider = start_provider()?;
    let folder = tempfile::tempdir()?;
    let daemon = DaemonUnderTest::start_with_owner(&folder.path().join("data"))?;
    for (role, vendor) in ROLES {
        let key = json!({"api_key": "k", "base_url": provider.base_url(role)});
        daemon.call("PUT", &format!("/api/providers/{}/key", vendor.id()), &key)?;
    }
    daemon.call(
        "POST",
        "/api/agents",
        &json!({"svc_name": "bench", "user_name": "Owner", "archetype": "assistant"}),
    )?;

    turns_per_second(&daemon, &provider).await?;
    first_token(&daemon, &provider, "paced", 500, Duration::from_millis(8)).await?;
    first_token(&daemon, &provider, "short", 50, Duration::ZERO).await?;
    many_streams(&daemon).await
}

#[allow(clippy::cast_precision_loss, reason = "counts")]
async fn turns_per_second(daemon: &DaemonUnderTest, provider: &Provider) -> Outcome<()> {
    const TURNS: usize = 2000;
    let (ours, direct) = (Target::daemon(daemon, "short"), Target::provider(provider, "short"));
    let (mut figures, mut references, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let reference = TURNS as f64 / direct.run(TURNS, 32, Duration::ZERO).await?.0.as_secs_f64();
        let figure = TURNS as f64 / ours.run(TURNS, 32, Duration::ZERO).await?.0.as_secs_f64();
        if round > 0 {
            figures.push(figure);
            references.push(reference);
            ratios.push(figure / reference);
        }
    }
    println!("durable turns/s at 32 at once:     {}", Sample::new(figures));
    println!("the provider alone, answers/s:     {}", Sample::new(references));
    println!("ratio:                             {}", Sample::new(ratios));
    Ok(())
}

/// Measures 50 concurrent replies: either started apart from each other, or all sent at the same moment, which is the
/// worst case because two processors then share 50 whole turns.
async fn first_token(
    daemon: &DaemonUnderTest,
    provider: &Provider,
    role: &str,
    total: usize,
    apart: Duration,
) -> Outcome<()> {
    let (ours, direct) = (Target::daemon(daemon, role), Target::provider(provider, role));
    let repeats = if apart.is_zero() { 10 } else { 1 };
    let milliseconds = |reply: &StreamedReply| reply.first_token.as_secs_f64() * 1000.0;
    let (mut added, mut medians) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (mut figure, mut reference) = (Vec::new(), Vec::new());
        for _ in 0..repeats {
            reference.extend(direct.run(total, 50, apart).await?.1.iter().map(milliseconds));
            figure.extend(ours.run(total, 50, apart).await?.1.iter().map(milliseconds));
        }
        if round > 0 {
            let (figure, reference) = (Sample::new(figure), Sample::new(reference));
            added.push(figure.percentile(0.99) - reference.percentile(0.99));
            medians.push(figure.median() - reference.median());
        }
    }
    let name = if apart.is_zero() { "all in the same moment" } else { "always 50 under way" };
    println!("added to the first token at 50 at once, {name}, p99, ms:    {}", Sample::new(added));
    println!("added to the first token at 50 at once, {name}, median, ms: {}", Sample::new(medians));
    Ok(())
}

async fn many_streams(daemon: &DaemonUnderTest) -> Outcome<()> {
    let (elapsed, replies) = Target::daemon(daemon, "long").run(500, 500, Duration::ZERO).await?;
    let expected: Vec<String> = (0..200).map(|number| format!("t{number} ")).collect();
    let mut whole = 0;
    for reply in &replies {
        let tokens: Vec<String> = reply
            .body
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line.strip_prefix("data: ")?).ok())
            .filter_map(|data| data["content"].as_str().map(str::to_owned))
            .collect();
        whole += usize::from(tokens == expected);
    }
    println!("500 streams of 200 tokens: {whole} whole and in order, in {:.2} s", elapsed.as_secs_f64());
    match replies.first() {
        _ if whole == 500 => Ok(()),
        Some(reply) => Err(format!("tokens were lost or reordered; one reply was: {}", reply.body).into()),
        None => Err("no reply came".into()),
    }
}
