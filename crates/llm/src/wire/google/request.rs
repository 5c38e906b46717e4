//! The request's body.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::wire::OPENING;
use crate::wire::calls::as_object;
use crate::{ModelMessage, ModelRequest, ToolCall, Vendor};

/// Documented stand-in for a thought signature, for calls that another model made; families
/// before Gemini 3 know no such rule
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

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
    /// Takes JSON Schema as it is; `parameters` takes a subset of OpenAPI's.
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
            parameters_json_schema: tool.input_schema.written(),
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

/// Begins with the user, and holds the answers to all calls of a turn in one content.
fn contents(request: &ModelRequest) -> Vec<Content<'_>> {
    let conversation = &request.messages;
    let demands_signatures = !["gemini-1", "gemini-2"].iter().any(|family| request.model.contains(family));
    let mut contents: Vec<Content<'_>> = Vec::with_capacity(conversation.len() + 1);
    if matches!(conversation.first(), Some(ModelMessage::Assistant { .. })) {
        contents.push(Content { role: Some("user"), parts: vec![Part::Text { text: OPENING }] });
    }
    for one in conversation {
        let (role, parts) = convert(one, demands_signatures);
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.role == Some(role) => last.parts.extend(parts),
            _ => contents.push(Content { role: Some(role), parts }),
        }
    }
    contents
}

fn convert(one: &ModelMessage, demands_signatures: bool) -> (&'static str, Vec<Part<'_>>) {
    match one {
        ModelMessage::User { content } => ("user", text(content).collect()),
        ModelMessage::Assistant { content, tool_calls } => {
            let calls = tool_calls
                .iter()
                .enumerate()
                .map(|(position, call)| function_call(call, demands_signatures && position == 0));
            ("model", text(content).chain(calls).collect())
        }
        ModelMessage::Tool { name, content, is_error, .. } => {
            let response = if *is_error { json!({ "error": content }) } else { json!({ "output": content }) };
            ("user", vec![Part::FunctionResponse { function_response: FunctionResponse { name, response } }])
        }
    }
}

/// Of parallel calls only the first carries a signature; a first one without it was not Google's.
fn function_call(call: &ToolCall, demands_signature: bool) -> Part<'_> {
    let own = call.replay.as_ref().filter(|replay| replay.vendor == Vendor::Google);
    let signature = own.map(|replay| replay.data.as_str());
    Part::FunctionCall {
        function_call: FunctionCall { name: &call.name, args: as_object(&call.input) },
        thought_signature: signature.or(demands_signature.then_some(NO_SIGNATURE)),
    }
}

fn text(text: &str) -> impl Iterator<Item = Part<'_>> {
    (!text.is_empty()).then_some(Part::Text { text }).into_iter()
}
