//! Tool call formats that models are trained on, for models whose chat template supports tools.
//!
//! Only formats that can be parsed are supported; for others, the caller's own rules apply.
//!
//! Out of scope: rarely used formats, and formats that are not JSON.

mod grammar;
mod reader;

pub use grammar::CallGrammar;
pub(crate) use reader::{Change, ToolCallReader};

/// Tool call format that can be parsed from a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, once per call: Hermes, Qwen.
    Hermes,
    /// `[TOOL_CALLS] [{"name": …, "arguments": {…}}, …]`, which ends the reply: Mistral.
    Mistral,
    /// `{"name": …, "parameters": {…}}`, which is the whole reply: Llama 3.1 and later.
    Llama,
}

impl ToolFormat {
    pub(crate) const ALL: [Self; 3] = [Self::Hermes, Self::Mistral, Self::Llama];

    /// Returns the delimiters of a call. Decoding must output them although they may be control tokens.
    pub(crate) fn delimiters(self) -> &'static [&'static str] {
        match self {
            Self::Hermes => &["<tool_call>", "</tool_call>"],
            Self::Mistral => &["[TOOL_CALLS]"],
            Self::Llama => &[],
        }
    }

    /// Returns the markers that a message must not contain, so that it cannot forge a call or its result. In some
    /// files, the tokenizer treats them as ordinary text.
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

    /// Whether a message contains at most one call.
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
