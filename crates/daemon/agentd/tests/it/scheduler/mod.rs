//! Scheduler: every slot has exactly one run.

mod chains;
mod changes;
mod conditions;
mod forgetting;
mod jobs;
mod kill;
mod matrix;
mod missed;
mod outputs;
mod overlap;
mod plain_words;
mod replicas;
mod runs;
mod smart;
mod stopping;
mod tools;

use std::time::Duration;

use agentd_base::Timestamp;
use serde_json::{Value, json};

use crate::support::{Eventually, TestApp};

/// Returns a job that is due at this interval.
pub fn every(seconds: i64) -> Value {
    json!({"name": "report", "goal": "Say how things are.", "agent_id": "scout",
        "schedule": {"type": "every", "interval": seconds}})
}

/// Returns `base` with the fields of `change`.
pub fn with(mut base: Value, change: &Value) -> Value {
    for (field, value) in change.as_object().expect("fields") {
        base[field] = value.clone();
    }
    base
}

pub async fn create(app: &TestApp, job: &Value) -> Value {
    app.post("/api/scheduler/jobs").json(job).send().await.expect_status(201).json()
}

pub fn id(of: &Value) -> String {
    of["id"].as_str().expect("an id").to_owned()
}

pub async fn job(app: &TestApp, id: &str) -> Value {
    app.get(&format!("/api/scheduler/jobs/{id}")).send().await.expect_status(200).json()
}

/// Returns the runs of a job, oldest first.
pub async fn runs(app: &TestApp, job: &str) -> Vec<Value> {
    let path = format!("/api/scheduler/jobs/{job}/runs?limit=200");
    let list = app.get(&path).send().await.expect_status(200).json();
    let mut runs = list["runs"].as_array().expect("runs").clone();
    assert_eq!(list["total"], runs.len());
    runs.reverse();
    runs
}

pub fn statuses(runs: &[Value]) -> Vec<&str> {
    runs.iter().map(|run| run["status"].as_str().expect("a status")).collect()
}

pub async fn trigger(app: &TestApp, job: &str) -> String {
    let path = format!("/api/scheduler/jobs/{job}/trigger");
    let answer = app.post(&path).send().await.expect_status(202).json();
    answer["run_id"].as_str().expect("an id").to_owned()
}

pub async fn run(app: &TestApp, job: &str, run: &str) -> Value {
    app.get(&format!("/api/scheduler/jobs/{job}/runs/{run}")).send().await.expect_status(200).json()
}

pub fn advance(app: &TestApp, seconds: u64) {
    app.clock.advance(Duration::from_secs(seconds));
}

pub fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).expect("a time")
}

/// Returns the types and data of events with this prefix, oldest first.
pub async fn events(app: &TestApp, prefix: &'static str) -> Vec<(String, Value)> {
    let mut read = app.running().context().db.read().await.expect("a connection");
    let sql = "SELECT event_type, data FROM outbox WHERE event_type LIKE $1 ORDER BY seq";
    let rows = read.fetch_all(sql, agentd_store::args![format!("{prefix}%")]).await.expect("rows");
    rows.iter().map(|row| (row.get("event_type").expect("a type"), row.json("data").expect("data"))).collect()
}

pub fn types(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(event_type, _)| event_type.as_str()).collect()
}

/// Runs the workers in the background, for tests in which they never become idle.
pub struct BackgroundWorkers(tokio::task::JoinHandle<()>);

impl BackgroundWorkers {
    pub fn start(app: &TestApp) -> Self {
        let workers = app.running().daemon.workers.clone();
        Self(tokio::spawn(async move {
            loop {
                if workers.run_until_idle().await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }))
    }
}

impl Drop for BackgroundWorkers {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits until a run satisfies the condition.
pub async fn wait_for_run(app: &TestApp, job: &str, run_id: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let mut eventually = Eventually::new();
    loop {
        let found = run(app, job, run_id).await;
        if condition(&found) {
            return found;
        }
        eventually.retry().await;
    }
}
