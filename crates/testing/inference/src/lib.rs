//! Test doubles for local models: [`FakeEmbedder`] computes vectors without a model file, and [`scripted`] is an
//! inference process whose model follows a script.

mod chunks;
mod embedder;
mod gguf;
pub mod scripted;

pub use embedder::FakeEmbedder;
