//! What a model answers, piece by piece.

use serde::{Deserialize, Serialize};

use crate::ToolCall;

#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// Exactly one for each piece of text that the vendor sends: never joined, never empty.
    Text(String),
    /// Likewise, for what the model shows of its thinking.
    Reasoning(String),
    /// A complete call. Those of one answer come together, in the model's order, before the end.
    ToolCall(ToolCall),
    /// The last event of a stream that came to its proper end, and of no other.
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
    /// The output limit or the context window was reached; what was said is incomplete.
    Length,
    ToolUse,
    /// The model or a filter of its vendor refused to answer, or to go on.
    ContentFilter,
    /// The vendor could not read a tool call of its model.
    MalformedCall,
    Other,
}

/// Tokens of one call, in the same sense for every vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// The whole prompt, what was read from and written to a cache included.
    pub input_tokens: u64,
    /// All that was generated, reasoning and tool calls included.
    pub output_tokens: u64,
    /// Part of `input_tokens`.
    pub cache_read_tokens: u64,
    /// Part of `input_tokens`.
    pub cache_write_tokens: u64,
    /// Part of `output_tokens`; 0 where the vendor does not say.
    pub reasoning_tokens: u64,
    pub source: UsageSource,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// Counted by whoever ran the model.
    Provider,
    /// Guessed from the text; backends here never guess, a caller may.
    Estimated,
    /// Not told; the numbers are 0.
    #[default]
    Missing,
}
