//! What agents plan for themselves.

use agentd_llm::ToolCall;
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{create, every, id, job, with};
use crate::support::talk::{COUNTED, Talk, create_agent};

fn call(tool: &str, input: Value) -> Reply {
    Reply::tool_calls(vec![ToolCall::new("c1", tool, input)], COUNTED)
}

fn done() -> Reply {
    Reply::text(["Done."], COUNTED)
}

async fn ask(talk: &Talk) -> Value {
    let events = talk.exchange(&json!({"content": "Go on.", "agent_id": "scout"})).await;
    let result = events.into_iter().find(|event| event.event == "tool_result");
    result.expect("a result").data
}

#[tokio::test]
async fn agents_plan_list_and_call_off() {
    let exact = json!({"type": "cron", "expression": "0 9 * * 1", "timezone": "Europe/Berlin"});
    let (ids, given) = tokio::sync::watch::channel(String::new());
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let script = Script::by(move |_| match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => call("schedule_create", json!({"name": "weekly", "goal": "Look back.", "schedule": exact})),
        2 => call("schedule_list", json!({})),
        4 => call("schedule_cancel", json!({"id": *given.borrow()})),
        6 => call("schedule_create", json!({"name": "x", "goal": "y", "when": "colourless green ideas"})),
        8 => call("schedule_create", json!({"name": "x", "goal": "y", "when": "mondays at 8 and fridays at 17"})),
        10 => call("schedule_create", json!({"name": "x", "goal": "y", "schedule": {"type": "every", "interval": 0}})),
        _ => done(),
    });
    let talk = Talk::with(script).await;
    let app = &talk.app;
    create_agent(app, "other").await;
    let others = id(&create(app, &with(every(600), &json!({"agent_id": "other"}))).await);
    let made = ask(&talk).await;
    assert_eq!(made["status"], "done", "{made}");
    let made = made["output"]["id"].as_str().expect("an id").to_owned();
    let kept = job(app, &made).await;
    assert_eq!((&kept["name"], &kept["execution_mode"]), (&json!("weekly"), &json!("approval_required")));
    let listed = ask(&talk).await["output"].clone();
    assert_eq!((&listed["total"], &listed["jobs"][0]["id"]), (&json!(1), &json!(made)), "its own alone: {listed}");
    ids.send_replace(others.clone());
    let refused = ask(&talk).await;
    assert_ne!(refused["status"], "done", "another agent's job is not its own: {refused}");
    job(app, &others).await;
    for expected in ["not understood", "not understood", "interval"] {
        let refused = ask(&talk).await;
        assert_ne!(refused["status"], "done", "{refused}");
        assert!(refused["output"].to_string().contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn an_agent_calls_its_own_job_off() {
    let (ids, given) = tokio::sync::watch::channel(String::new());
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let script = Script::by(move |_| match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => call("schedule_cancel", json!({"id": *given.borrow()})),
        _ => done(),
    });
    let talk = Talk::with(script).await;
    let made = id(&create(&talk.app, &every(600)).await);
    ids.send_replace(made.clone());
    assert_eq!(ask(&talk).await["output"], json!({"cancelled": true}));
    talk.app.get(&format!("/api/scheduler/jobs/{made}")).send().await.expect_error(404, "job_not_found");
}

#[tokio::test]
async fn what_the_owner_planned_does_not_count_for_the_agents_bound() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let script = Script::by(move |_| match asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 | 2 => call("schedule_create", json!({"name": "x", "goal": "y", "when": "every day at 9am"})),
        _ => done(),
    });
    let talk = Talk::with(script).await;
    for _ in 0..100 {
        create(&talk.app, &every(86_400)).await;
    }
    assert_eq!(ask(&talk).await["status"], "done");
    let as_if =
        async |tx: &mut agentd_store::Tx| tx.execute("UPDATE jobs SET made_by_agent = 1", agentd_store::args![]).await;
    let db = talk.app.running().context().db.clone();
    db.write::<_, agentd_store::StoreError, _>(as_if).await.expect("written");
    let refused = ask(&talk).await;
    assert!(refused["output"].to_string().contains("100 active jobs by itself"), "{refused}");
}
