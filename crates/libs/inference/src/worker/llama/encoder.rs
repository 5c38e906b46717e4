//! Sentence encoder of the BERT family: the mean of the output vectors of a row of tokens.

use std::borrow::Cow;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::Path;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::{LlamaContextParams, LlamaPoolingType};
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_sys_2::LLAMA_FLASH_ATTN_TYPE_DISABLED;

use crate::embedder::chunker::{Chunk, Chunker, Step};
use crate::embedder::{DIMENSIONS, NamedSpan, unusable};
use crate::protocol::EmbedderConfiguration;
use crate::tagger::{self, Tagger, Word};
use crate::worker::embed::Encoder;
use crate::worker::llama::pieces::WordPieces;
use crate::worker::llama::{Engine, log};
use crate::{LocalError, LocalErrorCode};

/// Model loaded into memory.
pub(crate) struct LoadedEncoder<'e> {
    engine: &'e Engine,
    model: LlamaModel,
    /// `None` if the tagger was trained for another model.
    names: Option<NameFinder>,
}

/// Tagger, with the vectors that it needs from the model file.
struct NameFinder {
    tagger: Tagger,
    pieces: WordPieces,
}

/// Encoder of one thread.
pub(crate) struct LlamaEncoder<'m> {
    model: &'m LlamaModel,
    names: Option<&'m NameFinder>,
    context: LlamaContext<'m>,
    batch: LlamaBatch<'static>,
    /// Tokens before and after each row.
    begin: LlamaToken,
    end: LlamaToken,
}

impl Engine {
    /// Loads the file of a sentence encoder. `progress` is called repeatedly meanwhile.
    pub(crate) fn load_encoder(
        &self,
        configuration: &EmbedderConfiguration,
        progress: impl FnMut() + 'static,
    ) -> Result<LoadedEncoder<'_>, LocalError> {
        let path = &configuration.model_path;
        let model = self.read(path, progress, unusable)?;
        check(path, &model, configuration)?;
        let mut loaded = LoadedEncoder { engine: self, model, names: None };
        loaded.names = loaded.name_finder(configuration)?;
        Ok(loaded)
    }
}

/// Rejects models that the rest of the embedder does not support.
fn check(path: &Path, model: &LlamaModel, configuration: &EmbedderConfiguration) -> Result<(), LocalError> {
    let architecture = model.meta_val_str("general.architecture").unwrap_or_default();
    if !architecture.contains("bert") {
        return Err(unusable(path, &format!("a `{architecture}` model is not a sentence encoder of the BERT family")));
    }
    // Texts are tokenized word by word, which is only equivalent with this kind of vocabulary.
    if model.meta_val_str("tokenizer.ggml.model").ok().as_deref() != Some("bert") {
        return Err(unusable(path, "its vocabulary does not consist of word pieces"));
    }
    let dimensions = model.n_embd();
    if usize::try_from(dimensions).ok() != Some(DIMENSIONS) {
        return Err(unusable(path, &format!("its vectors have {dimensions} dimensions instead of {DIMENSIONS}")));
    }
    let trained = usize::try_from(model.n_ctx_train()).unwrap_or_default();
    let wanted = configuration.limits.max_chunk_tokens;
    if trained < wanted {
        return Err(unusable(
            path,
            &format!("its context window has {trained} tokens, but chunks have up to {wanted}"),
        ));
    }
    Ok(())
}

impl LoadedEncoder<'_> {
    /// Returns the tagger, or `None` if it was trained with another model.
    fn name_finder(&self, configuration: &EmbedderConfiguration) -> Result<Option<NameFinder>, LocalError> {
        let (Some(tagger), Ok(pieces)) = (Tagger::new(), WordPieces::open(&configuration.model_path)) else {
            return Ok(None);
        };
        let mut chunker = Chunker::new(tagger::PROBE.to_owned(), configuration.limits.max_chunk_tokens, 0);
        let mut encoder = self.encoder(configuration)?;
        let Step::Chunk(chunk) = chunker.step(&mut |word, into| encoder.tokenize(word, into)) else { return Ok(None) };
        encoder.encode(&chunk.tokens)?;
        let words = encoder.words(tagger::PROBE, &chunk);
        let vectors = encoder.word_vectors(&pieces, &words, &chunk.tokens)?;
        Ok(Tagger::fits(&vectors).then_some(NameFinder { tagger, pieces }))
    }

    /// Creates the encoder of one thread. The model is shared.
    pub(crate) fn encoder(&self, configuration: &EmbedderConfiguration) -> Result<LlamaEncoder<'_>, LocalError> {
        let row_tokens = configuration.limits.max_chunk_tokens;
        let tokens = u32::try_from(row_tokens).unwrap_or(u32::MAX);
        let parameters = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(tokens))
            .with_n_batch(tokens)
            .with_n_ubatch(tokens)
            .with_n_threads(1)
            .with_n_threads_batch(1)
            .with_embeddings(true)
            // The tagger reads the vectors of single tokens, and their mean is cheap to compute.
            .with_pooling_type(LlamaPoolingType::None)
            // Flash attention is slower for rows as short as sentences.
            .with_flash_attention_policy(LLAMA_FLASH_ATTN_TYPE_DISABLED)
            .with_no_perf(true);
        log::take_errors();
        let context = self
            .model
            .new_context(&self.engine.backend, parameters)
            .map_err(|_| internal(format!("not enough memory for the embedder; {}", log::take_errors())))?;
        let vocabulary = self.model.vocab();
        Ok(LlamaEncoder {
            model: &self.model,
            names: self.names.as_ref(),
            context,
            batch: LlamaBatch::new(row_tokens, 1),
            begin: vocabulary.bos(),
            end: vocabulary.sep(),
        })
    }
}

