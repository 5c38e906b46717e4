//! Evaluation of a thousand alerts by a daemon inside this process with a simulated clock. Reference: the same passes
//! without alerts.

use std::time::Duration;

use agentd::config::ConfigSource;
use agentd::lifecycle::{Running, WorkerMode};
use agentd_base::{Clock, Entropy, MockClock};
use agentd_bench::daemon::processor_time_of;
use agentd_bench::figures::Sample;
use agentd_bench::load::request;
use agentd_bench::{Outcome, inside};
use serde_json::{Value, json};

const ALERTS: usize = 1_000;
const PASSES: usize = 20;
const ROUNDS: usize = 5;
/// Interval between evaluations of alerts.
const INTERVAL: Duration = Duration::from_secs(15);

pub(super) async fn evaluate() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let config = inside::config(ConfigSource::default(), &folder.path().join("data"))?;
    let clock = MockClock::new(Clock::system().now());
    let running = Running::start(config, clock.clock(), Entropy::system(), WorkerMode::Manual).await?;
    let address = running.address.to_string();
    let key = tokio::task::spawn_blocking(move || owner(&address)).await??;
    let reference = passes(&running, &clock).await?;
    let address = running.address.to_string();
    tokio::task::spawn_blocking(move || make(&address, &key)).await??;
    let figure = passes(&running, &clock).await?;
    println!("{ALERTS} alerts, a pass of all workers, processor time, ms: {figure}");
    println!("the same without alerts, ms:                         {reference}");
    println!("an evaluation of all, ms:                              {:.2}", figure.median() - reference.median());
    running.shut_down().await;
    Ok(())
}

fn call(address: &str, key: &str, path: &str, body: &Value) -> Outcome<Value> {
    let (status, answer) = request(address, "POST", path, key, Some(&body.to_string()))?;
    if !(200..300).contains(&status) {
        return Err(format!("POST {path} answered {status}: {answer}").into());
    }
    Ok(serde_json::from_str(&answer)?)
}

fn owner(address: &str) -> Outcome<String> {
    call(address, "", "/api/auth/register", &json!({"username": "owner", "password": "correct horse"}))?;
    let made = call(address, "", "/api/auth/keys", &json!({"name": "bench"}))?;
    Ok(made["key"].as_str().ok_or("no key")?.to_owned())
}

/// Creates alerts over different periods, with conditions that are expensive and never met.
fn make(address: &str, key: &str) -> Outcome<()> {
    for number in 0..ALERTS {
        let alert = json!({
            "name": format!("alert {number}"), "threshold": 1_000_000 + number, "period_minutes": 1 + number % 60,
            "condition": "error_rate > threshold || requests_per_minute > threshold || latency_p95_ms > threshold || \
                          tokens > threshold || queue_pending > threshold || dead_letters > threshold || \
                          failed_runs > threshold || cpu_percent > threshold",
            "delivery": {"type": "webhook", "url": "http://127.0.0.1:9/"}, "enabled": true,
        });
        call(address, key, "/api/monitoring/alerts", &alert)?;
    }
    Ok(())
}

/// Returns milliseconds of CPU time per pass.
#[allow(clippy::cast_precision_loss, reason = "a count of passes")]
async fn passes(running: &Running, clock: &MockClock) -> Outcome<Sample> {
    let mut figures = Vec::new();
    for round in 0..=ROUNDS {
        let before = processor_time_of(std::process::id());
        for _ in 0..PASSES {
            clock.advance(INTERVAL);
            running.daemon.workers.run_until_idle().await?;
        }
        let used = processor_time_of(std::process::id()).saturating_sub(before);
        if round > 0 {
            figures.push(used.as_secs_f64() * 1e3 / PASSES as f64);
        }
    }
    Ok(Sample::new(figures))
}
