//! Decoder for the chunks of an answer, as vendors and compatible servers actually send them. `tests/it/quirks` has a
//! recorded stream for each deviation from OpenAI's documentation that is supported here.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;

use crate::vendor_error::VendorError;
use crate::wire::calls::{Calls, Fragment};
use crate::wire::finish::read_finish_reason;
use crate::wire::format::{
    Decoder, Progress, classify_progress, deserialize_lenient, parse, parse_error_event, push_reasoning, push_text,
};
use crate::wire::opaque::{OpaqueReasoning, insert_field};
use crate::wire::usage::{Convention, TokenCounts};
use crate::{Finish, FinishReason, ModelEvent, ModelRequest, Vendor};

pub(super) struct ChatDecoder {
    calls: Calls,
    opaque: OpaqueReasoning,
    /// Servers that send reasoning in this field reject tool results without it.
    wants_reasoning_content: bool,
    reason: Option<FinishReason>,
    counts: TokenCounts,
    has_content: bool,
    /// Whether a refusal was sent in its own field.
    has_refusal: bool,
    is_marked_done: bool,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<Value>,
    error: Option<Value>,
    /// Groq's location of usage and errors.
    x_groq: Option<GroqPart>,
}

#[derive(Deserialize)]
struct GroqPart {
    usage: Option<Value>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default, deserialize_with = "deserialize_lenient")]
    index: Option<u64>,
    delta: Option<Delta>,
    /// Complete message, from servers that do not stream.
    message: Option<Delta>,
    #[serde(default, deserialize_with = "deserialize_lenient")]
    finish_reason: Option<String>,
    /// OpenRouter: finish reason of the upstream vendor.
    #[serde(default, deserialize_with = "deserialize_lenient")]
    native_finish_reason: Option<String>,
    /// Moonshot's location of usage.
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Delta {
    #[serde(default, deserialize_with = "deserialize_lenient")]
    content: Option<Content>,
    /// DeepSeek, xAI, vLLM.
    #[serde(default, deserialize_with = "deserialize_lenient")]
    reasoning_content: Option<String>,
    /// Groq, OpenRouter, Ollama.
    #[serde(default, deserialize_with = "deserialize_lenient")]
    reasoning: Option<String>,
    /// OpenRouter; required back with the calls.
    #[serde(default, deserialize_with = "deserialize_lenient")]
    reasoning_details: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "deserialize_lenient")]
    refusal: Option<String>,
    tool_calls: Option<Vec<WireFragment>>,
    /// Predecessor of `tool_calls`.
    function_call: Option<FunctionFragment>,
}

/// Text, or a list of parts from Mistral's reasoning models.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    thinking: Option<Vec<Part>>,
}

#[derive(Deserialize)]
struct WireFragment {
    #[serde(default, deserialize_with = "deserialize_lenient")]
    index: Option<u64>,
    #[serde(default, deserialize_with = "deserialize_lenient")]
    id: Option<String>,
    function: Option<FunctionFragment>,
    /// Google's signatures in OpenAI's format.
    extra_content: Option<Value>,
    /// Location of the same signatures behind some proxies.
    provider_specific_fields: Option<Value>,
}

#[derive(Deserialize)]
struct FunctionFragment {
    #[serde(default, deserialize_with = "deserialize_lenient")]
    name: Option<String>,
    /// Fragment of JSON text; some servers send the object itself.
    arguments: Option<Value>,
}

impl ChatDecoder {
    /// Creates a decoder. `is_official_endpoint` is false if a compatible server answers in place of the vendor.
    pub(super) fn new(vendor: Vendor, is_official_endpoint: bool, request: &ModelRequest) -> Self {
        Self {
            calls: Calls::new(request.messages.len()),
            opaque: OpaqueReasoning::new(vendor, request),
            wants_reasoning_content: vendor == Vendor::Deepseek || (vendor == Vendor::Openai && !is_official_endpoint),
            reason: None,
            counts: TokenCounts::default(),
            has_content: false,
            has_refusal: false,
            is_marked_done: false,
        }
    }

    fn read_delta(&mut self, delta: Delta, out: &mut VecDeque<ModelEvent>) -> Result<(), VendorError> {
        let queued = out.len();
        self.read_reasoning(delta.reasoning_content, delta.reasoning, delta.reasoning_details, out);
        match delta.content {
            Some(Content::Text(text)) => push_text(out, Some(text)),
            Some(Content::Parts(parts)) => {
                for part in parts {
                    for thought in part.thinking.into_iter().flatten() {
                        push_reasoning(out, thought.text);
                    }
                    push_text(out, part.text);
                }
            }
            None => {}
        }
        self.has_refusal |= delta.refusal.as_ref().is_some_and(|text| !text.is_empty());
        push_text(out, delta.refusal);
        for fragment in delta.tool_calls.into_iter().flatten() {
            let Some(function) = fragment.function else { continue };
            let (index, id) = (fragment.index.unwrap_or(0), fragment.id.unwrap_or_default());
            let call = add_fragment(&mut self.calls, index, &id, function)?;
            insert_field(call, "extra_content", fragment.extra_content);
            insert_field(call, "provider_specific_fields", fragment.provider_specific_fields);
        }
        if let Some(function) = delta.function_call {
            add_fragment(&mut self.calls, 0, "", function)?;
        }
        self.has_content |= out.len() > queued || !self.calls.is_empty();
        Ok(())
    }

