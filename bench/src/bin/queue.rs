//! The delivery queue of hooks, with the daemon inside this process and a sink on loopback: how many deliveries a
//! second it sustains with every commit synced, how long an event takes to arrive at 200 a second, and what one dead
//! receiver among ten costs the others. Reference for the first: the same requests by the same client in a
//! bare loop with as many connections, in the same run.
//!
//! On SQLite, or on the PostgreSQL that `AGENTD_TEST_DATABASE_URL` names.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentd::config::{Config, ConfigSource};
use agentd::lifecycle::{Running, WorkerMode};
use agentd_base::{Clock, Entropy, Secret};
use agentd_bench::Outcome;
use agentd_bench::figures::Sample;
use agentd_bench::load::request;
use agentd_net::{GuardedClient, PolicyHandle, Trust};
use agentd_store::{NewEvent, StoreError, Tx};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

const DELIVERIES: usize = 10_000;
const AT_ONCE: usize = 64;
const HOOKS: usize = 4;
const LATENCY_RATE: usize = 200;
const LATENCY_SECONDS: usize = 10;
const RECEIVERS: usize = 10;
const EVENTS_TO_EACH: usize = 1_000;
const REPEATS: usize = 3;
const EVENT: &str = "project.created";

/// Takes whatever comes, and tells when which path got what.
struct Sink {
    address: SocketAddr,
    arrivals: mpsc::UnboundedReceiver<(String, usize, Instant)>,
}

impl Sink {
    async fn start() -> Outcome<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (told, arrivals) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let told = told.clone();
                tokio::spawn(async move { drop(serve(stream, told).await) });
            }
        });
        Ok(Self { address, arrivals })
    }

    fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    /// The next so many.
    async fn take(&mut self, count: usize) -> Outcome<Vec<(String, usize, Instant)>> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let next = tokio::time::timeout(Duration::from_secs(120), self.arrivals.recv()).await;
            let next = next.map_err(|_| format!("only {} of {count} arrived", taken.len()))?;
            taken.push(next.ok_or("the sink has ended")?);
        }
        Ok(taken)
    }
}

