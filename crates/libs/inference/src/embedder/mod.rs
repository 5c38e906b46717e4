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

/// Kind of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NameKind {
    Person,
    Organization,
    Place,
    /// A work, a product, an event, a nation's adjective.
    Other,
}

/// A name in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedSpan {
    /// Byte range in the text.
    pub range: Range<usize>,
    pub kind: NameKind,
}

/// What can be told of the embedder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmbedderStatus {
    pub state: LocalState,
    /// The file that is loaded or will be.
    pub model: PathBuf,
    /// Memory of the inference process, files it has mapped included; 0 without one.
    pub resident_bytes: u64,
    pub process_id: Option<u32>,
    /// Of the last texts, recent ones counting more; `None` before the first.
    pub tokens_per_second: Option<f64>,
    pub last_error: Option<String>,
    /// Queries and texts that wait or are worked on.
    pub active_requests: usize,
}

impl EmbedderStatus {
    /// That of an embedder which did nothing yet.
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