impl Encoder for LlamaEncoder<'_> {
    fn tokenize(&self, word: &str, into: &mut Vec<i32>) {
        // Names of special tokens are treated as ordinary text, since the input is untrusted.
        let tokens = self.model.vocab().tokenize(decompose_hangul(word).as_bytes(), false, false);
        into.extend(tokens.into_iter().map(|token| token.0));
    }

    fn encode(&mut self, row: &[i32]) -> Result<Vec<f32>, LocalError> {
        self.batch.clear();
        let inner = row.iter().map(|&token| LlamaToken(token));
        for (position, token) in (0..).zip(std::iter::once(self.begin).chain(inner).chain([self.end])) {
            self.batch
                .add(token, position, &[0], true)
                .map_err(|error| internal(format!("a chunk exceeds the limit of the engine: {error}")))?;
        }
        self.context.encode(&mut self.batch).map_err(|error| internal(format!("the engine failed: {error}")))?;
        self.vector(row.len() + 2)
    }

    fn names(&mut self, text: &str, chunk: &Chunk) -> Result<Option<Vec<NamedSpan>>, LocalError> {
        let Some(NameFinder { tagger, pieces }) = self.names else { return Ok(None) };
        let words = self.words(text, chunk);
        let vectors = self.word_vectors(pieces, &words, &chunk.tokens)?;
        Ok(Some(tagger.names(text, &words, &vectors)))
    }
}

impl LlamaEncoder<'_> {
    /// Returns the output vector of a token of the last encoded row.
    fn token_vector(&self, position: usize) -> Result<&[f32], LocalError> {
        let found = i32::try_from(position).ok().and_then(|position| self.context.embeddings_ith(position).ok());
        found
            .filter(|vector| vector.len() == DIMENSIONS)
            .ok_or_else(|| internal("the engine returned no vector for a token".to_owned()))
    }

    /// Returns the mean over the tokens of the last encoded row, normalized to length 1.
    fn vector(&self, tokens: usize) -> Result<Vec<f32>, LocalError> {
        let mut sum = vec![0.0; DIMENSIONS];
        for position in 0..tokens {
            for (sum, &number) in sum.iter_mut().zip(self.token_vector(position)?) {
                *sum += f64::from(number);
            }
        }
        let length = sum.iter().map(|number| number * number).sum::<f64>().sqrt();
        if !length.is_finite() || length == 0.0 {
            return Err(internal("the engine returned a zero vector; the model file may be damaged".to_owned()));
        }
        #[allow(clippy::cast_possible_truncation, reason = "the quotient lies between -1 and 1")]
        let scaled = sum.into_iter().map(|number| (number / length) as f32).collect();
        Ok(scaled)
    }

    fn words(&self, text: &str, chunk: &Chunk) -> Vec<Word> {
        tagger::words(text, &chunk.words, &chunk.tokens, &|word, into| self.tokenize(word, into))
    }

    /// Returns the word vectors that the tagger reads, for the last encoded row.
    fn word_vectors(&self, pieces: &WordPieces, words: &[Word], row: &[i32]) -> Result<Vec<f32>, LocalError> {
        let first = pieces.vectors(row).map_err(|error| internal(format!("the model file cannot be read: {error}")))?;
        let mut last = Vec::with_capacity(first.len());
        for index in 0..row.len() {
            // The first position is the token that begins every row.
            last.extend_from_slice(self.token_vector(index + 1)?);
        }
        Ok(tagger::word_vectors(words, &first, &last))
    }
}

/// Decomposes Korean syllables into letters, as in the vocabulary. The engine decomposes all other composed characters,
/// but not these. The arithmetic is from chapter 3.12 of the Unicode standard.
fn decompose_hangul(word: &str) -> Cow<'_, str> {
    const SYLLABLES: RangeInclusive<char> = '가'..='힣';
    if !word.contains(|character| SYLLABLES.contains(&character)) {
        return Cow::Borrowed(word);
    }
    let letter = |base: char, offset: u32| char::from_u32(base as u32 + offset);
    let letters = word.chars().flat_map(|character| {
        let index = u32::from(character).wrapping_sub(u32::from(*SYLLABLES.start()));
        if SYLLABLES.contains(&character) {
            let last = Some(index % 28).filter(|&last| last > 0).and_then(|last| letter('\u{11A7}', last));
            [letter('\u{1100}', index / 588), letter('\u{1161}', index % 588 / 28), last]
        } else {
            [Some(character), None, None]
        }
    });
    Cow::Owned(letters.flatten().collect())
}

fn internal(message: String) -> LocalError {
    LocalError::new(LocalErrorCode::Internal, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn korean_syllables_become_letters() {
        // "Han-geul" and "ga", decomposed as in the standard.
        assert_eq!(decompose_hangul("x한글가"), "x\u{1112}\u{1161}\u{11AB}\u{1100}\u{1173}\u{11AF}\u{1100}\u{1161}");
        assert_eq!(decompose_hangul("힣"), "\u{1112}\u{1175}\u{11C2}");
        assert!(matches!(decompose_hangul("東京 plain é"), Cow::Borrowed(_)));
    }
}