    fn read_reasoning(
        &mut self,
        content: Option<String>,
        text: Option<String>,
        details: Option<Vec<Value>>,
        out: &mut VecDeque<ModelEvent>,
    ) {
        let content = content.filter(|text| !text.is_empty());
        if let Some(text) = content.as_ref().filter(|_| self.wants_reasoning_content) {
            self.opaque.push_text("reasoning_content", text);
        }
        let mut shown = content.or(text).filter(|text| !text.is_empty());
        for detail in details.into_iter().flatten() {
            let text = ["text", "summary"].iter().find_map(|name| detail.get(name)?.as_str());
            shown = shown.or_else(|| text.map(str::to_owned));
            self.opaque.push_item("reasoning_details", detail, is_same_detail);
        }
        push_reasoning(out, shown);
    }

    fn read_finish(&mut self, word: Option<String>, native: Option<String>) -> Result<(), VendorError> {
        // OpenRouter reports `error` or `stop` for calls that the vendor rejected.
        let native = native.and_then(|word| read_finish_reason(&word).ok().flatten());
        if let Some(refused @ (FinishReason::MalformedCall | FinishReason::ContentFilter)) = native {
            self.reason = Some(refused);
        } else if let Some(reason) = word.map_or(Ok(None), |word| read_finish_reason(&word))? {
            self.reason = Some(reason);
        }
        Ok(())
    }
}

fn add_fragment<'c>(
    calls: &'c mut Calls,
    index: u64,
    id: &str,
    function: FunctionFragment,
) -> Result<&'c mut serde_json::Map<String, Value>, VendorError> {
    let arguments = match function.arguments {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(whole) => whole.to_string(),
    };
    let name = function.name.unwrap_or_default();
    calls.add(Fragment { index, id, name: &name, arguments: &arguments })
}

/// Whether a reasoning detail continues the previous one. Encrypted details arrive complete.
fn is_same_detail(last: &Value, next: &Value) -> bool {
    let is_text = matches!(next["type"].as_str(), Some("reasoning.text" | "reasoning.summary"));
    is_text && ["type", "index"].iter().all(|name| last[name] == next[name])
}

impl Decoder for ChatDecoder {
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<Progress, VendorError> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(Progress::Metadata);
        }
        if data.eq_ignore_ascii_case("[DONE]") {
            self.is_marked_done = true;
            return Ok(Progress::End);
        }
        let before = (out.len(), self.calls.bytes());
        let chunk: Chunk = parse(data)?;
        let (groq_usage, groq_error) = chunk.x_groq.map_or((None, None), |part| (part.usage, part.error));
        if let Some(error) = chunk.error.or(groq_error) {
            return Err(parse_error_event(&error));
        }
        if chunk.choices.is_none()
            && chunk.usage.is_none()
            && let Some(vendor_error) = VendorError::from_value(&parse::<Value>(data)?)
        {
            return Err(vendor_error);
        }
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0) {
            if let Some(delta) = choice.delta {
                self.read_delta(delta, out)?;
            }
            // Some servers repeat the whole message at the end.
            if let Some(message) = choice.message.filter(|_| !self.has_content) {
                self.read_delta(message, out)?;
            }
            self.read_finish(choice.finish_reason, choice.native_finish_reason)?;
            self.counts.update(&choice.usage.unwrap_or_default());
        }
        for usage in [chunk.usage, groq_usage].into_iter().flatten() {
            self.counts.update(&usage);
        }
        Ok(classify_progress(before, (out.len(), self.calls.bytes())))
    }

    fn has_finish_reason(&self) -> bool {
        self.reason.is_some()
    }

    fn finish(&mut self, out: &mut VecDeque<ModelEvent>) -> Option<Finish> {
        let reason = self.reason.or(self.is_marked_done.then_some(FinishReason::Other))?;
        let calls = self.opaque.take_calls(&mut self.calls);
        let reason = match reason {
            _ if self.has_refusal => FinishReason::ContentFilter,
            // Some servers report `stop`, or nothing, after tool calls.
            FinishReason::Stop | FinishReason::Other if !calls.is_empty() => FinishReason::ToolUse,
            reason => reason,
        };
        out.extend(calls.into_iter().map(ModelEvent::ToolCall));
        Some(Finish { reason, usage: self.counts.normalized(Convention::OpenAi) })
    }
}
