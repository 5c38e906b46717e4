//! The local model: its files, and the trait that every model implements.
//!
//! A model whose chat template has tools is offered them through that template ([`template`]). Any other model is
//! offered none ([`history`]).

mod backend;
mod files;
mod history;
mod template;

pub use backend::LocalBackend;
pub(crate) use backend::SMALL_MODEL_BYTES;
pub use files::LocalOptions;

/// Why agents are offered no tools with this model file, and what to do about it.
#[must_use]
pub fn without_tools(file: &str) -> String {
    format!(
        "The chat template of {file} has no tools, so agents that use it cannot call any. Use a model with tools, such \
         as Qwen 2.5, Mistral or Llama 3.1, or a provider."
    )
}
