//! Insertion, search and cold start.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use agentd_bench::Outcome;
use agentd_bench::daemon::DaemonUnderTest;
use agentd_bench::figures::Sample;
use agentd_bench::load::{Connection, render};
use agentd_inference::LocalEmbedder;
use serde_json::{Value, json};

use crate::fill::{EmbeddedDaemon, Known, remember};
use crate::texts::{Texts, encoded};
use crate::{Arguments, embedder};

const ROUNDS: usize = 3;
const INSERTING: usize = 32;
/// Number of concurrent calls of the embedder alone, each with as many texts as episodes are stored concurrently.
const EMBEDDING_LANES: usize = 4;
const CLIENTS: u64 = 4;
const QUERIES_PER_SECOND: u64 = 30;
const STARTS: usize = 10;

pub(crate) async fn measure(arguments: &Arguments) -> Outcome<()> {
    let embedder = embedder(&arguments.model)?;
    let model = arguments.model.to_str().ok_or("the path of the model is no text")?;
    let folder = tempfile::tempdir()?;
    insert(&folder.path().join("insert"), model, &embedder, arguments.time).await?;

    let data_dir = folder.path().join("data");
    let known = Arc::new(Known::embed(&embedder).await?);
    let mut inside = EmbeddedDaemon::start(&data_dir, &known).await?;
    inside.make_owner().await?;
    let took = inside.fill(&known, arguments.episodes).await?;
    let count = arguments.episodes;
    println!("{count} episodes stored without the model, over HTTP: {:.0} /s", rate(count, took));
    let key = inside.key.clone();
    println!("search, {QUERIES_PER_SECOND} queries/s of {CLIENTS} clients, the query's vector at hand:");
    for mode in ["hybrid", "keyword", "semantic"] {
        report(mode, &search(&inside.address, &key, mode, &known, arguments.time).await?);
    }
    inside.stop().await;

    let mut starts = Vec::new();
    let mut firsts = Vec::new();
    for run in 0..=STARTS {
        let began = Instant::now();
        let mut daemon = DaemonUnderTest::spawn_with(&data_dir, &[("SVC_EMBEDDING_MODEL", model)])?;
        daemon.key.clone_from(&key);
        daemon.wait_until_ready()?;
        let start = began.elapsed();
        let began = Instant::now();
        daemon.call("GET", "/api/memory/search?q=sandbox+for+tools&mode=keyword", &Value::Null)?;
        if run > 0 {
            starts.push(milliseconds(start));
            firsts.push(milliseconds(began.elapsed()));
        }
        daemon.stop()?;
    }
    println!("spawn to ready, ms:                 {}", Sample::new(starts));
    println!("first search after it, keyword, ms: {}", Sample::new(firsts));

    let mut daemon = DaemonUnderTest::spawn_with(&data_dir, &[("SVC_EMBEDDING_MODEL", model)])?;
    daemon.key.clone_from(&key);
    daemon.wait_until_ready()?;
    println!("search, {QUERIES_PER_SECOND} queries/s of {CLIENTS} clients, the release daemon, embedding included:");
    // Loads the model and warms up.
    search(&daemon.address, &key, "hybrid", &known, Duration::from_secs(3)).await?;
    for mode in ["hybrid", "keyword", "semantic"] {
        report(mode, &search(&daemon.address, &key, mode, &known, arguments.time).await?);
    }
    let clustering = Instant::now();
    daemon.call("GET", "/api/memory/clusters?n=8", &Value::Null)?;
    println!("  8 clusters, first time              {:8.1} ms", milliseconds(clustering.elapsed()));
    #[allow(clippy::cast_precision_loss, reason = "a size")]
    let resident = daemon.resident_bytes() as f64 / (1024.0 * 1024.0);
    println!("  resident, embedder included         {resident:8.1} MiB");
    daemon.stop()?;
    report("reference: the query's embedding", &reference(&embedder, &known, arguments.time).await?);
    embedder.shutdown().await;
    Ok(())
}

/// Compares episodes per second through the API with texts per second of the embedder alone, alternately.
async fn insert(data_dir: &Path, model: &str, embedder: &LocalEmbedder, time: Duration) -> Outcome<()> {
    let daemon = DaemonUnderTest::spawn_with(data_dir, &[("SVC_EMBEDDING_MODEL", model)])?.with_owner()?;
    let mut texts = Texts::new(1);
    let body = json!({"content": texts.text()});
    remember(&mut Connection::open(&daemon.address).await?, &daemon.key, &body).await?;
    embedder.embed_query("ready").await?;
    let (mut own, mut through, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let alone = embed_for(embedder, time, round as u64 * 1_000).await?;
        let stored = insert_for(&daemon, time, round as u64 * 1_000).await?;
        own.push(alone);
        through.push(stored);
        ratios.push(stored / alone);
    }
    println!("insert over HTTP, {INSERTING} at once, /s:    {}", Sample::new(through));
    println!("reference: the embedder alone, /s: {}", Sample::new(own));
    println!("ratio:                             {}", Sample::new(ratios));
    daemon.stop()
}

