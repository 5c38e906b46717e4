//! The frames of the device WebSocket: one JSON object with a `type` per text message.

use agentd_base::visible::strip_tags_in;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

const MAX_ID_CHARACTERS: usize = 128;
pub(crate) const MAX_CONTENT_CHARACTERS: usize = 400_000;
pub(crate) const MAX_TOOLS: usize = 64;
const MAX_DESCRIPTION_CHARACTERS: usize = 2_000;
const MAX_PROBLEM_CHARACTERS: usize = 200;

/// A frame sent by a device.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DeviceFrame {
    /// Replaces all previously registered tools.
    RegisterTools {
        id: Option<String>,
        tools: Vec<ToolSpec>,
    },
    ToolResult {
        id: String,
        result: Result<Value, String>,
    },
    Chat {
        id: Option<String>,
        agent: Option<String>,
        content: String,
        conversation_id: Option<String>,
    },
}

/// A tool as described by the device.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ToolSpec {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    pub(crate) input_schema: Value,
}

/// Why a frame was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MalformedFrame {
    /// The `id` of the frame, if it could be parsed.
    pub(crate) id: Option<String>,
    /// A message for the developer of the device.
    pub(crate) problem: String,
}

#[derive(Deserialize)]
struct RegisterTools {
    tools: Vec<ToolSpec>,
}

#[derive(Deserialize)]
struct ToolResult {
    #[serde(default)]
    output: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Chat {
    #[serde(default)]
    agent_id: Option<String>,
    content: String,
    #[serde(default)]
    conversation_id: Option<String>,
}

/// Parses a frame from a device. Unknown fields are ignored.
pub(crate) fn parse(text: &str) -> Result<DeviceFrame, MalformedFrame> {
    let without_id = |problem: String| MalformedFrame { id: None, problem };
    let mut value: Value = serde_json::from_str(text).map_err(|error| {
        without_id(format!("the frame is not JSON: line {}, column {}", error.line(), error.column()))
    })?;
    strip_tags_in(&mut value);
    let Value::Object(mut fields) = value else {
        return Err(without_id("a frame must be a JSON object with a `type`".to_owned()));
    };
    let id = match fields.remove("id") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) if !id.is_empty() && id.chars().count() <= MAX_ID_CHARACTERS => Some(id),
        Some(_) => return Err(without_id(format!("`id` must be a string of 1 to {MAX_ID_CHARACTERS} characters"))),
    };
    let wrong = |problem: String| MalformedFrame { id: id.clone(), problem: truncate_problem(&problem) };
    let Some(Value::String(kind)) = fields.remove("type") else {
        return Err(wrong("a frame requires a `type`".to_owned()));
    };
    match kind.as_str() {
        "register_tools" => {
            let RegisterTools { tools } = read(fields).map_err(wrong)?;
            if tools.len() > MAX_TOOLS {
                return Err(wrong(format!("a device can register at most {MAX_TOOLS} tools")));
            }
            if let Some(long) = tools.iter().find(|tool| is_too_long(&tool.description, MAX_DESCRIPTION_CHARACTERS)) {
                let name = &long.name;
                return Err(wrong(format!(
                    "the description of `{name}` exceeds {MAX_DESCRIPTION_CHARACTERS} characters"
                )));
            }
            Ok(DeviceFrame::RegisterTools { id, tools })
        }
        "tool_result" => {
            let ToolResult { output, error } = read(fields).map_err(wrong)?;
            let result = match (output, error.filter(|error| !error.is_null())) {
                (None, Some(Value::String(error))) => Err(error),
                (None, Some(error)) => Err(error.to_string()),
                // An `output` of `null` is valid, and so is a missing `output` without an `error`.
                (output, None) => Ok(output.unwrap_or_default()),
                (Some(Value::Null), Some(error)) => Err(error.as_str().map_or(error.to_string(), str::to_owned)),
                (Some(_), Some(_)) => return Err(wrong("send either `output` or `error`, not both".to_owned())),
            };
            let id = id.ok_or_else(|| without_id("a `tool_result` requires the `id` of its call".to_owned()))?;
            Ok(DeviceFrame::ToolResult { id, result })
        }
        "chat" => {
            let Chat { agent_id, content, conversation_id } = read(fields).map_err(wrong)?;
            if content.trim().is_empty() || is_too_long(&content, MAX_CONTENT_CHARACTERS) {
                return Err(wrong(format!("`content` must have 1 to {MAX_CONTENT_CHARACTERS} characters")));
            }
            for (field, text) in [("agent_id", &agent_id), ("conversation_id", &conversation_id)] {
                if text.as_ref().is_some_and(|text| text.is_empty() || is_too_long(text, 64)) {
                    return Err(wrong(format!("`{field}` must have 1 to 64 characters")));
                }
            }
            Ok(DeviceFrame::Chat { id, agent: agent_id, content, conversation_id })
        }
        other => Err(wrong(format!(
            "unknown frame type `{}`; use register_tools, tool_result or chat",
            other.chars().take(40).collect::<String>()
        ))),
    }
}

