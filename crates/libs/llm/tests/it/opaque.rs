//! Opaque reasoning: data that arrives with tool calls is sent back only to the vendor and model that produced it.

use agentd_llm::{ModelBackend, ModelEvent, ModelMessage, ModelRequest, Replay, ToolCall, Usage, Vendor};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use bytes::Bytes;
use serde_json::{Value, json};

use crate::support::{backend, play, read, request};

fn stream(events: impl IntoIterator<Item = Value>) -> Reply {
    let text: String = events.into_iter().map(|event| format!("data: {event}\n\n")).collect();
    Reply::chunks(vec![Bytes::from(text)])
}

fn chunk(delta: Value, reason: Option<&str>) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
}

fn call(id: &str) -> Value {
    json!({"id": id, "function": {"name": "look", "arguments": "{}"}})
}

async fn calls_of(vendor: Vendor, reply: Reply) -> Vec<ToolCall> {
    let (events, error) = play(vendor, reply).await;
    assert!(error.is_none(), "{error:?}");
    let calls = events.into_iter().filter_map(|event| match event {
        ModelEvent::ToolCall(call) => Some(call),
        _ => None,
    });
    calls.collect()
}

/// Returns the request that `vendor` receives when `model` continues after these calls.
async fn request_after_calls(vendor: Vendor, model: &str, tool_calls: Vec<ToolCall>) -> Value {
    // Round trip through storage, as for a turn that awaits approval.
    let stored = serde_json::to_string(&tool_calls).unwrap();
    let tool_calls: Vec<ToolCall> = serde_json::from_str(&stored).unwrap();
    let results = tool_calls.iter().map(|call| ModelMessage::Tool {
        call_id: call.id.clone(),
        name: call.name.clone(),
        content: "clouds".to_owned(),
        is_error: false,
    });
    let results: Vec<_> = results.collect();
    let assistant = ModelMessage::Assistant { content: "I look.".to_owned(), tool_calls };
    let messages =
        [ModelMessage::User { content: "Hello?".to_owned() }, assistant].into_iter().chain(results).collect();
    let fake = FakeVendor::start(vendor, Script::always(Reply::text(["ok"], Usage::default()))).await.unwrap();
    let request = ModelRequest { model: model.to_owned(), messages, ..request() };
    let (_, error) = read(backend(&fake, vendor).generate(request).await.unwrap()).await;
    assert!(error.is_none(), "{error:?}");
    fake.requests().remove(0).body
}

fn own_model() -> String {
    request().model
}

#[tokio::test]
async fn openrouter_reasoning_details_are_sent_back() {
    let detail = |kind: &str, field: &str, text: &str, index: u64| json!({"type": kind, field: text, "format": "f", "index": index});
    let reply = stream([
        chunk(json!({"reasoning_details": [detail("reasoning.text", "text", "I should ", 0)]}), None),
        chunk(
            json!({"reasoning_details": [{"type": "reasoning.text", "text": "look.", "signature": "S", "index": 0}]}),
            None,
        ),
        chunk(json!({"reasoning_details": [detail("reasoning.encrypted", "data", "AAA=", 1)]}), None),
        chunk(json!({"reasoning_details": [detail("reasoning.encrypted", "data", "BBB=", 1)]}), None),
        chunk(json!({"tool_calls": [call("a")]}), Some("tool_calls")),
    ]);
    let calls = calls_of(Vendor::Openrouter, reply).await;
    let body = request_after_calls(Vendor::Openrouter, &own_model(), calls.clone()).await;
    let expected = json!([
        {"type": "reasoning.text", "text": "I should look.", "format": "f", "signature": "S", "index": 0},
        {"type": "reasoning.encrypted", "data": "AAA=", "format": "f", "index": 1},
        {"type": "reasoning.encrypted", "data": "BBB=", "format": "f", "index": 1}]);
    assert_eq!(body.pointer("/messages/1/reasoning_details"), Some(&expected));
    assert_eq!(body.pointer("/messages/1/content"), Some(&json!("I look.")), "never shown as text");

    for (vendor, model) in [(Vendor::Openrouter, "another/model"), (Vendor::Openai, &own_model()), (Vendor::Groq, "x")]
    {
        let body = request_after_calls(vendor, model, calls.clone()).await.to_string();
        assert!(!body.contains("reasoning_details") && !body.contains("AAA="), "{vendor} {model}: {body}");
    }
}

