//! Splits a text into chunks that fit into the sentence encoder.
//!
//! A chunk ends at the end of a sentence if there is one in its second half, otherwise between two words. The next
//! chunk begins slightly earlier, so that content at a boundary is complete in one of them.
//!
//! The encoder's tokenizer treats each word separately, so the tokens of a chunk are those of its words, and the text
//! is read only once. Overlong words (Chinese text, encoded data) are split as well.
//!
//! Invariants: every chunk has at least one token and at most `max_tokens`; each begins and ends after the previous
//! one; only white space and characters without tokens are in no chunk.

use std::ops::Range;

/// Maximum length of a run without white space that is treated as one word.
const MAX_WORD_CHARS: usize = 64;
/// Maximum number of words per step, so that a text without tokens does not block the caller.
const MAX_WORDS_PER_STEP: usize = 4096;

/// Section of the text with its tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Byte range in the text.
    pub(crate) range: Range<usize>,
    pub(crate) tokens: Vec<i32>,
    pub(crate) words: Vec<ChunkWord>,
}

/// Word of a chunk: its byte range in the text, and its number of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkWord {
    pub(crate) range: Range<usize>,
    pub(crate) tokens: usize,
}

/// Result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Chunk(Chunk),
    /// No chunk yet; there is more to read.
    Pause,
    End,
}

#[derive(Debug)]
struct Word {
    range: Range<usize>,
    tokens: Vec<i32>,
    ends_sentence: bool,
}

#[derive(Debug)]
pub(crate) struct Chunker {
    text: String,
    /// Number of bytes that have been read.
    at: usize,
    max_tokens: usize,
    overlap_tokens: usize,
    words: Vec<Word>,
    tokens: usize,
}

impl Chunker {
    /// Creates a chunker. `overlap_tokens` is the maximum number of tokens shared by two neighbours; at most a quarter
    /// of a chunk.
    pub(crate) fn new(text: String, max_tokens: usize, overlap_tokens: usize) -> Self {
        let max_tokens = max_tokens.max(1);
        let overlap_tokens = overlap_tokens.min(max_tokens / 4);
        Self { text, at: 0, max_tokens, overlap_tokens, words: Vec::new(), tokens: 0 }
    }

