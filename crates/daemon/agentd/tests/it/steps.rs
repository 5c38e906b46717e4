//! `kill -9` at every step of a turn with tools, and the state after the restart. The table in docs/reference/turns.md
//! documents the results.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentd_llm::{ToolCall, Vendor};
use agentd_testing_llm::{FakeVendor, Gate, Reply, Script};
use serde_json::{Value, json};

use crate::support::chat_fixture::{TEST_USAGE, started};
use crate::support::request::{EventStream, ServerEvent};
use crate::support::{Eventually, TestProcess};

/// A local service that a tool calls; it answers when its gate is opened.
struct Service {
    address: std::net::SocketAddr,
    calls: Arc<AtomicUsize>,
}

impl Service {
    async fn start(gate: &Gate) -> Self {
        let calls = Arc::new(AtomicUsize::new(0));
        let (counter, gate) = (Arc::clone(&calls), gate.clone());
        let answer = move || {
            let (counter, gate) = (Arc::clone(&counter), gate.clone());
            async move {
                counter.fetch_add(1, Ordering::SeqCst);
                gate.pass().await;
                "done"
            }
        };
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(answer)).await });
        Self { address, calls }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

struct Setup {
    process: TestProcess,
    /// Gates of the model and the tool.
    model: Gate,
    tool: Gate,
    service: Service,
    _vendor: FakeVendor,
    conversation: String,
}

impl Setup {
    /// Creates a model that makes `calls` tool calls and then answers with two tokens. Every step waits for its
    /// gate.
    async fn with(calls: usize, execution_mode: &str) -> Self {
        let (model, tool) = (Gate::new(), Gate::new());
        let service = Service::start(&tool).await;
        let (asking, saying) = (model.clone(), model.clone());
        let script = Script::by(move |request| {
            let has_result = request.body["messages"]
                .as_array()
                .is_some_and(|messages| messages.iter().any(|message| message["role"] == "tool"));
            if calls == 0 || has_result {
                return Reply::text(["one ", "two"], TEST_USAGE).gated(&saying);
            }
            let calls = (0..calls).map(|number| ToolCall::new(format!("v{number}"), "ring", json!({}))).collect();
            Reply::tool_calls(calls, TEST_USAGE).gated(&asking)
        });
        let vendor = FakeVendor::start(Vendor::Openai, script).await.expect("a fake vendor");
        let process = TestProcess::with_owner().await;
        let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
        process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
        let settings = json!({"default_provider": "openai", "default_model": "fake"});
        process.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
        process.put("/api/settings/strategy").json(&json!({"max_parallel_tools": 1})).send().await.expect_status(200);
        let ring = json!({
            "name": "ring",
            "description": "Rings.",
            "kind": "http",
            "input_schema": {"type": "object"},
            "request": {"method": "POST", "url": format!("http://{}/", service.address)},
        });
        process.post("/api/settings/skills/custom").json(&ring).send().await.expect_status(201);
        let agent = json!({"svc_name": "scout", "user_name": "Ada", "archetype": "assistant"});
        process.post("/api/agents").json(&agent).send().await.expect_status(201);
        let conversation = json!({"agent_id": "scout", "execution_mode": execution_mode});
        let made = process.post("/api/chat/conversations").json(&conversation).send().await.expect_status(201).json();
        let conversation = made["id"].as_str().expect("an id").to_owned();
        Self { process, model, tool, service, _vendor: vendor, conversation }
    }

    async fn send(&self) -> EventStream {
        let message = json!({"content": "go", "conversation_id": self.conversation});
        self.process.post("/api/chat/messages/stream").json(&message).stream().await
    }

    /// Kills and restarts the daemon; returns the reply as stored.
    async fn kill_and_restart(&mut self) -> Value {
        self.process.kill();
        self.process.spawn().await;
        self.reply().await
    }

    async fn reply(&self) -> Value {
        let path = format!("/api/chat/conversations/{}", self.conversation);
        let found = self.process.get(&path).send().await.expect_status(200).json();
        found["messages"][1].clone()
    }
}

