//! Whether two texts say the same thing in nearly the same words.
//!
//! Equal after normalization (case, accents, marks, filler words), or Jaccard similarity of word
//! shingles (Broder, 1997) from [`NEAR_DUPLICATE_SIMILARITY`] on. A difference that changes what is said is none of
//! wording: another number, another name, a "not" more or less keep two texts apart, however long they
//! are.

use std::collections::{BTreeMap, BTreeSet};

use crate::cues;
use crate::extract::MAX_TEXT_BYTES;
use crate::text::{Case, Kind, Text, hash};

/// From this share of common shingles on two texts are near duplicates.
pub const NEAR_DUPLICATE_SIMILARITY: f64 = 0.6;
const SHINGLE_WORDS: usize = 3;

/// Words that add nothing.
const FILLERS: [&str; 30] = [
    "really",
    "very",
    "so",
    "just",
    "quite",
    "also",
    "actually",
    "well",
    "oh",
    "hey",
    "hi",
    "hello",
    "please",
    "thanks",
    "wow",
    "ok",
    "okay",
    "basically",
    "simply",
    "totally",
    "definitely",
    "absolutely",
    "a",
    "an",
    "the",
    "that",
    "btw",
    "honestly",
    "literally",
    "too",
];

/// What a text says, in a form to compare: compute it once where one text meets many.
#[derive(Debug, Clone)]
pub struct Fingerprint {
    words: Vec<u64>,
    shingles: BTreeSet<u64>,
    /// Numbers, names and negations with how often they stand.
    telling: BTreeMap<u64, u32>,
    /// Capitalized at a place where that says nothing: a name in one text may be that in the other.
    first_words: BTreeSet<u64>,
}

impl Fingerprint {
    /// Reads at most [`MAX_TEXT_BYTES`] of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut end = text.len().min(MAX_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = Text::new(&text[..end]);
        let (mut words, mut telling, mut first_words) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        for (index, token) in text.tokens.iter().enumerate() {
            let folded = text.folded(index);
            let own =
                if token.kind == Kind::Opaque { hash(&text.source[token.start..token.end]) } else { hash(folded) };
            match token.kind {
                Kind::Mark | Kind::Possessive => continue,
                Kind::Word if FILLERS.contains(&folded) => continue,
                Kind::Number | Kind::Opaque => *telling.entry(own).or_insert(0) += 1,
                Kind::Word if is_negation(folded) => *telling.entry(hash("not")).or_insert(0) += 1,
                Kind::Word if token.case != Case::Lower && token.case != Case::None && !token.has(cues::FUNCTION) => {
                    if token.is_first {
                        first_words.insert(own);
                    } else {
                        *telling.entry(own).or_insert(0) += 1;
                    }
                }
                Kind::Word => {}
            }
            words.push(own);
        }
        let shingles = words
            .windows(SHINGLE_WORDS)
            .map(|window| window.iter().fold(SHINGLE_SEED, |all, word| mix(all, *word)))
            .collect();
        Self { words, shingles, telling, first_words }
    }

    /// 1 for the same words, else the Jaccard similarity of the shingles.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts of words")]
    pub fn similarity(&self, other: &Self) -> f64 {
        if self.words == other.words {
            return 1.0;
        }
        let common = self.shingles.intersection(&other.shingles).count();
        let all = self.shingles.len() + other.shingles.len() - common;
        if all == 0 { 0.0 } else { common as f64 / all as f64 }
    }

    /// Whether both say the same. Texts without words are no duplicates of anything.
    #[must_use]
    pub fn is_near_duplicate_of(&self, other: &Self) -> bool {
        !self.words.is_empty()
            && (self.words == other.words
                || self.says_the_same(other) && self.similarity(other) >= NEAR_DUPLICATE_SIMILARITY)
    }

    /// No number, name or negation stands in one of the two alone.
    fn says_the_same(&self, other: &Self) -> bool {
        let differs = |one: &Self, other: &Self| {
            one.telling.iter().any(|(word, count)| {
                let elsewhere = other.telling.get(word).copied().unwrap_or_default();
                elsewhere != *count
                    && !(elsewhere + 1 == *count && other.first_words.contains(word) && !one.first_words.contains(word))
            })
        };
        let moved = |one: &Self, other: &Self| {
            one.first_words.difference(&other.first_words).any(|word| !other.words.contains(word))
                && other.first_words.difference(&one.first_words).any(|word| !one.words.contains(word))
        };
        !differs(self, other) && !differs(other, self) && !moved(self, other)
    }
}

/// Whether `a` and `b` say the same thing in nearly the same words.
#[must_use]
pub fn near_duplicate(a: &str, b: &str) -> bool {
    Fingerprint::of(a).is_near_duplicate_of(&Fingerprint::of(b))
}

fn is_negation(folded: &str) -> bool {
    matches!(folded, "not" | "no" | "never" | "without" | "cannot" | "neither" | "nor") || folded.ends_with("n't")
}

const SHINGLE_SEED: u64 = 0xcbf2_9ce4_8422_2325;

const fn mix(all: u64, word: u64) -> u64 {
    (all.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