async fn serve(mut stream: TcpStream, told: mpsc::UnboundedSender<(String, usize, Instant)>) -> Outcome<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::with_capacity(16 * 1024);
    loop {
        let (end, length, path) = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
                let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
                let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or_default();
                let path = head.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
                break (end + 4, length, path);
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        while bytes.len() < end + length {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
        let arrived = Instant::now();
        let event: Value = serde_json::from_slice(&bytes[end..end + length])?;
        let number = event["data"]["n"].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or_default();
        told.send((path, number, arrived))?;
        bytes.drain(..end + length);
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
}

struct Api {
    address: String,
    key: String,
}

impl Api {
    async fn call(&self, method: &'static str, path: &str, body: Value) -> Outcome<Value> {
        let (address, key, path) = (self.address.clone(), self.key.clone(), path.to_owned());
        tokio::task::spawn_blocking(move || {
            let body = if body.is_null() { None } else { Some(body.to_string()) };
            let (status, answer) = request(&address, method, &path, &key, body.as_deref())?;
            if !(200..300).contains(&status) {
                return Err(format!("{method} {path} answered {status}: {answer}").into());
            }
            Ok(serde_json::from_str(&answer)?)
        })
        .await?
    }

    async fn make_hook(&self, url: &str) -> Outcome<String> {
        let hook = json!({
            "name": "bench", "event_type": EVENT, "hook_type": "http",
            "config": {"url": url, "queued": true, "secret": "0123456789abcdef0123456789abcdef"},
        });
        let made = self.call("POST", "/api/hooks", hook).await?;
        Ok(made["id"].as_str().ok_or("no id")?.to_owned())
    }

    async fn delete_hooks(&self, ids: Vec<String>) -> Outcome<()> {
        for id in ids {
            self.call("DELETE", &format!("/api/hooks/{id}"), Value::Null).await?;
        }
        Ok(())
    }
}

/// Commits events, a hundred a transaction, as domains that are busy do through group commit.
async fn emit(running: &Running, numbers: std::ops::Range<usize>) -> Outcome<()> {
    let db = running.ground().db.clone();
    let numbers: Vec<usize> = numbers.collect();
    for chunk in numbers.chunks(100) {
        let chunk = chunk.to_vec();
        let work = async move |tx: &mut Tx| {
            for number in &chunk {
                let data = json!({"n": number, "name": "A project with a name of some length", "status": "active"});
                tx.emit(NewEvent::new(EVENT, data)).await?;
            }
            Ok::<_, StoreError>(())
        };
        db.write(work).await?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "counts of deliveries")]
fn rate(arrivals: &[(String, usize, Instant)]) -> f64 {
    let first = arrivals.iter().map(|(_, _, at)| *at).min();
    let last = arrivals.iter().map(|(_, _, at)| *at).max();
    let (Some(first), Some(last)) = (first, last) else { return 0.0 };
    arrivals.len() as f64 / last.duration_since(first).as_secs_f64()
}

fn main() -> Outcome<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let url = std::env::var("AGENTD_TEST_DATABASE_URL").ok();
    println!("database: {}", if url.is_some() { "PostgreSQL" } else { "SQLite, synchronous=FULL" });
    let source = ConfigSource {
        port: Some(0),
        data_dir: Some(folder.path().join("data")),
        database_url: url.map(Secret::new),
        ..ConfigSource::default()
    };
    let config = Config::from_source(source).map_err(|problems| format!("{problems:?}"))?;
    let running = Running::start(config, Clock::system(), Entropy::system(), WorkerMode::Spawned).await?;
    let mut api = Api { address: running.address.to_string(), key: String::new() };
    let account = json!({"username": "owner", "password": "correct horse"});
    api.key = api.call("POST", "/api/auth/register", account).await?["token"].as_str().unwrap_or_default().to_owned();
    let key = api.call("POST", "/api/auth/keys", json!({"name": "bench"})).await?;
    key["key"].as_str().unwrap_or_default().clone_into(&mut api.key);
    let mut sink = Sink::start().await?;

    throughput(&running, &api, &mut sink).await?;
    latency(&running, &api, &mut sink).await?;
    dead_receiver(&running, &api, &mut sink).await?;
    running.shut_down().await;
    Ok(())
}

/// The same requests without a queue.
async fn bare_loop(sink: &mut Sink) -> Outcome<f64> {
    let client = GuardedClient::new(PolicyHandle::default(), Trust::Owner);
    let (url, next) = (sink.url("bare"), Arc::new(AtomicUsize::new(0)));
    for _ in 0..AT_ONCE {
        let (client, url, next) = (client.clone(), url.parse::<url::Url>()?, Arc::clone(&next));
        tokio::spawn(async move {
            while next.fetch_add(1, Ordering::Relaxed) < DELIVERIES {
                let body = json!({"id": "evt_1", "type": EVENT, "timestamp": "2026-01-01T00:00:00.000Z", "data": {"n": 1, "name": "A project"}});
                let Ok(request) = client.request(Method::POST, url.clone()) else { return };
                let Ok(response) = request.body(body.to_string()).send().await else { return };
                drop(response.bytes().await);
            }
        });
    }
    Ok(rate(&sink.take(DELIVERIES).await?))
}

