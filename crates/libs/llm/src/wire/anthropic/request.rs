//! Body of a request. The format requires the first message to be the user's, no empty text, and the results of all
//! calls of a message together in the following message.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::stream::THINKING;
use crate::wire::calls::{sanitize_id, to_object};
use crate::wire::format::CONVERSATION_START;
use crate::wire::opaque::replay_field;
use crate::{ModelMessage, ModelRequest, ToolCall, Vendor};

/// The format requires a limit; every current model accepts this value.
const DEFAULT_MAX_TOKENS: u32 = 8192;

#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a str>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    stream: bool,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "str::is_empty")]
        content: &'a str,
        #[serde(skip_serializing_if = "is_false")]
        is_error: bool,
    },
    /// Thinking block, unchanged.
    #[serde(untagged)]
    Thinking(Value),
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_false(value: &bool) -> bool {
    !*value
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

pub(super) fn body(request: &ModelRequest) -> Body<'_> {
    Body {
        model: &request.model,
        max_tokens: request.max_output_tokens.unwrap_or(DEFAULT_MAX_TOKENS),
        system: request.system.as_deref().filter(|text| !text.is_empty()),
        messages: messages(request),
        temperature: request.temperature,
        tools: request
            .tools
            .iter()
            .map(|tool| Tool {
                name: &tool.name,
                description: &tool.description,
                input_schema: tool.input_schema.raw(),
            })
            .collect(),
        stream: true,
    }
}

fn messages(request: &ModelRequest) -> Vec<Message<'_>> {
    let conversation = &request.messages;
    let mut messages: Vec<Message<'_>> = Vec::with_capacity(conversation.len() + 1);
    if matches!(conversation.first(), Some(ModelMessage::Assistant { .. })) {
        messages.push(Message { role: "user", content: vec![Block::Text { text: CONVERSATION_START }] });
    }
    for one in conversation {
        let (role, blocks) = convert(one, request);
        match messages.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => messages.push(Message { role, content: blocks }),
        }
    }
    messages
}

fn convert<'a>(one: &'a ModelMessage, request: &'a ModelRequest) -> (&'static str, Vec<Block<'a>>) {
    match one {
        ModelMessage::User { content } => ("user", text(content).collect()),
        ModelMessage::Assistant { content, tool_calls } => {
            let calls = tool_calls.iter().map(|call| Block::ToolUse {
                id: call_id(&call.id),
                name: &call.name,
                input: to_object(&call.input),
            });
            ("assistant", thinking(tool_calls, request).chain(text(content)).chain(calls).collect())
        }
        ModelMessage::Tool { call_id: id, content, is_error, .. } => {
            let tool_use_id = call_id(id);
            ("user", vec![Block::ToolResult { tool_use_id, content, is_error: *is_error }])
        }
    }
}

/// Returns the thinking blocks that preceded the text and the calls: the format requires them back, first and
/// unchanged.
fn thinking<'a>(calls: &'a [ToolCall], request: &'a ModelRequest) -> impl Iterator<Item = Block<'a>> + use<'a> {
    let blocks = replay_field(calls, request, Vendor::Anthropic, THINKING).and_then(Value::as_array);
    blocks.into_iter().flatten().map(|block| {
        let mut block = block.clone();
        if let Value::Object(fields) = &mut block {
            fields.remove("index");
            fields.retain(|_, value| !value.is_null());
        }
        Block::Thinking(block)
    })
}

fn text(text: &str) -> impl Iterator<Item = Block<'_>> {
    (!text.trim().is_empty()).then_some(Block::Text { text }).into_iter()
}

/// Ids must match `^[a-zA-Z0-9_-]+$`, and the conversation may come from another vendor.
fn call_id(id: &str) -> String {
    sanitize_id(id, 64, 1, |c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}
