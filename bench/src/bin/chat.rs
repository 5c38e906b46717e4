//! Durable chat turns against a fake provider, which runs in a process of its own:
//! turns per second at 32 at once (20 tokens at once, `synchronous=FULL`), what the daemon adds to
//! the time to the first token at 50 at once, and 500 streams of 200 tokens that must lose and
//! reorder nothing. Reference: the same client calling the fake provider directly, in turns.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentd_bench::Outcome;
use agentd_bench::daemon::DaemonUnderTest;
use agentd_bench::figures::Sample;
use agentd_bench::load::{StreamedReply, render, streamed_on};
use agentd_llm::Vendor;
use agentd_llm::fake::{FakeVendor, Reply, Script};
use agentd_llm::{Usage, UsageSource};
use serde_json::json;

const ROUNDS: usize = 5;

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if std::env::args().nth(1).as_deref() == Some("provider") {
        return runtime.block_on(provide());
    }
    runtime.block_on(measure())
}

/// The fake provider: the number in the last message says how many tokens it answers with.
async fn provide() -> Outcome<()> {
    let (short, long) = (reply(20), reply(200));
    let script =
        Script::by(
            move |request| {
                if request.body.to_string().contains("long answer") { long.clone() } else { short.clone() }
            },
        );
    let vendor = FakeVendor::start_forgetful(Vendor::Openai, script).await?;
    println!("{}", vendor.base_url());
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
    base_url: String,
    address: String,
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
    let mut base_url = String::new();
    std::io::BufReader::new(output).read_line(&mut base_url)?;
    let base_url = base_url.trim().trim_end_matches('/').to_owned();
    let address = base_url.trim_start_matches("http://").split('/').next().unwrap_or_default().to_owned();
    Ok(Provider { process, base_url, address })
}

/// One kind of request, with what its first token and its end look like.
#[derive(Clone)]
struct Target {
    address: String,
    request: Arc<Vec<u8>>,
    first: &'static str,
    end: &'static str,
}

impl Target {
    fn daemon(daemon: &DaemonUnderTest, content: &str) -> Self {
        let body = json!({"agent_id": "bench", "content": content}).to_string();
        let request = render("POST", "/api/chat/messages/stream", &daemon.key, Some(&body), true);
        Self {
            address: daemon.address.clone(),
            request: Arc::new(request.into_bytes()),
            first: "event: token",
            end: "event: done",
        }
    }

    fn provider(provider: &Provider, content: &str) -> Self {
        let body = json!({
            "model": "fake", "stream": true, "stream_options": {"include_usage": true},
            "messages": [{"role": "user", "content": content}],
        });
        let path = format!(
            "{}/chat/completions",
            provider.base_url.trim_start_matches("http://").trim_start_matches(&provider.address)
        );
        let request = render("POST", &path, "k", Some(&body.to_string()), true);
        Self { address: provider.address.clone(), request: Arc::new(request.into_bytes()), first: "t0 ", end: "[DONE]" }
    }

    /// `total` requests on `at_once` connections.
    async fn run(&self, total: usize, at_once: usize) -> Outcome<(Duration, Vec<StreamedReply>)> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut connections = Vec::new();
        for _ in 0..at_once {
            let stream = tokio::net::TcpStream::connect(&self.address).await?;
            stream.set_nodelay(true)?;
            connections.push(stream);
        }
        let started = Instant::now();
        let mut tasks = Vec::new();
        for mut stream in connections {
            let (target, next) = (self.clone(), Arc::clone(&next));
            tasks.push(tokio::spawn(async move {
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
    let daemon = DaemonUnderTest::start_with_owner(folder.path())?;
    daemon.call("PUT", "/api/providers/openai/key", &json!({"api_key": "k", "base_url": provider.base_url}))?;
    daemon.call("PUT", "/api/settings/agent", &json!({"default_provider": "openai", "default_model": "fake"}))?;
    daemon.call(
        "POST",
        "/api/agents",
        &json!({"svc_name": "bench", "user_name": "Owner", "archetype": "assistant"}),
    )?;

    turns_per_second(&daemon, &provider).await?;
    first_token(&daemon, &provider).await?;
    many_streams(&daemon).await
}

#[allow(clippy::cast_precision_loss, reason = "counts")]
async fn turns_per_second(daemon: &DaemonUnderTest, provider: &Provider) -> Outcome<()> {
    const TURNS: usize = 2000;
    let (ours, direct) = (Target::daemon(daemon, "short answer"), Target::provider(provider, "short answer"));
    let (mut figures, mut references, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let reference = TURNS as f64 / direct.run(TURNS, 32).await?.0.as_secs_f64();
        let figure = TURNS as f64 / ours.run(TURNS, 32).await?.0.as_secs_f64();
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

async fn first_token(daemon: &DaemonUnderTest, provider: &Provider) -> Outcome<()> {
    let (ours, direct) = (Target::daemon(daemon, "short answer"), Target::provider(provider, "short answer"));
    let (mut added, mut ratios, mut medians) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        // 50 at once, all sent in the same moment, ten times.
        let (mut figure, mut reference) = (Vec::new(), Vec::new());
        for _ in 0..10 {
            reference.extend(direct.run(50, 50).await?.1.iter().map(|reply| reply.first_token.as_secs_f64() * 1000.0));
            figure.extend(ours.run(50, 50).await?.1.iter().map(|reply| reply.first_token.as_secs_f64() * 1000.0));
        }
        if round > 0 {
            let (figure, reference) = (Sample::new(figure), Sample::new(reference));
            added.push(figure.percentile(0.99) - reference.percentile(0.99));
            medians.push(figure.median() - reference.median());
            ratios.push(figure.percentile(0.99) / reference.percentile(0.99));
        }
    }
    println!("added to the first token at 50 at once, p99, ms: {}", Sample::new(added));
    println!("the same, median, ms:                            {}", Sample::new(medians));
    println!("ratio of the p99 to the provider alone:          {}", Sample::new(ratios));
    Ok(())
}

async fn many_streams(daemon: &DaemonUnderTest) -> Outcome<()> {
    let (elapsed, replies) = Target::daemon(daemon, "long answer").run(500, 500).await?;
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
