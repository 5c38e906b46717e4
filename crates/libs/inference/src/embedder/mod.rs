//! Text embeddings: vectors that are close together for texts of similar meaning.
//!
//! A text is split into chunks of at most [`EmbedderLimits::max_chunk_tokens`] tokens, at sentence ends where possible.
//! Each chunk becomes one vector of length 1, so that the inner product of two vectors is their cosine.
//!
//! [`LocalEmbedder`] runs a sentence encoder in a child process. [`Embedder`] is its interface.
//!
//! Out of scope: storage and search of vectors.

#[cfg_attr(not(any(feature = "local-model", test)), allow(dead_code, reason = "without an engine nothing is cut"))]
pub(crate) mod chunker;
mod jobs;
mod local;
mod model_file;
mod options;
mod supervisor;

use std::ops::Range;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub use local::LocalEmbedder;
#[cfg(feature = "local-model")]
pub(crate) use model_file::unusable;
pub use options::EmbedderOptions;

use crate::{LocalError, LocalState};

/// Length of every vector. Models with another length are rejected, since the indexes are built for this one.
pub const DIMENSIONS: usize = 384;

/// Name of the file that `make models` puts into the models folder.
pub const DEFAULT_MODEL_FILE: &str = "all-minilm-l6-v2-q8_0.gguf";

/// Maximum size of a text in bytes; slightly more than the limit of an episode.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// Number of bytes of a query that are read; the encoder uses fewer.
pub const MAX_QUERY_BYTES: usize = 16 << 10;

/// Maximum number of texts per call.
pub const MAX_TEXTS_PER_CALL: usize = 1024;

/// Limits for splitting texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedderLimits {
    /// Maximum number of tokens per chunk, including the two that the encoder adds. The default model was trained with
    /// 256.
    pub max_chunk_tokens: usize,
    /// Maximum number of tokens shared by two neighbouring chunks.
    pub overlap_tokens: usize,
    /// Maximum number of chunks per text that get a vector; further ones are only counted.
    pub max_chunks: usize,
}

impl Default for EmbedderLimits {
    fn default() -> Self {
        Self { max_chunk_tokens: 256, overlap_tokens: 32, max_chunks: 64 }
    }
}

/// Vectors of a text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EmbeddedText {
    /// Chunks in text order. Empty for a text without words (empty, white space, control characters).
    pub chunks: Vec<EmbeddedChunk>,
    /// Number of chunks beyond [`EmbedderLimits::max_chunks`], which have no vector.
    pub left_out: usize,
    /// Names in the chunks, in text order and without overlaps. `None` if the model has no tagger or the text is a
    /// query.
    pub names: Option<Vec<NamedSpan>>,
}

/// Section of a text with its vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbeddedChunk {
    /// Byte range in the text.
    pub range: Range<usize>,
    /// [`DIMENSIONS`] floats, normalized to length 1.
    pub vector: Vec<f32>,
}

/// Kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameKind {
    Person,
    Organization,
    Place,
    /// Work, product, event, or adjective of nationality.
    Other,
}

/// Name in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedSpan {
    /// Byte range in the text.
    pub range: Range<usize>,
    pub kind: NameKind,
}

/// Status of the embedder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmbedderStatus {
    pub state: LocalState,
    /// File that is loaded or will be loaded.
    pub model: PathBuf,
    /// Resident memory of the inference process, including mapped files; 0 without a process.
    pub resident_bytes: u64,
    pub process_id: Option<u32>,
    /// Speed as a moving average; `None` before the first text.
    pub tokens_per_second: Option<f64>,
    pub last_error: Option<String>,
    /// Number of queued and running queries and texts.
    pub active_requests: usize,
}

impl EmbedderStatus {
    /// Returns the status of an embedder that has not been used yet.
    #[must_use]
    pub fn unloaded(model: impl Into<PathBuf>) -> Self {
        Self {
            state: LocalState::Unloaded,
            model: model.into(),
            resident_bytes: 0,
            process_id: None,
            tokens_per_second: None,
            last_error: None,
            active_requests: 0,
        }
    }
}

/// Embedder of texts.
///
/// Errors of all calls: `model_missing` (no usable file), `overloaded` (too many queued calls), `unavailable` (the
/// process failed; a later call may succeed), `unsupported_cpu`, `invalid` (the text itself), `internal`.
pub trait Embedder: Send + Sync + std::fmt::Debug {
    /// Returns the length of every vector.
    fn dimensions(&self) -> usize;

    /// Returns the id of the model. Vectors of different models must not be compared: if the id changes, stored vectors
    /// must be recomputed.
    fn model_id(&self) -> BoxFuture<'_, Result<String, LocalError>>;

    /// Embeds a query, with priority over texts. Only the first chunk of a long query is used; a query without words is
    /// `invalid`.
    fn embed_query<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Vec<f32>, LocalError>>;

    /// Embeds texts and returns one result per text, in order. Fails as a whole. Dropping the future cancels texts that
    /// were not started.
    fn embed_texts(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<EmbeddedText>, LocalError>>;

    /// Returns the current status.
    fn status(&self) -> EmbedderStatus;
}
