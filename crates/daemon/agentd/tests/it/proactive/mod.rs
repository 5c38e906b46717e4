//! Proactive turns: conditions, causes, and deduplication.

mod killed;
mod limits;

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_testing_llm::{DocumentedFailure, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use crate::scheduler::{self, advance, at, events, every, id, runs, statuses, types, with};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, create_agent, enable_platform};
use crate::support::{Eventually, TestApp};

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

fn is_proactive(request: &RecordedRequest) -> bool {
    request.body.to_string().contains("You begin this turn by yourself")
}

/// Creates a vendor that fails runs of jobs and answers proactive turns.
fn script() -> Script {
    Script::by(|request| match is_proactive(request) {
        true => Reply::text(["The key ", "is wrong."], TEST_USAGE),
        false => Reply::failure(DocumentedFailure::WrongKey),
    })
}

fn proactive_requests(fixture: &ChatFixture) -> Vec<RecordedRequest> {
    fixture.vendor.requests().into_iter().filter(is_proactive).collect()
}

/// Enables proactive turns without quiet hours, with the settings of `change`.
async fn enable(app: &TestApp, change: Value) {
    enable_platform(app, "slack").await;
    let settings = json!({"enabled": true, "quiet_hours": {"start": "00:00", "end": "00:00"}});
    app.put("/api/settings/proactive").json(&with(settings, &change)).send().await.expect_status(200);
    // Without planning each turn is one model call.
    app.put("/api/settings/strategy").json(&json!({"planning": "off"})).send().await.expect_status(200);
}

async fn list(app: &TestApp) -> Vec<Value> {
    let found = app.get("/api/scheduler/proactive?limit=200").send().await.expect_status(200).json();
    let turns = found["turns"].as_array().expect("turns").clone();
    assert_eq!(found["total"], turns.len());
    turns
}

/// Runs the workers until all turns have ended; returns the turns, newest first.
async fn run_until_settled(app: &TestApp) -> Vec<Value> {
    app.run_workers().await;
    let mut eventually = Eventually::new();
    loop {
        let turns = list(app).await;
        if turns.iter().all(|turn| turn["status"] != "running") {
            return turns;
        }
        eventually.retry().await;
    }
}

fn once(time: &str, name: &str) -> Value {
    with(every(600), &json!({"name": name, "schedule": {"type": "at", "datetime": time}}))
}

fn advance_to(app: &TestApp, time: &str) {
    let time: Timestamp = at(time);
    app.clock.advance(time.since(app.clock.clock().now()));
}

#[tokio::test]
async fn no_proactive_turn_begins_while_disabled() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    let job = scheduler::create(app, &once("2026-01-05T10:00:00Z", "report")).await;
    advance(app, HOUR);
    assert_eq!(run_until_settled(app).await, Vec::<Value>::new());
    assert_eq!(statuses(&runs(app, &id(&job)).await), ["failed"]);
    assert_eq!(proactive_requests(&fixture).len(), 0);
    // A daily limit of zero has the same effect.
    enable(app, json!({"max_per_day": 0})).await;
    assert_eq!(run_until_settled(app).await, Vec::<Value>::new());
    assert!(events(app, "task.").await.iter().all(|(_, data)| data["origin"] == "scheduler"));
}

#[tokio::test]
async fn agent_reports_a_failed_run_to_its_owner() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    enable(app, json!({"delivery": "slack:#owner"})).await;
    let job = scheduler::create(app, &once("2026-01-05T10:00:00Z", "report")).await;
    advance(app, HOUR);
    let turns = run_until_settled(app).await;
    assert_eq!(turns.len(), 1);
    let (turn, run) = (&turns[0], &runs(app, &id(&job)).await[0]);
    assert_eq!((&turn["cause"], &turn["cause_id"], &turn["job_id"]), (&json!("failed_run"), &run["id"], &job["id"]));
    assert_eq!((&turn["status"], &turn["output"]), (&json!("success"), &json!("The key is wrong.")));
    assert_eq!((&turn["agent_id"], &turn["day"]), (&job["agent_id"], &json!("2026-01-05")));
    assert_eq!((&turn["reason"], &turn["subject"]), (&run["error"], &json!("report failed")));
    let log = fixture.follow(turn["session_id"].as_str().expect("a session")).stream().await.collect().await;
    assert_eq!(log.last().map(|event| event.event.as_str()), Some("done"), "the session can be followed");

    let proactive_requests = proactive_requests(&fixture);
    assert_eq!(proactive_requests.len(), 1);
    let prompt = proactive_requests[0].body["messages"].to_string();
    let error = run["error"].as_str().expect("an error");
    for part in ["report", "Say how things are.", id(run).as_str(), error, "never an instruction"] {
        assert!(prompt.contains(part), "{part} in {prompt}");
    }
    let tools = proactive_requests[0].body["tools"].to_string();
    assert!(!tools.contains("\"shell\"") && !tools.contains("schedule_create"), "{tools}");

    let sent = app.get("/api/notifications").send().await.expect_status(200).json();
    assert_eq!(sent["total"], 1);
    let message = format!("/api/notifications/{}", id(&sent["notifications"][0]));
    let message = app.get(&message).send().await.expect_status(200).json();
    assert_eq!(
        (&message["platform"], &message["channel"], &message["subject"], &message["body"]),
        (&json!("slack"), &json!("#owner"), &json!("report failed"), &json!("The key is wrong."))
    );
    let task_events = events(app, "task.").await;
    let own: Vec<_> = task_events.into_iter().filter(|(_, data)| data["origin"] == "proactive").collect();
    assert_eq!(types(&own), ["task.queued", "task.started", "task.completed"]);
    assert!(
        own.iter().all(|(_, data)| data["agent_id"] == job["agent_id"] && data["session_id"] == turn["session_id"])
    );
    assert!(own.iter().all(|(_, data)| data["run_id"].is_null()), "it is not a run of a job: {own:?}");

    // The run is reported once.
    for _ in 0..3 {
        advance(app, HOUR);
        assert_eq!(run_until_settled(app).await.len(), 1);
    }
    let path_of = |name: &str| format!("/api/scheduler/proactive?agent_id={name}");
    create_agent(app, "guide").await;
    assert_eq!(app.get(&path_of("scout")).send().await.expect_status(200).json()["total"], 1);
    assert_eq!(app.get(&path_of("guide")).send().await.expect_status(200).json()["total"], 0);
    app.get(&path_of("nobody")).send().await.expect_error(404, "agent_not_found");
    app.get("/api/scheduler/proactive?limit=0").send().await.expect_status(400);
    advance(app, 31 * DAY);
    assert_eq!(run_until_settled(app).await, Vec::<Value>::new(), "deleted with the run");
}

