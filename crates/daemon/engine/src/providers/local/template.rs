//! Tool calls of a local model whose chat template supports tools. The template renders tools, calls and results in the
//! prompt, and calls are parsed from the reply.

use std::path::Path;

use agentd_inference::{ChatMessage, FunctionCall, GenerateRequest, ToolCall as LocalToolCall, ToolDefinition};
use agentd_llm::{ModelMessage, ModelRequest, ToolCall};

use super::history::truncated;

/// Converts a request with its tools, tool calls and results.
pub(super) fn generate_request(request: &ModelRequest, path: &Path) -> GenerateRequest {
    let tools = request.tools.iter().map(|tool| ToolDefinition {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.to_value(),
    });
    let messages = request.messages.iter().map(message).collect();
    GenerateRequest {
        tools: tools.collect(),
        ..GenerateRequest::new(path, request.system.clone().unwrap_or_default(), messages)
    }
}

fn message(message: &ModelMessage) -> ChatMessage {
    match message {
        ModelMessage::User { content } => ChatMessage::user(content),
        ModelMessage::Assistant { content, tool_calls } => {
            let calls = tool_calls.iter().map(|call| LocalToolCall {
                id: call.id.clone(),
                function: FunctionCall { name: call.name.clone(), arguments: call.input.clone() },
            });
            ChatMessage::assistant(content).with_calls(calls.collect())
        }
        ModelMessage::Tool { call_id, name, content, is_error } => {
            let content = truncated(content);
            ChatMessage::tool(call_id, name, if *is_error { format!("Error: {content}") } else { content })
        }
    }
}

/// Converts the calls of a reply after `messages` messages. Ids follow the scheme that vendor clients use when a vendor
/// provides none.
pub(super) fn tool_calls(calls: Vec<FunctionCall>, messages: usize) -> impl Iterator<Item = ToolCall> {
    let numbered = calls.into_iter().enumerate();
    numbered.map(move |(at, call)| ToolCall::new(format!("call_{messages}_{at}"), call.name, call.arguments))
}
