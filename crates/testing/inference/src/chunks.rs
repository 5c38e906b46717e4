//! Splits texts into chunks as an embedder does; each word is one token.

use std::ops::Range;

use agentd_inference::embedder::EmbedderLimits;

/// Maximum length of a word, in characters; longer runs without white space are split.
const MAX_WORD_CHARS: usize = 64;

struct Word {
    range: Range<usize>,
    ends_sentence: bool,
}

/// Returns the chunks of a text. A chunk ends with a sentence if one ends in its second half, and the next one repeats up
/// to `overlap_tokens` words before that, from the beginning of a sentence if there is one.
pub(crate) fn chunks(text: &str, limits: &EmbedderLimits) -> Vec<Range<usize>> {
    let max_words = limits.max_chunk_tokens.max(1);
    let overlap = limits.overlap_tokens.min(max_words / 4);
    let words = words(text);
    let mut chunks = Vec::new();
    let mut rest = words.as_slice();
    while rest.len() > max_words {
        let is_end = |count: &usize| rest.get(count - 1).is_some_and(|word| word.ends_sentence);
        let count = (max_words.div_ceil(2)..=max_words).rev().find(is_end).unwrap_or(max_words);
        chunks.extend(range(&rest[..count]));
        rest = &rest[overlap_start(rest, count, overlap.min(max_words - 1))..];
    }
    chunks.extend(range(rest));
    chunks
}

fn range(words: &[Word]) -> Option<Range<usize>> {
    Some(words.first()?.range.start..words.last()?.range.end)
}

/// Returns the position of the first word that the next chunk repeats, after a chunk of `count` words.
fn overlap_start(words: &[Word], count: usize, overlap: usize) -> usize {
    let first = count.saturating_sub(overlap).max(1);
    let begins_sentence = |at: &usize| words.get(at - 1).is_some_and(|word| word.ends_sentence);
    (first..count).find(begins_sentence).unwrap_or(first)
}

/// Returns the words that have a token.
fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(|character: char| !character.is_whitespace()) {
        let start = at + offset;
        at = end_of_word(text, start);
        let word = &text[start..at];
        let gap = &text[at..text.len() - text[at..].trim_start().len()];
        if word.chars().any(|character| !character.is_control()) {
            words.push(Word { range: start..at, ends_sentence: ends_sentence(word, gap) });
        }
    }
    words
}

fn end_of_word(text: &str, start: usize) -> usize {
    let mut end = start;
    let mut after_punctuation = None;
    for (count, (offset, character)) in text[start..].char_indices().enumerate() {
        if character.is_whitespace() {
            break;
        }
        if count == MAX_WORD_CHARS {
            return after_punctuation.unwrap_or(end);
        }
        end = start + offset + character.len_utf8();
        if character.is_ascii_punctuation() {
            after_punctuation = Some(end);
        }
        if matches!(character, '。' | '！' | '？') {
            break;
        }
    }
    end
}

/// Whether a sentence ends with `word`, which `gap` of white space follows.
fn ends_sentence(word: &str, gap: &str) -> bool {
    let closed = word.trim_end_matches(['"', '\'', ')', ']', '}', '”', '’', '»', '」', '』']);
    closed.ends_with(['.', '!', '?', '…', '。', '！', '？', '؟', '।']) || gap.contains('\n')
}
