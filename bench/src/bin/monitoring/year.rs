//! Endpoints over a year of usage: response times, memory usage, and correctness.

use std::path::Path;
use std::time::{Duration, Instant};

use agentd::config::ConfigSource;
use agentd::lifecycle::{Running, WorkerMode};
use agentd_base::{Clock, Entropy};
use agentd_bench::daemon::DaemonUnderTest;
use agentd_bench::figures::Sample;
use agentd_bench::load::{Connection, render, request};
use agentd_bench::{Outcome, inside};
use agentd_store::args;
use serde_json::{Value, json};

use super::fill::{self, Owners};

const AGENTS: usize = 50;
const PROJECTS: usize = 10;
const KEYS: usize = 5;
const TIMES: usize = 100;
const FEW_ROWS: u64 = 1_000;

/// Endpoints that read statistics.
const PATHS: [&str; 16] = [
    "/api/monitoring/health",
    "/api/monitoring/health/components/workers",
    "/api/monitoring/tokens",
    "/api/monitoring/tokens/history?period=day",
    "/api/monitoring/tokens/history?period=week",
    "/api/monitoring/tokens/history?period=month",
    "/api/monitoring/usage",
    "/api/monitoring/usage?days=365",
    "/api/monitoring/activity-summary",
    "/api/monitoring/performance",
    "/api/monitoring/performance/history?period=day&granularity=minute",
    "/api/monitoring/performance/history?period=month&granularity=hour",
    "/api/monitoring/system",
    "/api/monitoring/alerts",
    "/api/monitoring/analytics",
    "/api/metrics/prometheus",
];

/// Result of a full scan.
struct Scan {
    tokens: u64,
    by_model: Vec<(String, u64, u64)>,
    by_agent: Vec<(String, u64, u64)>,
    /// Sum of the last 30 days.
    month: u64,
}

/// Measures a year with almost no calls first: memory that a daemon needs to respond at all is not caused by the number
/// of calls.
pub(super) async fn measure_endpoints(rows: u64) -> Outcome<()> {
    let few = measure(FEW_ROWS).await?;
    let many = measure(rows).await?;
    let megabytes = |bytes: u64| f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0;
    for (rows, resident) in [(FEW_ROWS, &few), (rows, &many)] {
        let [before, max, after] = [resident.before, resident.max, resident.after].map(megabytes);
        println!("resident with {rows} calls, MB: {before:.1} before, {max:.1} at most, {after:.1} 10 s after");
    }
    println!("more than with {FEW_ROWS} calls, at most: {:+.1} MB", megabytes(many.max) - megabytes(few.max));
    Ok(())
}

/// Resident memory, in bytes.
struct Resident {
    before: u64,
    /// Maximum after each path.
    max: u64,
    /// Value after unused memory was released.
    after: u64,
}

async fn measure(rows: u64) -> Outcome<Resident> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let (key, scan) = prepare(&data_dir, rows).await?;

    let mut daemon = DaemonUnderTest::spawn(&data_dir)?;
    daemon.key = key;
    daemon.wait_until_ready()?;
    check(&daemon, &scan)?;
    // The daemon releases unused memory within a second after this.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut resident = Resident { before: daemon.resident_bytes(), max: 0, after: 0 };
    let mut worst = (0.0, "");
    println!("{rows} calls over {} days, {TIMES} times each, ms", fill::DAYS);
    for path in PATHS {
        let sample = time(&daemon, path).await?;
        resident.max = resident.max.max(daemon.resident_bytes());
        println!("{path:<66} p50 {:>7.2}  p95 {:>7.2}", sample.median(), sample.percentile(0.95));
        if sample.percentile(0.95) > worst.0 {
            worst = (sample.percentile(0.95), path);
        }
    }
    println!("the slowest: {} with a p95 of {:.2} ms", worst.1, worst.0);
    println!("reference, /health/live:{:>43} {:>7.2}", "p50", time(&daemon, "/health/live").await?.median());
    tokio::time::sleep(Duration::from_secs(10)).await;
    resident.after = daemon.resident_bytes();
    daemon.stop()?;
    Ok(resident)
}

/// Fills a fresh data directory; returns a key and the expected sums.
async fn prepare(data_dir: &Path, rows: u64) -> Outcome<(String, Scan)> {
    let config = inside::config(ConfigSource::default(), data_dir)?;
    let running = Running::start(config, Clock::system(), Entropy::system(), WorkerMode::Manual).await?;
    let address = running.address.to_string();
    let (key, owners) = tokio::task::spawn_blocking(move || people(&address)).await??;
    let began = Instant::now();
    fill::usage(&running, rows, &owners).await?;
    let written = began.elapsed();
    running.daemon.workers.run_until_idle().await?;
    println!(
        "{rows} rows written in {:.0} s, their buckets made wider by the daemon's workers in {:.0} s",
        written.as_secs_f64(),
        (began.elapsed() - written).as_secs_f64()
    );
    fill::latencies(&running).await?;
    let scan = scan(&running, rows).await?;
    running.shut_down().await;
    Ok((key, scan))
}