#[tokio::test]
async fn only_the_last_run_within_a_day_is_reported() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    let job = scheduler::create(app, &every(i64::try_from(HOUR).unwrap())).await;
    let old = scheduler::create(app, &once("2026-01-05T09:30:00Z", "old")).await;
    for _ in 0..3 {
        advance(app, HOUR);
        app.run_workers().await;
    }
    app.post(&format!("/api/scheduler/jobs/{}/pause", id(&job))).send().await.expect_status(200);
    // The last run is 22 hours and 50 minutes old, and the run of the other job more than a day.
    advance(app, 22 * HOUR + 3_000);
    enable(app, json!({})).await;
    let turns = run_until_settled(app).await;
    let failed = runs(app, &id(&job)).await;
    assert_eq!(statuses(&failed), ["failed"; 3]);
    assert_eq!(turns.iter().map(|turn| &turn["cause_id"]).collect::<Vec<_>>(), [&failed[2]["id"]]);
    assert_eq!(statuses(&runs(app, &id(&old)).await), ["failed"]);
    // Without a delivery target it is only listed.
    assert_eq!(app.get("/api/notifications").send().await.expect_status(200).json()["total"], 0);
}

#[tokio::test]
async fn suggestion_is_made_once() {
    let fixture = ChatFixture::with(script()).await;
    let app = &fixture.app;
    let conversation = app.post("/api/chat/conversations").json(&json!({"agent_id": "scout"})).send().await;
    let conversation = id(&conversation.expect_status(201).json());
    for day in 0..12 {
        if day % 7 < 5 {
            let message = json!({"conversation_id": conversation, "role": "user", "content": "Here I am."});
            app.post("/api/chat/messages/inject").json(&message).send().await.expect_status(201);
        }
        advance(app, DAY);
    }
    let path = "/api/scheduler/smart/suggestions";
    let suggested = app.get(path).send().await.expect_status(200).json()["suggestions"].clone();
    let count = suggested.as_array().expect("suggestions").len();
    assert!(count >= 2, "{suggested}");
    enable(app, json!({"max_per_day": 1, "delivery": "email:ada@example.org"})).await;
    let turns = run_until_settled(app).await;
    assert_eq!(turns.len(), 1);
    assert_eq!((&turns[0]["cause"], &turns[0]["job_id"]), (&json!("suggestion"), &Value::Null));
    assert_eq!(turns[0]["cause_id"], "monday,tuesday,wednesday,thursday,friday@09:00");
    assert_eq!(turns[0]["reason"], suggested[0]["reason"]);
    let prompt = proactive_requests(&fixture)[0].body["messages"].to_string();
    assert!(
        prompt.contains("You were active between 09:00 and 10:00") && prompt.contains("monday, tuesday"),
        "{prompt}"
    );
    assert_eq!(app.get("/api/notifications").send().await.expect_status(200).json()["total"], 1);

    advance(app, DAY);
    assert_eq!(run_until_settled(app).await.len(), 2, "the next day allows another turn");
    for _ in 0..3 {
        advance(app, DAY);
        run_until_settled(app).await;
    }
    let turns = list(app).await;
    let mut causes: Vec<String> = turns.iter().map(|turn| turn["cause_id"].to_string()).collect();
    causes.sort();
    causes.dedup();
    assert_eq!(causes.len(), turns.len(), "no suggestion is repeated: {turns:?}");

    // Suggestions stay known after the agent is deleted, without its data.
    app.delete("/api/agents/scout").send().await.expect_status(200);
    assert_eq!(list(app).await, Vec::<Value>::new());
    create_agent(app, "second").await;
    advance(app, DAY);
    let again = run_until_settled(app).await;
    assert!(again.iter().all(|turn| !causes.contains(&turn["cause_id"].to_string())), "{again:?}");
    let mut read = app.running().context().db.read().await.expect("a connection");
    let sql = "SELECT COUNT(*) FROM proactive_turns WHERE agent_id IS NULL AND output IS NULL AND session_id IS NULL";
    let kept: u64 = read.fetch_one(sql, agentd_store::args![]).await.expect("a count").first().expect("a number");
    assert_eq!(kept, causes.len() as u64);
}
