//! Scheduler with 100,000 active jobs: cost of a tick without due jobs, delay of 1,000 jobs due in the same second, and
//! startup time of the daemon. The daemon runs inside this process, with a fake provider as model. References, in the
//! same run: the same tick without jobs, and starting `/bin/true`.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentd::config::ConfigSource;
use agentd::lifecycle::{Running, WorkerMode};
use agentd_automation::scheduler::Tick;
use agentd_base::{Clock, Entropy, Timestamp};
use agentd_bench::daemon::DaemonUnderTest;
use agentd_bench::figures::Sample;
use agentd_bench::load::request;
use agentd_bench::{Outcome, inside};
use agentd_core::runtime::Worker;
use agentd_llm::{Usage, UsageSource, Vendor};
use agentd_store::{StoreError, Tx, args};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use serde_json::{Value, json};

const JOBS: u64 = 100_000;
const DUE: u64 = 1_000;
const TICKS: usize = 500;
const ROUNDS: usize = 3;
const STARTS: usize = 10;

const USAGE: Usage = Usage {
    input_tokens: 10,
    output_tokens: 2,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
    source: UsageSource::Provider,
};

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure(&data_dir))?;
    starts(&data_dir)
}

async fn boot(data_dir: &Path, mode: WorkerMode) -> Outcome<Running> {
    let config = inside::config(ConfigSource::default(), data_dir)?;
    Ok(Running::start(config, Clock::system(), Entropy::system(), mode).await?)
}

async fn measure(data_dir: &Path) -> Outcome<()> {
    let reply = Reply::text(["done"], USAGE).delayed(Duration::from_millis(20));
    let provider = FakeVendor::start_without_recording(Vendor::Openai, Script::always(reply)).await?;
    let running = boot(data_dir, WorkerMode::Manual).await?;
    let (address, base_url) = (running.address.to_string(), provider.base_url().to_string());
    let template = tokio::task::spawn_blocking(move || prepare(&address, &base_url)).await??;
    let empty = idle_ticks(&running).await?;
    fill(&running, template).await?;
    let full = idle_ticks(&running).await?;
    println!("{JOBS} active jobs, nothing due, {TICKS} ticks");
    println!("a tick, ms:             median {:.3}  p99 {:.3}", full.median(), full.percentile(0.99));
    println!("a tick without jobs, ms: median {:.3}  p99 {:.3}", empty.median(), empty.percentile(0.99));
    println!("ratio of the medians:   {:.2}", full.median() / empty.median());
    running.shut_down().await;

    let running = boot(data_dir, WorkerMode::Spawned).await?;
    let mut p99 = Vec::new();
    for round in 1..=ROUNDS {
        let late = due_at_once(&running).await?;
        println!(
            "round {round}: {DUE} due at once, taken up after, ms: median {:.0}  p99 {:.0}  max {:.0}",
            late.median(),
            late.percentile(0.99),
            late.percentile(1.0)
        );
        p99.push(late.percentile(0.99));
    }
    println!("p99 of {ROUNDS} rounds, ms:   {}", Sample::new(p99));
    running.shut_down().await;
    Ok(())
}

/// Creates an account, the provider, an agent, and one job far from due; returns its id.
fn prepare(address: &str, base_url: &str) -> Outcome<String> {
    let call = |method: &str, path: &str, key: &str, body: Value| -> Outcome<Value> {
        let (status, answer) = request(address, method, path, key, Some(&body.to_string()))?;
        if !(200..300).contains(&status) {
            return Err(format!("{method} {path} answered {status}: {answer}").into());
        }
        Ok(serde_json::from_str(&answer)?)
    };
    let account = call("POST", "/api/auth/register", "", json!({"username": "owner", "password": "correct horse"}))?;
    let token = account["token"].as_str().unwrap_or_default();
    let made = call("POST", "/api/auth/keys", token, json!({"name": "bench"}))?;
    let key = made["key"].as_str().unwrap_or_default();
    call("PUT", "/api/providers/openai/key", key, json!({"api_key": "k", "base_url": base_url}))?;
    let settings = json!({"default_provider": "openai", "default_model": "fake"});
    call("PUT", "/api/settings/agent", key, settings)?;
    call("PUT", "/api/settings/memory", key, json!({"enabled": false}))?;
    call("POST", "/api/agents", key, json!({"svc_name": "bench", "user_name": "Owner", "archetype": "assistant"}))?;
    let job = json!({"name": "job", "goal": "Say done.", "agent_id": "bench",
        "schedule": {"type": "every", "interval": 31_536_000}});
    let job = call("POST", "/api/scheduler/jobs", key, job)?;
    Ok(job["id"].as_str().ok_or("no id")?.to_owned())
}

