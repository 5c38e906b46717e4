//! Tool rounds: eight concurrent calls of 100 ms each, and the overhead of the engine per round with 32 concurrent
//! turns, including the store: with tools that take 100 ms, and with tools and a model that take no time, so that every
//! turn is CPU-bound. The daemon runs inside this process, so that the tools take exactly the given time; the model is
//! a fake provider. Reference for the overhead: the same client code calling the same provider in a bare loop with the
//! same pauses, in the same run.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentd::config::ConfigSource;
use agentd::lifecycle::{Running, WorkerMode};
use agentd_base::{Clock, Entropy};
use agentd_bench::figures::Sample;
use agentd_bench::load::{render, request, streamed_on};
use agentd_bench::{Outcome, inside};
use agentd_core::runtime::Binding;
use agentd_engine::agents::Agent;
use agentd_engine::tools::{
    Author, Effect, InputSchema, Tool, ToolCallContext, ToolDescription, ToolError, ToolOutput, ToolSource,
};
use agentd_llm::{ToolCall, Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, RecordedRequest, Reply, Script};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const ROUNDS: usize = 10;
const SLOW: Duration = Duration::from_millis(100);
const TURNS_AT_ONCE: usize = 32;
const REPEATS: usize = 5;

/// Tool between two requests of a turn.
#[derive(Clone, Copy)]
enum Pace {
    /// A tool of 100 ms.
    Slow,
    /// A tool that returns immediately.
    Instant,
}

impl Pace {
    /// Returns the name of the tool, with which a turn's message begins.
    const fn tool(self) -> &'static str {
        match self {
            Self::Slow => "slow",
            Self::Instant => "instant",
        }
    }

    const fn pause(self) -> Duration {
        match self {
            Self::Slow => SLOW,
            Self::Instant => Duration::ZERO,
        }
    }
}

/// Tool that only waits.
#[derive(Debug)]
struct Pause(ToolDescription, Duration);

impl Tool for Pause {
    fn description(&self) -> &ToolDescription {
        &self.0
    }

    fn description_author(&self) -> Author {
        Author::Trusted
    }

    fn output_author(&self) -> Author {
        Author::Trusted
    }

    fn call(&self, _: Map<String, Value>, _: ToolCallContext) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        async move {
            if !self.1.is_zero() {
                tokio::time::sleep(self.1).await;
            }
            Ok(ToolOutput::text("done"))
        }
        .boxed()
    }
}

struct Pauses;

impl ToolSource for Pauses {
    fn name(&self) -> &'static str {
        "bench"
    }

    fn tools<'a>(&'a self, _: &'a Agent) -> BoxFuture<'a, Vec<Arc<dyn Tool>>> {
        let tool = |pace: Pace| {
            let input_schema = InputSchema::new(json!({"type": "object"})).ok()?;
            let description = ToolDescription {
                name: pace.tool().to_owned(),
                description: "Waits.".to_owned(),
                input_schema,
                effect: Effect::Reads,
                time_limit: Duration::from_secs(10),
            };
            Some(Arc::new(Pause(description, pace.pause())) as Arc<dyn Tool>)
        };
        let tools = [tool(Pace::Slow), tool(Pace::Instant)].into_iter().flatten().collect();
        async move { tools }.boxed()
    }
}

const USAGE: Usage = Usage {
    input_tokens: 10,
    output_tokens: 2,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
    source: UsageSource::Provider,
};

/// Times of provider requests of each conversation, by the name in its first message.
type RequestTimes = Arc<Mutex<HashMap<String, Vec<Instant>>>>;

/// Part of a request used by the script. The tool schemas, which are most of it, are skipped.
#[derive(Deserialize)]
struct Question<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    role: &'a str,
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
}

