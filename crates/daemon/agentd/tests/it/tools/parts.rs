//! Parts of a message: text, tool calls and approvals in order.

use agentd_llm::{FinishReason, ToolCall};
use agentd_store::{StoreError, Tx, args};
use agentd_testing_llm::Piece;

use super::approvals::begin_parked_turn;
use super::*;

/// Returns an answer with text and one tool call.
fn says_and_calls(text: &str, tool: &str, input: Value) -> Reply {
    let call = ToolCall::new(format!("v-{text}"), tool, input);
    Reply::answer(vec![Piece::Text(text.to_owned()), Piece::ToolCall(call)], FinishReason::ToolUse, TEST_USAGE)
}

/// Returns the type and the text or status of each part.
fn outline(message: &Value) -> Vec<(&str, &str)> {
    let parts = message["parts"].as_array().expect("parts").iter();
    parts
        .map(|part| {
            let kind = part["type"].as_str().expect("a type");
            let summary = match kind {
                "text" => &part["text"],
                _ => &part["status"],
            };
            (kind, summary.as_str().expect("a text"))
        })
        .collect()
}

async fn messages(bench: &Bench, conversation: &str) -> Vec<Value> {
    bench.fixture.conversation(conversation).await["messages"].as_array().expect("messages").clone()
}

#[tokio::test]
async fn text_and_tool_calls_keep_their_order() {
    let gate = Gate::new();
    let replies = vec![
        says_and_calls("First.", "look", json!({"word": "a"})),
        says_and_calls("Second.", "look", json!({"word": "b"})),
        says("Third."),
    ];
    let bench = Bench::gated(replies, Some(gate.clone())).await;
    let mut stream = bench.fixture.send(&json!({"content": "Look twice."})).stream().await;
    let mut events = Vec::new();
    while !kinds(&events).contains(&"tool_use") {
        events.push(stream.next().await.expect("next event"));
    }
    bench.fixture.app.clock.advance(Duration::from_millis(1_500));
    gate.open();
    events.extend(stream.collect().await);
    assert_eq!((&last(&events).data["provider"], last(&events).event.as_str()), (&json!("openai"), "done"));

    let id = started(&events, "conversation_id");
    let [question, reply] = &messages(&bench, &id).await[..] else { panic!("a question and a reply") };
    let expected =
        [("text", "First."), ("tool_call", "done"), ("text", "Second."), ("tool_call", "done"), ("text", "Third.")];
    assert_eq!(outline(reply), expected);
    assert_eq!(reply["content"], "First.\n\nSecond.\n\nThird.");
    let call = &reply["parts"][1];
    assert_eq!((&call["name"], &call["input"]), (&json!("look"), &json!({"word": "a"})));
    assert_eq!((&call["output"], &call["duration_ms"]), (&json!({"echo": {"word": "a"}}), &json!(1_500)));
    assert_eq!(call["call_id"], reply["tool_calls"][0]["id"]);
    assert_eq!(reply["parts"][3]["input"], json!({"word": "b"}));
    assert_eq!(outline(question), [("text", "Look twice.")]);

    // The message keeps usage and cost independently of its trace.
    let trace = format!("/api/chat/sessions/{}/trace", started(&events, "session_id"));
    let span = bench.fixture.app.get(&trace).send().await.expect_status(200).json()["span"].clone();
    let agent = bench.fixture.app.get("/api/agents/scout").send().await.expect_status(200).json();
    assert_eq!((&reply["agent_id"], &reply["provider"]), (&agent["id"], &json!("openai")));
    assert_eq!(reply["model"], last(&events).data["model"]);
    assert_eq!((&reply["input_tokens"], &reply["output_tokens"]), (&json!(21), &json!(9)));
    assert!(reply["cost_estimate"].is_number() && reply["cost_estimate"] == span["cost_estimate"], "{reply} {span}");
    assert_eq!((&reply["duration_ms"], &span["duration_ms"]), (&json!(1_500), &json!(1_500)));
    for field in ["agent_id", "provider", "model", "input_tokens", "output_tokens", "cost_estimate", "duration_ms"] {
        assert_eq!(question[field], Value::Null, "{field}");
    }
}

