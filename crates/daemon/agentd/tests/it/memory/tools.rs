//! Memory tools of agents.

use agentd_llm::ToolCall;
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use super::{episodes, remember, remembered, say, settings};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, create_agent};
use crate::support::request::ServerEvent;

fn call(tool: &str, input: Value) -> Reply {
    Reply::tool_calls(vec![ToolCall::new("c1", tool, input)], TEST_USAGE)
}

fn done() -> Reply {
    Reply::text(["Done."], TEST_USAGE)
}

fn results(events: &[ServerEvent]) -> Vec<Value> {
    events.iter().filter(|event| event.event == "tool_result").map(|event| event.data.clone()).collect()
}

async fn ask(fixture: &ChatFixture) -> Vec<Value> {
    results(&fixture.exchange(&json!({"content": "Go on.", "agent_id": "scout"})).await)
}

#[tokio::test]
async fn agent_stores_and_searches_memories() {
    let script = Script::queue([
        call("memory_store", json!({"content": "The launch is on 3 March 2026.", "topics": ["launch"]})),
        done(),
        call("memory_search", json!({"query": "when is the launch", "limit": 3})),
        done(),
    ]);
    let fixture = ChatFixture::with(script).await;
    settings(&fixture.app, json!({"auto_store": false})).await;
    create_agent(&fixture.app, "other").await;
    remember(&fixture.app, &json!({"content": "The launch is secret.", "agent_id": "other"})).await;
    remember(&fixture.app, &json!({"content": "The launch is open to everybody."})).await;
    let stored = ask(&fixture).await.remove(0);
    assert_eq!(stored["status"], "done", "{stored}");
    let made = episodes(&fixture.app).await.remove(0);
    assert_eq!((&made["source"], &made["topics"]), (&json!("agent"), &json!(["launch"])));
    assert_eq!(made["id"], stored["output"]["id"]);
    let found = ask(&fixture).await.remove(0)["output"].clone();
    let memories = found["memories"].as_array().expect("memories");
    assert_eq!((&found["total"], memories.len()), (&json!(2), 2), "{found}");
    assert!(memories.iter().any(|memory| memory["id"] == made["id"]), "{found}");
    assert!(memories.iter().any(|memory| memory["content"] == "The launch is open to everybody."), "{found}");
}

#[tokio::test]
async fn agent_deletes_only_its_own_memories() {
    let (ids, given) = tokio::sync::watch::channel(Vec::<String>::new());
    let request_count = std::sync::atomic::AtomicUsize::new(0);
    let script = Script::by(move |_| {
        let nth = request_count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let id = given.borrow().get(nth / 2).cloned().unwrap_or_default();
        if nth.is_multiple_of(2) { call("memory_forget", json!({ "id": id })) } else { done() }
    });
    let fixture = ChatFixture::with(script).await;
    settings(&fixture.app, json!({"auto_store": false})).await;
    create_agent(&fixture.app, "other").await;
    let others = remember(&fixture.app, &json!({"content": "Not yours.", "agent_id": "other"})).await;
    let owners = remember(&fixture.app, &json!({"content": "Everybody's."})).await;
    let own = say(&fixture.app, "Mine.").await;
    let id = |episode: &Value| episode["id"].as_str().expect("an id").to_owned();
    ids.send_replace(vec![id(&others), id(&owners), own]);
    for _ in 0..2 {
        let refused = ask(&fixture).await.remove(0);
        assert_eq!(refused["status"], "failed", "{refused}");
    }
    assert_eq!(ask(&fixture).await.remove(0)["status"], "done");
    assert_eq!(remembered(&fixture.app).await, ["Not yours.", "Everybody's."]);
}

#[tokio::test]
async fn memory_changes_require_approval_and_searches_do_not() {
    let script = Script::queue([
        call("memory_search", json!({"query": "anything"})),
        call("memory_store", json!({"content": "The launch is on 3 March 2026."})),
        done(),
    ]);
    let fixture = ChatFixture::with(script).await;
    settings(&fixture.app, json!({"auto_store": false})).await;
    let careful = json!({"agent_id": "scout", "execution_mode": "approval_required"});
    let conversation =
        fixture.app.post("/api/chat/conversations").json(&careful).send().await.expect_status(201).json();
    let mut stream = fixture.send(&json!({"content": "Go on.", "conversation_id": conversation["id"]})).stream().await;
    let mut seen = Vec::new();
    let request = loop {
        let event = stream.next().await.expect("next event");
        if event.event == "approval_request" {
            break event;
        }
        seen.push(event);
    };
    assert_eq!(request.data["tool"], "memory_store");
    assert_eq!(results(&seen)[0]["tool"], "memory_search");
    let path = format!("/api/chat/approvals/{}", request.data["approval_id"].as_str().expect("an id"));
    fixture.app.post(&path).json(&json!({"decision": "approve"})).send().await.expect_status(200);
    // If the approval arrives before the turn is parked, a worker resumes it.
    let mut end = std::pin::pin!(stream.collect());
    loop {
        tokio::select! {
            biased;
            _ = &mut end => break,
            () = fixture.app.run_workers() => tokio::task::yield_now().await,
        }
    }
    assert_eq!(remembered(&fixture.app).await, ["The launch is on 3 March 2026."]);
}

#[tokio::test]
async fn memory_tools_are_listed_as_builtin_tools() {
    let fixture = ChatFixture::saying(&["Hello."]).await;
    let offered = async || {
        fixture.exchange(&json!({"content": "Go on.", "agent_id": "scout"})).await;
        let body = fixture.vendor.requests().pop().expect("a request").body;
        let tools = body["tools"].as_array().expect("tools").clone();
        let names = tools.iter().filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned));
        names.filter(|name| name.starts_with("memory_")).collect::<Vec<_>>()
    };
    assert_eq!(offered().await, ["memory_search", "memory_store", "memory_forget"]);
    let path = "/api/settings/skills/builtin/memory_forget/toggle";
    assert_eq!(fixture.app.post(path).send().await.expect_status(200).json()["enabled"], false);
    assert_eq!(offered().await, ["memory_search", "memory_store"]);
    settings(&fixture.app, json!({"enabled": false})).await;
    assert_eq!(offered().await, [""; 0]);
    let list = fixture.app.get("/api/settings/skills/builtin").send().await.expect_status(200).json();
    let shown = list["tools"].as_array().expect("tools").iter().find(|tool| tool["name"] == "memory_search");
    let problem = shown.expect("the tool")["problem"].as_str().expect("a problem").to_owned();
    assert!(problem.contains("memory is disabled"), "{problem}");
}
