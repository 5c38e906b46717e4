//! The initial database of every seed: a daemon with an agent, hooks, jobs and a webhook, created over HTTP once,
//! and
//! triggers that record each change of leased rows.

use std::time::Duration;

use agentd_store::{StoreError, Tx, args};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::world::{INBOX, MODEL, SINK};
use crate::support::TestApp;
use crate::support::chat_fixture::create_agent;

/// Event type of the hooks.
pub const EVENT_TYPE: &str = "memory.stored";
pub const MAX_PROACTIVE_TURNS_PER_DAY: u32 = 2;

#[derive(Clone, Serialize, Deserialize)]
pub struct Template {
    #[serde(skip)]
    pub database: Vec<u8>,
    #[serde(skip)]
    pub key: Vec<u8>,
    /// Hook that sends events through the queue.
    pub queued_hook: String,
    /// Hook that sends a notification.
    pub notifying_hook: String,
    /// Hook that starts an agent turn.
    pub starting_hook: String,
    /// Hook that sends inline while holding the lease.
    pub inline_hook: String,
    pub conversations: Vec<String>,
    /// Start time in microseconds, as in the database.
    pub start: i64,
}

/// Tables whose changes are recorded, with their column expressions: id, status, owner, fence, lease end, attempts,
/// and an
/// identification of the row.
const WATCHED: [[&str; 8]; 10] = [
    ["queue", "@.id", "@.status", "@.owner", "@.fence", "@.due_at", "@.attempt", "@.queue || ' ' || @.payload"],
    [
        "hook_deliveries",
        "@.id",
        "@.status",
        "@.owner",
        "@.fence",
        "@.due_at",
        "@.attempt_count",
        "@.hook_id || ' ' || @.event_id",
    ],
    [
        "hook_executions",
        "@.id",
        "@.status",
        "@.owner",
        "@.fence",
        "@.due_at",
        "@.attempt_count",
        "@.hook_id || ' ' || @.event_id",
    ],
    [
        "job_runs",
        "@.id",
        "@.status",
        "@.owner",
        "@.fence",
        "@.due_at",
        "@.attempt",
        "@.job_id || ' ' || COALESCE(@.scheduled_for, '-') || ' ' || COALESCE(@.session_id, '-')",
    ],
    ["sessions", "@.id", "@.status", "@.owner", "0", "@.lease_until", "0", "COALESCE(@.conversation_id, '-')"],
    ["session_events", "@.session_id", "@.kind", "NULL", "@.seq", "NULL", "0", "''"],
    ["jobs", "@.id", "@.status", "NULL", "0", "@.next_run_at", "0", "''"],
    ["cursors", "@.consumer", "''", "NULL", "@.seq", "NULL", "0", "''"],
    ["leases", "@.name", "''", "@.owner", "@.fence", "@.lease_until", "0", "''"],
    ["proactive_turns", "@.id", "@.status", "NULL", "0", "NULL", "0", "@.cause || ' ' || @.cause_id"],
];

/// Current actor with its clock, and the recorded changes.
const LEDGER: [&str; 3] = [
    "CREATE TABLE simulated_actor (life BIGINT NOT NULL, clock BIGINT NOT NULL)",
    "INSERT INTO simulated_actor (life, clock) VALUES (0, 0)",
    "CREATE TABLE simulated_changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, life BIGINT NOT NULL, clock BIGINT NOT NULL, \
     kind TEXT NOT NULL, id TEXT NOT NULL, is_new BIGINT NOT NULL, \
     old_status TEXT, old_owner TEXT, old_fence BIGINT, old_due BIGINT, old_attempt BIGINT, old_about TEXT, \
     new_status TEXT, new_owner TEXT, new_fence BIGINT, new_due BIGINT, new_attempt BIGINT, new_about TEXT)",
];

fn triggers() -> Vec<String> {
    let mut all = Vec::new();
    for [table, id, columns @ ..] in WATCHED {
        let side = |row: &str| columns.join(", ").replace('@', row);
        let write = |name: &str, event: &str, is_new: u8, old: &str| {
            format!(
                "CREATE TRIGGER simulated_{table}_{name} AFTER {event} ON {table} BEGIN \
                 INSERT INTO simulated_changes (life, clock, kind, id, is_new, \
                 old_status, old_owner, old_fence, old_due, old_attempt, old_about, \
                 new_status, new_owner, new_fence, new_due, new_attempt, new_about) \
                 SELECT life, clock, '{table}', {id}, {is_new}, {old}, {new} FROM simulated_actor; END",
                id = id.replace('@', "NEW"),
                new = side("NEW"),
            )
        };
        all.push(write("added", "INSERT", 1, "NULL, NULL, NULL, NULL, NULL, NULL"));
        all.push(write("changed", "UPDATE", 0, &side("OLD")));
    }
    all
}

