//! The local model: its files and its model backend.
//!
//! A model whose chat template supports tools is offered them through that template ([`template`]). Any other model is
//! offered none ([`history`]).

mod backend;
mod files;
mod history;
mod template;

pub use backend::LocalBackend;
pub(crate) use backend::SMALL_MODEL_BYTES;
pub use files::LocalOptions;

/// Returns the message for a model file that does not support tools, with a remedy.
#[must_use]
pub fn no_tools_message(file: &str) -> String {
    format!(
        "The chat template of {file} does not support tools, so agents that use it cannot call any. Use a model with \
         tool support, such as Qwen 2.5, Mistral or Llama 3.1, or a provider."
    )
}
