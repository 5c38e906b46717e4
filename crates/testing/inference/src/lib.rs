//! Test doubles for local models: [`FakeEmbedder`] computes vectors without a model file, and [`scripted`] is an
//! inference process with a scripted model.

mod chunks;
mod embedder;
mod gguf;
pub mod scripted;

pub use embedder::FakeEmbedder;