async fn create(app: &TestApp, path: &str, body: Value) -> String {
    let made = app.post(path).json(&body).send().await.expect_status(201).json();
    made["id"].as_str().expect("an id").to_owned()
}

/// Fails one run of several jobs, which triggers one more proactive turn than allowed per day.
async fn fail_runs(app: &TestApp) {
    // The condition can no longer be evaluated at the trigger, so no model is called.
    let expression = "now < timestamp(job.created_at) + duration('1s') || 1 / run_count > 0";
    for number in 0..=MAX_PROACTIVE_TURNS_PER_DAY {
        let job = json!({"name": format!("failing {number}"), "goal": "Say how things are.", "agent_id": "scout",
            "schedule": {"type": "every", "interval": 86_400},
            "condition": {"type": "expression", "expression": expression}});
        let job = create(app, "/api/scheduler/jobs", job).await;
        app.clock.advance(Duration::from_secs(2));
        app.post(&format!("/api/scheduler/jobs/{job}/trigger")).send().await.expect_status(202);
        app.run_workers().await;
    }
    let settings = json!({"enabled": true, "max_per_day": MAX_PROACTIVE_TURNS_PER_DAY,
        "quiet_hours": {"start": "00:00", "end": "00:00"}});
    app.put("/api/settings/proactive").json(&settings).send().await.expect_status(200);
}

impl Template {
    pub async fn create() -> Self {
        let mut app = TestApp::with_owner().await;
        let key = json!({"api_key": "k", "base_url": format!("http://{MODEL}/v1")});
        app.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
        create_agent(&app, "scout").await;
        app.put("/api/settings/memory").json(&json!({"enabled": false})).send().await.expect_status(200);
        let queued = json!({"name": "queued", "event_type": EVENT_TYPE, "hook_type": "http", "max_retries": 4,
            "config": {"url": format!("http://{SINK}/"), "queued": true, "retry_delay_s": 2, "max_delay_s": 20}});
        let queued_hook = create(&app, "/api/hooks", queued).await;
        let notifying = json!({"name": "notifying", "event_type": EVENT_TYPE, "hook_type": "builtin",
            "config": {"action": "send_to_channel", "channel": format!("webhook:http://{INBOX}/"),
                "template": "{{data.text}}"}});
        let notifying_hook = create(&app, "/api/hooks", notifying).await;
        let starting = json!({"name": "starting", "event_type": EVENT_TYPE, "hook_type": "builtin",
            "config": {"action": "start_agent", "agent": "scout", "template": "What of this?"}});
        let starting_hook = create(&app, "/api/hooks", starting).await;
        let inline = json!({"name": "inline", "event_type": EVENT_TYPE, "hook_type": "http", "max_retries": 2,
            "config": {"url": format!("http://{SINK}/")}});
        let inline_hook = create(&app, "/api/hooks", inline).await;
        for (name, interval) in [("report", 60), ("summary", 40)] {
            let job = json!({"name": name, "goal": "Say how things are.", "agent_id": "scout", "overlap": "allow",
                "schedule": {"type": "every", "interval": interval}});
            create(&app, "/api/scheduler/jobs", job).await;
        }
        let alert = json!({"name": "busy", "condition": "queue_pending > threshold", "threshold": 0, "period_minutes": 1,
            "delivery": {"type": "webhook", "url": format!("http://{INBOX}/")}});
        create(&app, "/api/monitoring/alerts", alert).await;
        fail_runs(&app).await;
        let mut conversations = Vec::new();
        for _ in 0..2 {
            conversations.push(create(&app, "/api/chat/conversations", json!({"agent_id": "scout"})).await);
        }
        let changes: Vec<String> = LEDGER.map(str::to_owned).into_iter().chain(triggers()).collect();
        let watch = async move |tx: &mut Tx| {
            for statement in &changes {
                tx.execute(statement.clone(), args![]).await?;
            }
            Ok::<_, StoreError>(())
        };
        app.running().context().db.write(watch).await.expect("create the triggers");
        let start = app.clock.clock().now().as_micros();
        app.stop().await;
        let read = |name: &str| std::fs::read(app.data_dir().join(name)).expect("a file of the daemon");
        let (database, key) = (read("agentd.db"), read("secret.key"));
        Self { database, key, queued_hook, notifying_hook, starting_hook, inline_hook, conversations, start }
    }
}
