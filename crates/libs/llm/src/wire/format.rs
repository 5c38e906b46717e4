//! Common parts of the wire formats: the request to send and the decoder for its response.

use std::collections::VecDeque;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::vendor_error::VendorError;
use crate::{Finish, ModelEvent};

/// Placeholder user message for conversations that begin with the assistant, in formats that require a user message
/// first.
pub(super) const CONVERSATION_START: &str = "[The conversation begins.]";

/// Encoded request, and the decoder for its response.
pub(crate) struct Call {
    /// Path segments after base URL and version.
    pub(crate) path: Vec<String>,
    pub(crate) query: Option<(&'static str, &'static str)>,
    pub(crate) body: Result<Vec<u8>, serde_json::Error>,
    pub(crate) decoder: Box<dyn Decoder>,
    /// Whether the server may pass on reasoning inside the text.
    pub(crate) may_have_think_tags: bool,
}

/// Effect of one event on the stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Progress {
    /// Text, reasoning, or a part of a tool call.
    Content,
    /// Anything else: usage, a finish reason, a keep-alive.
    Metadata,
    /// The vendor's end marker arrived.
    End,
}

/// Decodes the events of one answer, in order.
pub(crate) trait Decoder: Send {
    /// Decodes the data of one server-sent event and appends the resulting model events to `out`.
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<Progress, VendorError>;

    /// Whether the finish reason has arrived. Only usage and an end marker may still follow.
    fn has_finish_reason(&self) -> bool;

    /// Ends the answer: appends its tool calls to `out` and returns how it ended. `None` if neither a finish reason nor
    /// an end marker arrived.
    fn finish(&mut self, out: &mut VecDeque<ModelEvent>) -> Option<Finish>;
}

/// Classifies an event by the number of queued events and the size of the calls before and after it.
pub(super) fn classify_progress(before: (usize, usize), after: (usize, usize)) -> Progress {
    if before == after { Progress::Metadata } else { Progress::Content }
}

/// Parses the JSON of one event.
pub(super) fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, VendorError> {
    serde_json::from_str(data).map_err(|error| {
        // The error's own text is not used: it may quote the model's output.
        VendorError::broken_format(format!("an event is not the expected JSON at column {}", error.column()))
    })
}

/// Deserializes a field whose type differs between servers; `None` for any other type.
pub(super) fn deserialize_lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

/// Converts an error that the vendor reports in the middle of an answer.
pub(super) fn parse_error_event(error: &Value) -> VendorError {
    VendorError::from_value(&serde_json::json!({ "error": error })).unwrap_or_default()
}

pub(super) fn push_text(out: &mut VecDeque<ModelEvent>, text: Option<String>) {
    out.extend(text.filter(|text| !text.is_empty()).map(ModelEvent::Text));
}

pub(super) fn push_reasoning(out: &mut VecDeque<ModelEvent>, text: Option<String>) {
    out.extend(text.filter(|text| !text.is_empty()).map(ModelEvent::Reasoning));
}
