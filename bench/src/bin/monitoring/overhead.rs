//! Cost of recording and tracing, compared alternately with daemons that do neither.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentd_bench::Outcome;
use agentd_bench::daemon::DaemonUnderTest;
use agentd_bench::figures::Sample;
use agentd_bench::load::{render, requests_per_second, streamed_on};
use agentd_llm::{Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::json;

const ROUNDS: usize = 25;
/// Short, so that other load on the machine affects both equally.
const ROUND: Duration = Duration::from_secs(1);
const CONNECTIONS: usize = 32;
const TURNS: usize = 1_000;

const USAGE: Usage = Usage {
    input_tokens: 10,
    output_tokens: 20,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
    source: UsageSource::Provider,
};

async fn provider() -> Outcome<FakeVendor> {
    let pieces: Vec<String> = (0..20).map(|number| format!("t{number} ")).collect();
    let reply = Reply::text(pieces.iter().map(String::as_str), USAGE);
    Ok(FakeVendor::start_without_recording(Vendor::Openai, Script::always(reply)).await?)
}

/// Creates ten agents, of which one is used.
fn prepare(daemon: &DaemonUnderTest, provider: &FakeVendor) -> Outcome<()> {
    let key = json!({"api_key": "k", "base_url": provider.base_url().as_str()});
    daemon.call("PUT", "/api/providers/openai/key", &key)?;
    daemon.call("PUT", "/api/settings/memory", &json!({"enabled": false}))?;
    for number in 0..10 {
        let agent = json!({"svc_name": format!("agent-{number}"), "user_name": "Owner", "archetype": "assistant"});
        daemon.call("POST", "/api/agents", &agent)?;
    }
    Ok(())
}

/// Returns turns per second, and the daemon's CPU time per turn in microseconds.
#[allow(clippy::cast_precision_loss, reason = "counts")]
async fn turns(daemon: &DaemonUnderTest) -> Outcome<(f64, f64)> {
    let body = json!({"agent_id": "agent-0", "content": "hello", "model": "openai/fake"}).to_string();
    let request = render("POST", "/api/chat/messages/stream", &daemon.key, Some(&body), true);
    let (request, next) = (Arc::new(request.into_bytes()), Arc::new(AtomicUsize::new(0)));
    let (began, used) = (Instant::now(), daemon.processor_time());
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = tokio::net::TcpStream::connect(&daemon.address).await?;
        stream.set_nodelay(true)?;
        let (request, next) = (Arc::clone(&request), Arc::clone(&next));
        tasks.push(tokio::spawn(async move {
            while next.fetch_add(1, Ordering::Relaxed) < TURNS {
                streamed_on(&mut stream, &request, "event: token", "event: done").await?;
            }
            Outcome::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    let used = daemon.processor_time().saturating_sub(used);
    Ok((TURNS as f64 / began.elapsed().as_secs_f64(), used.as_secs_f64() * 1e6 / TURNS as f64))
}

/// Compares a daemon with recording and one without.
pub(super) async fn recording() -> Outcome<()> {
    let (folder, provider) = (tempfile::tempdir()?, provider().await?);
    let with = super::start(&folder.path().join("on"), "on")?;
    let without = super::start(&folder.path().join("off"), "off")?;
    prepare(&with, &provider)?;
    prepare(&without, &provider)?;
    let (mut ratios, mut added) = (Vec::new(), Vec::new());
    let (mut requests, mut times) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for round in 0..=ROUNDS {
        let mut per_second = [0.0; 2];
        let mut micros = [0.0; 2];
        // The order alternates.
        for which in [round % 2, 1 - round % 2] {
            let daemon = if which == 0 { &with } else { &without };
            per_second[which] =
                requests_per_second(&daemon.address, "/api/agents", &daemon.key, CONNECTIONS, ROUND).await?;
            micros[which] = turns(daemon).await?.1;
        }
        // The first round warms up both.
        if round > 0 {
            ratios.push(per_second[0] / per_second[1]);
            added.push(micros[0] - micros[1]);
            for which in [0, 1] {
                requests[which].push(per_second[which]);
                times[which].push(micros[which]);
            }
        }
    }
    let [requests_with, requests_without] = requests;
    let [times_with, times_without] = times;
    println!("GET /api/agents with recording, requests/s:          {}", Sample::new(requests_with));
    println!("the same without, requests/s:                        {}", Sample::new(requests_without));
    println!("ratio:                                               {}", Sample::new(ratios));
    println!("processor time of a turn with recording, µs:         {}", Sample::new(times_with));
    println!("the same without, µs:                                {}", Sample::new(times_without));
    println!("added to a turn, µs:                                 {}", Sample::new(added));
    Ok(())
}

/// Compares a daemon with an unresponsive collector of traces, metrics and logs and one without.
pub(super) async fn traces() -> Outcome<()> {
    let (folder, provider) = (tempfile::tempdir()?, provider().await?);
    let (collector, taken) = silent_collector().await?;
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.as_str()),
        // More frequent than by default, so that each round includes some.
        ("OTEL_METRIC_EXPORT_INTERVAL", "1000"),
    ];
    let with = DaemonUnderTest::spawn_with(&folder.path().join("on"), &variables)?.with_owner()?;
    let without = DaemonUnderTest::spawn(&folder.path().join("off"))?.with_owner()?;
    prepare(&with, &provider)?;
    prepare(&without, &provider)?;
    let (mut ours, mut references, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let mut per_second = [0.0; 2];
        for which in [round % 2, 1 - round % 2] {
            per_second[which] = turns(if which == 0 { &with } else { &without }).await?.0;
        }
        if round > 0 {
            let [figure, reference] = per_second;
            ours.push(figure);
            references.push(reference);
            ratios.push(figure / reference);
        }
    }
    println!("turns/s with a collector that never answers:         {}", Sample::new(ours));
    println!("the same without a collector, turns/s:               {}", Sample::new(references));
    println!("ratio:                                               {}", Sample::new(ratios));
    println!("bytes that the collector was sent: {}", taken.load(Ordering::Relaxed));
    if taken.load(Ordering::Relaxed) == 0 {
        return Err("the collector was sent nothing, so nothing was measured".into());
    }
    Ok(())
}

/// Returns its address, and a counter of received bytes.
async fn silent_collector() -> Outcome<(String, Arc<AtomicUsize>)> {
    use tokio::io::AsyncReadExt;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = format!("http://{}", listener.local_addr()?);
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    count.fetch_add(read, Ordering::Relaxed);
                }
            });
        }
    });
    Ok((address, taken))
}
