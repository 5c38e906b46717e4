//! The chunks of an answer, each a `GenerateContentResponse`.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;

use crate::complaint::Complaint;
use crate::wire::calls::Calls;
use crate::wire::{Decoder, Progress, parse, push_reasoning, push_text, reported};
use crate::{Finish, FinishReason, ModelEvent, Replay, Usage, UsageSource, Vendor};

pub(super) struct ContentDecoder {
    calls: Calls,
    made_calls: u64,
    reason: Option<FinishReason>,
    usage: Usage,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    candidates: Option<Vec<Candidate>>,
    prompt_feedback: Option<PromptFeedback>,
    usage_metadata: Option<UsageMetadata>,
    response_id: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    index: u64,
    content: Option<Content>,
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
    #[serde(default)]
    thought: bool,
    function_call: Option<FunctionCall>,
    thought_signature: Option<String>,
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UsageMetadata {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

impl UsageMetadata {
    /// Thoughts are counted beside the candidates, cached tokens within the prompt.
    fn normalized(&self) -> Usage {
        let reasoning_tokens = self.thoughts_token_count.unwrap_or(0);
        let prompt = self.prompt_token_count.unwrap_or(0);
        Usage {
            input_tokens: prompt.saturating_add(self.tool_use_prompt_token_count.unwrap_or(0)),
            output_tokens: self.candidates_token_count.unwrap_or(0).saturating_add(reasoning_tokens),
            cache_read_tokens: self.cached_content_token_count.unwrap_or(0),
            cache_write_tokens: 0,
            reasoning_tokens,
            source: UsageSource::Provider,
        }
    }
}

impl ContentDecoder {
    pub(super) fn new(turn: usize) -> Self {
        Self { calls: Calls::new(turn), made_calls: 0, reason: None, usage: Usage::default() }
    }

    fn read_part(&mut self, part: Part, response_id: &str, out: &mut VecDeque<ModelEvent>) -> Result<(), Complaint> {
        if part.thought {
            push_reasoning(out, part.text);
        } else {
            push_text(out, part.text);
        }
        let Some(call) = part.function_call else { return Ok(()) };
        let id = match call.id {
            Some(id) if !id.is_empty() => id,
            // The response's id is unique, which numbers alone are not across turns.
            _ if !response_id.is_empty() => format!("{response_id}_{}", self.made_calls),
            _ => String::new(),
        };
        let arguments = call.args.map(|args| args.to_string()).unwrap_or_default();
        self.calls.fragment(self.made_calls, &id, &call.name, &arguments)?;
        self.made_calls += 1;
        if let Some(data) = part.thought_signature {
            self.calls.set_last_replay(Replay { vendor: Vendor::Google, data });
        }
        Ok(())
    }
}

impl Decoder for ContentDecoder {
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<Progress, Complaint> {
        if data.trim().is_empty() {
            return Ok(Progress::More);
        }
        let chunk: Chunk = parse(data)?;
        if let Some(error) = chunk.error {
            return Err(reported(&error));
        }
        if let Some(usage) = chunk.usage_metadata {
            self.usage = usage.normalized();
        }
        let response_id = chunk.response_id.unwrap_or_default();
        for candidate in chunk.candidates.into_iter().flatten().filter(|candidate| candidate.index == 0) {
            for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
                self.read_part(part, &response_id, out)?;
            }
            if let Some(word) = candidate.finish_reason {
                self.reason = Some(finish_reason(&word));
            }
        }
        if self.reason.is_some() {
            out.extend(self.calls.take().into_iter().map(ModelEvent::ToolCall));
        }
        if chunk.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            self.reason = Some(FinishReason::ContentFilter);
        }
        Ok(Progress::More)
    }

    fn end_of_body(&mut self) -> Option<Finish> {
        let reason = match self.reason? {
            FinishReason::Stop if self.made_calls > 0 => FinishReason::ToolUse,
            reason => reason,
        };
        Some(Finish { reason, usage: self.usage })
    }
}

fn finish_reason(word: &str) -> FinishReason {
    match word {
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "IMAGE_SAFETY" => {
            FinishReason::ContentFilter
        }
        _ => FinishReason::Other,
    }
}
