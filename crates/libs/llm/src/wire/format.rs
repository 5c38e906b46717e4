//! What the formats have in common: a request to send, and the reader of what comes back.

use std::collections::VecDeque;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::complaint::Complaint;
use crate::{Finish, ModelEvent};

/// Stands for the user where a conversation begins with the assistant's welcome, in formats whose
/// first message must be the user's.
pub(super) const OPENING: &str = "[The conversation begins.]";

/// What to send, and how to read what comes back.
pub(crate) struct Call {
    /// Path segments behind base URL and version.
    pub(crate) path: Vec<String>,
    pub(crate) query: Option<(&'static str, &'static str)>,
    pub(crate) body: Result<Vec<u8>, serde_json::Error>,
    pub(crate) decoder: Box<dyn Decoder>,
    /// The server may pass on reasoning that a model writes into its text.
    pub(crate) may_have_think_tags: bool,
}

/// What one event means for the stream as a whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Progress {
    /// Text, reasoning, or a part of a tool call.
    Content,
    /// Anything else: usage, a finish reason, a sign of life.
    Metadata,
    /// The vendor's end marker came.
    End,
}

/// Reads the events of one answer, in order.
pub(crate) trait Decoder: Send {
    /// Reads the data of one server-sent event and appends what it says to `out`.
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<Progress, Complaint>;

    /// Whether the vendor said why the answer ended. Only usage and an end marker may still follow.
    fn has_finish_reason(&self) -> bool;

    /// Ends the answer: appends its tool calls to `out` and returns how it ended. `None` if neither a finish reason
    /// nor an end marker came.
    fn finish(&mut self, out: &mut VecDeque<ModelEvent>) -> Option<Finish>;
}

/// What an event meant, from the number of queued events and the size of the calls before and after it.
pub(super) fn progress(before: (usize, usize), after: (usize, usize)) -> Progress {
    if before == after { Progress::Metadata } else { Progress::Content }
}

/// Reads one event's JSON.
pub(super) fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, Complaint> {
    serde_json::from_str(data).map_err(|error| {
        // Not the error's own text: it may quote what the model said.
        Complaint::broken_format(format!("an event is not the JSON it should be, at column {}", error.column()))
    })
}

/// Reads a field on whose type servers do not agree; `None` for any other type.
pub(super) fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

/// An answer in the middle of which the vendor reports a failure.
pub(super) fn reported(error: &Value) -> Complaint {
    Complaint::from_value(&serde_json::json!({ "error": error })).unwrap_or_default()
}

pub(super) fn push_text(out: &mut VecDeque<ModelEvent>, text: Option<String>) {
    out.extend(text.filter(|text| !text.is_empty()).map(ModelEvent::Text));
}

pub(super) fn push_reasoning(out: &mut VecDeque<ModelEvent>, text: Option<String>) {
    out.extend(text.filter(|text| !text.is_empty()).map(ModelEvent::Reasoning));
}
