//! What is embedded next: queries at once and together, texts in small batches between them.
//!
//! A batch of texts is as small as it can be without losing speed, because a query that arrives waits
//! for its end. The engine reads a batch as one long row in which every token is compared with every
//! other, those of other texts only masked: larger batches would not be faster anyway.
//!
//! Deliberately absent: anything about the engine. [`Encoder`] is its seam, so that order and cutting
//! are tested without weights.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::embedder::chunker::{Chunk, Chunker, Step};
use crate::embedder::{EmbeddedChunk, EmbeddedText, EmbedderLimits};
use crate::protocol::{EmbeddingUsage, FromWorker};
use crate::worker::embed::{Queue, Waiting};
use crate::{LocalError, LocalErrorCode};

/// Tokens that one batch of texts has at most, unless its only chunk is longer.
pub(crate) const BATCH_TOKENS: usize = 128;
/// The same for queries: what the engine takes at once.
pub(crate) const MAX_BATCH_TOKENS: usize = 512;
/// Sequences that the engine takes at once.
pub(crate) const MAX_BATCH_CHUNKS: usize = 32;
/// Tokens that the encoder puts around each chunk.
const ADDED_TOKENS: usize = 2;
/// Chunks beyond the last one with a vector that are counted before queries are looked at again.
const COUNTED_PER_TURN: usize = 32;
/// Longest silence while there is work.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// A loaded sentence encoder.
pub(crate) trait Encoder {
    /// Appends the tokens of a word.
    fn tokenize(&self, word: &str, into: &mut Vec<i32>);

    /// One vector for each of the token rows, of length 1. There are at most [`MAX_BATCH_CHUNKS`] of
    /// them, with [`MAX_BATCH_TOKENS`] together, those included that the encoder adds.
    fn encode(&mut self, rows: &[&[i32]]) -> Result<Vec<Vec<f32>>, LocalError>;
}

/// A text that is being embedded.
struct Open {
    id: u64,
    is_query: bool,
    chunker: Chunker,
    /// The chunk that waits for its vector.
    next: Option<Chunk>,
    /// There is no chunk after `next`, or none that counts.
    is_read: bool,
    embedded: EmbeddedText,
    usage: EmbeddingUsage,
}

impl Open {
    fn new(waiting: Waiting, is_query: bool, limits: &EmbedderLimits) -> Self {
        let room = limits.max_chunk_tokens.min(MAX_BATCH_TOKENS).saturating_sub(ADDED_TOKENS);
        Self {
            id: waiting.id,
            is_query,
            chunker: Chunker::new(waiting.text, room, limits.overlap_tokens),
            next: None,
            is_read: false,
            embedded: EmbeddedText::default(),
            usage: EmbeddingUsage::default(),
        }
    }

    /// Reads on until there is a chunk to be embedded, for as long as a turn may take.
    fn read(&mut self, encoder: &impl Encoder, max_chunks: usize) {
        for _ in 0..COUNTED_PER_TURN {
            if self.is_read || self.next.is_some() {
                return;
            }
            match self.chunker.step(&mut |word, into| encoder.tokenize(word, into)) {
                Step::Chunk(chunk) if self.embedded.chunks.len() < max_chunks => {
                    self.next = Some(chunk);
                    // No other chunk of a query counts, so it is complete with this one.
                    self.is_read = self.is_query || self.chunker.is_at_end();
                }
                Step::Chunk(_) => self.embedded.left_out += 1,
                Step::Pause => return,
                Step::End => self.is_read = true,
            }
        }
    }
}

/// Embeds what waits in `queue` until that is closed.
pub(crate) fn serve(encoder: &mut impl Encoder, queue: &Queue, limits: &EmbedderLimits, send: &dyn Fn(&FromWorker)) {
    let mut texts: VecDeque<Open> = VecDeque::new();
    let mut last_sign = Instant::now();
    while !texts.is_empty() || queue.wait() {
        let open = |waiting, is_query| Open::new(waiting, is_query, limits);
        let mut queries: VecDeque<Open> = std::iter::from_fn(|| queue.take_query())
            .take(MAX_BATCH_CHUNKS)
            .map(|waiting| open(waiting, true))
            .collect();
        if queries.is_empty() {
            // Opened before their turn, so that a long text does not keep short ones waiting.
            let room = MAX_BATCH_CHUNKS - texts.len();
            texts.extend(std::iter::from_fn(|| queue.take_text()).take(room).map(|waiting| open(waiting, false)));
            take_turn(encoder, &mut texts, limits.max_chunks, BATCH_TOKENS, send);
        }
        while !queries.is_empty() {
            take_turn(encoder, &mut queries, limits.max_chunks, MAX_BATCH_TOKENS, send);
        }
        if last_sign.elapsed() >= SIGN_OF_LIFE {
            send(&FromWorker::Working);
            last_sign = Instant::now();
        }
    }
}

/// Embeds one batch: the next chunk of the first texts, as many as fit. Those that are complete are
/// answered, and those that are not go to the end of the row.
fn take_turn(
    encoder: &mut impl Encoder,
    open: &mut VecDeque<Open>,
    max_chunks: usize,
    max_tokens: usize,
    send: &dyn Fn(&FromWorker),
) {
    let mut batch: Vec<Open> = Vec::new();
    let mut tokens = 0;
    while let Some(mut text) = open.pop_front() {
        text.read(encoder, max_chunks);
        let length = text.next.as_ref().map_or(0, |chunk| chunk.tokens.len() + ADDED_TOKENS);
        if tokens > 0 && tokens + length > max_tokens {
            open.push_front(text);
            break;
        }
        tokens += length;
        batch.push(text);
        // A text that is still being read took its time already.
        if length == 0 || batch.len() == MAX_BATCH_CHUNKS {
            break;
        }
    }
    let failure = embed(encoder, &mut batch).err();
    for mut text in batch {
        if let Some(error) = &failure {
            send(&FromWorker::Failed { id: text.id, code: error.code, message: error.message.clone() });
        } else if text.is_read {
            let embedded = std::mem::take(&mut text.embedded);
            send(&FromWorker::Embedded { id: text.id, embedded, usage: text.usage });
        } else {
            open.push_back(text);
        }
    }
}

/// Turns the chunks that wait in `batch` into vectors.
fn embed(encoder: &mut impl Encoder, batch: &mut [Open]) -> Result<(), LocalError> {
    let rows: Vec<&[i32]> =
        batch.iter().filter_map(|text| text.next.as_ref()).map(|chunk| chunk.tokens.as_slice()).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let total: usize = rows.iter().map(|row| row.len() + ADDED_TOKENS).sum();
    let started = Instant::now();
    let mut vectors = encoder.encode(&rows)?.into_iter();
    let seconds_per_token = started.elapsed().as_secs_f64() / float(total);
    for text in batch {
        let Some(chunk) = text.next.take() else { continue };
        let Some(vector) = vectors.next() else {
            return Err(LocalError::new(LocalErrorCode::Internal, "the engine gave too few vectors"));
        };
        let tokens = chunk.tokens.len() + ADDED_TOKENS;
        text.usage.tokens = text.usage.tokens.saturating_add(u32::try_from(tokens).unwrap_or(u32::MAX));
        text.usage.seconds += seconds_per_token * float(tokens);
        text.embedded.chunks.push(EmbeddedChunk { range: chunk.range, vector });
    }
    Ok(())
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
