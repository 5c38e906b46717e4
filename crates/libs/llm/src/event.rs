//! Events of a model's streamed answer.

use serde::{Deserialize, Serialize};

use crate::ToolCall;

#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// Text, one event per chunk that the vendor sends: never joined, never empty.
    Text(String),
    /// Visible reasoning, one event per chunk.
    Reasoning(String),
    /// Complete tool call. The calls of one answer are emitted together, in the model's order, before the end.
    ToolCall(ToolCall),
    /// Last event of a stream that ended properly; not emitted otherwise.
    Finished(Finish),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finish {
    pub reason: FinishReason,
    pub usage: Usage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    Stop,
    /// The output limit or the context window was reached; the answer is incomplete.
    Length,
    ToolUse,
    /// The model or a filter of its vendor refused to answer or to continue.
    ContentFilter,
    /// The vendor could not parse a tool call of its model.
    MalformedCall,
    Other,
}

/// Token counts of one call, normalized to the same meaning for every vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the whole prompt, including those read from and written to a cache.
    pub input_tokens: u64,
    /// All generated tokens, including reasoning and tool calls.
    pub output_tokens: u64,
    /// Part of `input_tokens` that was read from a cache.
    pub cache_read_tokens: u64,
    /// Part of `input_tokens` that was written to a cache.
    pub cache_write_tokens: u64,
    /// Reasoning tokens, part of `output_tokens`; 0 if the vendor does not report them.
    pub reasoning_tokens: u64,
    pub source: UsageSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// Reported by the provider.
    Provider,
    /// Estimated from the text by the caller; the backends in this crate never estimate.
    Estimated,
    /// Not reported; the counts are 0.
    #[default]
    Missing,
}
