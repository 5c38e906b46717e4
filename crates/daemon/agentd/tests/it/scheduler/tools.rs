//! Scheduling tools of agents.

use agentd_llm::ToolCall;
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{create, every, id, job, with};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, create_agent};

fn call(tool: &str, input: Value) -> Reply {
    Reply::tool_calls(vec![ToolCall::new("c1", tool, input)], TEST_USAGE)
}

fn done() -> Reply {
    Reply::text(["Done."], TEST_USAGE)
}

async fn ask(fixture: &ChatFixture) -> Value {
    let events = fixture.exchange(&json!({"content": "Go on.", "agent_id": "scout"})).await;
    let result = events.into_iter().find(|event| event.event == "tool_result");
    result.expect("a result").data
}

#[tokio::test]
async fn agent_creates_lists_and_cannot_cancel_jobs_of_others() {
    let exact = json!({"type": "cron", "expression": "0 9 * * 1", "timezone": "Europe/Berlin"});
    let (ids, given) = tokio::sync::watch::channel(String::new());
    let request_count = std::sync::atomic::AtomicUsize::new(0);
    let script = Script::by(move |_| match request_count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => call("schedule_create", json!({"name": "weekly", "goal": "Look back.", "schedule": exact})),
        2 => call("schedule_list", json!({})),
        4 => call("schedule_cancel", json!({"id": *given.borrow()})),
        6 => call("schedule_create", json!({"name": "x", "goal": "y", "when": "colourless green ideas"})),
        8 => call("schedule_create", json!({"name": "x", "goal": "y", "when": "mondays at 8 and fridays at 17"})),
        10 => call("schedule_create", json!({"name": "x", "goal": "y", "schedule": {"type": "every", "interval": 0}})),
        _ => done(),
    });
    let fixture = ChatFixture::with(script).await;
    let app = &fixture.app;
    create_agent(app, "other").await;
    let others = id(&create(app, &with(every(600), &json!({"agent_id": "other"}))).await);
    let made = ask(&fixture).await;
    assert_eq!(made["status"], "done", "{made}");
    let made = made["output"]["id"].as_str().expect("an id").to_owned();
    let kept = job(app, &made).await;
    assert_eq!((&kept["name"], &kept["execution_mode"]), (&json!("weekly"), &json!("approval_required")));
    let listed = ask(&fixture).await["output"].clone();
    assert_eq!((&listed["total"], &listed["jobs"][0]["id"]), (&json!(1), &json!(made)), "only its own jobs: {listed}");
    ids.send_replace(others.clone());
    let refused = ask(&fixture).await;
    assert_ne!(refused["status"], "done", "jobs of other agents cannot be cancelled: {refused}");
    job(app, &others).await;
    for expected in ["not understood", "not understood", "interval"] {
        let refused = ask(&fixture).await;
        assert_ne!(refused["status"], "done", "{refused}");
        assert!(refused["output"].to_string().contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn agent_cancels_its_own_job() {
    let (ids, given) = tokio::sync::watch::channel(String::new());
    let request_count = std::sync::atomic::AtomicUsize::new(0);
    let script = Script::by(move |_| match request_count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => call("schedule_cancel", json!({"id": *given.borrow()})),
        _ => done(),
    });
    let fixture = ChatFixture::with(script).await;
    let made = id(&create(&fixture.app, &every(600)).await);
    ids.send_replace(made.clone());
    assert_eq!(ask(&fixture).await["output"], json!({"cancelled": true}));
    fixture.app.get(&format!("/api/scheduler/jobs/{made}")).send().await.expect_error(404, "job_not_found");
}

#[tokio::test]
async fn jobs_of_the_owner_do_not_count_toward_the_limit_of_the_agent() {
    let request_count = std::sync::atomic::AtomicUsize::new(0);
    let script = Script::by(move |_| match request_count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 | 2 => call("schedule_create", json!({"name": "x", "goal": "y", "when": "every day at 9am"})),
        _ => done(),
    });
    let fixture = ChatFixture::with(script).await;
    for _ in 0..100 {
        create(&fixture.app, &every(86_400)).await;
    }
    assert_eq!(ask(&fixture).await["status"], "done");
    let mark_as_agent_jobs =
        async |tx: &mut agentd_store::Tx| tx.execute("UPDATE jobs SET made_by_agent = 1", agentd_store::args![]).await;
    let db = fixture.app.running().context().db.clone();
    db.write::<_, agentd_store::StoreError, _>(mark_as_agent_jobs).await.expect("written");
    let refused = ask(&fixture).await;
    assert!(
        refused["output"].to_string().contains("limit of active jobs created by the agent reached (100)"),
        "{refused}"
    );
}
