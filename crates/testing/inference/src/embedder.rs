//! Deterministic embedder for tests, without engine or model file.
//!
//! A vector is a bag of the text's stemmed words and trigrams, each hashed to a dimension and a sign. Texts that share
//! words are similar, others are not; the embedder knows nothing about meaning. Tests that need meaning must use
//! [`LocalEmbedder`](agentd_inference::LocalEmbedder).
//!
//! Names are recognized from a fixed list ([`NAMES`]), regardless of the sentence.
//!
//! Stop words and stems are its own: sharing those of the search index would hide its errors in tests.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use agentd_inference::embedder::{
    DIMENSIONS, EmbeddedChunk, EmbeddedText, Embedder, EmbedderLimits, EmbedderStatus, MAX_QUERY_BYTES, MAX_TEXT_BYTES,
    MAX_TEXTS_PER_CALL, NameKind, NamedSpan,
};
use agentd_inference::{LocalError, LocalErrorCode, LocalState};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::chunks::chunks;

const WORD_WEIGHT: f32 = 1.0;
const TRIGRAM_WEIGHT: f32 = 0.15;
/// Words without meaning of their own, which would make all texts similar.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "at", "be", "by", "did", "do", "for", "he", "her", "his", "i", "in", "is", "it", "of",
    "on", "or", "she", "that", "the", "to", "was", "were", "what", "when", "where", "who", "with", "you",
];
const ENDINGS: &[&str] = &["ings", "ing", "ies", "ied", "ed", "es", "s", "ly"];
const MIN_STEM_CHARS: usize = 3;
const DAMAGED: &str = "the embedding model /fake.gguf cannot be used: it is damaged; fetch it again with `make models`, or \
                       put another in its place";
/// Recognized names; of names with a common beginning, the longer one first.
const NAMES: &[(&str, NameKind)] = &[
    ("Ada Lovelace", NameKind::Person),
    ("Ada", NameKind::Person),
    ("Anna Berg", NameKind::Person),
    ("Anna", NameKind::Person),
    ("Bob Miller", NameKind::Person),
    ("Tom", NameKind::Person),
    ("Microsoft Corp.", NameKind::Organization),
    ("Microsoft, Inc.", NameKind::Organization),
    ("Microsoft", NameKind::Organization),
    ("Siemens", NameKind::Organization),
    ("Berlin", NameKind::Place),
    ("Kiel", NameKind::Place),
    ("Lisbon", NameKind::Place),
    ("Munich", NameKind::Place),
    ("Oslo", NameKind::Place),
    ("Paris", NameKind::Place),
    ("Rome", NameKind::Place),
];

#[derive(Debug)]
struct Behaviour {
    model_id: String,
    failure: Option<LocalError>,
    is_damaged: bool,
    delay: Duration,
    queries: usize,
    texts: usize,
}

/// Fake embedder, see the module documentation. Cheap to clone; all clones share their behaviour.
#[derive(Debug, Clone)]
pub struct FakeEmbedder {
    limits: EmbedderLimits,
    behaviour: Arc<Mutex<Behaviour>>,
}

impl Default for FakeEmbedder {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeEmbedder {
    /// Creates an embedder that responds immediately. A word counts as one token.
    #[must_use]
    pub fn new() -> Self {
        let behaviour = Behaviour {
            model_id: "fake:0".to_owned(),
            failure: None,
            is_damaged: false,
            delay: Duration::ZERO,
            queries: 0,
            texts: 0,
        };
        Self { limits: EmbedderLimits::default(), behaviour: Arc::new(Mutex::new(behaviour)) }
    }

    /// Sets other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: EmbedderLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Changes the model, whose vectors are unrelated to the previous ones.
    pub fn set_model_id(&self, model_id: impl Into<String>) {
        self.behaviour.lock().model_id = model_id.into();
    }

    /// Makes every call fail with this error; `None` restores normal operation.
    pub fn set_failure(&self, failure: Option<LocalError>) {
        self.behaviour.lock().failure = failure;
    }

    /// Makes loading the file fail; the model still has an id.
    pub fn set_damaged(&self, is_damaged: bool) {
        self.behaviour.lock().is_damaged = is_damaged;
    }