    /// Continues reading. `tokenize` appends the tokens of a word.
    pub(crate) fn step(&mut self, tokenize: &mut dyn FnMut(&str, &mut Vec<i32>)) -> Step {
        for _ in 0..MAX_WORDS_PER_STEP {
            if self.tokens > self.max_tokens {
                return Step::Chunk(self.cut());
            }
            let Some((range, ends_sentence)) = self.next_word() else {
                if self.words.is_empty() {
                    return Step::End;
                }
                let count = self.words.len();
                let chunk = self.chunk(count);
                self.words.clear();
                self.tokens = 0;
                return Step::Chunk(chunk);
            };
            let mut tokens = Vec::new();
            tokenize(&self.text[range.clone()], &mut tokens);
            // Only characters with many tokens each make a word this long.
            tokens.truncate(self.max_tokens);
            if tokens.is_empty() {
                continue;
            }
            self.tokens += tokens.len();
            self.words.push(Word { range, tokens, ends_sentence });
        }
        Step::Pause
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Whether only white space remains.
    pub(crate) fn is_at_end(&self) -> bool {
        self.words.is_empty() && self.text[self.at..].trim_start().is_empty()
    }

    /// Returns the next word, and whether it ends a sentence.
    fn next_word(&mut self) -> Option<(Range<usize>, bool)> {
        let rest = &self.text[self.at..];
        let start = self.at + rest.find(|character: char| !character.is_whitespace())?;
        let mut end = start;
        // The tokenizer splits words at punctuation, so splitting there changes nothing.
        let mut after_punctuation = None;
        for (count, (offset, character)) in self.text[start..].char_indices().enumerate() {
            if character.is_whitespace() {
                break;
            }
            if count == MAX_WORD_CHARS {
                end = after_punctuation.unwrap_or(end);
                break;
            }
            end = start + offset + character.len_utf8();
            if character.is_ascii_punctuation() {
                after_punctuation = Some(end);
            }
            if is_full_width_end(character) {
                break;
            }
        }
        self.at = end;
        let after = &self.text[end..];
        let gap = &after[..after.len() - after.trim_start().len()];
        let ends_sentence = ends_sentence(&self.text[start..end], gap);
        Some((start..end, ends_sentence))
    }

    /// Takes the first chunk from more words than fit.
    fn cut(&mut self) -> Chunk {
        let mut fitting = 0;
        let mut tokens = 0;
        let mut sentence_end = None;
        for word in &self.words {
            if tokens + word.tokens.len() > self.max_tokens {
                break;
            }
            tokens += word.tokens.len();
            fitting += 1;
            if word.ends_sentence && tokens * 2 >= self.max_tokens {
                sentence_end = Some(fitting);
            }
        }
        let count = sentence_end.unwrap_or(fitting).max(1);
        let chunk = self.chunk(count);
        self.words.drain(..self.overlap_start(count));
        self.tokens = self.words.iter().map(|word| word.tokens.len()).sum();
        chunk
    }

    /// Returns the index of the first word that the next chunk repeats: the beginning of a sentence, if there is one
    /// among them. The word after them still fits.
    fn overlap_start(&self, count: usize) -> usize {
        let next = self.words.get(count).map_or(0, |word| word.tokens.len());
        let max = self.overlap_tokens.min(self.max_tokens - next);
        let mut start = count;
        let mut sentence_start = None;
        let mut shared = 0;
        while start > 1 {
            shared += self.words[start - 1].tokens.len();
            if shared > max {
                break;
            }
            start -= 1;
            if self.words[start - 1].ends_sentence {
                sentence_start = Some(start);
            }
        }
        sentence_start.unwrap_or(start)
    }

    /// Returns the first `count` words, at least one, as a chunk.
    fn chunk(&self, count: usize) -> Chunk {
        let words = &self.words[..count];
        let start = words.first().map_or(0, |word| word.range.start);
        let end = words.last().map_or(0, |word| word.range.end);
        let tokens = words.iter().flat_map(|word| word.tokens.iter().copied()).collect();
        let words =
            words.iter().map(|word| ChunkWord { range: word.range.clone(), tokens: word.tokens.len() }).collect();
        Chunk { range: start..end, tokens, words }
    }
}

fn is_full_width_end(character: char) -> bool {
    matches!(character, '。' | '！' | '？')
}

/// Whether `word`, followed by the white space `gap`, ends a sentence.
fn ends_sentence(word: &str, gap: &str) -> bool {
    let closed = word.trim_end_matches(['"', '\'', ')', ']', '}', '”', '’', '»', '」', '』']);
    closed.ends_with(['.', '!', '?', '…', '。', '！', '？', '؟', '।']) || gap.contains('\n')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Appends one token for each alphanumeric character.
    fn letters(word: &str, into: &mut Vec<i32>) {
        into.extend(word.chars().filter(|character| character.is_alphanumeric()).map(|character| character as i32));
    }

    fn chunks(text: &str, max_tokens: usize, overlap_tokens: usize) -> Vec<Chunk> {
        let mut chunker = Chunker::new(text.to_owned(), max_tokens, overlap_tokens);
        let mut chunks = Vec::new();
        loop {
            match chunker.step(&mut letters) {
                Step::Chunk(chunk) => chunks.push(chunk),
                Step::Pause => {}
                Step::End => return chunks,
            }
        }
    }

    fn texts<'t>(text: &'t str, chunks: &[Chunk]) -> Vec<&'t str> {
        chunks.iter().map(|chunk| &text[chunk.range.clone()]).collect()
    }

    #[test]
    fn short_text_is_one_chunk() {
        let text = "  It rains. \n";
        assert_eq!(texts(text, &chunks(text, 100, 10)), ["It rains."]);
    }

    #[test]
    fn text_without_tokens_has_no_chunk() {
        for text in ["", " \n\t ", "... !! \0"] {
            assert_eq!(chunks(text, 10, 2), [], "{text:?}");
        }
    }

    #[test]
    fn chunk_ends_at_a_sentence_in_its_second_half() {
        let text = "aaaa bbbb. cccc dddd eeee";
        assert_eq!(texts(text, &chunks(text, 14, 0)), ["aaaa bbbb.", "cccc dddd eeee"]);
        let text = "aa. bbbb cccc dddd eeee";
        assert_eq!(texts(text, &chunks(text, 14, 0)), ["aa. bbbb cccc dddd", "eeee"]);
        let text = "aaaa bbbb\ncccc dddd eeee";
        assert_eq!(texts(text, &chunks(text, 14, 0)), ["aaaa bbbb", "cccc dddd eeee"]);
    }

    #[test]
    fn overlap_begins_at_a_sentence() {
        let text = "aaaaaaaa bb. c dd. eeeeeeee ffffffff";
        assert_eq!(texts(text, &chunks(text, 16, 4)), ["aaaaaaaa bb. c dd.", "c dd. eeeeeeee", "ffffffff"]);
    }

    #[test]
    fn text_without_spaces_is_split() {
        let text = "東京は日本の首都です。人口は約千四百万人です。".repeat(10);
        let found = chunks(&text, 24, 0);
        assert!(found.len() >= 10 && texts(&text, &found).iter().all(|chunk| chunk.ends_with('。')), "{found:?}");
        let found = chunks(&"x".repeat(1000), 100, 0);
        assert_eq!(found.iter().map(|chunk| chunk.tokens.len()).sum::<usize>(), 1000);
    }

    #[test]
    fn long_url_is_split_at_punctuation() {
        let address = format!("https://example.com/{}/{}", "a".repeat(30), "b".repeat(40));
        let mut chunker = Chunker::new(address.clone(), 1000, 0);
        let first = chunker.next_word().unwrap().0;
        assert!(address[first].ends_with("a/"));
    }

    #[test]
    fn text_without_tokens_is_read_in_steps() {
        let mut chunker = Chunker::new("\0 ".repeat(MAX_WORDS_PER_STEP + 1) + "word", 10, 0);
        assert_eq!(chunker.step(&mut letters), Step::Pause);
        assert!(matches!(chunker.step(&mut letters), Step::Chunk(chunk) if chunk.tokens.len() == 4));
        assert_eq!(chunker.step(&mut letters), Step::End);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn chunks_cover_the_text_in_order(
            text in "([a-z]{1,12}[.!]?[ \n]{0,2}|[東京日。]{1,40}|\\PC{0,8}|\0){0,60}",
            max_tokens in 1usize..40,
            overlap_tokens in 0usize..20,
        ) {
            let found = chunks(&text, max_tokens, overlap_tokens);
            let mut all = Vec::new();
            letters(&text, &mut all);
            let mut covered = vec![false; text.len()];
            for chunk in &found {
                prop_assert!(!chunk.tokens.is_empty() && chunk.tokens.len() <= max_tokens);
                // Slicing outside character boundaries would panic here.
                let mut own = Vec::new();
                letters(&text[chunk.range.clone()], &mut own);
                if max_tokens >= MAX_WORD_CHARS { prop_assert_eq!(&own, &chunk.tokens); }
                covered[chunk.range.clone()].fill(true);
                prop_assert_eq!(chunk.words.iter().map(|word| word.tokens).sum::<usize>(), chunk.tokens.len());
            }
            for pair in found.windows(2) {
                prop_assert!(pair[0].range.start < pair[1].range.start && pair[0].range.end < pair[1].range.end);
            }
            for (offset, character) in text.char_indices() {
                prop_assert!(covered[offset] || !character.is_alphanumeric() , "{offset} {character:?}");
            }
            prop_assert_eq!(found.is_empty(), all.is_empty());
        }
    }
}
