//! The chunks of an answer.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;

use crate::complaint::Complaint;
use crate::wire::calls::Calls;
use crate::wire::{Decoder, Progress, parse, push_reasoning, push_text, reported};
use crate::{Finish, FinishReason, ModelEvent, Replay, Usage, UsageSource, Vendor};

/// Reasoning beyond this is not kept for DeepSeek to get back.
const MAX_REPLAYED_REASONING_BYTES: usize = 1024 * 1024;

pub(super) struct ChatDecoder {
    vendor: Vendor,
    calls: Calls,
    reason: Option<FinishReason>,
    usage: Usage,
    /// Kept only where the vendor wants it back.
    reasoning: String,
    made_calls: bool,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<WireUsage>,
    error: Option<Value>,
    /// Groq's own place for usage and errors.
    x_groq: Option<GroqPart>,
}

#[derive(Deserialize)]
struct GroqPart {
    usage: Option<WireUsage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Content>,
    /// DeepSeek, xAI, vLLM.
    reasoning_content: Option<String>,
    /// Groq, OpenRouter, Ollama.
    reasoning: Option<String>,
    refusal: Option<String>,
    tool_calls: Option<Vec<Fragment>>,
}

/// Mistral's reasoning models send a list of parts.
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
struct Fragment {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionFragment>,
}

#[derive(Deserialize)]
struct FunctionFragment {
    name: Option<String>,
    /// A piece of JSON text; some servers send the object itself.
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
    /// DeepSeek's name for cached tokens.
    prompt_cache_hit_tokens: Option<u64>,
    /// Mistral's name for them.
    num_cached_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
    /// OpenRouter, and OpenAI's models that bill it.
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl WireUsage {
    fn normalized(&self) -> Usage {
        let prompt = self.prompt_tokens.unwrap_or(0);
        let completion = self.completion_tokens.unwrap_or(0);
        let reasoning =
            self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens).unwrap_or(0);
        // xAI counts reasoning beside the completion and not in it; the total tells.
        let separate = prompt.saturating_add(completion).saturating_add(reasoning);
        let is_separate = reasoning > 0 && self.total_tokens.is_some_and(|total| total >= separate);
        let details = self.prompt_tokens_details.as_ref();
        let cached = details.and_then(|details| details.cached_tokens);
        Usage {
            input_tokens: prompt,
            output_tokens: if is_separate { completion.saturating_add(reasoning) } else { completion },
            cache_read_tokens: cached.or(self.prompt_cache_hit_tokens).or(self.num_cached_tokens).unwrap_or(0),
            cache_write_tokens: details.and_then(|details| details.cache_write_tokens).unwrap_or(0),
            reasoning_tokens: reasoning,
            source: UsageSource::Provider,
        }
    }
}

impl ChatDecoder {
    pub(super) fn new(vendor: Vendor, turn: usize) -> Self {
        Self {
            vendor,
            calls: Calls::new(turn),
            reason: None,
            usage: Usage::default(),
            reasoning: String::new(),
            made_calls: false,
        }
    }

    fn read_delta(&mut self, delta: Delta, out: &mut VecDeque<ModelEvent>) -> Result<(), Complaint> {
        let shown = delta.reasoning_content.filter(|text| !text.is_empty()).or(delta.reasoning);
        if let Some(text) = &shown
            && self.vendor == Vendor::Deepseek
            && self.reasoning.len() + text.len() <= MAX_REPLAYED_REASONING_BYTES
        {
            self.reasoning.push_str(text);
        }
        push_reasoning(out, shown);
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
        push_text(out, delta.refusal);
        for fragment in delta.tool_calls.into_iter().flatten() {
            let Some(function) = fragment.function else { continue };
            let arguments = match function.arguments {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text,
                Some(whole) => whole.to_string(),
            };
            let (id, name) = (fragment.id.unwrap_or_default(), function.name.unwrap_or_default());
            self.calls.fragment(fragment.index.unwrap_or(0), &id, &name, &arguments)?;
        }
        Ok(())
    }

    fn hand_out_calls(&mut self, out: &mut VecDeque<ModelEvent>) {
        if !self.reasoning.is_empty() {
            let data = std::mem::take(&mut self.reasoning);
            self.calls.set_first_replay(Replay { vendor: self.vendor, data });
        }
        self.made_calls |= !self.calls.is_empty();
        out.extend(self.calls.take().into_iter().map(ModelEvent::ToolCall));
    }

    fn finish_reason(&self, word: &str) -> Result<FinishReason, Complaint> {
        Ok(match word {
            "stop" | "eos" | "end_turn" => FinishReason::Stop,
            "length" | "model_length" | "max_tokens" => FinishReason::Length,
            "tool_calls" | "function_call" => FinishReason::ToolUse,
            "content_filter" => FinishReason::ContentFilter,
            // DeepSeek; Mistral and OpenRouter.
            "insufficient_system_resource" => {
                return Err(Complaint { words: word.to_owned(), ..Complaint::default() });
            }
            "error" => {
                let message = "the model stopped with an error".to_owned();
                return Err(Complaint { words: word.to_owned(), message, ..Complaint::default() });
            }
            _ => FinishReason::Other,
        })
    }
}

impl Decoder for ChatDecoder {
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<Progress, Complaint> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(Progress::More);
        }
        if data == "[DONE]" {
            self.hand_out_calls(out);
            let reason = match self.reason {
                // Some servers say `stop` after tool calls.
                Some(FinishReason::Stop) if self.made_calls => FinishReason::ToolUse,
                Some(reason) => reason,
                None if self.made_calls => FinishReason::ToolUse,
                None => FinishReason::Other,
            };
            return Ok(Progress::End(Finish { reason, usage: self.usage }));
        }
        let chunk: Chunk = parse(data)?;
        let (groq_usage, groq_error) = chunk.x_groq.map_or((None, None), |part| (part.usage, part.error));
        if let Some(error) = chunk.error.or(groq_error) {
            return Err(reported(&error));
        }
        if chunk.choices.is_none()
            && chunk.usage.is_none()
            && let Some(complaint) = Complaint::from_value(&parse::<Value>(data)?)
        {
            return Err(complaint);
        }
        if let Some(usage) = chunk.usage.or(groq_usage) {
            self.usage = usage.normalized();
        }
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            if let Some(delta) = choice.delta {
                self.read_delta(delta, out)?;
            }
            if let Some(word) = choice.finish_reason.filter(|word| !word.is_empty()) {
                self.reason = Some(self.finish_reason(&word)?);
                self.hand_out_calls(out);
            }
        }
        Ok(Progress::More)
    }
}
