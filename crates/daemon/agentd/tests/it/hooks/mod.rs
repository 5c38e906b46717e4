//! Hooks over HTTP: each delivery arrives or is reported as failed.

mod bad_receivers;
mod bounds;
mod chaos;
mod code;
mod code_secrets;
mod executing;
mod fairness;
mod figures;
mod managing;
mod queue;
pub mod receiver;

use agentd_store::{NewEvent, Seq, StoreError, Tx, args};
use receiver::Receiver;
use serde_json::{Value, json};

use crate::support::{Eventually, TestApp};

const HOOKS: &str = "/api/hooks";
const SECRET: &str = "0123456789abcdef0123456789abcdef";

async fn create_hook(app: &TestApp, hook: Value) -> String {
    let made = app.post(HOOKS).json(&hook).send().await.expect_status(201).json();
    made["id"].as_str().unwrap().to_owned()
}

/// Returns a queued hook on `memory.stored`.
fn queued(receiver: &Receiver) -> Value {
    json!({
        "name": "sink", "event_type": "memory.stored", "hook_type": "http",
        "config": {"url": receiver.url(), "queued": true},
    })
}

pub async fn emit(app: &TestApp, event_type: &str, data: Value) {
    emit_for(app, event_type, data, None).await;
}

async fn emit_for(app: &TestApp, event_type: &str, data: Value, agent: Option<&str>) {
    let mut event = NewEvent::new(event_type, data);
    event.agent = agent.map(str::to_owned);
    let emit = async move |tx: &mut Tx| tx.emit(event.clone()).await.map(|_| ());
    app.running().context().db.write::<_, StoreError, _>(emit).await.unwrap();
}

/// Returns the number of events, and how many of them can be read. On PostgreSQL, an event is readable once no earlier
/// transaction of any test is open.
async fn outbox(app: &TestApp) -> (usize, usize) {
    let mut read = app.running().context().db.read().await.unwrap();
    let all: u64 =
        read.fetch_one("SELECT COUNT(*) AS events FROM outbox", args![]).await.unwrap().get("events").unwrap();
    let readable = read.events_after(Seq::START, 100_000).await.unwrap().len();
    (usize::try_from(all).unwrap(), readable)
}

/// Runs the workers until every event has been read and no work is due.
pub async fn settle(app: &TestApp) {
    loop {
        let mut eventually = Eventually::new();
        let before = loop {
            let (all, readable) = outbox(app).await;
            if all == readable {
                break all;
            }
            eventually.retry().await;
        };
        app.run_workers().await;
        if outbox(app).await.0 == before {
            return;
        }
    }
}

async fn deliveries(app: &TestApp, hook: &str) -> Value {
    app.get(&format!("{HOOKS}/{hook}/deliveries")).send().await.expect_status(200).json()
}

async fn executions(app: &TestApp, hook: &str) -> Value {
    app.get(&format!("{HOOKS}/{hook}/executions")).send().await.expect_status(200).json()
}

async fn only_execution(app: &TestApp, hook: &str) -> Value {
    let list = executions(app, hook).await;
    assert_eq!(list["total"], 1, "{list}");
    list["executions"][0].clone()
}

async fn queue_stats(app: &TestApp) -> Value {
    app.get("/api/hooks/deliveries/queue-stats").send().await.expect_status(200).json()["stats"].clone()
}