fn read<T: serde::de::DeserializeOwned>(fields: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}

fn is_too_long(text: &str, limit: usize) -> bool {
    // The length in bytes is an upper bound for the number of characters and cheaper to check.
    text.len() > limit && text.chars().count() > limit
}

fn truncate_problem(text: &str) -> String {
    text.chars().take(MAX_PROBLEM_CHARACTERS).collect()
}

/// Frames sent by the daemon.
pub(crate) mod to_device {
    use super::{Map, RawValue, Value, json};
    use crate::devices::model::Device;

    /// The first frame of each connection.
    pub(crate) fn hello(device: &Device) -> String {
        json!({
            "type": "hello",
            "device_id": device.id,
            "name": device.name,
            "tool_prefix": device.tool_prefix(),
        })
        .to_string()
    }

    pub(crate) fn tool_call(id: &str, tool: &str, input: &Map<String, Value>) -> String {
        json!({"type": "tool_call", "id": id, "tool": tool, "input": input}).to_string()
    }

    /// Tells the device that the result of a call is no longer needed.
    pub(crate) fn tool_cancel(id: &str) -> String {
        json!({"type": "tool_cancel", "id": id}).to_string()
    }

    pub(crate) fn error(id: Option<&str>, code: &str, message: &str) -> String {
        let mut frame = json!({"type": "error", "code": code, "message": message});
        if let Some(id) = id {
            frame["id"] = id.into();
        }
        frame.to_string()
    }

