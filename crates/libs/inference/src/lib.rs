//! The models inside the daemon, one that writes and one that embeds: each in a child process of the
//! same binary, spoken to over a private pipe.
//!
//! A bad model file can crash native code, and native code does not give memory back. So the engine
//! runs in processes of its own: [`LocalModel`] and [`embedder::LocalEmbedder`] start theirs on first
//! use, restart it after a crash, and end it when it was idle for a while; [`worker::run`] is what
//! such a process runs.
//!
//! Invariants: every request ends, with a whole reply or with one error, whatever the process does;
//! queues and buffers are bounded; nothing here blocks the runtime.
//!
//! A model whose chat template has tools can call them ([`LocalModel::supports_tools`]): they go into its prompt, its
//! reply follows a grammar as soon as it begins a call, and calls are read out of it. Other models are offered none.
//!
//! The process that embeds finds the names in texts as well ([`embedder::EmbeddedText::names`]).
//!
//! Deliberately absent: the daemon's own model interface (it adapts to this one), choosing and
//! downloading model files, the prompts of conversations, and where vectors are kept.

mod child;
pub mod embedder;
mod fair_queue;
mod gguf;
mod local;
pub mod protocol;
#[cfg_attr(not(any(feature = "local-model", test)), allow(dead_code, reason = "without an engine nothing is tagged"))]
mod tagger;
mod types;
pub mod worker;

use std::path::Path;

pub use embedder::{Embedder, LocalEmbedder};
pub use fair_queue::FairQueue;
pub use gguf::{ModelFacts, read_model_facts};
pub use local::{LocalModel, LocalModelOptions, LocalStream, supports_tools};
pub use types::{
    AnsweredCall, ChatMessage, ChatRole, FinishReason, FunctionCall, GenerateRequest, LocalError, LocalErrorCode,
    LocalEvent, LocalState, LocalStatus, ToolCall, ToolDefinition,
};

/// Whether this binary has the engine in it.
pub const BUILT_IN: bool = cfg!(feature = "local-model");

#[cfg(not(feature = "local-model"))]
pub(crate) const NOT_BUILT_IN: &str =
    "this binary was built without the model inside; build it with the feature `local-model`, or use a provider";

pub(crate) fn model_missing(path: &Path) -> LocalError {
    LocalError::new(
        LocalErrorCode::ModelMissing,
        format!(
            "there is no model file at {}; fetch the default one with `make models`, or put any GGUF file there",
            path.display()
        ),
    )
}