/// Creates every reply once: the cost of the provider is not part of the measurement.
fn script(request_times: &RequestTimes) -> Script {
    let request_times = Arc::clone(request_times);
    let calls = |tool: Pace, rounds: usize, count: usize| {
        let call = |number| ToolCall::new(format!("c{rounds}-{number}"), tool.tool(), json!({}));
        Reply::tool_calls((0..count).map(call).collect(), USAGE)
    };
    let wide = calls(Pace::Slow, 0, 8);
    let rounds = |pace: Pace| (0..ROUNDS).map(|done| calls(pace, done, 1)).collect::<Vec<_>>();
    let (slow, instant) = (rounds(Pace::Slow), rounds(Pace::Instant));
    let done = Reply::text(["done"], USAGE);
    Script::by(move |request: &RecordedRequest| {
        let now = Instant::now();
        let question = serde_json::from_slice(&request.bytes).unwrap_or(Question { messages: Vec::new() });
        let said = question.messages.iter().find(|message| message.role == "user");
        let name = said.and_then(|message| message.content.clone()).unwrap_or_default().into_owned();
        let rounds = question.messages.iter().filter(|message| message.role == "assistant").count();
        let reply = match name.split(' ').next() {
            Some("wide") => Some(&wide).filter(|_| rounds == 0),
            Some("slow") => slow.get(rounds),
            _ => instant.get(rounds),
        };
        if let Ok(mut request_times) = request_times.lock() {
            request_times.entry(name).or_default().push(now);
        }
        reply.unwrap_or(&done).clone()
    })
}

fn main() -> Outcome<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> Outcome<()> {
    let request_times = RequestTimes::default();
    let provider = FakeVendor::start_without_recording(Vendor::Openai, script(&request_times)).await?;
    let folder = tempfile::tempdir()?;
    let mut config = inside::config(ConfigSource::default(), &folder.path().join("data"))?;
    config.additions.0.push(Arc::new(|_, domains| domains.bind(Binding::new::<dyn ToolSource>(Arc::new(Pauses)))));
    let running = Running::start(config, Clock::system(), Entropy::system(), WorkerMode::Spawned).await?;
    let address = running.address.to_string();
    let base_url = provider.base_url().to_string();
    let key = tokio::task::spawn_blocking({
        let address = address.clone();
        move || prepare(&address, &base_url)
    })
    .await??;

    wide(&address, &key).await?;
    many(&address, &key, &provider, &request_times, Pace::Slow).await?;
    many(&address, &key, &provider, &request_times, Pace::Instant).await?;
    running.shut_down().await;
    Ok(())
}

/// Creates an account, a key, the provider, and an agent.
fn prepare(address: &str, base_url: &str) -> Outcome<String> {
    let call = |method: &str, path: &str, key: &str, body: Value| -> Outcome<Value> {
        let (status, answer) = request(address, method, path, key, Some(&body.to_string()))?;
        if !(200..300).contains(&status) {
            return Err(format!("{method} {path} answered {status}: {answer}").into());
        }
        Ok(serde_json::from_str(&answer)?)
    };
    call("POST", "/api/auth/register", "", json!({"username": "owner", "password": "correct horse"}))
        .and_then(|account| {
            let token = account["token"].as_str().unwrap_or_default().to_owned();
            call("POST", "/api/auth/keys", &token, json!({"name": "bench"}))
        })
        .and_then(|made| {
            let key = made["key"].as_str().unwrap_or_default().to_owned();
            call("PUT", "/api/providers/openai/key", &key, json!({"api_key": "k", "base_url": base_url}))?;
            let settings = json!({"default_provider": "openai", "default_model": "fake", "max_tool_rounds": 50});
            call("PUT", "/api/settings/agent", &key, settings)?;
            let agent = json!({"svc_name": "bench", "user_name": "Owner", "archetype": "assistant"});
            call("POST", "/api/agents", &key, agent)?;
            Ok(key)
        })
}

/// Runs one turn over the API to its end.
async fn turn(address: &str, key: &str, content: &str) -> Outcome<String> {
    let body = json!({"agent_id": "bench", "content": content}).to_string();
    let request = render("POST", "/api/chat/messages/stream", key, Some(&body), true);
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let reply = streamed_on(&mut stream, request.as_bytes(), "event: t", "event: done").await?;
    Ok(reply.body)
}