/// Copies the job, each copy with its own slot within a year.
async fn fill(running: &Running, template: String) -> Outcome<()> {
    let work = async move |tx: &mut Tx| {
        tx.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $2) \
             INSERT INTO jobs (id, name, goal, agent_id, schedule, status, retry, overlap, misfire, execution_mode, \
             time_limit_seconds, counted_from, next_run_at, run_count, created_at, updated_at) \
             SELECT 'job_' || n.i, name, goal, agent_id, schedule, status, retry, overlap, misfire, execution_mode, \
             time_limit_seconds, counted_from, next_run_at + n.i * 1000000, run_count, created_at, updated_at \
             FROM n, jobs WHERE jobs.id = $1",
            args![&template, JOBS - 1],
        )
        .await
    };
    running.context().db.write::<_, StoreError, _>(work).await?;
    Ok(())
}

async fn idle_ticks(running: &Running) -> Outcome<Sample> {
    let tick = Tick(running.daemon.scheduler().clone());
    let mut figures = Vec::with_capacity(TICKS);
    for number in 0..TICKS + 20 {
        let started = Instant::now();
        if tick.run_once().await?.has_more {
            return Err("something was due".into());
        }
        if number >= 20 {
            figures.push(started.elapsed().as_secs_f64() * 1000.0);
        }
    }
    Ok(Sample::new(figures))
}

/// Makes some jobs due at the same moment, and returns the delay of each.
async fn due_at_once(running: &Running) -> Outcome<Sample> {
    let db = &running.context().db;
    let due = Timestamp::from_micros((db.clock().now() + Duration::from_secs(2)).as_micros() / 1000 * 1000);
    let interval = Duration::from_secs(31_536_000);
    let work = async move |tx: &mut Tx| {
        tx.execute(
            "UPDATE jobs SET next_run_at = $1, counted_from = $2 WHERE id IN \
             (SELECT id FROM jobs WHERE next_run_at IS NOT NULL AND next_run_at > $1 ORDER BY id LIMIT $3)",
            args![due, due - interval, DUE],
        )
        .await
    };
    db.write::<_, StoreError, _>(work).await?;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut read = db.read().await?;
        let rows = read
            .fetch_all(
                "SELECT started_at - scheduled_for AS late, status FROM job_runs WHERE scheduled_for = $1",
                args![due],
            )
            .await?;
        let is_over = |status: &str| !["pending", "running"].contains(&status);
        let statuses: Vec<String> = rows.iter().map(|row| row.get("status")).collect::<Result<_, _>>()?;
        if statuses.len() == usize::try_from(DUE)? && statuses.iter().all(|status| is_over(status)) {
            if statuses.iter().any(|status| status != "success") {
                return Err(format!("not every run succeeded: {statuses:?}").into());
            }
            let late: Vec<i64> = rows.iter().map(|row| row.get("late")).collect::<Result<_, _>>()?;
            #[allow(clippy::cast_precision_loss, reason = "some milliseconds")]
            return Ok(Sample::new(late.into_iter().map(|late| late as f64 / 1000.0).collect()));
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a benchmark is no daemon")]
fn starts(data_dir: &Path) -> Outcome<()> {
    let (mut ours, mut references) = (Vec::new(), Vec::new());
    for start in 0..=STARTS {
        let began = Instant::now();
        Command::new("/bin/true").stdout(Stdio::null()).status()?;
        let reference = began.elapsed();
        let began = Instant::now();
        let daemon = DaemonUnderTest::spawn(data_dir)?;
        daemon.wait_until_ready()?;
        if start > 0 {
            ours.push(began.elapsed().as_secs_f64() * 1000.0);
            references.push(reference.as_secs_f64() * 1000.0);
        }
        daemon.stop()?;
    }
    println!("cold start with {JOBS} jobs, spawn to ready, ms: {}", Sample::new(ours));
    println!("spawn of /bin/true, ms: {}", Sample::new(references));
    Ok(())
}
