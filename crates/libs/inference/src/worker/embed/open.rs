//! Embedding of a text, chunk by chunk.
//!
//! Batches of several chunks are not used. The engine treats a batch as one long row in which every token is compared
//! with every other, with other texts masked. With that, 32 sentences take three times as long as one by one.
//!
//! Independent of the engine: [`Encoder`] is the interface, so that order and splitting are tested without weights.

use std::time::Instant;

use crate::LocalError;
use crate::embedder::chunker::{Chunk, Chunker, Step};
use crate::embedder::{EmbeddedChunk, EmbeddedText, EmbedderLimits, NamedSpan};
use crate::protocol::EmbeddingUsage;
use crate::tagger;

/// Number of tokens that the encoder adds around each chunk.
const ADDED_TOKENS: usize = 2;
/// Maximum number of steps per turn if chunks are only counted; afterwards the text returns to its queue.
const STEPS_PER_TURN: usize = 32;

/// Sentence encoder.
pub(crate) trait Encoder {
    /// Appends the tokens of a word.
    fn tokenize(&self, word: &str, into: &mut Vec<i32>);

    /// Returns the vector of length 1 of a row of tokens, which has at most the size of a chunk without the tokens that
    /// the encoder adds.
    fn encode(&mut self, row: &[i32]) -> Result<Vec<f32>, LocalError>;

    /// Returns the names in the chunk of `text` that was encoded last; `None` if the model has no tagger.
    fn names(&mut self, text: &str, chunk: &Chunk) -> Result<Option<Vec<NamedSpan>>, LocalError>;
}

/// Result of a turn.
pub(crate) enum Progress {
    More,
    Complete(EmbeddedText, EmbeddingUsage),
}

pub(crate) struct OpenText {
    pub(crate) id: u64,
    chunker: Chunker,
    /// Maximum number of chunks with a vector. For a query only the first is used, and no further ones are counted.
    max_chunks: usize,
    is_query: bool,
    embedded: EmbeddedText,
    usage: EmbeddingUsage,
}

impl OpenText {
    pub(crate) fn new(id: u64, text: String, is_query: bool, limits: &EmbedderLimits) -> Self {
        let max_tokens = limits.max_chunk_tokens.saturating_sub(ADDED_TOKENS);
        Self {
            id,
            chunker: Chunker::new(text, max_tokens, limits.overlap_tokens),
            max_chunks: if is_query { 1 } else { limits.max_chunks },
            is_query,
            embedded: EmbeddedText::default(),
            usage: EmbeddingUsage::default(),
        }
    }

    /// Embeds the next chunk, or counts several.
    pub(crate) fn advance(&mut self, encoder: &mut impl Encoder) -> Result<Progress, LocalError> {
        for _ in 0..STEPS_PER_TURN {
            match self.chunker.step(&mut |word, into| encoder.tokenize(word, into)) {
                Step::Chunk(chunk) if self.embedded.chunks.len() < self.max_chunks => {
                    let started = Instant::now();
                    let vector = encoder.encode(&chunk.tokens)?;
                    if !self.is_query
                        && let Some(names) = encoder.names(self.chunker.text(), &chunk)?
                    {
                        let before = self.embedded.chunks.last().map(|chunk| &chunk.range);
                        let known = self.embedded.names.get_or_insert_default();
                        tagger::append(known, before, &chunk.range, names);
                    }
                    self.usage.seconds += started.elapsed().as_secs_f64();
                    let tokens = u32::try_from(chunk.tokens.len() + ADDED_TOKENS).unwrap_or(u32::MAX);
                    self.usage.tokens = self.usage.tokens.saturating_add(tokens);
                    self.embedded.chunks.push(EmbeddedChunk { range: chunk.range, vector });
                    let is_complete = self.is_query || self.chunker.is_at_end();
                    return Ok(if is_complete { self.complete() } else { Progress::More });
                }
                Step::Chunk(_) => self.embedded.left_out += 1,
                Step::Pause => return Ok(Progress::More),
                Step::End => return Ok(self.complete()),
            }
        }
        Ok(Progress::More)
    }

    fn complete(&mut self) -> Progress {
        Progress::Complete(std::mem::take(&mut self.embedded), self.usage)
    }
}
