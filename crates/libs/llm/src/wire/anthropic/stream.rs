//! Decoder for the events of an answer. Unknown events, blocks and deltas are skipped, as the documentation requires of
//! clients.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::vendor_error::VendorError;
use crate::wire::calls::Calls;
use crate::wire::finish::read_finish_reason;
use crate::wire::format::{
    Decoder, Progress, classify_progress, deserialize_lenient, parse, parse_error_event, push_reasoning, push_text,
};
use crate::wire::opaque::OpaqueReasoning;
use crate::wire::usage::{Convention, TokenCounts};
use crate::{Finish, FinishReason, ModelEvent, ModelRequest, Vendor};

/// Field under which the thinking blocks of an answer are stored.
pub(super) const THINKING: &str = "thinking";

pub(super) struct MessagesDecoder {
    calls: Calls,
    opaque: OpaqueReasoning,
    reason: Option<FinishReason>,
    counts: TokenCounts,
    is_marked_done: bool,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Option<Start>,
    },
    ContentBlockStart {
        #[serde(default)]
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        #[serde(default)]
        index: u64,
        delta: Delta,
    },
    MessageDelta {
        delta: Option<End>,
        usage: Option<Value>,
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
    usage: Option<Value>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        text: Option<String>,
    },
    Thinking {
        thinking: Option<String>,
        signature: Option<String>,
    },
    RedactedThinking {
        data: Option<String>,
    },
    ToolUse {
        #[serde(default, deserialize_with = "deserialize_lenient")]
        id: Option<String>,
        name: String,
        /// `{}` if the input follows in deltas; some servers send all of it here.
        input: Option<Value>,
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
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct End {
    #[serde(default, deserialize_with = "deserialize_lenient")]
    stop_reason: Option<String>,
}

impl MessagesDecoder {
    pub(super) fn new(request: &ModelRequest) -> Self {
        Self {
            calls: Calls::new(request.messages.len()),
            opaque: OpaqueReasoning::new(Vendor::Anthropic, request),
            reason: None,
            counts: TokenCounts::default(),
            is_marked_done: false,
        }
    }

    /// Stores a part of a thinking block; `index` identifies the block.
    fn store_thinking(&mut self, index: u64, mut part: Value) {
        part["index"] = index.into();
        self.opaque.push_item(THINKING, part, |last, next| last["index"] == next["index"]);
    }

    fn begin_block(&mut self, index: u64, block: Block, out: &mut VecDeque<ModelEvent>) -> Result<(), VendorError> {
        match block {
            Block::Text { text } => push_text(out, text),
            Block::Thinking { thinking, signature } => {
                let text = thinking.unwrap_or_default();
                self.store_thinking(index, json!({"type": "thinking", "thinking": text, "signature": signature}));
                push_reasoning(out, Some(text));
            }
            Block::RedactedThinking { data } => {
                self.store_thinking(index, json!({"type": "redacted_thinking", "data": data}));
            }
            Block::ToolUse { id, name, input } => {
                self.calls.begin(index, &id.unwrap_or_default(), &name, input)?;
            }
            Block::Unknown => {}
        }
        Ok(())
    }
}

impl Decoder for MessagesDecoder {
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Result<Progress, VendorError> {
        if data.trim().is_empty() {
            return Ok(Progress::Metadata);
        }
        let before = (out.len(), self.calls.bytes());
        match parse::<Event>(data)? {
            Event::MessageStart { message } => {
                self.counts.update(&message.and_then(|message| message.usage).unwrap_or_default());
            }
            Event::ContentBlockStart { index, content_block } => self.begin_block(index, content_block, out)?,
            Event::ContentBlockDelta { index, delta } => match delta {
                Delta::Text { text } => push_text(out, Some(text)),
                Delta::Thinking { thinking } => {
                    self.store_thinking(index, json!({"type": "thinking", "thinking": thinking}));
                    push_reasoning(out, Some(thinking));
                }
                Delta::Signature { signature } => {
                    self.store_thinking(index, json!({"type": "thinking", "signature": signature}));
                }
                Delta::InputJson { partial_json } => self.calls.extend(index, &partial_json)?,
                Delta::Unknown => {}
            },
            Event::Unknown => {}
            Event::MessageDelta { delta, usage } => {
                self.counts.update(&usage.unwrap_or_default());
                if let Some(word) = delta.and_then(|delta| delta.stop_reason) {
                    self.reason = read_finish_reason(&word)?.or(self.reason);
                }
            }
            Event::MessageStop {} => {
                self.is_marked_done = true;
                return Ok(Progress::End);
            }
            Event::Error { error } => return Err(parse_error_event(&error)),
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
            FinishReason::Stop | FinishReason::Other if !calls.is_empty() => FinishReason::ToolUse,
            reason => reason,
        };
        out.extend(calls.into_iter().map(ModelEvent::ToolCall));
        Some(Finish { reason, usage: self.counts.normalized(Convention::Anthropic) })
    }
}