async fn wide(address: &str, key: &str) -> Outcome<()> {
    let mut figures = Vec::new();
    for repeat in 0..=REPEATS * 4 {
        let started = Instant::now();
        let body = turn(address, key, &format!("wide {repeat}")).await?;
        let results = body.matches("event: tool_result").count();
        if results != 8 {
            return Err(format!("{results} results instead of 8: {body}").into());
        }
        if repeat > 0 {
            figures.push(started.elapsed().as_secs_f64() * 1000.0);
        }
    }
    println!("a whole turn with 8 tools of 100 ms at once, ms:  {}", Sample::new(figures));
    Ok(())
}

/// Measures rounds: the time between two requests of a turn, which includes the provider's reply, the tool, and the
/// store.
async fn many(
    address: &str,
    key: &str,
    provider: &FakeVendor,
    request_times: &RequestTimes,
    pace: Pace,
) -> Outcome<()> {
    let (mut added, mut medians) = (Vec::new(), Vec::new());
    for repeat in 0..=REPEATS {
        let reference = direct(provider, request_times, repeat, pace.pause()).await?;
        let mut turns = tokio::task::JoinSet::new();
        for number in 0..TURNS_AT_ONCE {
            let (address, key) = (address.to_owned(), key.to_owned());
            let question = format!("{} {repeat}-{number}", pace.tool());
            turns.spawn(async move { turn(&address, &key, &question).await });
        }
        while let Some(ended) = turns.join_next().await {
            ended??;
        }
        let figure = gaps(request_times, pace.tool());
        if repeat > 0 {
            added.push(figure.percentile(0.99) - reference.percentile(0.99));
            medians.push(figure.median() - reference.median());
        }
    }
    let tools = format!("{TURNS_AT_ONCE} turns at once, tools of {} ms", pace.pause().as_millis());
    println!("added to a tool round at {tools}, p99, ms:    {}", Sample::new(added));
    println!("added to a tool round at {tools}, median, ms: {}", Sample::new(medians));
    Ok(())
}

/// Sends the same number of requests to the provider, without an engine.
async fn direct(
    provider: &FakeVendor,
    request_times: &RequestTimes,
    repeat: usize,
    pause: Duration,
) -> Outcome<Sample> {
    let url = provider.base_url().to_string();
    let (address, path) = url
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .split_once('/')
        .map_or((url.clone(), String::new()), |(host, path)| (host.to_owned(), format!("/{path}")));
    let mut loops = tokio::task::JoinSet::new();
    for number in 0..TURNS_AT_ONCE {
        let (address, path) = (address.clone(), path.clone());
        loops.spawn(async move {
            let mut stream = tokio::net::TcpStream::connect(&address).await?;
            stream.set_nodelay(true)?;
            let mut messages = vec![json!({"role": "user", "content": format!("direct {repeat}-{number}")})];
            for _ in 0..=ROUNDS {
                let body = json!({"model": "fake", "stream": true, "messages": messages}).to_string();
                let request = render("POST", &format!("{path}/chat/completions"), "k", Some(&body), true);
                streamed_on(&mut stream, request.as_bytes(), "data", "[DONE]").await?;
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                messages.push(json!({"role": "assistant", "content": "x"}));
            }
            Outcome::Ok(())
        });
    }
    while let Some(ended) = loops.join_next().await {
        ended??;
    }
    Ok(gaps(request_times, "direct "))
}

/// Returns and clears the milliseconds between the requests of each conversation.
fn gaps(request_times: &RequestTimes, prefix: &str) -> Sample {
    let mut gaps = Vec::new();
    if let Ok(mut request_times) = request_times.lock() {
        request_times.retain(|name, times| {
            let is_ours = name.starts_with(prefix);
            if is_ours {
                gaps.extend(times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1000.0));
            }
            !is_ours
        });
    }
    Sample::new(gaps)
}
