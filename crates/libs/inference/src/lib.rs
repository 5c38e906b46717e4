//! Local models of the daemon, one for text generation and one for embeddings. Each runs in a child process of the same
//! binary, connected by a private pipe.
//!
//! A bad model file can crash native code, and native code does not release its memory. Therefore the engine runs in
//! separate processes: [`LocalModel`] and [`embedder::LocalEmbedder`] start theirs on first use, restart it after a
//! crash, and end it when idle; [`worker::run`] is the entry point of such a process.
//!
//! Invariants: every request ends with a complete reply or with one error, whatever the process does; queues and
//! buffers are bounded; nothing here blocks the runtime.
//!
//! Models whose chat template supports tools can call them ([`LocalModel::supports_tools`]): the tools are included in
//! the prompt, a call is constrained by a grammar from its beginning, and calls are parsed from the reply. Other models
//! are not offered tools.
//!
//! The embedding process also finds the names in texts ([`embedder::EmbeddedText::names`]).
//!
//! Out of scope: the daemon's model interface (which adapts to this one), selection and download of model files,
//! conversation prompts, and storage of vectors.

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

/// Whether this binary contains the engine.
pub const BUILT_IN: bool = cfg!(feature = "local-model");

#[cfg(not(feature = "local-model"))]
pub(crate) const NOT_BUILT_IN: &str =
    "this binary was built without the built-in model; build it with the feature `local-model`, or use a provider";

pub(crate) fn model_missing(path: &Path) -> LocalError {
    LocalError::new(
        LocalErrorCode::ModelMissing,
        format!(
            "model file {} not found; download the default one with `make models`, or copy a GGUF file there",
            path.display()
        ),
    )
}