    /// An event of a reply. `id` is the id of the `chat` frame, and `data` is JSON.
    pub(crate) fn event(id: Option<&str>, session_id: &str, seq: u64, event: &str, data: &str) -> String {
        #[derive(serde::Serialize)]
        struct Event<'a> {
            r#type: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'a str>,
            session_id: &'a str,
            seq: u64,
            event: &'a str,
            data: &'a RawValue,
        }
        // `data` is always JSON; fall back to `null` so that the frame stays valid.
        let data = serde_json::from_str::<&RawValue>(data).unwrap_or(RawValue::NULL);
        serde_json::to_string(&Event { r#type: "event", id, session_id, seq, event, data }).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn valid_frames_are_parsed() {
        let tool = json!({"name": "shell", "description": "Runs.", "input_schema": {"type": "object"}});
        let frame = parse(&json!({"type": "register_tools", "tools": [tool], "extra": 1}).to_string()).unwrap();
        assert!(matches!(frame, DeviceFrame::RegisterTools { tools, .. } if tools[0].name == "shell"));
        let result = |fields: Value| {
            let mut frame = json!({"type": "tool_result", "id": "c1"});
            frame.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            parse(&frame.to_string())
        };
        let ok = |value: Value| Ok(DeviceFrame::ToolResult { id: "c1".to_owned(), result: Ok(value) });
        let failed = |text: &str| Ok(DeviceFrame::ToolResult { id: "c1".to_owned(), result: Err(text.to_owned()) });
        assert_eq!(result(json!({"output": {"a": 1}})), ok(json!({"a": 1})));
        assert_eq!(result(json!({"output": null})), ok(Value::Null));
        assert_eq!(result(json!({"output": "text", "error": null})), ok(json!("text")));
        assert_eq!(result(json!({"error": "no"})), failed("no"));
        assert_eq!(result(json!({"output": null, "error": "no"})), failed("no"));
        assert!(result(json!({"output": 1, "error": "no"})).unwrap_err().problem.contains("either"));
        let chat = parse(r#"{"type": "chat", "id": "m", "agent_id": "scout", "content": "hello"}"#).unwrap();
        assert!(matches!(chat, DeviceFrame::Chat { agent: Some(agent), .. } if agent == "scout"));
    }

    #[test]
    fn tag_characters_are_removed_from_frames() {
        let tool =
            json!({"name": "shell", "description": "Runs.\u{e0041}\u{e007f}", "input_schema": {"title": "t\u{e0042}"}});
        let frame = parse(&json!({"type": "register_tools", "tools": [tool]}).to_string()).unwrap();
        let DeviceFrame::RegisterTools { tools, .. } = frame else { panic!("{frame:?}") };
        assert_eq!((tools[0].description.as_str(), &tools[0].input_schema["title"]), ("Runs.", &json!("t")));
        let frame =
            parse(&json!({"type": "tool_result", "id": "c", "output": {"a": "b\u{e0043}"}}).to_string()).unwrap();
        assert_eq!(frame, DeviceFrame::ToolResult { id: "c".to_owned(), result: Ok(json!({"a": "b"})) });
    }

    #[test]
    fn malformed_frames_are_rejected_with_a_reason() {
        for (text, part) in [
            ("", "not JSON"),
            ("[]", "JSON object"),
            ("{}", "`type`"),
            (r#"{"type": "dance"}"#, "`dance`"),
            (r#"{"type": "chat"}"#, "content"),
            (r#"{"type": "chat", "content": " "}"#, "content"),
            (r#"{"type": "tool_result", "output": 1}"#, "`id`"),
            (r#"{"type": "tool_result", "id": 7, "output": 1}"#, "`id`"),
            (r#"{"type": "register_tools", "tools": [{"name": "a"}]}"#, "input_schema"),
        ] {
            let problem = parse(text).unwrap_err().problem;
            assert!(problem.contains(part), "{text}: {problem}");
        }
        let tool = json!({"name": "a", "input_schema": {}});
        let many = json!({"type": "register_tools", "id": "r", "tools": vec![tool; MAX_TOOLS + 1]});
        let malformed = parse(&many.to_string()).unwrap_err();
        assert_eq!(malformed.id.as_deref(), Some("r"));
        assert!(malformed.problem.contains("at most"));
    }

    #[test]
    fn event_data_is_unchanged() {
        let frame = to_device::event(Some("m"), "sess_1", 3, "token", r#"{"content":"a\nb"}"#);
        let frame: Value = serde_json::from_str(&frame).unwrap();
        assert_eq!(frame["data"], json!({"content": "a\nb"}));
        assert_eq!((&frame["id"], &frame["seq"]), (&json!("m"), &json!(3)));
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in ".{0,200}") {
            let _ = parse(&text);
        }

        #[test]
        fn arbitrary_fields_do_not_panic(kind in "register_tools|tool_result|chat", key in "tools|id|output|error|content|agent_id",
                           value in prop_oneof![Just(json!(null)), Just(json!([])), Just(json!({})), Just(json!(1)),
                                                Just(json!([null])), Just(json!("é")), Just(json!([{"name": 1}]))]) {
            let _ = parse(&json!({"type": kind, key: value}).to_string());
        }
    }
}
