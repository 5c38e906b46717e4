//! The request's body, with what each vendor takes and does not take.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::wire::calls::{as_object, fitting_id};
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
    /// `null` for an assistant that only called tools.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
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

pub(super) fn body(vendor: Vendor, is_vendors_own: bool, request: &ModelRequest) -> Body<'_> {
    let new_name = wants_max_completion_tokens(vendor, is_vendors_own, &request.model);
    let system = request.system.iter().map(|text| Message { content: Some(text.clone()), ..message("system") });
    Body {
        model: &request.model,
        messages: system.chain(request.messages.iter().map(|one| convert(vendor, one))).collect(),
        stream: true,
        // Mistral reports usage unasked and refuses fields that it does not know.
        stream_options: (vendor != Vendor::Mistral).then_some(StreamOptions { include_usage: true }),
        temperature: request.temperature,
        max_tokens: request.max_output_tokens.filter(|_| !new_name),
        max_completion_tokens: request.max_output_tokens.filter(|_| new_name),
        tools: request.tools.iter().map(tool).collect(),
    }
}

/// OpenAI's reasoning models refuse `max_tokens`; servers that only follow its format may not know
/// the newer name.
fn wants_max_completion_tokens(vendor: Vendor, is_vendors_own: bool, model: &str) -> bool {
    let starts_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let is_reasoning = model.strip_prefix('o').is_some_and(starts_with_digit)
        || ["gpt-5", "gpt-6", "gpt-7"].iter().any(|family| model.starts_with(family));
    vendor == Vendor::Openai && (is_vendors_own || is_reasoning)
}

fn message<'a>(role: &'static str) -> Message<'a> {
    Message { role, content: None, reasoning_content: None, tool_calls: Vec::new(), tool_call_id: None, name: None }
}

fn convert(vendor: Vendor, one: &ModelMessage) -> Message<'_> {
    match one {
        ModelMessage::User { content } => Message { content: Some(content.clone()), ..message("user") },
        ModelMessage::Assistant { content, tool_calls } => Message {
            content: (!content.is_empty() || tool_calls.is_empty()).then(|| content.clone()),
            // DeepSeek refuses a call whose reasoning it does not get back.
            reasoning_content: tool_calls
                .iter()
                .filter_map(|call| call.replay.as_ref())
                .find(|replay| replay.vendor == vendor && vendor == Vendor::Deepseek)
                .map(|replay| replay.data.as_str()),
            tool_calls: tool_calls.iter().map(|call| convert_call(vendor, call)).collect(),
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

fn convert_call(vendor: Vendor, call: &ToolCall) -> Call<'_> {
    let arguments = as_object(&call.input).to_string();
    Call { id: call_id_for(vendor, &call.id), r#type: "function", function: Function { name: &call.name, arguments } }
}

/// Mistral takes ids of exactly nine letters and digits, and a conversation may have come from
/// another vendor.
fn call_id_for(vendor: Vendor, id: &str) -> String {
    match vendor {
        Vendor::Mistral => fitting_id(id, 9, 9, |c| c.is_ascii_alphanumeric()),
        _ => id.to_owned(),
    }
}

fn tool(definition: &ToolDefinition) -> Tool<'_> {
    Tool {
        r#type: "function",
        function: Declaration {
            name: &definition.name,
            description: &definition.description,
            parameters: definition.input_schema.written(),
        },
    }
}