async fn read_until(stream: &mut EventStream, kind: &str) -> Vec<ServerEvent> {
    let mut events = Vec::new();
    loop {
        let event = stream.next().await.expect("next event");
        let is_last = event.event == kind;
        events.push(event);
        if is_last {
            return events;
        }
    }
}

async fn until_called(setup: &Setup, calls: usize) {
    let mut eventually = Eventually::new();
    while setup.service.calls() < calls {
        eventually.retry().await;
    }
}

fn statuses(reply: &Value) -> Vec<&str> {
    reply["tool_calls"].as_array().expect("calls").iter().filter_map(|call| call["status"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_before_the_model_answers_interrupts_the_turn() {
    let mut setup = Setup::with(0, "autonomous").await;
    let mut stream = setup.send().await;
    read_until(&mut stream, "start").await;
    let reply = setup.kill_and_restart().await;
    assert_eq!((&reply["status"], &reply["content"]), (&json!("interrupted"), &json!("")));
    assert!(statuses(&reply).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_during_the_answer_keeps_its_beginning() {
    let mut setup = Setup::with(0, "autonomous").await;
    let mut stream = setup.send().await;
    setup.model.release(1);
    read_until(&mut stream, "token").await;
    let reply = setup.kill_and_restart().await;
    assert_eq!((&reply["status"], &reply["content"]), (&json!("interrupted"), &json!("one ")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_during_a_tool_call_marks_it_unknown() {
    let mut setup = Setup::with(2, "autonomous").await;
    let mut stream = setup.send().await;
    setup.model.open();
    read_until(&mut stream, "tool_use").await;
    until_called(&setup, 1).await;
    let reply = setup.kill_and_restart().await;
    // The first call may have had side effects; the second never started and is not recorded.
    assert_eq!((&reply["status"], statuses(&reply)), (&json!("interrupted"), vec!["unknown"]));
    assert_eq!(reply["tool_calls"][0]["output"], Value::Null);
    setup.tool.open();
    // The call is not repeated, and the model is informed in the next turn.
    let events = setup.send().await.collect().await;
    assert_eq!(events.last().expect("an end").event, "done");
    assert_eq!(setup.service.calls(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_after_a_tool_call_keeps_its_result() {
    let mut setup = Setup::with(1, "autonomous").await;
    let mut stream = setup.send().await;
    // The two fragments of the call and the end of that answer.
    setup.tool.open();
    setup.model.release(3);
    read_until(&mut stream, "tool_result").await;
    let reply = setup.kill_and_restart().await;
    assert_eq!((&reply["status"], statuses(&reply)), (&json!("interrupted"), vec!["done"]));
    assert!(reply["tool_calls"][0]["output"].to_string().contains("done"));
    assert_eq!(setup.service.calls(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_during_a_pending_approval_keeps_the_turn_waiting() {
    let mut setup = Setup::with(1, "approval_required").await;
    let mut stream = setup.send().await;
    setup.model.open();
    setup.tool.open();
    let events = read_until(&mut stream, "approval_request").await;
    let session = started(&events, "session_id");
    let approval_id = events.last().expect("the request").data["approval_id"].clone();
    // Waits until the turn is parked, because a kill before that interrupts it.
    let parked = async {
        let mut eventually = Eventually::new();
        loop {
            let path = format!("/api/chat/approvals/{}", approval_id.as_str().expect("an id"));
            let listed = setup.process.get("/api/chat/approvals?status=pending").send().await.expect_status(200).json();
            assert_eq!(listed["total"], 1, "{path}");
            if setup.process.log().contains("turn parked for an approval") {
                return path;
            }
            eventually.retry().await;
        }
    };
    let path = parked.await;
    let reply = setup.kill_and_restart().await;
    assert_eq!(reply["status"], "running");
    assert_eq!(setup.service.calls(), 0);
    setup.process.post(&path).json(&json!({"decision": "approve"})).send().await.expect_status(200);
    let follow = format!("/api/chat/sessions/{session}/stream");
    let events = setup.process.get(&follow).stream().await.collect().await;
    assert_eq!(events.last().expect("an end").event, "done");
    assert_eq!(setup.service.calls(), 1);
    assert_eq!(statuses(&setup.reply().await), ["done"]);
}
