//! Tool calls in the forms that models are trained to write, for models whose chat template knows tools.
//!
//! A form counts only if it can be read back: what is none of these is left to the rules of whoever asks.
//!
//! Deliberately absent: forms that few models use, and those that are not JSON.

mod grammar;
mod reader;

pub use grammar::CallGrammar;
pub(crate) use reader::{Change, ToolCallReader};

/// A form of tool calls that can be read out of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, once for each call: Hermes, Qwen.
    Hermes,
    /// `[TOOL_CALLS] [{"name": …, "arguments": {…}}, …]`, which ends the reply: Mistral.
    Mistral,
    /// `{"name": …, "parameters": {…}}`, which is the whole reply: Llama 3.1 and later.
    Llama,
}

impl ToolFormat {
    pub(crate) const ALL: [Self; 3] = [Self::Hermes, Self::Mistral, Self::Llama];

    /// What a call stands between. Decoding must show these although they may be control tokens.
    pub(crate) fn delimiters(self) -> &'static [&'static str] {
        match self {
            Self::Hermes => &["<tool_call>", "</tool_call>"],
            Self::Mistral => &["[TOOL_CALLS]"],
            Self::Llama => &[],
        }
    }

    /// What no message may spell out, so that none can forge a call or an answer to one. In some files these
    /// are ordinary text to the tokenizer.
    pub(crate) fn markers(self) -> &'static [&'static str] {
        match self {
            Self::Hermes => {
                &["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>"]
            }
            Self::Mistral => &[
                "[TOOL_CALLS]",
                "[TOOL_RESULTS]",
                "[/TOOL_RESULTS]",
                "[AVAILABLE_TOOLS]",
                "[/AVAILABLE_TOOLS]",
                "[INST]",
                "[/INST]",
            ],
            Self::Llama => &[],
        }
    }

    /// Whether a message makes one call at most.
    pub(crate) fn is_single(self) -> bool {
        self == Self::Llama
    }

    fn arguments_field(self) -> &'static str {
        match self {
            Self::Hermes | Self::Mistral => "arguments",
            Self::Llama => "parameters",
        }
    }
}