#[tokio::test]
async fn google_signatures_in_openai_format_are_sent_back() {
    let signed = |id: &str, signature: &str| {
        json!({"index": 0, "id": id, "function": {"name": "look", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": signature}}})
    };
    let reply = || {
        stream([
            chunk(json!({"tool_calls": [signed("a", "S1")]}), None),
            chunk(json!({"tool_calls": [signed("b", "S2")]}), Some("tool_calls")),
        ])
    };
    let calls = calls_of(Vendor::Openai, reply()).await;
    let body = request_after_calls(Vendor::Openai, &own_model(), calls.clone()).await;
    for (number, signature) in ["S1", "S2"].into_iter().enumerate() {
        let kept = body.pointer(&format!("/messages/1/tool_calls/{number}/extra_content/google/thought_signature"));
        assert_eq!(kept, Some(&json!(signature)));
    }
    let elsewhere = request_after_calls(Vendor::Openai, "another-model", calls).await.to_string();
    assert!(!elsewhere.contains("extra_content"), "{elsewhere}");
}

#[tokio::test]
async fn anthropic_thinking_blocks_are_sent_back_first() {
    let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let start =
        |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let reply = stream([
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "I should "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "look."})),
        delta(0, json!({"type": "signature_delta", "signature": "SIG="})),
        start(1, json!({"type": "redacted_thinking", "data": "HIDDEN="})),
        start(2, json!({"type": "text", "text": "I look."})),
        start(3, json!({"type": "tool_use", "id": "a", "name": "look", "input": {}})),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
        json!({"type": "message_stop"}),
    ]);
    let calls = calls_of(Vendor::Anthropic, reply).await;
    let body = request_after_calls(Vendor::Anthropic, &own_model(), calls.clone()).await;
    let expected = json!([
        {"type": "thinking", "thinking": "I should look.", "signature": "SIG="},
        {"type": "redacted_thinking", "data": "HIDDEN="},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "a", "name": "look", "input": {}}]);
    assert_eq!(body.pointer("/messages/1/content"), Some(&expected));
    let elsewhere = request_after_calls(Vendor::Anthropic, "another-model", calls).await.to_string();
    assert!(!elsewhere.contains("thinking"), "{elsewhere}");
}

#[tokio::test]
async fn google_signature_of_each_call_is_sent_back() {
    let part = |signature: &str| json!({"functionCall": {"name": "look", "args": {}}, "thoughtSignature": signature});
    let reply = stream([
        json!({"candidates": [{"content": {"parts": [part("S1")]}}], "responseId": "r"}),
        json!({"candidates": [{"content": {"parts": [part("S2")]}, "finishReason": "STOP"}], "responseId": "r"}),
    ]);
    let calls = calls_of(Vendor::Google, reply).await;
    let signatures =
        |body: &Value| [1, 2].map(|part| body.pointer(&format!("/contents/1/parts/{part}/thoughtSignature")).cloned());
    let body = request_after_calls(Vendor::Google, &own_model(), calls.clone()).await;
    assert_eq!(signatures(&body), [Some(json!("S1")), Some(json!("S2"))]);
    let body = request_after_calls(Vendor::Google, "gemini-3.5-flash", calls.clone()).await;
    assert_eq!(signatures(&body), [Some(json!("skip_thought_signature_validator")), None], "of another model");
    let body = request_after_calls(Vendor::Google, "gemini-2.5-pro", calls).await;
    assert_eq!(signatures(&body), [None, None], "a family that knows no such rule");
}

