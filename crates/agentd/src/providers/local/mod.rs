//! The model inside the daemon: its files, and the trait that every model answers to.
//!
//! A model whose chat template knows tools is driven by that template ([`template`]). For any other,
//! [`rules`] say whether a tool is called where tools are offered, before it writes a word; without tools,
//! and where none fits, a reply is the model's own, piece by piece.

mod backend;
mod files;
mod rules;
mod template;

pub use backend::LocalBackend;
pub(in crate::providers) use backend::SMALL_MODEL_BYTES;
pub use files::LocalOptions;
