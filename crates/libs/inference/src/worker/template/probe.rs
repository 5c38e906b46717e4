//! Whether a template knows tools, found out by using it.
//!
//! Templates are programs; what they do with tools cannot be told from their text. So a small conversation
//! with a tool, a call and its answer goes through, and only if all of that shows, and the call in a form
//! that is read back as the same call, can the model be driven by its template.

use serde_json::json;

use super::ChatTemplate;
use crate::worker::tool_calls::{ToolCallReader, ToolFormat};
use crate::{ChatMessage, FunctionCall, ToolCall, ToolDefinition};

/// What opens the reasoning of a model whose template writes it into the prompt.
const OPEN_REASONING: &str = "<think>";
const SYSTEM: &str = "You look up codes.";
const ANSWER: &str = "Code 7431 stands for amber.";

pub(super) fn tool_format(template: &ChatTemplate) -> Option<ToolFormat> {
    let tools = [ToolDefinition {
        name: "look_up_code".to_owned(),
        description: "Looks up what a code stands for.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"code_7431": {"type": "string"}}, "required": ["code_7431"]}),
    }];
    let call = FunctionCall { name: tools[0].name.clone(), arguments: json!({"code_7431": "7431 \"x\""}) };
    let id = "call_1_0".to_owned();
    let question = ChatMessage::user("What does 7431 stand for?");
    let called = ChatMessage::assistant("").with_calls(vec![ToolCall { id: id.clone(), function: call.clone() }]);
    let answer = ChatMessage::tool(id, &call.name, ANSWER);

    let asked = template.try_render(SYSTEM, std::slice::from_ref(&question), &tools, true).ok()?;
    let shows_tool = [&tools[0].name, &tools[0].description, "code_7431"].iter().all(|text| asked.contains(*text));
    let whole = template.try_render(SYSTEM, &[question.clone(), called.clone()], &tools, false).ok()?;
    let written = whole.strip_prefix(asked.trim_end())?;
    let is_read = |format: &ToolFormat| {
        let mut reader = ToolCallReader::new(*format);
        // What ends the turn comes after the call, and is not looked at.
        reader.push(written.trim_start());
        reader.finish(false).1 == [call.clone()]
    };
    let format = ToolFormat::ALL.into_iter().find(is_read)?;
    let answered = template.try_render(SYSTEM, &[question, called, answer], &tools, true).ok()?;
    (shows_tool && answered.contains(ANSWER)).then_some(format)
}

/// The beginning of every reply that the template writes into the prompt, and the model therefore leaves out.
pub(super) fn reply_prefix(template: &ChatTemplate) -> &'static str {
    let asked = template.try_render(SYSTEM, &[ChatMessage::user(ANSWER)], &[], true).unwrap_or_default();
    if asked.trim_end().ends_with(OPEN_REASONING) { OPEN_REASONING } else { "" }
}
