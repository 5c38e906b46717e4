//! Conversation in the structure that chat templates expect: that of Hugging Face, with the fields in the order in
//! which templates print them.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{ChatMessage, ChatRole, FunctionCall, ToolDefinition};

#[derive(Debug, Clone, Serialize)]
pub(super) struct TemplateMessage {
    pub(super) role: &'static str,
    pub(super) content: String,
    /// Omitted instead of empty: templates test for its presence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<TemplateCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct TemplateCall {
    id: String,
    r#type: &'static str,
    function: TemplateFunction,
}

#[derive(Debug, Clone, Serialize)]
struct TemplateFunction {
    name: String,
    #[serde(serialize_with = "as_schema")]
    arguments: Value,
}

#[derive(Debug, Serialize)]
pub(super) struct TemplateTool {
    r#type: &'static str,
    function: TemplateToolFunction,
}

#[derive(Debug, Serialize)]
struct TemplateToolFunction {
    name: String,
    description: String,
    #[serde(serialize_with = "as_schema")]
    parameters: Value,
}

/// Escapes texts that a message must not contain.
type Escape<'d> = &'d dyn Fn(&str) -> String;

impl TemplateMessage {
    pub(super) fn new(role: &'static str, content: String) -> Self {
        Self { role, content, tool_calls: Vec::new(), tool_call_id: None, name: None }
    }

    fn is_text(&self) -> bool {
        self.tool_calls.is_empty() && self.tool_call_id.is_none()
    }
}

/// Converts messages. If `is_single` is set, a message may contain only one call.
pub(super) fn messages(messages: &[ChatMessage], is_single: bool, escape: Escape<'_>) -> Vec<TemplateMessage> {
    let mut ids: Vec<&str> = Vec::new();
    let mut converted: Vec<TemplateMessage> = Vec::new();
    for message in messages {
        let mut one = TemplateMessage::new(role_name(message.role), escape(&message.content));
        if let Some(answers) = &message.answers {
            one.tool_call_id = Some(short_id(&mut ids, &answers.id));
            one.name = Some(escape(&answers.name));
        }
        one.tool_calls = message
            .tool_calls
            .iter()
            .map(|call| template_call(short_id(&mut ids, &call.id), &call.function, escape))
            .collect();
        converted.push(one);
    }
    if is_single { split_calls(converted) } else { converted }
}

pub(super) fn tools(tools: &[ToolDefinition], escape: Escape<'_>) -> Vec<TemplateTool> {
    let tool = |tool: &ToolDefinition| TemplateTool {
        r#type: "function",
        function: TemplateToolFunction {
            name: escape(&tool.name),
            description: escape(&tool.description),
            parameters: escape_all(&tool.input_schema, escape),
        },
    };
    tools.iter().map(tool).collect()
}

fn template_call(id: String, function: &FunctionCall, escape: Escape<'_>) -> TemplateCall {
    let arguments = escape_all(&function.arguments, escape);
    TemplateCall { id, r#type: "function", function: TemplateFunction { name: escape(&function.name), arguments } }
}

/// Returns the same id for the same call, in the only form that every template accepts: nine letters and digits.
fn short_id<'m>(ids: &mut Vec<&'m str>, id: &'m str) -> String {
    let at = ids.iter().position(|known| *known == id).unwrap_or_else(|| {
        ids.push(id);
        ids.len() - 1
    });
    format!("call{at:05}")
}

/// Puts each call into a separate message, followed by its result.
fn split_calls(messages: Vec<TemplateMessage>) -> Vec<TemplateMessage> {
    let mut split = Vec::with_capacity(messages.len());
    let mut rest = messages.into_iter().peekable();
    while let Some(mut message) = rest.next() {
        if message.tool_calls.len() < 2 {
            split.push(message);
            continue;
        }
        let mut answers = Vec::new();
        while let Some(answer) = rest.next_if(|next| next.tool_call_id.is_some()) {
            answers.push(answer);
        }
        for call in std::mem::take(&mut message.tool_calls) {
            let answered = answers.iter().position(|answer| answer.tool_call_id.as_ref() == Some(&call.id));
            split.push(TemplateMessage { tool_calls: vec![call], ..message.clone() });
            split.extend(answered.map(|at| answers.remove(at)));
            message.content.clear();
        }
        split.append(&mut answers);
    }
    split
}

/// Returns the conversation without a system role, with consecutive messages of the same role joined.
pub(super) fn fold(messages: &[TemplateMessage]) -> Vec<TemplateMessage> {
    let mut folded: Vec<TemplateMessage> = Vec::new();
    for message in messages {
        let role = if message.is_text() && message.role != "assistant" { "user" } else { message.role };
        match folded.last_mut() {
            Some(last) if last.role == role && last.is_text() && message.is_text() => {
                last.content.push_str("\n\n");
                last.content.push_str(&message.content);
            }
            _ => folded.push(TemplateMessage { role, ..message.clone() }),
        }
    }
    folded
}

fn role_name(role: ChatRole) -> &'static str {
    match role {
        ChatRole::System => "system",
        ChatRole::User => "user",
        ChatRole::Assistant => "assistant",
        ChatRole::Tool => "tool",
    }
}

/// Escapes all strings in `value`.
fn escape_all(value: &Value, escape: Escape<'_>) -> Value {
    match value {
        Value::String(text) => escape(text).into(),
        Value::Array(items) => items.iter().map(|item| escape_all(item, escape)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, field)| (escape(name), escape_all(field, escape))).collect(),
        other => other.clone(),
    }
}

/// Serializes a schema. Our maps are sorted by name, but models expect the type and description before the contents.
fn as_schema<S: Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    Ordered(value).serialize(serializer)
}

struct Ordered<'v>(&'v Value);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const FIRST: [&str; 3] = ["type", "description", "properties"];
        match self.0 {
            Value::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                let first = FIRST.iter().filter_map(|name| fields.get_key_value(*name));
                let rest = fields.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
                for (name, field) in first.chain(rest) {
                    map.serialize_entry(name, &Ordered(field))?;
                }
                map.end()
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Ordered)),
            other => other.serialize(serializer),
        }
    }
}