/// Reasoning models behind OpenAI's format require their reasoning back; OpenAI itself rejects the field.
#[tokio::test]
async fn reasoning_content_is_sent_back_to_servers_that_use_it() {
    for vendor in [Vendor::Deepseek, Vendor::Openai] {
        let reply = stream([
            chunk(json!({"reasoning_content": "I should "}), None),
            chunk(json!({"reasoning_content": "look.", "tool_calls": [call("a")]}), Some("tool_calls")),
        ]);
        let calls = calls_of(vendor, reply).await;
        let body = request_after_calls(vendor, &own_model(), calls.clone()).await;
        assert_eq!(body.pointer("/messages/1/reasoning_content"), Some(&json!("I should look.")), "{vendor}");
        let elsewhere = request_after_calls(Vendor::Groq, &own_model(), calls).await;
        assert_eq!(elsewhere.pointer("/messages/1/reasoning_content"), None);
    }
}

/// Calls of another model, or of an earlier turn, have no signature; Google accepts a documented placeholder.
#[tokio::test]
async fn gemini_calls_without_signature_use_placeholder() {
    let calls = || vec![ToolCall::new("a", "look", json!({})), ToolCall::new("b", "look", json!({}))];
    let body = request_after_calls(Vendor::Openrouter, "google/gemini-3-pro-preview", calls()).await;
    assert_eq!(
        body.pointer("/messages/1/reasoning_details/0"),
        Some(&json!({"type": "reasoning.encrypted", "data": "skip_thought_signature_validator", "id": "a",
            "format": "google-gemini-v1", "index": 0}))
    );
    let body = request_after_calls(Vendor::Openai, "gemini-3-flash-preview", calls()).await;
    let stand_in = json!({"google": {"thought_signature": "skip_thought_signature_validator"}});
    assert_eq!(body.pointer("/messages/1/tool_calls/0/extra_content"), Some(&stand_in));
    assert_eq!(body.pointer("/messages/1/tool_calls/1/extra_content"), None);
    for (vendor, model) in
        [(Vendor::Openrouter, "google/gemini-2.5-pro"), (Vendor::Openrouter, "openai/gpt-6"), (Vendor::Openai, "gpt-6")]
    {
        let body = request_after_calls(vendor, model, calls()).await.to_string();
        assert!(!body.contains("skip_thought"), "{vendor} {model}");
    }
}

#[tokio::test]
async fn reasoning_above_the_limit_is_dropped_entirely() {
    let long = "x".repeat(600 * 1024);
    let detail = |index: u64| {
        chunk(json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": long, "index": index}]}), None)
    };
    let end = || chunk(json!({"tool_calls": [call("a")]}), Some("tool_calls"));
    let calls = calls_of(Vendor::Openrouter, stream([detail(0), end()])).await;
    assert!(calls[0].replay.is_some());
    let calls = calls_of(Vendor::Openrouter, stream([detail(0), detail(1), end()])).await;
    assert_eq!((calls.len(), &calls[0].replay), (1, &None));
}

/// Turns that await approval may have been stored by version 0.1.
#[tokio::test]
async fn replays_stored_by_version_0_1_are_accepted() {
    for (vendor, pointer) in
        [(Vendor::Google, "/contents/1/parts/1/thoughtSignature"), (Vendor::Deepseek, "/messages/1/reasoning_content")]
    {
        let replay: Replay = serde_json::from_value(json!({"vendor": vendor.id(), "data": "kept"})).unwrap();
        let call = ToolCall { replay: Some(replay), ..ToolCall::new("a", "look", json!({})) };
        let body = request_after_calls(vendor, "some-model", vec![call]).await;
        assert_eq!(body.pointer(pointer), Some(&json!("kept")), "{vendor}");
    }
}
