//! Request to a model.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::Vendor;

/// Request of one model call.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// Client on whose behalf the call is made; a backend with limited concurrency schedules clients fairly. Not sent
    /// to vendors.
    pub client: Arc<str>,
    /// Model name at the vendor.
    pub model: String,
    pub system: Option<String>,
    /// Oldest first. Results of tool calls follow the assistant message that made the calls.
    pub messages: Vec<ModelMessage>,
    /// Shared, since tools are identical in every call of a turn and their schemas are large.
    pub tools: Arc<[ToolDefinition]>,
    pub temperature: Option<f64>,
    /// `None` uses the vendor's default (Anthropic requires a limit and gets 8192).
    pub max_output_tokens: Option<u32>,
    /// Whether the reply goes to a user in a conversation, rather than to the daemon itself.
    pub is_conversation: bool,
    /// Limit of the whole call, up to the last event. A stream also times out if no byte arrives for 60 seconds, or for
    /// `timeout` if that is shorter.
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ModelMessage {
    User { content: String },
    Assistant { content: String, tool_calls: Vec<ToolCall> },
    Tool { call_id: String, name: String, content: String, is_error: bool },
}

/// Tool that the model may call. `input_schema` is of type `object`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    pub input_schema: Schema,
}

/// JSON Schema in serialized form. It is serialized once, because every model call includes the schemas of all tools.
/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Schema(Arc<RawValue>);

impl Schema {
    #[must_use]
    #[allow(clippy::expect_used, reason = "a `Value` is JSON")]
    pub fn new(value: &Value) -> Self {
        Self(to_raw_value(value).expect("a JSON value").into())
    }

    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::from_str(self.0.get()).unwrap_or_default()
    }

    /// Returns the serialized form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    pub(crate) fn raw(&self) -> &RawValue {
        &self.0
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

/// Call made by the model. Keep it unchanged in the history that is sent back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the conversation.
    pub id: String,
    pub name: String,
    /// Input object. If the model wrote invalid JSON, this is its raw text as a JSON string: validation against the
    /// tool's schema then fails, and the model can be informed.
    pub input: Value,
    /// Data that the vendor requires back with this call; `None` for most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
}

impl ToolCall {
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self { id: id.into(), name: name.into(), input, replay: None }
    }

    /// Returns the data to send back with this call to `model` of `vendor`; `None` if it came from elsewhere.
    pub(crate) fn replay_for(&self, vendor: Vendor, model: &str) -> Option<&Value> {
        let replay = self.replay.as_ref()?;
        // Calls stored by version 0.1 name no model; a turn that awaits approval keeps its model.
        (replay.vendor == vendor && (replay.model == model || replay.model.is_empty())).then_some(&replay.data)
    }
}

/// Opaque reasoning that a vendor requires back with a call: Google's thought signatures, Anthropic's thinking blocks,
/// OpenRouter's reasoning details. Sent back only to the vendor and model that produced it, and never displayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    pub vendor: Vendor,
    /// Model named in the request.
    #[serde(default)]
    pub model: String,
    /// Data in a format of the vendor's client.
    pub data: Value,
}