fn people(address: &str) -> Outcome<(String, Owners)> {
    let call = |path: &str, key: &str, body: Value| -> Outcome<Value> {
        let (status, answer) = request(address, "POST", path, key, Some(&body.to_string()))?;
        if !(200..300).contains(&status) {
            return Err(format!("POST {path} answered {status}: {answer}").into());
        }
        Ok(serde_json::from_str(&answer)?)
    };
    call("/api/auth/register", "", json!({"username": "owner", "password": "correct horse"}))?;
    let made = call("/api/auth/keys", "", json!({"name": "bench"}))?;
    let key = made["key"].as_str().ok_or("no key")?.to_owned();
    let many = |count: usize, make: &dyn Fn(usize) -> Outcome<Value>| -> Outcome<String> {
        let ids = (0..count).map(|number| Ok(make(number)?["id"].clone())).collect::<Outcome<Vec<Value>>>()?;
        Ok(Value::Array(ids).to_string())
    };
    let agents = many(AGENTS, &|number| {
        let agent = json!({"svc_name": format!("agent-{number}"), "user_name": "Owner", "archetype": "assistant"});
        call("/api/agents", &key, agent)
    })?;
    let projects = many(PROJECTS, &|number| call("/api/projects", &key, json!({"name": format!("project {number}")})))?;
    let keys = many(KEYS, &|number| call("/api/auth/keys", &key, json!({"name": format!("key {number}")})))?;
    Ok((key, Owners { agents, projects, keys }))
}

/// Reads every call.
async fn scan(running: &Running, rows: u64) -> Outcome<Scan> {
    let db = &running.context().db;
    let mut read = db.read().await?;
    let all = read
        .fetch_one("SELECT COUNT(*) AS calls, SUM(input_tokens + output_tokens) AS tokens FROM usage", args![])
        .await?;
    if all.get::<u64>("calls")? != rows {
        return Err("not every row was written".into());
    }
    let tokens = all.get("tokens")?;
    let mut by = async |column: &str| -> Outcome<Vec<(String, u64, u64)>> {
        let sql = format!(
            "SELECT {column} AS label, SUM(input_tokens) AS input, SUM(output_tokens) AS output FROM usage GROUP BY {column}"
        );
        let rows = read.fetch_all(sql, args![]).await?;
        rows.iter().map(|row| Ok((row.get("label")?, row.get("input")?, row.get("output")?))).collect()
    };
    let (by_model, by_agent) = (by("model").await?, by("agent_id").await?);
    let day = 86_400_000_000;
    let now = db.clock().now().as_micros();
    let since = now - now.rem_euclid(day) - 29 * day;
    let month = read
        .fetch_one("SELECT SUM(input_tokens + output_tokens) AS tokens FROM usage WHERE at >= $1", args![since])
        .await?
        .get("tokens")?;
    Ok(Scan { tokens, by_model, by_agent, month })
}

/// Compares the responses of the endpoints with the scan.
fn check(daemon: &DaemonUnderTest, scan: &Scan) -> Outcome<()> {
    let get = |path: &str| daemon.call("GET", path, &Value::Null);
    let equal = |what: &str, shown: &Value, expected: u64| -> Outcome<()> {
        if shown.as_u64() == Some(expected) {
            return Ok(());
        }
        Err(format!("{what} is {shown} where a full scan finds {expected}").into())
    };
    let tokens = get("/api/monitoring/tokens")?;
    equal("total_used", &tokens["total_used"], scan.tokens)?;
    for (model, input, output) in &scan.by_model {
        let shown = &tokens["by_model"][model];
        equal(&format!("input_tokens of {model}"), &shown["input_tokens"], *input)?;
        equal(&format!("output_tokens of {model}"), &shown["output_tokens"], *output)?;
    }
    let usage = get("/api/monitoring/usage?days=365")?;
    let sum = |value: &Value| value["input_tokens"].as_u64().zip(value["output_tokens"].as_u64()).map(|(i, o)| i + o);
    equal("the total of usage", &json!(sum(&usage["totals"])), scan.tokens)?;
    for (agent, input, output) in &scan.by_agent {
        let agents = usage["by_agent"].as_array().ok_or("no by_agent")?;
        let shown = agents.iter().find(|shown| shown["agent_id"] == json!(agent)).ok_or("an agent is missing")?;
        equal(&format!("input_tokens of {agent}"), &shown["input_tokens"], *input)?;
        equal(&format!("output_tokens of {agent}"), &shown["output_tokens"], *output)?;
    }
    for part in ["by_source", "by_key"] {
        let shown = usage[part].as_array().ok_or_else(|| format!("no {part}"))?;
        equal(part, &json!(shown.iter().filter_map(sum).sum::<u64>()), scan.tokens)?;
    }
    let month = get("/api/monitoring/tokens/history?period=month")?;
    let days = month.as_array().ok_or("no history")?;
    equal("the month", &json!(days.iter().filter_map(|day| day["total_tokens"].as_u64()).sum::<u64>()), scan.month)?;
    println!("equal to a full scan: tokens in all, by model, agent, source and key, and of the month");
    Ok(())
}

async fn time(daemon: &DaemonUnderTest, path: &str) -> Outcome<Sample> {
    let mut connection = Connection::open(&daemon.address).await?;
    let asked = render("GET", path, &daemon.key, None, true);
    let mut figures = Vec::new();
    for number in 0..TIMES + 3 {
        let began = Instant::now();
        let (status, answer) = connection.ask(asked.as_bytes()).await?;
        if status != 200 {
            return Err(format!("{path} answered {status}: {answer}").into());
        }
        if number >= 3 {
            figures.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(Sample::new(figures))
}
