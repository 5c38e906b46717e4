//! The database that every seed begins with: an owner's daemon with an agent, hooks, jobs and a webhook, made over HTTP
//! once, and what writes down each change of what is held by leases.

use std::time::Duration;

use agentd_store::{StoreError, Tx, args};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::world::{INBOX, MODEL, SINK};
use crate::support::TestApp;
use crate::support::talk::create_agent;

/// What the hooks of a seed listen to.
pub const HEARD: &str = "memory.stored";
pub const PROACTIVE_TURNS_A_DAY: u32 = 2;

#[derive(Clone, Serialize, Deserialize)]
pub struct Template {
    #[serde(skip)]
    pub database: Vec<u8>,
    #[serde(skip)]
    pub key: Vec<u8>,
    /// Sends what it hears through the queue.
    pub queued_hook: String,
    /// Has a notification sent for what it hears.
    pub notifying_hook: String,
    /// Has an agent look at what it hears.
    pub starting_hook: String,
    /// Sends what it hears at once, and holds it meanwhile.
    pub inline_hook: String,
    pub conversations: Vec<String>,
    /// Microseconds, as in the database.
    pub start: i64,
}

/// A table of which each change is written down, and what its columns are called: id, status, owner, fence, the end of
/// the lease, attempts, and whatever else tells what a row is about.
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

/// Who acts now, by what time, and what was changed by whom when.
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

async fn make(app: &TestApp, path: &str, body: Value) -> String {
    let made = app.post(path).json(&body).send().await.expect_status(201).json();
    made["id"].as_str().expect("an id").to_owned()
}

/// Runs that failed, one of a job, which agents begin about by themselves: one too many for a day.
async fn fail_runs(app: &TestApp) {
    // A condition that cannot be evaluated any more by then, so that no model is asked.
    let expression = "now < timestamp(job.created_at) + duration('1s') || 1 / run_count > 0";
    for number in 0..=PROACTIVE_TURNS_A_DAY {
        let job = json!({"name": format!("failing {number}"), "goal": "Say how things are.", "agent_id": "scout",
            "schedule": {"type": "every", "interval": 86_400},
            "condition": {"type": "expression", "expression": expression}});
        let job = make(app, "/api/scheduler/jobs", job).await;
        app.clock.advance(Duration::from_secs(2));
        app.post(&format!("/api/scheduler/jobs/{job}/trigger")).send().await.expect_status(202);
        app.run_workers().await;
    }
    let settings = json!({"enabled": true, "max_per_day": PROACTIVE_TURNS_A_DAY,
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
        let queued = json!({"name": "queued", "event_type": HEARD, "hook_type": "http", "max_retries": 4,
            "config": {"url": format!("http://{SINK}/"), "queued": true, "retry_delay_s": 2, "max_delay_s": 20}});
        let queued_hook = make(&app, "/api/hooks", queued).await;
        let notifying = json!({"name": "notifying", "event_type": HEARD, "hook_type": "builtin",
            "config": {"action": "send_to_channel", "channel": format!("webhook:http://{INBOX}/"),
                "template": "{{data.text}}"}});
        let notifying_hook = make(&app, "/api/hooks", notifying).await;
        let starting = json!({"name": "starting", "event_type": HEARD, "hook_type": "builtin",
            "config": {"action": "start_agent", "agent": "scout", "template": "What of this?"}});
        let starting_hook = make(&app, "/api/hooks", starting).await;
        let inline = json!({"name": "inline", "event_type": HEARD, "hook_type": "http", "max_retries": 2,
            "config": {"url": format!("http://{SINK}/")}});
        let inline_hook = make(&app, "/api/hooks", inline).await;
        for (name, interval) in [("report", 60), ("summary", 40)] {
            let job = json!({"name": name, "goal": "Say how things are.", "agent_id": "scout", "overlap": "allow",
                "schedule": {"type": "every", "interval": interval}});
            make(&app, "/api/scheduler/jobs", job).await;
        }
        let alert = json!({"name": "busy", "condition": "queue_pending > threshold", "threshold": 0, "period_minutes": 1,
            "delivery": {"type": "webhook", "url": format!("http://{INBOX}/")}});
        make(&app, "/api/monitoring/alerts", alert).await;
        fail_runs(&app).await;
        let mut conversations = Vec::new();
        for _ in 0..2 {
            conversations.push(make(&app, "/api/chat/conversations", json!({"agent_id": "scout"})).await);
        }
        let changes: Vec<String> = LEDGER.map(str::to_owned).into_iter().chain(triggers()).collect();
        let watch = async move |tx: &mut Tx| {
            for statement in &changes {
                tx.execute(statement.clone(), args![]).await?;
            }
            Ok::<_, StoreError>(())
        };
        app.running().context().db.write(watch).await.expect("what writes changes down");
        let start = app.clock.clock().now().as_micros();
        app.stop().await;
        let read = |name: &str| std::fs::read(app.data_dir().join(name)).expect("a file of the daemon");
        let (database, key) = (read("agentd.db"), read("secret.key"));
        Self { database, key, queued_hook, notifying_hook, starting_hook, inline_hook, conversations, start }
    }
}