    /// Delays every call, measured by the runtime's clock.
    pub fn set_delay(&self, delay: Duration) {
        self.behaviour.lock().delay = delay;
    }

    /// Returns the number of embedded queries and texts.
    #[must_use]
    pub fn embedded(&self) -> (usize, usize) {
        let behaviour = self.behaviour.lock();
        (behaviour.queries, behaviour.texts)
    }

    /// Waits, then fails or returns the model id.
    async fn begin(&self) -> Result<String, LocalError> {
        let delay = self.behaviour.lock().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let behaviour = self.behaviour.lock();
        if behaviour.is_damaged {
            return Err(LocalError::new(LocalErrorCode::ModelMissing, DAMAGED));
        }
        behaviour.failure.clone().map_or_else(|| Ok(behaviour.model_id.clone()), Err)
    }

    fn embed(&self, model_id: &str, text: &str, max_chunks: usize) -> EmbeddedText {
        let mut ranges = chunks(text, &self.limits);
        let left_out = ranges.len().saturating_sub(max_chunks);
        ranges.truncate(max_chunks);
        let embed = |range: Range<usize>| EmbeddedChunk { vector: vector(model_id, &text[range.clone()]), range };
        EmbeddedText { chunks: ranges.into_iter().map(embed).collect(), left_out, names: Some(names(text)) }
    }
}

impl Embedder for FakeEmbedder {
    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn model_id(&self) -> BoxFuture<'_, Result<String, LocalError>> {
        let behaviour = self.behaviour.lock();
        let id = behaviour.failure.clone().map_or_else(|| Ok(behaviour.model_id.clone()), Err);
        async move { id }.boxed()
    }

    fn embed_query<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Vec<f32>, LocalError>> {
        async move {
            let model_id = self.begin().await?;
            let text = &text[..text.floor_char_boundary(MAX_QUERY_BYTES)];
            let chunk = self.embed(&model_id, text, 1).chunks.into_iter().next();
            self.behaviour.lock().queries += 1;
            chunk.map(|chunk| chunk.vector).ok_or_else(no_words)
        }
        .boxed()
    }

    fn embed_texts(&self, texts: Vec<String>) -> BoxFuture<'_, Result<Vec<EmbeddedText>, LocalError>> {
        async move {
            check(&texts)?;
            let model_id = self.begin().await?;
            self.behaviour.lock().texts += texts.len();
            Ok(texts.iter().map(|text| self.embed(&model_id, text, self.limits.max_chunks)).collect())
        }
        .boxed()
    }

    fn status(&self) -> EmbedderStatus {
        let last_error = self.behaviour.lock().failure.as_ref().map(|error| error.message.clone());
        let state = if last_error.is_some() { LocalState::Failed } else { LocalState::Ready };
        EmbedderStatus { state, last_error, ..EmbedderStatus::unloaded("/fake.gguf") }
    }
}

fn check(texts: &[String]) -> Result<(), LocalError> {
    let invalid = |message| Err(LocalError::new(LocalErrorCode::Invalid, message));
    if texts.len() > MAX_TEXTS_PER_CALL {
        return invalid(format!("too many texts in one call ({}, limit {MAX_TEXTS_PER_CALL})", texts.len()));
    }
    match texts.iter().map(String::len).max() {
        Some(longest) if longest > MAX_TEXT_BYTES => {
            invalid(format!("a text is too long ({longest} bytes, limit {MAX_TEXT_BYTES})"))
        }
        _ => Ok(()),
    }
}

fn no_words() -> LocalError {
    LocalError::new(LocalErrorCode::Invalid, "the query contains no searchable words")
}

fn names(text: &str) -> Vec<NamedSpan> {
    let mut found: Vec<NamedSpan> = Vec::new();
    for (name, kind) in NAMES {
        for (at, _) in text.match_indices(name) {
            let range = at..at + name.len();
            let is_whole = !text[range.end..].starts_with(char::is_alphanumeric);
            if is_whole && found.iter().all(|other| other.range.end <= range.start || range.end <= other.range.start) {
                found.push(NamedSpan { range, kind: *kind });
            }
        }
    }
    found.sort_by_key(|name| name.range.start);
    found
}

