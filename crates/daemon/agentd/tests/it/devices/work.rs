//! Tools of devices used by agents, and messages from devices to agents.

use std::sync::atomic::{AtomicUsize, Ordering};

use agentd_llm::ToolCall;
use agentd_testing_llm::{Gate, Reply, Script};
use serde_json::{Value, json};

use super::{Paired, Socket, pair, wait_for_listed};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, started};
use crate::support::request::{EventStream, ServerEvent, token_text};

const TOOL: &str = "device_laptop_echo";

fn call_reply(word: &str) -> Reply {
    Reply::tool_calls(vec![ToolCall::new("v0", TOOL, json!({"word": word}))], TEST_USAGE)
}

fn text_reply(text: &str) -> Reply {
    Reply::text([text], TEST_USAGE)
}

struct Bench {
    fixture: ChatFixture,
    device: Paired,
    socket: Socket,
}

impl Bench {
    /// Starts with a connected device that has the tool `echo`, and a model that gives the replies in order.
    async fn with(replies: Vec<Reply>) -> Self {
        let request_count = AtomicUsize::new(0);
        let fixture = ChatFixture::with(Script::by(move |_| {
            replies[request_count.fetch_add(1, Ordering::SeqCst).min(replies.len() - 1)].clone()
        }))
        .await;
        let device = pair(&fixture.app, "laptop").await;
        let mut socket = Socket::open(&fixture.app, &device).await;
        socket.register(&["echo"]).await;
        wait_for_listed(&fixture.app, &device.id, |device| device["tools"] != json!([])).await;
        Self { fixture, device, socket }
    }

    async fn start_turn(&self) -> EventStream {
        self.fixture.send(&json!({"content": "Do it."})).stream().await
    }

    async fn next_call(&mut self) -> Value {
        let call = self.socket.next().await;
        assert_eq!((&call["type"], &call["tool"]), (&json!("tool_call"), &json!("echo")), "{call}");
        call
    }
}

fn result(events: &[ServerEvent]) -> &Value {
    &events.iter().find(|event| event.event == "tool_result").expect("a result").data
}

