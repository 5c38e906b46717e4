//! A conversation in the form that chat templates take: the structures of Hugging Face, their fields in the
//! order in which templates print them.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{ChatMessage, ChatRole, FunctionCall, ToolDefinition};

#[derive(Debug, Clone, Serialize)]
pub(super) struct TemplateMessage {
    pub(super) role: &'static str,
    pub(super) content: String,
    /// Absent and not empty where there are none: templates ask whether it is there.
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

/// Breaks up what a text must not spell out.
type Defuse<'d> = &'d dyn Fn(&str) -> String;

impl TemplateMessage {
    pub(super) fn new(role: &'static str, content: String) -> Self {
        Self { role, content, tool_calls: Vec::new(), tool_call_id: None, name: None }
    }

    fn is_text(&self) -> bool {
        self.tool_calls.is_empty() && self.tool_call_id.is_none()
    }
}

/// `is_single`: no message may make more than one call.
pub(super) fn messages(messages: &[ChatMessage], is_single: bool, defuse: Defuse<'_>) -> Vec<TemplateMessage> {
    let mut ids: Vec<&str> = Vec::new();
    let mut made: Vec<TemplateMessage> = Vec::new();
    for message in messages {
        let mut one = TemplateMessage::new(role_name(message.role), defuse(&message.content));
        if let Some(answers) = &message.answers {
            one.tool_call_id = Some(short_id(&mut ids, &answers.id));
            one.name = Some(defuse(&answers.name));
        }
        one.tool_calls = message
            .tool_calls
            .iter()
            .map(|call| template_call(short_id(&mut ids, &call.id), &call.function, defuse))
            .collect();
        made.push(one);
    }
    if is_single { one_call_a_message(made) } else { made }
}

pub(super) fn tools(tools: &[ToolDefinition], defuse: Defuse<'_>) -> Vec<TemplateTool> {
    let tool = |tool: &ToolDefinition| TemplateTool {
        r#type: "function",
        function: TemplateToolFunction {
            name: defuse(&tool.name),
            description: defuse(&tool.description),
            parameters: defuse_all(&tool.input_schema, defuse),
        },
    };
    tools.iter().map(tool).collect()
}

fn template_call(id: String, function: &FunctionCall, defuse: Defuse<'_>) -> TemplateCall {
    let arguments = defuse_all(&function.arguments, defuse);
    TemplateCall { id, r#type: "function", function: TemplateFunction { name: defuse(&function.name), arguments } }
}

/// The same for the same call, in the only form that every template takes: nine letters and digits.
fn short_id<'m>(ids: &mut Vec<&'m str>, id: &'m str) -> String {
    let at = ids.iter().position(|known| *known == id).unwrap_or_else(|| {
        ids.push(id);
        ids.len() - 1
    });
    format!("call{at:05}")
}

/// Each call in a message of its own, its answer right behind it.
fn one_call_a_message(messages: Vec<TemplateMessage>) -> Vec<TemplateMessage> {
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

/// The same conversation without a system role, and with neighbours of one role joined.
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

/// Everything in `value` that is a text.
fn defuse_all(value: &Value, defuse: Defuse<'_>) -> Value {
    match value {
        Value::String(text) => defuse(text).into(),
        Value::Array(items) => items.iter().map(|item| defuse_all(item, defuse)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, field)| (defuse(name), defuse_all(field, defuse))).collect(),
        other => other.clone(),
    }
}

/// Our maps are sorted by name; in schemas, models are used to what a thing is before what it is made of.
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