async fn throughput(running: &Running, api: &Api, sink: &mut Sink) -> Outcome<()> {
    let (mut queued, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        bare.push(bare_loop(sink).await?);
        let mut hooks = Vec::new();
        for hook in 0..HOOKS {
            hooks.push(api.make_hook(&sink.url(&format!("h{hook}"))).await?);
        }
        let (emitted, arrivals) = tokio::join!(emit(running, 0..DELIVERIES / HOOKS), sink.take(DELIVERIES));
        emitted?;
        queued.push(rate(&arrivals?));
        settle(api).await?;
        api.delete_hooks(hooks).await?;
    }
    let (queued, bare) = (Sample::new(queued), Sample::new(bare));
    println!("queued deliveries a second to {HOOKS} hooks: {queued}");
    println!("bare loop, {AT_ONCE} at once, a second:      {bare}");
    println!("ratio of the medians: {:.2}", queued.median() / bare.median());
    Ok(())
}

/// Until every delivery has its end written down.
async fn settle(api: &Api) -> Outcome<()> {
    loop {
        let stats = api.call("GET", "/api/hooks/deliveries/queue-stats", Value::Null).await?;
        if stats["stats"]["pending"] == 0 && stats["stats"]["processing"] == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn latency(running: &Running, api: &Api, sink: &mut Sink) -> Outcome<()> {
    let hook = api.make_hook(&sink.url("latency")).await?;
    let count = LATENCY_RATE * LATENCY_SECONDS;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(LATENCY_RATE)?);
    let mut emitted = HashMap::with_capacity(count);
    let sending = async {
        for number in 0..count {
            ticks.tick().await;
            emitted.insert(number, Instant::now());
            let db = running.ground().db.clone();
            tokio::spawn(async move {
                let work =
                    async move |tx: &mut Tx| tx.emit(NewEvent::new(EVENT, json!({"n": number}))).await.map(|_| ());
                db.write::<_, StoreError, _>(work).await
            });
        }
    };
    let ((), arrivals) = tokio::join!(sending, sink.take(count));
    let arrivals = arrivals?;
    let waits = arrivals.iter().filter_map(|(_, number, at)| Some(at.duration_since(*emitted.get(number)?)));
    let waits = Sample::new(waits.map(|wait| wait.as_secs_f64() * 1000.0).collect());
    println!(
        "from before an event's commit to its arrival at {LATENCY_RATE} a second, ms: median {:.1}  p99 {:.1}  max {:.1}",
        waits.median(),
        waits.percentile(0.99),
        waits.percentile(1.0)
    );
    settle(api).await?;
    api.delete_hooks(vec![hook]).await
}

/// Nine good receivers beside one that is good, or takes connections and never answers.
async fn dead_receiver(running: &Running, api: &Api, sink: &mut Sink) -> Outcome<()> {
    let silent = TcpListener::bind("127.0.0.1:0").await?;
    let silent_url = format!("http://{}/dead", silent.local_addr()?);
    let held = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            held.push(stream);
        }
    });
    let (mut with_dead, mut all_good) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        for is_dead in [false, true] {
            let mut hooks = Vec::new();
            for receiver in 0..RECEIVERS {
                let url = if is_dead && receiver == 0 { silent_url.clone() } else { sink.url(&format!("r{receiver}")) };
                hooks.push(api.make_hook(&url).await?);
            }
            let expected = EVENTS_TO_EACH * if is_dead { RECEIVERS - 1 } else { RECEIVERS };
            let (emitted, arrivals) = tokio::join!(emit(running, 0..EVENTS_TO_EACH), sink.take(expected));
            emitted?;
            let others: Vec<_> = arrivals?.into_iter().filter(|(path, _, _)| path != "r0").collect();
            if is_dead {
                with_dead.push(rate(&others))
            } else {
                all_good.push(rate(&others))
            }
            api.delete_hooks(hooks).await?;
            // What hung has ended, so that the next round begins with every place free.
            tokio::time::sleep(Duration::from_secs(11)).await;
        }
    }
    held.abort();
    let (with_dead, all_good) = (Sample::new(with_dead), Sample::new(all_good));
    println!("nine receivers beside a good one, a second: {all_good}");
    println!("nine receivers beside a dead one, a second: {with_dead}");
    println!("ratio of the medians: {:.2}", with_dead.median() / all_good.median());
    Ok(())
}
