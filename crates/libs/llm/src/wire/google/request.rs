//! Body of a request.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::wire::calls::to_object;
use crate::wire::format::CONVERSATION_START;
use crate::wire::opaque::{NO_SIGNATURE, demands_signatures};
use crate::{ModelMessage, ModelRequest, ToolCall, Vendor};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    generation_config: GenerationConfig,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", untagged)]
enum Part<'a> {
    Text {
        text: &'a str,
    },
    #[serde(rename_all = "camelCase")]
    FunctionCall {
        function_call: FunctionCall<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    #[serde(rename_all = "camelCase")]
    FunctionResponse {
        function_response: FunctionResponse<'a>,
    },
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
    args: Value,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    name: &'a str,
    response: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    /// Accepts JSON Schema; `parameters` accepts only a subset of OpenAPI's.
    parameters_json_schema: &'a RawValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
}

pub(super) fn body(request: &ModelRequest) -> Body<'_> {
    let declarations: Vec<_> = request
        .tools
        .iter()
        .map(|tool| Declaration {
            name: &tool.name,
            description: &tool.description,
            parameters_json_schema: tool.input_schema.raw(),
        })
        .collect();
    let system = request.system.as_deref().filter(|text| !text.is_empty());
    Body {
        system_instruction: system.map(|text| Content { role: None, parts: vec![Part::Text { text }] }),
        contents: contents(request),
        tools: if declarations.is_empty() { Vec::new() } else { vec![Tools { function_declarations: declarations }] },
        generation_config: GenerationConfig {
            temperature: request.temperature,
            max_output_tokens: request.max_output_tokens,
        },
    }
}

/// Returns contents that begin with the user's and combine the results of all calls of a turn.
fn contents(request: &ModelRequest) -> Vec<Content<'_>> {
    let conversation = &request.messages;
    let mut contents: Vec<Content<'_>> = Vec::with_capacity(conversation.len() + 1);
    if matches!(conversation.first(), Some(ModelMessage::Assistant { .. })) {
        contents.push(Content { role: Some("user"), parts: vec![Part::Text { text: CONVERSATION_START }] });
    }
    for one in conversation {
        let (role, parts) = convert(one, request);
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.role == Some(role) => last.parts.extend(parts),
            _ => contents.push(Content { role: Some(role), parts }),
        }
    }
    contents
}

fn convert<'a>(one: &'a ModelMessage, request: &'a ModelRequest) -> (&'static str, Vec<Part<'a>>) {
    match one {
        ModelMessage::User { content } => ("user", text(content).collect()),
        ModelMessage::Assistant { content, tool_calls } => {
            let calls = tool_calls.iter().enumerate();
            let calls = calls.map(|(position, call)| function_call(call, request, position == 0));
            ("model", text(content).chain(calls).collect())
        }
        ModelMessage::Tool { name, content, is_error, .. } => {
            let response = if *is_error { json!({ "error": content }) } else { json!({ "output": content }) };
            ("user", vec![Part::FunctionResponse { function_response: FunctionResponse { name, response } }])
        }
    }
}

/// Only the first of parallel calls carries a signature; a first call without one came from another model.
fn function_call<'a>(call: &'a ToolCall, request: &'a ModelRequest, is_first: bool) -> Part<'a> {
    let replay = call.replay_for(Vendor::Google, &request.model);
    // Version 0.1 stored only the signature.
    let signature = replay.and_then(|data| data.get("thought_signature").unwrap_or(data).as_str());
    let needs_placeholder = is_first && demands_signatures(&request.model);
    Part::FunctionCall {
        function_call: FunctionCall { name: &call.name, args: to_object(&call.input) },
        thought_signature: signature.or(needs_placeholder.then_some(NO_SIGNATURE)),
    }
}

fn text(text: &str) -> impl Iterator<Item = Part<'_>> {
    (!text.is_empty()).then_some(Part::Text { text }).into_iter()
}
