//! What a model is asked.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::Vendor;

/// One call of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// Who asks: a model that answers some at once lets clients take turns. No vendor is told.
    pub client: Arc<str>,
    /// The vendor's name of the model.
    pub model: String,
    pub system: Option<String>,
    /// Oldest first. Answers to tool calls follow the assistant message that made the calls.
    pub messages: Vec<ModelMessage>,
    /// Shared: they are the same in every call of a turn, and their schemas are large.
    pub tools: Arc<[ToolDefinition]>,
    pub temperature: Option<f64>,
    /// `None` leaves it to the vendor (Anthropic demands a number and gets 8192).
    pub max_output_tokens: Option<u32>,
    /// The reply goes to a person who talks with the model, and not to the daemon that asked for itself.
    pub is_conversation: bool,
    /// Limits the whole call, to the last event. Besides, a stream that brings no byte for
    /// 60 seconds (or for `timeout`, where that is shorter) has timed out.
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum ModelMessage {
    User { content: String },
    Assistant { content: String, tool_calls: Vec<ToolCall> },
    Tool { call_id: String, name: String, content: String, is_error: bool },
}

/// A tool that the model may call. `input_schema` is of type `object`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    pub input_schema: Schema,
}

/// A JSON Schema as it goes over the wire: written once, because every call of a model brings the schemas of
/// all tools along. Cheap to clone.
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

    /// As it goes over the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    pub(crate) fn written(&self) -> &RawValue {
        &self.0
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

/// A call that the model made. Keep it whole in the history that is sent back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the conversation.
    pub id: String,
    pub name: String,
    /// An object. Where the model wrote something that is no JSON, its raw text as a JSON string:
    /// checking it against the tool's schema then fails, and the model can be told.
    pub input: Value,
    /// What the vendor wants back with this call; `None` for most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
}

impl ToolCall {
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self { id: id.into(), name: name.into(), input, replay: None }
    }

    /// What is to be sent back with this call to `model` of `vendor`; `None` if it came from elsewhere.
    pub(crate) fn replay_for(&self, vendor: Vendor, model: &str) -> Option<&Value> {
        let replay = self.replay.as_ref()?;
        // Calls stored by version 0.1 name no model; a waiting turn never changes its own.
        (replay.vendor == vendor && (replay.model == model || replay.model.is_empty())).then_some(&replay.data)
    }
}

/// Opaque reasoning that a vendor demands back with a call: Google's thought signatures, Anthropic's thinking blocks,
/// OpenRouter's reasoning details. Sent back only to the vendor and model that it came from, and never shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    pub vendor: Vendor,
    /// The model that was asked for.
    #[serde(default)]
    pub model: String,
    /// In a form of the vendor's client.
    pub data: Value,
}
