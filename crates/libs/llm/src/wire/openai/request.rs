//! Body of a request, adapted to the parameters that each vendor accepts.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::wire::calls::{sanitize_id, to_object};
use crate::wire::opaque::{NO_SIGNATURE, demands_signatures, replay_field};
use crate::{ModelMessage, ModelRequest, ToolCall, ToolDefinition, Vendor};

#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    /// `null` for an assistant message that only calls tools.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    /// OpenRouter's reasoning details, unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_details: Option<Cow<'a, Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: String,
    r#type: &'static str,
    function: Function<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Cow<'a, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_specific_fields: Option<&'a Value>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    /// JSON in a string.
    arguments: String,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Declaration<'a>,
}

#[derive(Serialize)]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

pub(super) fn body(vendor: Vendor, is_official_endpoint: bool, request: &ModelRequest) -> Body<'_> {
    let new_name = wants_max_completion_tokens(vendor, is_official_endpoint, &request.model);
    let system = request.system.iter().map(|text| Message { content: Some(text.clone()), ..message("system") });
    Body {
        model: &request.model,
        messages: system.chain(request.messages.iter().map(|one| convert(vendor, request, one))).collect(),
        stream: true,
        // Mistral reports usage by default and rejects unknown fields.
        stream_options: (vendor != Vendor::Mistral).then_some(StreamOptions { include_usage: true }),
        temperature: request.temperature,
        max_tokens: request.max_output_tokens.filter(|_| !new_name),
        max_completion_tokens: request.max_output_tokens.filter(|_| new_name),
        tools: request.tools.iter().map(tool).collect(),
    }
}

/// OpenAI's reasoning models reject `max_tokens`; compatible servers may not know the newer name.
fn wants_max_completion_tokens(vendor: Vendor, is_official_endpoint: bool, model: &str) -> bool {
    let starts_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let is_reasoning = model.strip_prefix('o').is_some_and(starts_with_digit)
        || ["gpt-5", "gpt-6", "gpt-7"].iter().any(|family| model.starts_with(family));
    vendor == Vendor::Openai && (is_official_endpoint || is_reasoning)
}

fn message<'a>(role: &'static str) -> Message<'a> {
    Message {
        role,
        content: None,
        reasoning_content: None,
        reasoning_details: None,
        tool_calls: Vec::new(),
        tool_call_id: None,
        name: None,
    }
}

fn convert<'a>(vendor: Vendor, request: &'a ModelRequest, one: &'a ModelMessage) -> Message<'a> {
    match one {
        ModelMessage::User { content } => Message { content: Some(content.clone()), ..message("user") },
        ModelMessage::Assistant { content, tool_calls } => Message {
            content: (!content.is_empty() || tool_calls.is_empty()).then(|| content.clone()),
            reasoning_content: reasoning_content(vendor, request, tool_calls),
            reasoning_details: reasoning_details(vendor, request, tool_calls),
            tool_calls: tool_calls
                .iter()
                .enumerate()
                .map(|(position, call)| convert_call(vendor, request, call, position == 0))
                .collect(),
            ..message("assistant")
        },
        ModelMessage::Tool { call_id, name, content, is_error } => Message {
            content: Some(if *is_error { format!("Error: {content}") } else { content.clone() }),
            tool_call_id: Some(call_id_for(vendor, call_id)),
            name: (vendor == Vendor::Mistral).then_some(name),
            ..message("tool")
        },
    }
}

/// Returns the reasoning of these calls. DeepSeek, and servers of other reasoning models, reject a call without it.
fn reasoning_content<'a>(vendor: Vendor, request: &'a ModelRequest, calls: &'a [ToolCall]) -> Option<&'a str> {
    let by_field = replay_field(calls, request, vendor, "reasoning_content");
    // Format stored by version 0.1.
    let bare = || calls.iter().find_map(|call| call.replay_for(vendor, &request.model).filter(|data| data.is_string()));
    by_field.or_else(bare)?.as_str()
}

fn reasoning_details<'a>(vendor: Vendor, request: &'a ModelRequest, calls: &'a [ToolCall]) -> Option<Cow<'a, Value>> {
    if let Some(details) = replay_field(calls, request, vendor, "reasoning_details") {
        return Some(Cow::Borrowed(details));
    }
    let first = calls.first()?;
    let is_gemini = vendor == Vendor::Openrouter && request.model.starts_with("google/gemini");
    (is_gemini && demands_signatures(&request.model)).then(|| {
        Cow::Owned(json!([{"type": "reasoning.encrypted", "data": NO_SIGNATURE, "id": first.id,
            "format": "google-gemini-v1", "index": 0}]))
    })
}

fn convert_call<'a>(vendor: Vendor, request: &'a ModelRequest, call: &'a ToolCall, is_first: bool) -> Call<'a> {
    let arguments = to_object(&call.input).to_string();
    let replay = call.replay_for(vendor, &request.model);
    let replayed = |field: &str| replay.and_then(|data| data.get(field));
    let signature = replayed("extra_content").map(Cow::Borrowed);
    // Of parallel calls, only the first carries a signature; a first one without it came from another model.
    let is_gemini = vendor == Vendor::Openai && request.model.contains("gemini") && demands_signatures(&request.model);
    let placeholder = || Cow::Owned(json!({"google": {"thought_signature": NO_SIGNATURE}}));
    Call {
        id: call_id_for(vendor, &call.id),
        r#type: "function",
        function: Function { name: &call.name, arguments },
        extra_content: signature.or_else(|| (is_gemini && is_first && replay.is_none()).then(placeholder)),
        provider_specific_fields: replayed("provider_specific_fields"),
    }
}

/// Returns an id that `vendor` accepts. Mistral requires exactly nine letters and digits, and the conversation may come
/// from another vendor.
fn call_id_for(vendor: Vendor, id: &str) -> String {
    match vendor {
        Vendor::Mistral => sanitize_id(id, 9, 9, |c| c.is_ascii_alphanumeric()),
        _ => id.to_owned(),
    }
}

fn tool(definition: &ToolDefinition) -> Tool<'_> {
    Tool {
        r#type: "function",
        function: Declaration {
            name: &definition.name,
            description: &definition.description,
            parameters: definition.input_schema.raw(),
        },
    }
}
