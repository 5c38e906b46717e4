//! Opaque reasoning: data that a vendor sends with its tool calls and requires back with their results. It is stored
//! with the calls, never displayed, and sent back only to the vendor and model that produced it.

use serde_json::{Map, Value};

use super::calls::{Calls, FinishedCall};
use crate::{ModelRequest, Replay, ToolCall, Vendor};

/// Maximum size retained per answer. Longer reasoning is dropped entirely, since vendors reject partial reasoning.
const MAX_BYTES: usize = 1024 * 1024;

/// Maximum size of a field that belongs to a single call.
const MAX_CALL_BYTES: usize = 256 * 1024;

/// Documented placeholder for the thought signature of calls that another model made
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
pub(super) const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Whether Google rejects calls of this model without a thought signature. Families before Gemini 3 do not require one.
pub(super) fn demands_signatures(model: &str) -> bool {
    !["gemini-1", "gemini-2"].iter().any(|family| model.contains(family))
}

/// Opaque data of the whole answer. It is stored with the first call.
pub(super) struct OpaqueReasoning {
    vendor: Vendor,
    model: String,
    fields: Map<String, Value>,
    bytes: usize,
}

impl OpaqueReasoning {
    pub(super) fn new(vendor: Vendor, request: &ModelRequest) -> Self {
        Self { vendor, model: request.model.clone(), fields: Map::new(), bytes: 0 }
    }

    /// Appends to a text field.
    pub(super) fn push_text(&mut self, field: &str, text: &str) {
        if !self.reserve(text.len()) {
            return;
        }
        match self.fields.get_mut(field) {
            Some(Value::String(so_far)) => so_far.push_str(text),
            _ => drop(self.fields.insert(field.to_owned(), text.into())),
        }
    }

    /// Appends an item to a list field, or merges it into the last item if `continues` returns true.
    pub(super) fn push_item(&mut self, field: &str, item: Value, continues: fn(&Value, &Value) -> bool) {
        let last = self.fields.get(field).and_then(Value::as_array).and_then(|list| list.last());
        let continued = last.filter(|last| continues(last, &item));
        let is_continued = continued.is_some();
        if !self.reserve(continued.map_or_else(|| item.to_string().len(), |last| added_bytes(last, &item))) {
            return;
        }
        let list = self.fields.entry(field).or_insert_with(|| Value::Array(Vec::new()));
        let Value::Array(list) = list else { return };
        match list.last_mut().filter(|_| is_continued) {
            Some(last) => merge(last, item),
            None => list.push(item),
        }
    }

    fn reserve(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES {
            self.fields.clear();
        }
        self.bytes <= MAX_BYTES
    }

    /// Returns the finished calls, each with the data to send back.
    pub(super) fn take_calls(&mut self, calls: &mut Calls) -> Vec<ToolCall> {
        let mut finished = calls.take();
        let own = finished.iter().map(|call| Value::Object(call.opaque.clone()).to_string().len()).sum();
        if let Some(first) = finished.first_mut() {
            first.opaque.append(&mut std::mem::take(&mut self.fields));
        }
        let is_within_limit = self.reserve(own);
        let with_replay = |FinishedCall { mut call, opaque }| {
            if is_within_limit && !opaque.is_empty() {
                let (vendor, model) = (self.vendor, self.model.clone());
                call.replay = Some(Replay { vendor, model, data: Value::Object(opaque) });
            }
            call
        };
        finished.into_iter().map(with_replay).collect()
    }
}

/// Stores a field with a call.
pub(super) fn insert_field(call: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    if let Some(value) = value.filter(|value| !value.is_null() && value.to_string().len() <= MAX_CALL_BYTES) {
        call.insert(field.to_owned(), value);
    }
}

/// Text fields that arrive in fragments: OpenRouter's details and Anthropic's blocks.
const STREAMED_TEXT_FIELDS: &[&str] = &["text", "summary", "thinking"];

/// Merges two parts of one item: texts are concatenated, other fields take the newest value.
fn merge(item: &mut Value, more: Value) {
    let (Value::Object(item), Value::Object(more)) = (item, more) else { return };
    for (name, value) in more {
        match (item.get_mut(&name), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more)) if STREAMED_TEXT_FIELDS.contains(&name.as_str()) => {
                text.push_str(&more);
            }
            (_, value) => drop(item.insert(name, value)),
        }
    }
}

fn added_bytes(item: &Value, more: &Value) -> usize {
    let fields = more.as_object().into_iter().flatten().filter(|(name, value)| item.get(*name) != Some(value));
    fields.map(|(_, value)| value.as_str().map_or_else(|| value.to_string().len(), str::len)).sum()
}

/// Returns the value of `field` stored with these calls, if it came from `vendor` and the requested model.
pub(super) fn replay_field<'c>(
    calls: &'c [ToolCall],
    request: &ModelRequest,
    vendor: Vendor,
    field: &str,
) -> Option<&'c Value> {
    calls.iter().find_map(|call| call.replay_for(vendor, &request.model)?.get(field))
}
