//! The events of an answer. Unknown events, blocks and deltas are skipped, as the documentation
//! asks of clients.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::Value;

use crate::complaint::Complaint;
use crate::wire::calls::Calls;
use crate::wire::{Decoder, Progress, parse, push_reasoning, push_text, reported};
use crate::{Finish, FinishReason, ModelEvent, Usage, UsageSource};

pub(super) struct MessagesDecoder {
    calls: Calls,
    reason: FinishReason,
    usage: WireUsage,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {},
    MessageDelta {
        delta: End,
        usage: Option<WireUsage>,
    },
    MessageStop {},
    Error {
        error: Value,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct Start {
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: Option<String>,
    },
    Thinking {
        thinking: Option<String>,
    },
    ToolUse {
        id: String,
        name: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct End {
    stop_reason: Option<String>,
}

/// What `message_start` says and `message_delta` overrides, field by field.
#[derive(Deserialize, Default)]
struct WireUsage {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

impl WireUsage {
    fn update(&mut self, newer: Self) {
        self.input_tokens = newer.input_tokens.or(self.input_tokens);
        self.cache_creation_input_tokens = newer.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens = newer.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.output_tokens = newer.output_tokens.or(self.output_tokens);
        self.output_tokens_details = newer.output_tokens_details.or(self.output_tokens_details.take());
    }

    /// `input_tokens` of the format is what neither came from a cache nor went into one.
    fn normalized(&self) -> Usage {
        let Some(output_tokens) = self.output_tokens else { return Usage::default() };
        let cache_read_tokens = self.cache_read_input_tokens.unwrap_or(0);
        let cache_write_tokens = self.cache_creation_input_tokens.unwrap_or(0);
        let fresh = self.input_tokens.unwrap_or(0);
        Usage {
            input_tokens: fresh.saturating_add(cache_read_tokens).saturating_add(cache_write_tokens),
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
            reasoning_tokens: self.output_tokens_details.as_ref().and_then(|d| d.thinking_tokens).unwrap_or(0),
            source: UsageSource::Provider,
        }
    }
}

impl MessagesDecoder {
    pub(super) fn new(turn: usize) -> Self {
        Self { calls: Calls::new(turn), reason: FinishReason::Other, usage: WireUsage::default() }
    }
}

impl Decoder for MessagesDecoder {
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<Progress, Complaint> {
        if data.trim().is_empty() {
            return Ok(Progress::More);
        }
        match parse::<Event>(data)? {
            Event::MessageStart { message } => self.usage.update(message.usage.unwrap_or_default()),
            Event::ContentBlockStart { index, content_block } => match content_block {
                Block::Text { text } => push_text(out, text),
                Block::Thinking { thinking } => push_reasoning(out, thinking),
                Block::ToolUse { id, name } => self.calls.fragment(index, &id, &name, "")?,
                Block::Unknown => {}
            },
            Event::ContentBlockDelta { index, delta } => match delta {
                Delta::Text { text } => push_text(out, Some(text)),
                Delta::Thinking { thinking } => push_reasoning(out, Some(thinking)),
                Delta::InputJson { partial_json } => self.calls.extend(index, &partial_json)?,
                Delta::Unknown => {}
            },
            Event::ContentBlockStop {} | Event::Unknown => {}
            Event::MessageDelta { delta, usage } => {
                self.usage.update(usage.unwrap_or_default());
                if let Some(word) = delta.stop_reason {
                    self.reason = finish_reason(&word);
                }
            }
            Event::MessageStop {} => {
                out.extend(self.calls.take().into_iter().map(ModelEvent::ToolCall));
                return Ok(Progress::End(Finish { reason: self.reason, usage: self.usage.normalized() }));
            }
            Event::Error { error } => return Err(reported(&error)),
        }
        Ok(Progress::More)
    }
}

fn finish_reason(word: &str) -> FinishReason {
    match word {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolUse,
        "refusal" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    }
}
