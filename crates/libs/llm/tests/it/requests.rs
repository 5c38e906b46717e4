//! Requests sent to each vendor.

use agentd_base::Secret;
use agentd_llm::{
    ModelBackend, ModelMessage, ModelRequest, Replay, Schema, ToolCall, ToolDefinition, Usage, Vendor, VendorBackend,
};
use agentd_testing_llm::{FakeVendor, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use crate::support::{KEY, backend, client, read, request};

fn replay(vendor: Vendor, data: Value) -> Replay {
    Replay { vendor, model: "gpt-4.1".to_owned(), data }
}

fn conversation() -> ModelRequest {
    let foreign = ToolCall::new("functions.look:0", "look", json!({"at": "sky"}));
    let mut own = ToolCall::new("call_2", "count", json!({"n": 2}));
    own.replay = Some(replay(Vendor::Deepseek, json!({"reasoning_content": "I should look and count."})));
    ModelRequest {
        client: "test".into(),
        model: "gpt-4.1".to_owned(),
        system: Some("Be brief.".to_owned()),
        messages: vec![
            ModelMessage::Assistant { content: "Welcome!".to_owned(), tool_calls: Vec::new() },
            ModelMessage::User { content: "What is up there?".to_owned() },
            ModelMessage::Assistant { content: String::new(), tool_calls: vec![foreign, own] },
            ModelMessage::Tool {
                call_id: "functions.look:0".to_owned(),
                name: "look".to_owned(),
                content: "clouds".to_owned(),
                is_error: false,
            },
            ModelMessage::Tool {
                call_id: "call_2".to_owned(),
                name: "count".to_owned(),
                content: "too many".to_owned(),
                is_error: true,
            },
            ModelMessage::User { content: "So?".to_owned() },
        ],
        tools: [ToolDefinition {
            name: "look".to_owned(),
            description: "Looks somewhere".to_owned(),
            input_schema: Schema::new(&json!({"type": "object", "properties": {"at": {"type": "string"}}})),
        }]
        .into(),
        temperature: Some(0.5),
        max_output_tokens: Some(99),
        is_conversation: false,
        ..request()
    }
}

async fn sent(vendor: Vendor, request: ModelRequest) -> RecordedRequest {
    let fake = FakeVendor::start(vendor, Script::always(Reply::text(["ok"], Usage::default()))).await.unwrap();
    let (_, error) = read(backend(&fake, vendor).generate(request).await.unwrap()).await;
    assert!(error.is_none(), "{error:?}");
    fake.requests().remove(0)
}

#[tokio::test]
async fn key_is_sent_only_in_the_documented_header() {
    for vendor in Vendor::ALL {
        let sent = sent(vendor, conversation()).await;
        let (name, value) = match vendor {
            Vendor::Anthropic => ("x-api-key", KEY.to_owned()),
            Vendor::Google => ("x-goog-api-key", KEY.to_owned()),
            _ => ("authorization", format!("Bearer {KEY}")),
        };
        for (header, content) in &sent.headers {
            let content = content.to_str().unwrap();
            assert_eq!(content.contains(KEY), header == name, "{vendor} {header}");
            assert!(header != name || content == value, "{vendor}");
        }
        assert!(!format!("{} {:?} {}", sent.path, sent.query, sent.body).contains(KEY), "{vendor}");
    }
}

#[tokio::test]
async fn no_credential_is_sent_without_a_key() {
    let fake = FakeVendor::start(Vendor::Openai, Script::always(Reply::text(["ok"], Usage::default()))).await.unwrap();
    for key in [None, Some(Secret::new(String::new()))] {
        let backend = VendorBackend::new(Vendor::Openai, client(), Some(fake.base_url()), key);
        assert!(backend.generate(request()).await.is_ok());
    }
    assert!(fake.requests().iter().all(|request| !request.headers.contains_key("authorization")));
}

#[tokio::test]
async fn key_with_line_break_is_rejected_without_being_shown() {
    let key = Secret::new(format!("{KEY}\n"));
    let backend = VendorBackend::new(Vendor::Groq, client(), None, Some(key));
    let error = backend.generate(request()).await.err().unwrap();
    assert_eq!(error.code, agentd_llm::ModelErrorCode::Auth);
    assert!(!format!("{error:?} {backend:?}").contains(KEY));
}

#[tokio::test]
async fn paths_match_the_vendors_sdk() {
    for (vendor, path) in [
        (Vendor::Anthropic, "/v1/messages"),
        (Vendor::Openai, "/v1/chat/completions"),
        (Vendor::Google, "/v1beta/models/gpt-4.1:streamGenerateContent"),
        (Vendor::Mistral, "/v1/chat/completions"),
        (Vendor::Groq, "/openai/v1/chat/completions"),
        (Vendor::Deepseek, "/chat/completions"),
        (Vendor::Xai, "/v1/chat/completions"),
        (Vendor::Openrouter, "/api/v1/chat/completions"),
    ] {
        let sent = sent(vendor, conversation()).await;
        assert_eq!(sent.path, path, "{vendor}");
        assert_eq!(sent.query.as_deref(), (vendor == Vendor::Google).then_some("alt=sse"), "{vendor}");
    }
}

#[tokio::test]
async fn base_url_may_end_with_slash_or_version() {
    for (vendor, suffix) in [
        (Vendor::Anthropic, "/"),
        (Vendor::Anthropic, "/v1"),
        (Vendor::Anthropic, "/v1/"),
        (Vendor::Groq, "/openai/v1"),
        (Vendor::Google, "/v1beta/"),
        (Vendor::Mistral, "/v1"),
        (Vendor::Openai, "/v1/"),
    ] {
        let fake = FakeVendor::start(vendor, Script::always(Reply::text(["ok"], Usage::default()))).await.unwrap();
        let url = fake.base_url().join(suffix).unwrap();
        let backend = VendorBackend::new(vendor, client(), Some(url), None);
        assert!(backend.generate(request()).await.is_ok(), "{vendor} {suffix}");
    }
}

#[tokio::test]
async fn anthropic_request_body_matches() {
    let sent = sent(Vendor::Anthropic, conversation()).await;
    assert_eq!(sent.headers["anthropic-version"], "2023-06-01");
    let derived = sent.body.pointer("/messages/3/content/0/id").and_then(Value::as_str).unwrap().to_owned();
    assert!(derived.chars().all(|c| c.is_ascii_alphanumeric()), "{derived}");
    assert_eq!(
        sent.body,
        json!({
            "model": "gpt-4.1", "max_tokens": 99, "system": "Be brief.", "temperature": 0.5, "stream": true,
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "[The conversation begins.]"}]},
                {"role": "assistant", "content": [{"type": "text", "text": "Welcome!"}]},
                {"role": "user", "content": [{"type": "text", "text": "What is up there?"}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": derived, "name": "look", "input": {"at": "sky"}},
                    {"type": "tool_use", "id": "call_2", "name": "count", "input": {"n": 2}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": derived, "content": "clouds"},
                    {"type": "tool_result", "tool_use_id": "call_2", "content": "too many", "is_error": true},
                    {"type": "text", "text": "So?"}]}
            ],
            "tools": [{"name": "look", "description": "Looks somewhere",
                "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}}]
        })
    );
}

