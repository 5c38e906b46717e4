//! Alerts over HTTP. The tests use a condition on disk usage and control its result through the threshold.

mod changes;
mod chaos;
mod delivery;
mod figures;
mod life;
mod purging;
mod refusing;
mod replicas;
mod restart;
mod waking;

use std::time::Duration;

use serde_json::{Value, json};

use crate::hooks::receiver::Receiver;
use crate::support::TestApp;

/// Threshold with which the condition is true; with [`NEVER`] it is false.
pub const ALWAYS: f64 = -1.0;
pub const NEVER: f64 = 1_000.0;
const ALERTS: &str = "/api/monitoring/alerts";
/// Number of alerts that come with the daemon.
const BUNDLED_COUNT: usize = 6;

/// Returns the body of an alert that fires.
pub fn firing(receiver: &Receiver) -> Value {
    json!({
        "name": "Full", "condition": "disk_percent > threshold", "threshold": ALWAYS, "severity": "critical",
        "delivery": {"type": "webhook", "url": receiver.url()},
    })
}

/// Returns `base` with the given fields replaced.
pub fn with(mut base: Value, change: &Value) -> Value {
    for (field, value) in change.as_object().expect("fields") {
        base[field] = value.clone();
    }
    base
}

pub async fn create(app: &TestApp, alert: &Value) -> String {
    let made = app.post(ALERTS).json(alert).send().await.expect_status(201).json();
    made["id"].as_str().expect("an id").to_owned()
}

pub fn path(id: &str) -> String {
    format!("{ALERTS}/{id}")
}

pub async fn alert(app: &TestApp, id: &str) -> Value {
    app.get(&path(id)).send().await.expect_status(200).json()
}

pub async fn state(app: &TestApp, id: &str) -> String {
    alert(app, id).await["state"].as_str().expect("a state").to_owned()
}

pub async fn change(app: &TestApp, id: &str, fields: Value) -> Value {
    app.put(&path(id)).json(&fields).send().await.expect_status(200).json()
}

pub async fn act(app: &TestApp, id: &str, action: &str) -> Value {
    app.post(&format!("{}/{action}", path(id))).send().await.expect_status(200).json()
}

pub async fn snooze(app: &TestApp, id: &str, minutes: u64) -> Value {
    let body = json!({"minutes": minutes});
    app.post(&format!("{}/snooze", path(id))).json(&body).send().await.expect_status(200).json()
}

pub async fn firings(app: &TestApp, id: &str) -> Vec<Value> {
    let history = app.get(&format!("{}/history", path(id))).send().await.expect_status(200).json();
    let firings = history["firings"].as_array().expect("firings").clone();
    assert_eq!(history["total"], firings.len());
    firings
}

/// Evaluates all alerts, then delivers pending notices.
pub async fn evaluate(app: &TestApp) {
    app.run_workers().await;
    app.run_workers().await;
}

/// Evaluates once a minute for this many minutes.
pub async fn advance_minutes(app: &TestApp, minutes: u64) {
    for _ in 0..minutes {
        app.clock.advance(Duration::from_secs(60));
        evaluate(app).await;
    }
}

/// Returns the bodies of the notices that were posted.
pub fn received_notices(receiver: &Receiver) -> Vec<Value> {
    receiver.received().iter().map(|received| received.event()["data"]["body"].clone()).collect()
}
