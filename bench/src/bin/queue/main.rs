//! Delivery queue of hooks, with the daemon inside this process and a sink on loopback: sustained deliveries per second
//! with every commit synced, the latency of events at 200 per second, and the effect of an unavailable receiver on nine
//! others, also with a backlog of 100,000 deliveries. Reference for the rate: the same requests by the same client in a
//! bare loop with as many connections, in the same run.
//!
//! Runs on SQLite, or on the PostgreSQL database of `AGENTD_TEST_DATABASE_URL`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod dead;
mod sink;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use agentd::config::ConfigSource;
use agentd::lifecycle::{Running, WorkerMode};
use agentd_base::{Clock, Entropy, Secret};
use agentd_bench::figures::Sample;
use agentd_bench::load::request;
use agentd_bench::{Outcome, inside};
use agentd_net::{GuardedClient, PolicyHandle, Trust};
use agentd_store::{NewEvent, StoreError, Tx};
use http::Method;
use serde_json::{Value, json};
use sink::{Sink, rate};

const DELIVERIES: usize = 10_000;
const CONCURRENCY: usize = 64;
const HOOKS: usize = 4;
const LATENCY_RATE: usize = 200;
const LATENCY_SECONDS: usize = 10;
const REPEATS: usize = 3;
const EVENT: &str = "project.created";

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

    async fn make_hook(&self, event: &str, url: &str) -> Outcome<String> {
        let hook = json!({
            "name": "bench", "event_type": event, "hook_type": "http",
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

/// Commits events, a hundred per transaction, like busy domains through group commit.
async fn emit(running: &Running, event: &'static str, numbers: std::ops::Range<usize>) -> Outcome<()> {
    let db = running.context().db.clone();
    let numbers: Vec<usize> = numbers.collect();
    for chunk in numbers.chunks(100) {
        let chunk = chunk.to_vec();
        let work = async move |tx: &mut Tx| {
            for number in &chunk {
                let data = json!({"n": number, "name": "A project with a name of some length", "status": "active"});
                tx.emit(NewEvent::new(event, data)).await?;
            }
            Ok::<_, StoreError>(())
        };
        db.write(work).await?;
    }
    Ok(())
}

fn main() -> Outcome<()> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let url = std::env::var("AGENTD_TEST_DATABASE_URL").ok();
    println!("database: {}", if url.is_some() { "PostgreSQL" } else { "SQLite, synchronous=FULL" });
    let source = ConfigSource { database_url: url.map(Secret::new), ..ConfigSource::default() };
    let config = inside::config(source, &folder.path().join("data"))?;
    let running = Running::start(config, Clock::system(), Entropy::system(), WorkerMode::Spawned).await?;
    let mut api = Api { address: running.address.to_string(), key: String::new() };
    let account = json!({"username": "owner", "password": "correct horse"});
    api.key = api.call("POST", "/api/auth/register", account).await?["token"].as_str().unwrap_or_default().to_owned();
    let key = api.call("POST", "/api/auth/keys", json!({"name": "bench"})).await?;
    key["key"].as_str().unwrap_or_default().clone_into(&mut api.key);
    let mut sink = Sink::start().await?;

    throughput(&running, &api, &mut sink).await?;
    latency(&running, &api, &mut sink, "").await?;
    dead::dead_receivers(&running, &api, &mut sink).await?;
    dead::backlog(&running, &api, &mut sink).await?;
    running.shut_down().await;
    Ok(())
}

/// Sends the same requests without a queue.
async fn bare_loop(sink: &mut Sink) -> Outcome<f64> {
    let client = GuardedClient::new(PolicyHandle::default(), Trust::Owner);
    let (url, next) = (sink.url("bare"), Arc::new(AtomicUsize::new(0)));
    for _ in 0..CONCURRENCY {
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
            hooks.push(api.make_hook(EVENT, &sink.url(&format!("h{hook}"))).await?);
        }
        let (emitted, arrivals) = tokio::join!(emit(running, EVENT, 0..DELIVERIES / HOOKS), sink.take(DELIVERIES));
        emitted?;
        queued.push(rate(&arrivals?));
        settle(api, &hooks).await?;
        api.delete_hooks(hooks).await?;
    }
    let (queued, bare) = (Sample::new(queued), Sample::new(bare));
    println!("queued deliveries a second to {HOOKS} hooks: {queued}");
    println!("bare loop, {CONCURRENCY} at once, a second:      {bare}");
    println!("ratio of the medians: {:.2}", queued.median() / bare.median());
    Ok(())
}

/// Waits until the outcome of every delivery of these hooks is recorded.
async fn settle(api: &Api, hooks: &[String]) -> Outcome<()> {
    for hook in hooks {
        loop {
            let list = api.call("GET", &format!("/api/hooks/{hook}/deliveries?limit=1"), Value::Null).await?;
            if list["stats"]["pending"] == 0 && list["stats"]["processing"] == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// Measures the time from before an event's commit to its arrival.
async fn latency(running: &Running, api: &Api, sink: &mut Sink, when: &str) -> Outcome<()> {
    let hook = api.make_hook(EVENT, &sink.url("latency")).await?;
    let count = LATENCY_RATE * LATENCY_SECONDS;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / u32::try_from(LATENCY_RATE)?);
    let mut emitted = HashMap::with_capacity(count);
    let sending = async {
        for number in 0..count {
            ticks.tick().await;
            emitted.insert(number, Instant::now());
            let db = running.context().db.clone();
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
        "from event to arrival at {LATENCY_RATE} a second{when}, ms: median {:.1}  p99 {:.1}  max {:.1}",
        waits.median(),
        waits.percentile(0.99),
        waits.percentile(1.0)
    );
    let hooks = vec![hook];
    settle(api, &hooks).await?;
    api.delete_hooks(hooks).await
}
