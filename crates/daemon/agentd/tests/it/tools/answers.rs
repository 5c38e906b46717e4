//! Text, reasoning and calls around tool results.

use agentd_llm::{FinishReason, ToolCall};
use agentd_testing_llm::{Piece, Reply};
use serde_json::{Value, json};

use super::approvals::begin_parked_turn;
use super::{Bench, calls, kinds, last, says};
use crate::support::chat_fixture::TEST_USAGE;
use crate::support::request::token_text;

/// Returns a call of `act` with opaque reasoning, as OpenRouter streams it.
fn call_with_reasoning() -> Reply {
    let chunk =
        |delta: Value, reason: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let call = json!({"index": 0, "id": "a", "function": {"name": "act", "arguments": "{\"word\":\"w\"}"},
        "extra_content": {"google": {"thought_signature": "SIGNATURE"}}});
    let details = json!([{"type": "reasoning.encrypted", "data": "ENCRYPTED", "id": "a", "index": 0}]);
    let events = [
        chunk(json!({"reasoning": "hidden thoughts", "reasoning_details": details}), Value::Null),
        chunk(json!({ "tool_calls": [call] }), json!("tool_calls")),
    ];
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    Reply::chunks(vec![text.into()])
}

/// Returns the message with the calls that was sent back to the vendor.
fn sent_back(bench: &Bench, request: usize) -> Value {
    let request = bench.request(request);
    let messages = request["messages"].as_array().expect("messages");
    messages.iter().find(|message| message["tool_calls"].is_array()).expect("the calls").clone()
}

fn assert_reasoning_preserved(message: &Value) {
    assert_eq!(message["reasoning_details"][0]["data"], "ENCRYPTED", "{message}");
    assert_eq!(message["tool_calls"][0]["extra_content"]["google"]["thought_signature"], "SIGNATURE");
}

#[tokio::test]
async fn opaque_reasoning_is_sent_back_each_round_and_never_shown() {
    let bench = Bench::with(vec![call_with_reasoning(), calls(&[("look", json!({}))]), says("Done.")]).await;
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    assert_eq!((last(&events).event.as_str(), token_text(&events).as_str()), ("done", "Done."));
    for request in [1, 2] {
        assert_reasoning_preserved(&sent_back(&bench, request));
    }
    let shown = format!("{events:?} {}", bench.stored_reply(&events).await);
    for hidden in ["ENCRYPTED", "SIGNATURE", "hidden thoughts"] {
        assert!(!shown.contains(hidden), "{hidden}");
    }
}

#[tokio::test]
async fn opaque_reasoning_survives_approval_and_restart() {
    let mut bench = Bench::with(vec![call_with_reasoning(), says("Done.")]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let (pending, session) = begin_parked_turn(&bench, &id).await;
    bench.restart().await;
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 200);
    let events = bench.fixture.follow(&session).stream().await.collect().await;
    assert_eq!(last(&events).event, "done", "{events:?}");
    assert_reasoning_preserved(&sent_back(&bench, 1));
}

#[tokio::test]
async fn calls_with_the_same_index_all_run() {
    let call = |name: &str, arguments: &str| {
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "",
            "function": {"name": name, "arguments": arguments}}]}, "finish_reason": null}]})
    };
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let events = [call("look", "{\"word\":\"a\"}"), call("look", "{\"word\":\"b\"}"), call("act", "{}"), end];
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let bench = Bench::with(vec![Reply::chunks(vec![text.into()]), says("Done.")]).await;
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    let used = events.iter().filter(|event| event.event == "tool_use");
    let inputs: Vec<_> = used.map(|event| (event.data["tool"].clone(), event.data["input"].clone())).collect();
    let expected = [("look", json!({"word": "a"})), ("look", json!({"word": "b"})), ("act", json!({}))];
    assert_eq!(inputs, expected.map(|(tool, input)| (json!(tool), input)));
    assert_eq!(bench.runs(), 3);
}

/// Some models return an empty answer after their tools have run.
#[tokio::test]
async fn empty_answer_after_tools_succeeds_only_with_earlier_text() {
    let silence = || Reply::answer(Vec::new(), FinishReason::Stop, TEST_USAGE);
    let call = ToolCall::new("v0", "look", json!({}));
    let talking = vec![Piece::Text("I look.".to_owned()), Piece::ToolCall(call)];
    let bench = Bench::with(vec![Reply::answer(talking, FinishReason::ToolUse, TEST_USAGE), silence()]).await;
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    assert_eq!(kinds(&events), ["start", "token", "tool_use", "tool_result", "done"]);
    assert_eq!(bench.fixture.vendor.requests().len(), 2);

    let bench = Bench::with(vec![calls(&[("look", json!({}))]), silence()]).await;
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    assert_eq!(kinds(&events), ["start", "tool_use", "tool_result", "error"]);
    assert_eq!(bench.fixture.vendor.requests().len(), 4);
    assert_eq!(bench.runs(), 1, "the tool ran once");
}