fn vector(model_id: &str, text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; DIMENSIONS];
    // Gives texts without usable words a direction.
    add(&mut vector, model_id, "", 0.01);
    for word in text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        if STOP_WORDS.contains(&word.as_str()) {
            continue;
        }
        let stem = stem(&word);
        add(&mut vector, model_id, stem, WORD_WEIGHT);
        let marked: Vec<char> = std::iter::once('^').chain(stem.chars()).chain(['$']).collect();
        for trigram in marked.windows(3) {
            add(&mut vector, model_id, &trigram.iter().collect::<String>(), TRIGRAM_WEIGHT);
        }
    }
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    for number in &mut vector {
        *number /= length;
    }
    vector
}

fn stem(word: &str) -> &str {
    let cut = ENDINGS.iter().filter_map(|ending| word.strip_suffix(ending));
    cut.into_iter().find(|stem| stem.chars().count() >= MIN_STEM_CHARS).unwrap_or(word)
}

fn add(vector: &mut [f32], model_id: &str, feature: &str, weight: f32) {
    let hash = Sha256::new().chain_update(model_id).chain_update([0]).chain_update(feature).finalize();
    let at = usize::from(u16::from_le_bytes([hash[0], hash[1]])) % DIMENSIONS;
    vector[at] += if hash[2] & 1 == 0 { weight } else { -weight };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(one: &[f32], other: &[f32]) -> f32 {
        one.iter().zip(other).map(|(a, b)| a * b).sum()
    }

    #[tokio::test]
    async fn texts_with_common_words_are_similar() {
        let fake = FakeEmbedder::new();
        let query = fake.embed_query("Who painted the old barn?").await.unwrap();
        let texts = ["She was painting barns, red ones", "The train leaves at noon"].map(str::to_owned);
        let embedded = fake.embed_texts(texts.to_vec()).await.unwrap();
        let [near, far] = [0, 1].map(|at| cosine(&query, &embedded[at].chunks[0].vector));
        assert!(near > 0.5 && far < 0.2, "{near} {far}");
        assert!((cosine(&query, &query) - 1.0).abs() < 1e-5 && query.len() == fake.dimensions());
        assert_eq!(fake.embed_query("Who painted the old barn?").await.unwrap(), query);
        assert_eq!(fake.embedded(), (2, 2));
    }

    #[tokio::test]
    async fn limits_and_errors_equal_those_of_the_local_embedder() {
        let limits = EmbedderLimits { max_chunk_tokens: 10, overlap_tokens: 0, max_chunks: 2 };
        let fake = FakeEmbedder::new().with_limits(limits);
        let embedded = fake.embed_texts(vec!["word ".repeat(45), "\0 ".to_owned()]).await.unwrap();
        assert_eq!((embedded[0].chunks.len(), embedded[0].left_out), (2, 3));
        assert!(embedded[1].chunks.is_empty() && embedded[1].left_out == 0);
        assert_eq!(fake.embed_query(" ").await.unwrap_err().code, LocalErrorCode::Invalid);
        assert!(fake.embed_query("... ?!").await.is_ok());
        let long = vec!["x".repeat(MAX_TEXT_BYTES + 1)];
        assert_eq!(fake.embed_texts(long).await.unwrap_err().code, LocalErrorCode::Invalid);
    }

    #[tokio::test(start_paused = true)]
    async fn configured_behaviour_is_applied() {
        let fake = FakeEmbedder::new();
        let before = fake.embed_query("barn").await.unwrap();
        fake.set_model_id("fake:1");
        assert_eq!(fake.model_id().await.unwrap(), "fake:1");
        assert!(cosine(&before, &fake.embed_query("barn").await.unwrap()) < 0.5);
        fake.set_delay(Duration::from_secs(3));
        let started = tokio::time::Instant::now();
        fake.embed_texts(vec!["barn".to_owned()]).await.unwrap();
        assert_eq!(started.elapsed(), Duration::from_secs(3));
        fake.set_failure(Some(LocalError::new(LocalErrorCode::Overloaded, "no")));
        assert_eq!(fake.embed_query("barn").await.unwrap_err().message, "no");
        assert_eq!(fake.status().state, LocalState::Failed);
        fake.set_failure(None);
        assert!(fake.embed_query("barn").await.is_ok());
    }
}
