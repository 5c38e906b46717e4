//! Texts as vectors, so that what means the same lies close together.
//!
//! A text is cut into chunks of at most [`EmbedderLimits::max_chunk_tokens`] tokens, at the ends of
//! sentences where possible; each chunk becomes one vector of length 1, so that the inner product of
//! two is their cosine.
//!
//! [`LocalEmbedder`] runs a sentence encoder in a child process. [`Embedder`] is its interface.
//!
//! Deliberately absent: where vectors are kept, and how they are searched.

#[cfg_attr(not(any(feature = "local-model", test)), allow(dead_code, reason = "without an engine nothing is cut"))]
pub(crate) mod chunker;
mod jobs;
mod local;
mod model_file;
mod supervisor;

use std::ops::Range;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

pub use local::{EmbedderOptions, EmbedderStatus, LocalEmbedder};
#[cfg(feature = "local-model")]
pub(crate) use model_file::unusable;

use crate::LocalError;
pub use crate::tagger::{NameKind, NamedSpan};

/// Length of every vector. A model with another one is refused: the indexes are made for this.
pub const DIMENSIONS: usize = 384;

/// Name of the file that `make models` puts into the folder of the models.
pub const DEFAULT_MODEL_FILE: &str = "all-minilm-l6-v2-q8_0.gguf";

/// Longest text, in bytes: some more than an episode may have.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// Of a query only so many bytes are read; the encoder takes less of them than that.
pub const MAX_QUERY_BYTES: usize = 16 << 10;

/// Most texts of one call.
pub const MAX_TEXTS_PER_CALL: usize = 1024;

/// How texts are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedderLimits {
    /// Tokens of one chunk, the two included that the encoder puts around it. The default model was
    /// trained with 256.
    pub max_chunk_tokens: usize,
    /// Tokens that two neighbouring chunks may share.
    pub overlap_tokens: usize,
    /// Chunks of one text that get a vector; further ones are only counted.
    pub max_chunks: usize,
}

impl Default for EmbedderLimits {
    fn default() -> Self {
        Self { max_chunk_tokens: 256, overlap_tokens: 32, max_chunks: 64 }
    }
}

/// A text's vectors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EmbeddedText {
    /// In the order of the text. None for a text without a word: empty, white space, control characters.
    pub chunks: Vec<EmbeddedChunk>,
    /// Chunks beyond [`EmbedderLimits::max_chunks`], which have no vector.
    pub left_out: usize,
    /// The names in the chunks, in the order of the text and without overlaps. `None`: the model has no tagger, or
    /// the text is a query.
    pub names: Option<Vec<NamedSpan>>,
}

/// A stretch of a text and its meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbeddedChunk {
    /// Where it stands in the text, in bytes.
    pub range: Range<usize>,
    /// [`DIMENSIONS`] floats, of length 1.
    pub vector: Vec<f32>,
}

/// Something that makes vectors of texts.
///
/// Errors of all calls: `model_missing` (no file, or none that can be used), `overloaded` (too much
/// waits already), `unavailable` (the process failed; a later call may succeed), `unsupported_cpu`,
/// `invalid` (the text itself), `internal`.
pub trait Embedder: Send + Sync + std::fmt::Debug {
    /// Length of every vector.
    fn dimensions(&self) -> usize;

    /// Which model makes the vectors. Vectors of two models must not be compared: when this changes,
    /// what is stored is to be made anew.
    fn model_id(&self) -> BoxFuture<'_, Result<String, LocalError>>;

    /// The vector of a question. It goes before all texts. Only the first chunk of a long one counts;
    /// one without a word is `invalid`.
    fn embed_query<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Vec<f32>, LocalError>>;

    /// The vectors of texts to be found, one answer a text, in order. Either all of them or an error.
    /// Dropping the future gives up what was not begun.
    fn embed_texts(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<EmbeddedText>, LocalError>>;

    /// How it does at this moment.
    fn status(&self) -> EmbedderStatus;
}