#[tokio::test]
async fn openai_request_body_matches() {
    let sent = sent(Vendor::Openai, conversation()).await;
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    assert_eq!(
        sent.body,
        json!({
            "model": "gpt-4.1", "stream": true, "stream_options": {"include_usage": true},
            "temperature": 0.5, "max_tokens": 99,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "assistant", "content": "Welcome!"},
                {"role": "user", "content": "What is up there?"},
                {"role": "assistant", "content": null, "tool_calls": [
                    call("functions.look:0", "look", r#"{"at":"sky"}"#), call("call_2", "count", r#"{"n":2}"#)]},
                {"role": "tool", "tool_call_id": "functions.look:0", "content": "clouds"},
                {"role": "tool", "tool_call_id": "call_2", "content": "Error: too many"},
                {"role": "user", "content": "So?"}
            ],
            "tools": [{"type": "function", "function": {"name": "look", "description": "Looks somewhere",
                "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}]
        })
    );
}

#[tokio::test]
async fn openai_compatible_vendors_receive_adapted_requests() {
    let mistral = sent(Vendor::Mistral, conversation()).await.body;
    assert_eq!(mistral.get("stream_options"), None);
    let id = mistral.pointer("/messages/3/tool_calls/0/id").and_then(Value::as_str).unwrap();
    assert!(id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric()), "{id}");
    assert_eq!(mistral.pointer("/messages/4/tool_call_id").and_then(Value::as_str), Some(id));
    assert_eq!(mistral.pointer("/messages/4/name"), Some(&json!("look")));

    let deepseek = sent(Vendor::Deepseek, conversation()).await.body;
    assert_eq!(deepseek.pointer("/messages/3/reasoning_content"), Some(&json!("I should look and count.")));
    let groq = sent(Vendor::Groq, conversation()).await.body;
    assert_eq!(groq.pointer("/messages/3/reasoning_content"), None, "another vendor's reasoning stays away");

    let reasoning = ModelRequest { model: "o4-mini".to_owned(), ..conversation() };
    let openai = sent(Vendor::Openai, reasoning).await.body;
    assert_eq!((openai.get("max_tokens"), &openai["max_completion_tokens"]), (None, &json!(99)));
}

#[tokio::test]
async fn google_request_body_matches() {
    let mut request = conversation();
    request.model = "gemini-3.5-flash".to_owned();
    let sent = sent(Vendor::Google, request).await;
    assert_eq!(
        sent.body,
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "[The conversation begins.]"}]},
                {"role": "model", "parts": [{"text": "Welcome!"}]},
                {"role": "user", "parts": [{"text": "What is up there?"}]},
                {"role": "model", "parts": [
                    {"functionCall": {"name": "look", "args": {"at": "sky"}},
                        "thoughtSignature": "skip_thought_signature_validator"},
                    {"functionCall": {"name": "count", "args": {"n": 2}}}]},
                {"role": "user", "parts": [
                    {"functionResponse": {"name": "look", "response": {"output": "clouds"}}},
                    {"functionResponse": {"name": "count", "response": {"error": "too many"}}},
                    {"text": "So?"}]}
            ],
            "tools": [{"functionDeclarations": [{"name": "look", "description": "Looks somewhere",
                "parametersJsonSchema": {"type": "object", "properties": {"at": {"type": "string"}}}}]}],
            "generationConfig": {"temperature": 0.5, "maxOutputTokens": 99}
        })
    );
}

