//! Tool calls of the model inside: which one comes next, and the conversation as it reads it.
//!
//! Invariants: only what the person wrote last decides on a call, so nothing that a page, a file or
//! another tool says leads to one; at most one call an answer; what the schema refuses is not called.

use std::collections::HashMap;
use std::path::Path;

use agentd_inference::tools::{Called, PastCall, Plan, ToolSpec, call, decide};
use agentd_inference::{ChatMessage, LocalError, LocalModel};
use agentd_llm::{ModelMessage, ModelRequest, ToolCall};

/// A longer result is cut: it shares a small window with the conversation and the answer.
const MAX_RESULT_CHARACTERS: usize = 6000;

/// The call that should come next, if one fits. Pure, but not instant: for a thread that may work.
pub(super) fn next_call(request: &ModelRequest) -> Option<Plan> {
    let at = last_question(&request.messages)?;
    let ModelMessage::User { content } = &request.messages[at] else { return None };
    let tools: Vec<ToolSpec> = request
        .tools
        .iter()
        .map(|tool| ToolSpec {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
        })
        .collect();
    decide(&tools, content, &past_calls(&request.messages[at + 1..]))
}

/// Carries `plan` out. The id follows what the vendors' clients make where a vendor gives none.
pub(super) async fn make_call(
    model: &LocalModel,
    path: &Path,
    plan: Plan,
    messages: usize,
) -> Result<(Option<ToolCall>, Called), LocalError> {
    let called = call(model, path, plan).await?;
    let made = called.input.clone().map(|input| ToolCall::new(format!("call_{messages}_0"), called.tool.clone(), input));
    Ok((made, called))
}

fn last_question(messages: &[ModelMessage]) -> Option<usize> {
    messages.iter().rposition(|message| matches!(message, ModelMessage::User { .. }))
}

fn past_calls(messages: &[ModelMessage]) -> Vec<PastCall> {
    let mut inputs: HashMap<&str, &ToolCall> = HashMap::new();
    let mut past = Vec::new();
    for message in messages {
        match message {
            ModelMessage::Assistant { tool_calls, .. } => {
                inputs.extend(tool_calls.iter().map(|call| (call.id.as_str(), call)));
            }
            ModelMessage::Tool { call_id, name, content, is_error } => past.push(PastCall {
                name: name.clone(),
                input: inputs.get(call_id.as_str()).map(|call| call.input.clone()).unwrap_or_default(),
                result: content.clone(),
                failed: *is_error,
            }),
            ModelMessage::User { .. } => {}
        }
    }
    past
}

/// The conversation without calls, which its template does not know: what tools answered to the last
/// question stands with that question, and what they answered earlier stands where it was.
pub(super) fn conversation(messages: Vec<ModelMessage>) -> Vec<ChatMessage> {
    let question = last_question(&messages);
    let mut chat: Vec<ChatMessage> = Vec::with_capacity(messages.len());
    let mut results = Vec::new();
    for (at, message) in messages.into_iter().enumerate() {
        match message {
            ModelMessage::User { content } => chat.push(ChatMessage::user(content)),
            // A message that only made calls says nothing.
            ModelMessage::Assistant { content, .. } if content.is_empty() => {}
            ModelMessage::Assistant { content, .. } => chat.push(ChatMessage::assistant(content)),
            ModelMessage::Tool { name, content, is_error, .. } => {
                let what = if is_error { "failed" } else { "answered" };
                let told = format!("The tool {name} {what}:\n{}", shortened(&content));
                if question.is_some_and(|question| at > question) {
                    results.push(told);
                } else {
                    chat.push(ChatMessage::user(told));
                }
            }
        }
    }
    if !results.is_empty() {
        let asked = chat.iter_mut().rev().find(|message| message.role == agentd_inference::ChatRole::User);
        let question = asked.map(|message| message.content.clone()).unwrap_or_default();
        chat.push(ChatMessage::user(format!(
            "{}\n\nAnswer this with what the tool says, in one or two sentences: {question}",
            results.join("\n\n")
        )));
    }
    chat
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_RESULT_CHARACTERS) {
        Some((at, _)) => format!("{}\n[the rest is left out]", &text[..at]),
        None => text.to_owned(),
    }
}