/// Returns the texts per second of the embedder alone, with calls always queued.
async fn embed_for(embedder: &LocalEmbedder, time: Duration, seed: u64) -> Outcome<f64> {
    let started = Instant::now();
    let mut tasks = Vec::new();
    for lane in 0..EMBEDDING_LANES {
        let embedder = embedder.clone();
        let mut texts = Texts::new(50_000 + seed + lane as u64);
        tasks.push(tokio::spawn(async move {
            let mut count = 0;
            while started.elapsed() < time {
                let call: Vec<String> = (0..INSERTING / EMBEDDING_LANES).map(|_| texts.text()).collect();
                count += embedder.embed_texts(call).await?.len();
            }
            Outcome::Ok(count)
        }));
    }
    let mut count = 0;
    for task in tasks {
        count += task.await??;
    }
    Ok(rate(count, started.elapsed()))
}

async fn insert_for(daemon: &DaemonUnderTest, time: Duration, seed: u64) -> Outcome<f64> {
    let stored = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut tasks = Vec::new();
    for lane in 0..INSERTING {
        let mut connection = Connection::open(&daemon.address).await?;
        let (stored, key) = (Arc::clone(&stored), daemon.key.clone());
        let mut texts = Texts::new(10_000 + seed + lane as u64);
        tasks.push(tokio::spawn(async move {
            while started.elapsed() < time {
                remember(&mut connection, &key, &json!({"content": texts.text()})).await?;
                stored.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(rate(usize::try_from(stored.load(Ordering::Relaxed))?, started.elapsed()))
}

/// Sends queries at a constant rate regardless of the response times. Latency is measured from the time when a query
/// could be sent: its due time, or the end of a late preceding response. Delays of this program's own timer are
/// excluded.
async fn search(address: &str, key: &str, mode: &str, known: &Arc<Known>, time: Duration) -> Outcome<Vec<f64>> {
    let gap = Duration::from_secs(1) * u32::try_from(CLIENTS)? / u32::try_from(QUERIES_PER_SECOND)?;
    let mut tasks = Vec::new();
    for client in 0..CLIENTS {
        let mut connection = Connection::open(address).await?;
        let (known, key, mode) = (Arc::clone(known), key.to_owned(), mode.to_owned());
        tasks.push(tokio::spawn(async move {
            let mut texts = Texts::new(500 + client);
            let begin = tokio::time::Instant::now() + gap * u32::try_from(client)? / u32::try_from(CLIENTS)?;
            let (mut times, mut due) = (Vec::new(), begin);
            while due < begin + time {
                let since = due_since(due).await;
                let query = encoded(&known.queries[texts.number(known.queries.len())]);
                let path = format!("/api/memory/search?q={query}&mode={mode}");
                let (status, answer) = connection.ask(render("GET", &path, &key, None, true).as_bytes()).await?;
                if status != 200 || answer.contains("\"degraded\":true") {
                    return Err(format!("a search was answered with {status}: {answer}").into());
                }
                times.push(milliseconds(since.elapsed()));
                due += gap;
            }
            Outcome::Ok(times)
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    Ok(all)
}

/// Waits until a query is due and returns the start of its latency: its due time, or now if it was not delayed.
async fn due_since(due: tokio::time::Instant) -> tokio::time::Instant {
    if tokio::time::Instant::now() > due {
        return due;
    }
    tokio::time::sleep_until(due).await;
    tokio::time::Instant::now()
}

/// Embeds queries alone at the same rate.
async fn reference(embedder: &LocalEmbedder, known: &Arc<Known>, time: Duration) -> Outcome<Vec<f64>> {
    let gap = Duration::from_secs(1) / u32::try_from(QUERIES_PER_SECOND)?;
    let mut texts = Texts::new(900);
    let begin = tokio::time::Instant::now();
    let (mut times, mut due) = (Vec::new(), begin);
    while due < begin + time {
        let since = due_since(due).await;
        embedder.embed_query(&known.queries[texts.number(known.queries.len())]).await?;
        times.push(milliseconds(since.elapsed()));
        due += gap;
    }
    Ok(times)
}

fn report(name: &str, times: &[f64]) {
    let sample = Sample::new(times.to_vec());
    println!("  {name:34} p50 {:7.2} ms  p99 {:7.2} ms", sample.median(), sample.percentile(0.99));
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[allow(clippy::cast_precision_loss, reason = "a count")]
fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