/// A model's name is one path segment, whatever characters it contains.
#[tokio::test]
async fn model_name_cannot_escape_its_path_segment() {
    let fake = FakeVendor::start(Vendor::Google, Script::queue([])).await.unwrap();
    let names = [
        ("gemini-3.5-flash", "models/gemini-3.5-flash"),
        ("models/gemini-3.5-flash", "models/gemini-3.5-flash"),
        ("tunedModels/mine", "tunedModels/mine"),
        ("cachedContents/theirs", "models/cachedContents%2Ftheirs"),
        ("models/a/operations/b", "models/a%2Foperations%2Fb"),
        ("../../admin", "models/..%2F..%2Fadmin"),
        ("x?key=1", "models/x%3Fkey=1"),
        ("a#b", "models/a%23b"),
        ("models/../x", "models/..%2Fx"),
    ];
    for (model, _) in names {
        let request = ModelRequest { model: model.to_owned(), ..request() };
        let _ = backend(&fake, Vendor::Google).generate(request).await;
    }
    let sent = fake.requests();
    assert_eq!(sent.len(), names.len());
    for (request, (_, path)) in sent.iter().zip(names) {
        assert_eq!(request.path, format!("/v1beta/{path}:streamGenerateContent"));
        assert_eq!(request.query.as_deref(), Some("alt=sse"));
    }
}
