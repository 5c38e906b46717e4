//! Detection of near-duplicate texts.
//!
//! Texts are duplicates if they are equal after normalization (case, accents, marks, filler words), or if the Jaccard
//! similarity of their word shingles (Broder, 1997) is at least [`NEAR_DUPLICATE_SIMILARITY`]. Differences that change
//! the meaning (a number, a name, a negation) make texts distinct, regardless of their length.

use std::collections::{BTreeMap, BTreeSet};

use crate::cues;
use crate::extract::MAX_TEXT_BYTES;
use crate::text::{Case, Kind, Text, hash};

/// Minimum share of common shingles of near duplicates.
pub const NEAR_DUPLICATE_SIMILARITY: f64 = 0.6;
const SHINGLE_WORDS: usize = 3;

/// Words without meaning.
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

/// Comparable form of a text, computed once for comparisons with many others.
#[derive(Debug, Clone)]
pub struct Fingerprint {
    words: Vec<u64>,
    shingles: BTreeSet<u64>,
    /// Numbers, names and negations with their counts.
    distinctive: BTreeMap<u64, u32>,
    /// Words that are capitalized only by position, but may be names that also occur in the other text.
    first_words: BTreeSet<u64>,
}

impl Fingerprint {
    /// Creates a fingerprint of at most [`MAX_TEXT_BYTES`] of `text`.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut end = text.len().min(MAX_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = Text::new(&text[..end]);
        let (mut words, mut distinctive, mut first_words) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        for (index, token) in text.tokens.iter().enumerate() {
            let folded = text.folded(index);
            let own =
                if token.kind == Kind::Opaque { hash(&text.source[token.start..token.end]) } else { hash(folded) };
            match token.kind {
                Kind::Mark | Kind::Possessive => continue,
                Kind::Word if FILLERS.contains(&folded) => continue,
                Kind::Number | Kind::Opaque => *distinctive.entry(own).or_insert(0) += 1,
                Kind::Word if is_negation(folded) => *distinctive.entry(hash("not")).or_insert(0) += 1,
                Kind::Word if token.case != Case::Lower && token.case != Case::None && !token.has(cues::FUNCTION) => {
                    if token.is_first {
                        first_words.insert(own);
                    } else {
                        *distinctive.entry(own).or_insert(0) += 1;
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
        Self { words, shingles, distinctive, first_words }
    }

    /// Returns 1 for equal words, otherwise the Jaccard similarity of the shingles.
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

    /// Whether the texts are near duplicates. Texts without words are not duplicates of any text.
    #[must_use]
    pub fn is_near_duplicate_of(&self, other: &Self) -> bool {
        !self.words.is_empty()
            && (self.words == other.words
                || self.has_same_distinctive_words(other) && self.similarity(other) >= NEAR_DUPLICATE_SIMILARITY)
    }

    /// Whether no number, name or negation occurs in only one of the texts.
    fn has_same_distinctive_words(&self, other: &Self) -> bool {
        let differs = |one: &Self, other: &Self| {
            one.distinctive.iter().any(|(word, count)| {
                let elsewhere = other.distinctive.get(word).copied().unwrap_or_default();
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

/// Whether `a` and `b` are near duplicates.
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
