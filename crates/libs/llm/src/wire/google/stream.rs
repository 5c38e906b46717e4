//! Decoder for the chunks of an answer, each a `GenerateContentResponse`.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;

use crate::vendor_error::VendorError;
use crate::wire::calls::Calls;
use crate::wire::finish::read_finish_reason;
use crate::wire::format::{
    Decoder, Progress, classify_progress, deserialize_lenient, parse, parse_error_event, push_reasoning, push_text,
};
use crate::wire::opaque::{OpaqueReasoning, insert_field};
use crate::wire::usage::{Convention, TokenCounts};
use crate::{Finish, FinishReason, ModelEvent, ModelRequest, Vendor};

pub(super) struct ContentDecoder {
    calls: Calls,
    call_count: u64,
    opaque: OpaqueReasoning,
    reason: Option<FinishReason>,
    counts: TokenCounts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<Value>,
    response_id: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default, deserialize_with = "deserialize_lenient")]
    index: Option<u64>,
    content: Option<Content>,
    #[serde(default, deserialize_with = "deserialize_lenient")]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    parts: Option<Vec<Part>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    text: Option<String>,
    thought: Option<bool>,
    function_call: Option<FunctionCall>,
    thought_signature: Option<Value>,
}

#[derive(Deserialize)]
struct FunctionCall {
    id: Option<String>,
    name: String,
    args: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

impl ContentDecoder {
    pub(super) fn new(request: &ModelRequest) -> Self {
        Self {
            calls: Calls::new(request.messages.len()),
            call_count: 0,
            opaque: OpaqueReasoning::new(Vendor::Google, request),
            reason: None,
            counts: TokenCounts::default(),
        }
    }

    fn read_part(&mut self, part: Part, response_id: &str, out: &mut VecDeque<ModelEvent>) -> Result<(), VendorError> {
        if part.thought.unwrap_or(false) {
            push_reasoning(out, part.text);
        } else {
            push_text(out, part.text);
        }
        let Some(call) = part.function_call else { return Ok(()) };
        let id = match call.id {
            Some(id) if !id.is_empty() => id,
            // The response id is unique, unlike numbers, which repeat across turns.
            _ if !response_id.is_empty() => format!("{response_id}_{}", self.call_count),
            _ => String::new(),
        };
        let opaque = self.calls.begin(self.call_count, &id, &call.name, call.args)?;
        insert_field(opaque, "thought_signature", part.thought_signature);
        self.call_count += 1;
        Ok(())
    }
}

impl Decoder for ContentDecoder {
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<Progress, VendorError> {
        if data.trim().is_empty() {
            return Ok(Progress::Metadata);
        }
        let before = (out.len(), self.calls.bytes());
        let chunk: Chunk = parse(data)?;
        if let Some(error) = chunk.error {
            return Err(parse_error_event(&error));
        }
        if let Some(usage) = chunk.usage_metadata {
            self.counts.update(&usage);
        }
        let response_id = chunk.response_id.unwrap_or_default();
        for candidate in chunk.candidates.into_iter().flatten().filter(|one| one.index.unwrap_or(0) == 0) {
            for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
                self.read_part(part, &response_id, out)?;
            }
            if let Some(word) = candidate.finish_reason {
                self.reason = read_finish_reason(&word)?.or(self.reason);
            }
        }
        if chunk.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            self.reason = Some(FinishReason::ContentFilter);
        }
        Ok(classify_progress(before, (out.len(), self.calls.bytes())))
    }

    fn has_finish_reason(&self) -> bool {
        self.reason.is_some()
    }

    fn finish(&mut self, out: &mut VecDeque<ModelEvent>) -> Option<Finish> {
        let reason = match self.reason? {
            FinishReason::Stop if !self.calls.is_empty() => FinishReason::ToolUse,
            reason => reason,
        };
        out.extend(self.opaque.take_calls(&mut self.calls).into_iter().map(ModelEvent::ToolCall));
        Some(Finish { reason, usage: self.counts.normalized(Convention::Google) })
    }
}
