//! Names in a text: persons, organizations, places and others, tagged word by word by a small network over the vectors
//! that the default embedder computes anyway.
//!
//! Each word is represented by the mean vectors of its word pieces before the first and after the last layer, those of
//! its neighbours, and its letter shape ([`shape`]). One hidden layer scores nine tags, and the best valid sequence is
//! chosen ([`decode`]). Unambiguous cue words correct boundaries and kinds ([`cues`]). English and German have one
//! network each; other languages use the English one. `scripts/tagger` contains the training and its data sources.
//!
//! Invariants: the networks fit exactly one embedder, so other models have no tagger ([`Tagger::fits`]); names do not
//! overlap and are in text order.
//!
//! Not part of this module: keys and relations of names (crate `agentd-entities`), and dates.

mod cues;
mod decode;
mod language;
mod network;
mod shape;
#[cfg(test)]
mod tests;
mod words;

use std::ops::Range;

use crate::embedder::{DIMENSIONS, NameKind, NamedSpan};
use network::Network;
pub(crate) use words::Word;
#[cfg(any(feature = "local-model", test))]
pub(crate) use words::words;

const ENGLISH: &[u8] = include_bytes!("names-en.bin");
const GERMAN: &[u8] = include_bytes!("names-de.bin");
/// Mean vectors of [`PROBE`] from the default embedder, before the first and after the last layer.
const PROBE_VECTORS: &[u8] = include_bytes!("probe.bin");

/// Text whose vectors identify the embedder that the networks were trained with.
pub(crate) const PROBE: &str = "Anna works at Siemens in Berlin.";
/// Minimum cosine between the vectors of the probe and [`PROBE_VECTORS`]. Rounding to eight bits leaves 0.999.
const MIN_PROBE_COSINE: f32 = 0.99;

#[derive(Debug)]
pub(crate) struct Tagger {
    english: Network,
    german: Network,
}

impl Tagger {
    /// `None` if the embedded networks have another format, which a test excludes.
    pub(crate) fn new() -> Option<Self> {
        Some(Self { english: Network::read(ENGLISH)?, german: Network::read(GERMAN)? })
    }

    /// Whether `vectors` are those of the probe by the embedder that the networks were trained with. They have two
    /// vectors of [`DIMENSIONS`] numbers per word.
    pub(crate) fn fits(vectors: &[f32]) -> bool {
        let known: Vec<f32> = PROBE_VECTORS
            .chunks_exact(4)
            .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
            .collect();
        // The sum has the direction of the mean, and the cosine ignores the length.
        let mut sum = vec![0.0; 2 * DIMENSIONS];
        for word in vectors.chunks_exact(2 * DIMENSIONS) {
            for (sum, number) in sum.iter_mut().zip(word) {
                *sum += number;
            }
        }
        let mut layers = known.chunks_exact(DIMENSIONS).zip(sum.chunks_exact(DIMENSIONS));
        known.len() == sum.len() && layers.all(|(one, other)| cosine(one, other) >= MIN_PROBE_COSINE)
    }

    /// Returns the names among `words` of `text`. `vectors` has two vectors of [`DIMENSIONS`] numbers per word.
    pub(crate) fn names(&self, text: &str, words: &[Word], vectors: &[f32]) -> Vec<NamedSpan> {
        let (Some(first), Some(last)) = (words.first(), words.last()) else { return Vec::new() };
        let is_german = language::is_german(&text[first.range.start..last.range.end]);
        let network = if is_german { &self.german } else { &self.english };
        let tags = decode::best_tags(&network.scores(vectors, &shape::shapes(text, words)));
        let span = |(first, end, kind): (usize, usize, NameKind)| NamedSpan {
            range: words[first].range.start..words[end - 1].range.end,
            kind,
        };
        cues::correct(text, words, decode::names(&tags)).into_iter().map(span).collect()
    }
}

/// Returns the means of the token vectors of each word. `first` and `last` have [`DIMENSIONS`] numbers per token.
#[cfg(feature = "local-model")]
pub(crate) fn word_vectors(words: &[Word], first: &[f32], last: &[f32]) -> Vec<f32> {
    let mut vectors = vec![0.0; 2 * DIMENSIONS * words.len()];
    for (word, own) in words.iter().zip(vectors.chunks_exact_mut(2 * DIMENSIONS)) {
        #[allow(clippy::cast_precision_loss, reason = "tokens of one word")]
        let share = 1.0 / word.tokens.len().max(1) as f32;
        for (layer, into) in [first, last].into_iter().zip(own.chunks_exact_mut(DIMENSIONS)) {
            for token in layer.chunks_exact(DIMENSIONS).skip(word.tokens.start).take(word.tokens.len()) {
                for (sum, number) in into.iter_mut().zip(token) {
                    *sum += number * share;
                }
            }
        }
    }
    vectors
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(one, other) / (dot(one, one) * dot(other, other)).sqrt().max(f32::MIN_POSITIVE)
}

/// Appends the names of a chunk to those of the previous chunks. In the overlap, the first half is taken from the
/// earlier chunk, which has more preceding context.
pub(crate) fn append(
    names: &mut Vec<NamedSpan>,
    before: Option<&Range<usize>>,
    chunk: &Range<usize>,
    new: Vec<NamedSpan>,
) {
    let border = match before {
        Some(before) if before.end > chunk.start => usize::midpoint(before.end, chunk.start),
        _ => chunk.start,
    };
    names.retain(|name| name.range.start < border);
    let from = names.last().map_or(border, |last| border.max(last.range.end));
    names.extend(new.into_iter().filter(|name| name.range.start >= from));
}