#[tokio::test]
async fn interrupted_reply_keeps_its_parts() {
    let gate = Gate::new();
    let mut bench = Bench::gated(vec![says_and_calls("One moment.", "look", json!({}))], Some(gate)).await;
    let mut stream = bench.fixture.send(&json!({"content": "Look."})).stream().await;
    let mut events = Vec::new();
    while !kinds(&events).contains(&"tool_use") {
        events.push(stream.next().await.expect("next event"));
    }
    let id = started(&events, "conversation_id");
    let running = messages(&bench, &id).await.pop().expect("a reply");
    assert_eq!(outline(&running), [("text", "One moment."), ("tool_call", "running")]);
    assert_eq!((&running["provider"], &running["duration_ms"]), (&json!("openai"), &Value::Null));
    bench.fixture.app.running().daemon.drain(Duration::from_millis(100)).await;
    bench.restart().await;
    let kept = messages(&bench, &id).await.pop().expect("a reply");
    assert_eq!(kept["status"], "interrupted");
    assert_eq!(outline(&kept), [("text", "One moment."), ("tool_call", "unknown")]);
}

#[tokio::test]
async fn approvals_precede_their_calls() {
    let input = json!({"word": "x"});
    let replies = vec![
        says_and_calls("May I?", "act", input.clone()),
        says("Done."),
        calls(&[("act", json!({}))]),
        says("Then not."),
        calls(&[("act", json!({}))]),
    ];
    let bench = Bench::with(replies).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;

    let (pending, _) = begin_parked_turn(&bench, &id).await;
    let waiting = messages(&bench, &id).await.pop().expect("a reply");
    assert_eq!(outline(&waiting), [("text", "May I?"), ("approval", "pending"), ("tool_call", "waiting")]);
    let approval = &waiting["parts"][1];
    assert_eq!((&approval["approval_id"], &approval["call_id"]), (&pending["id"], &waiting["parts"][2]["call_id"]));
    assert_eq!(waiting["parts"][2]["input"], input);
    let session = pending["session_id"].as_str().expect("a session");
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 200);
    bench.fixture.follow(session).stream().await.collect().await;
    let kept = messages(&bench, &id).await.pop().expect("a reply");
    let expected = [("text", "May I?"), ("approval", "approved"), ("tool_call", "done"), ("text", "Done.")];
    assert_eq!(outline(&kept), expected);

    let (pending, session) = begin_parked_turn(&bench, &id).await;
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "reject"})).await, 200);
    bench.fixture.follow(&session).stream().await.collect().await;
    let kept = messages(&bench, &id).await.pop().expect("a reply");
    assert_eq!(outline(&kept), [("approval", "rejected"), ("tool_call", "rejected"), ("text", "Then not.")]);

    let (_, session) = begin_parked_turn(&bench, &id).await;
    bench.fixture.app.post(&format!("/api/chat/sessions/{session}/cancel")).send().await.expect_status(200);
    bench.fixture.follow(&session).stream().await.collect().await;
    let kept = messages(&bench, &id).await.pop().expect("a reply");
    assert_eq!(outline(&kept), [("approval", "cancelled"), ("tool_call", "cancelled")]);
}

#[tokio::test]
async fn messages_of_earlier_versions_have_parts() {
    let bench = Bench::with(vec![says("Hello.")]).await;
    let id = started(&bench.fixture.exchange(&json!({"content": "Hi."})).await, "conversation_id");
    let injected = json!({"conversation_id": id, "role": "system", "content": "A note."});
    let made =
        bench.fixture.app.post("/api/chat/messages/inject").json(&injected).send().await.expect_status(201).json();
    assert_eq!(outline(&made), [("text", "A note.")]);
    let rounds = json!([
        {"text": "Let me look.", "calls": [{"id": "0.0", "tool": "look", "input": {}, "output": {"a": 1}, "status": "done"}]},
        {"text": "There."},
    ]);
    let of = id.clone();
    let write = async move |tx: &mut Tx| {
        let sql = "UPDATE messages SET rounds = $2, agent_id = NULL WHERE conversation_id = $1 AND role = 'assistant'";
        tx.execute(sql, args![&of, rounds.to_string()]).await.map(|_| ())
    };
    bench.fixture.app.running().context().db.write::<_, StoreError, _>(write).await.expect("written");
    let reply = messages(&bench, &id).await[1].clone();
    assert_eq!(outline(&reply), [("text", "Let me look."), ("tool_call", "done"), ("text", "There.")]);
    assert_eq!((&reply["parts"][1]["duration_ms"], &reply["model"]), (&Value::Null, &Value::Null));
}