#[tokio::test]
async fn agent_uses_a_tool_of_a_device() {
    let mut bench = Bench::with(vec![call_reply("a"), text_reply("It said a.")]).await;
    let stream = bench.start_turn().await;
    let call = bench.next_call().await;
    assert_eq!(call["input"], json!({"word": "a"}));
    bench.socket.send(&json!({"type": "tool_result", "id": call["id"], "output": {"echo": "a"}})).await;
    let events = stream.collect().await;
    assert_eq!(result(&events)["output"], json!({"echo": "a"}));
    assert_eq!(token_text(&events), "It said a.");
    let offered = bench.fixture.vendor.requests()[0].body["tools"].to_string();
    assert!(offered.contains(TOOL) && offered.contains("laptop"), "{offered}");
    // A second answer to the same call is ignored.
    bench.socket.send(&json!({"type": "tool_result", "id": call["id"], "output": 1})).await;
    bench.socket.register(&["other"]).await;
    wait_for_listed(&bench.fixture.app, &bench.device.id, |device| device["tools"][0]["name"] == "device_laptop_other")
        .await;
    let metrics = bench.fixture.app.get("/api/metrics/prometheus").send().await.text();
    assert!(metrics.contains(r#"svc_device_calls_total{status="done"} 1"#), "{metrics}");
}

#[tokio::test]
async fn tags_of_a_device_reach_no_model() {
    const TAGS: &str = "\u{e006f}\u{e0062}\u{e007f}";
    let has_tags = |text: &str| text.chars().any(|letter| ('\u{e0000}'..='\u{e007f}').contains(&letter));
    let mut bench = Bench::with(vec![call_reply("a"), text_reply("It said a.")]).await;
    let tool = json!({"name": "echo", "description": format!("Says it{TAGS}."), "input_schema": {"type": "object",
        "properties": {"word": {"type": "string", "description": format!("w{TAGS}")}}}});
    bench.socket.send(&json!({"type": "register_tools", "tools": [tool]})).await;
    wait_for_listed(&bench.fixture.app, &bench.device.id, |device| {
        device["tools"][0]["description"].as_str().is_some_and(|text| text.contains("Says it.") && !has_tags(text))
    })
    .await;
    let stream = bench.start_turn().await;
    let call = bench.next_call().await;
    let output = json!({"type": "tool_result", "id": call["id"], "output": {format!("k{TAGS}"): format!("v{TAGS}")}});
    bench.socket.send(&output).await;
    let events = stream.collect().await;
    assert_eq!(result(&events)["output"], json!({"k": "v"}));
    for request in bench.fixture.vendor.requests() {
        assert!(!has_tags(&request.body.to_string()), "{}", request.body);
    }
}

#[tokio::test]
async fn error_of_a_device_is_a_result_for_the_model() {
    let mut bench = Bench::with(vec![call_reply("a"), text_reply("It broke.")]).await;
    let stream = bench.start_turn().await;
    let call = bench.next_call().await;
    bench.socket.send(&json!({"type": "tool_result", "id": call["id"], "error": "the disk is full"})).await;
    let events = stream.collect().await;
    assert_eq!(result(&events)["status"], "failed");
    assert!(result(&events)["output"].to_string().contains("the disk is full"));
    assert_eq!(token_text(&events), "It broke.");
}

#[tokio::test]
async fn disconnected_device_fails_its_call() {
    let mut bench = Bench::with(vec![call_reply("a"), text_reply("It went away.")]).await;
    let stream = bench.start_turn().await;
    bench.next_call().await;
    drop(bench.socket);
    let events = stream.collect().await;
    let output = result(&events)["output"].to_string();
    assert!(output.contains("disconnected before it responded") && output.contains("may or may not"), "{output}");
    assert_eq!(token_text(&events), "It went away.");
    // Tools of a disconnected device are not offered.
    wait_for_listed(&bench.fixture.app, &bench.device.id, |device| device["connected"] == false).await;
    let before = bench.fixture.vendor.requests().len();
    bench.fixture.exchange(&json!({"content": "Again."})).await;
    assert!(!bench.fixture.vendor.requests()[before].body.to_string().contains(TOOL));
}

#[tokio::test]
async fn removed_device_fails_its_call() {
    let mut bench = Bench::with(vec![call_reply("a"), text_reply("It is gone.")]).await;
    let stream = bench.start_turn().await;
    bench.next_call().await;
    bench.fixture.app.delete(&format!("/api/devices/{}", bench.device.id)).send().await.expect_status(200);
    let events = stream.collect().await;
    assert!(result(&events)["output"].to_string().contains("disconnected before it responded"));
}

#[tokio::test]
async fn device_is_notified_of_a_cancelled_call() {
    let mut bench = Bench::with(vec![call_reply("a"), text_reply("never")]).await;
    let mut stream = bench.start_turn().await;
    let session = stream.next().await.expect("start").data["session_id"].as_str().expect("an id").to_owned();
    let call = bench.next_call().await;
    let path = format!("/api/chat/sessions/{session}/cancel");
    bench.fixture.app.post(&path).send().await.expect_status(200);
    let cancel = bench.socket.next().await;
    assert_eq!((&cancel["type"], &cancel["id"]), (&json!("tool_cancel"), &call["id"]));
    assert_eq!(stream.collect().await.last().expect("an end").data["code"], "cancelled");
}

#[tokio::test]
async fn reconnected_device_serves_a_running_turn() {
    let gate = Gate::default();
    let mut bench = Bench::with(vec![call_reply("a"), call_reply("b").gated(&gate), text_reply("Both.")]).await;
    let settings = json!({"after_untrusted_text": "allow"});
    bench.fixture.app.put("/api/settings/security").json(&settings).send().await.expect_status(200);
    let stream = bench.start_turn().await;
    bench.next_call().await;
    let mut again = Socket::open(&bench.fixture.app, &bench.device).await;
    again.register(&["echo", "shout"]).await;
    let both = |device: &Value| device["tools"].as_array().is_some_and(|tools| tools.len() == 2);
    wait_for_listed(&bench.fixture.app, &bench.device.id, both).await;
    // The first call failed with its connection; the second one uses the new connection.
    gate.open();
    let second = again.next().await;
    assert_eq!((&second["type"], &second["input"]), (&json!("tool_call"), &json!({"word": "b"})));
    again.send(&json!({"type": "tool_result", "id": second["id"], "output": "b"})).await;
    assert_eq!(token_text(&stream.collect().await), "Both.");
}

#[tokio::test]
async fn device_sends_a_message_to_an_agent() {
    let mut bench = Bench::with(vec![text_reply("Hello there.")]).await;
    bench.socket.send(&json!({"type": "chat", "id": "m1", "agent_id": "scout", "content": "Hello"})).await;
    let mut events: Vec<Value> = Vec::new();
    while events.last().is_none_or(|event: &Value| event["event"] != "done") {
        let frame = bench.socket.next().await;
        assert_eq!((&frame["type"], &frame["id"]), (&json!("event"), &json!("m1")), "{frame}");
        events.push(frame);
    }
    assert_eq!(events[0]["event"], "start");
    let session = events[0]["session_id"].as_str().expect("an id");
    assert_eq!(events[0]["data"]["session_id"], session);
    // The owner can follow the same reply.
    let followed = bench.fixture.follow(session).stream().await.collect().await;
    assert_eq!(token_text(&followed), "Hello there.");
    let pairs = |event: &Value| (event["event"].clone(), event["data"].clone());
    let theirs: Vec<_> = followed.iter().map(|event| (json!(event.event), event.data.clone())).collect();
    assert_eq!(events.iter().map(pairs).collect::<Vec<_>>(), theirs);
    let id = events[0]["data"]["conversation_id"].as_str().expect("an id").to_owned();
    let conversation = bench.fixture.conversation(&id).await;
    assert_eq!(
        (&conversation["mode"], &conversation["execution_mode"]),
        (&json!("agent"), &json!("approval_required"))
    );
    // The conversation can be continued without naming the agent.
    bench.socket.send(&json!({"type": "chat", "content": "And now?", "conversation_id": id})).await;
    let start = bench.socket.next().await;
    assert_eq!((&start["event"], &start["data"]["conversation_id"]), (&json!("start"), &json!(id)));
    assert!(start.get("id").is_none());
}

#[tokio::test]
async fn conversation_of_a_device_requires_approval() {
    let mut bench = Bench::with(vec![call_reply("a"), text_reply("Done.")]).await;
    bench.socket.send(&json!({"type": "chat", "agent_id": "scout", "content": "Do it"})).await;
    let approval = loop {
        let frame = bench.socket.next().await;
        assert_eq!(frame["type"], "event", "no call before the approval: {frame}");
        if frame["event"] == "approval_request" {
            break frame["data"]["approval_id"].as_str().expect("an id").to_owned();
        }
    };
    let answer = json!({"decision": "approve"});
    let path = format!("/api/chat/approvals/{approval}");
    bench.fixture.app.post(&path).json(&answer).send().await.expect_status(200);
    let call = loop {
        let frame = bench.socket.next().await;
        if frame["type"] == "tool_call" {
            break frame;
        }
    };
    bench.socket.send(&json!({"type": "tool_result", "id": call["id"], "output": "a"})).await;
    while bench.socket.next().await["event"] != "done" {}
}

#[tokio::test]
async fn device_can_continue_only_its_own_conversations() {
    let mut bench = Bench::with(vec![text_reply("Hello.")]).await;
    let events = bench.fixture.exchange(&json!({"content": "Mine."})).await;
    let owners = started(&events, "conversation_id");
    bench.socket.send(&json!({"type": "chat", "agent_id": "scout", "content": "Hello"})).await;
    let begun = bench.socket.next().await["data"]["conversation_id"].as_str().expect("an id").to_owned();
    while bench.socket.next().await["event"] != "done" {}
    let other = pair(&bench.fixture.app, "workshop").await;
    let mut other = Socket::open(&bench.fixture.app, &other).await;
    for (is_first, id) in [(true, &owners), (false, &owners), (false, &begun)] {
        let socket = if is_first { &mut bench.socket } else { &mut other };
        socket.send(&json!({"type": "chat", "content": "Let me in.", "conversation_id": id})).await;
        let answer = socket.next().await;
        assert_eq!((&answer["type"], &answer["code"]), (&json!("error"), &json!("conversation_not_found")), "{id}");
    }
    assert_eq!(bench.fixture.conversation(&owners).await["message_count"], 2);
    // The owner may continue a conversation of a device.
    let events = bench.fixture.exchange(&json!({"content": "And mine.", "conversation_id": begun})).await;
    assert_eq!(started(&events, "conversation_id"), begun);
}

#[tokio::test]
async fn rejected_message_is_answered_with_a_reason() {
    let mut bench = Bench::with(vec![text_reply("x")]).await;
    for (frame, code) in [
        (json!({"type": "chat", "id": "1", "agent_id": "nobody", "content": "hello"}), "not_found"),
        (
            json!({"type": "chat", "id": "2", "agent_id": "scout", "content": "x", "conversation_id": "conv_none"}),
            "conversation_not_found",
        ),
    ] {
        bench.socket.send(&frame).await;
        let answer = bench.socket.next().await;
        assert_eq!((&answer["type"], &answer["id"]), (&json!("error"), &frame["id"]));
        assert!(answer["code"].as_str().is_some_and(|found| found.ends_with(code)), "{answer}");
    }
}
