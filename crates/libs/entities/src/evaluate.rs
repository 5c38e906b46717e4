//! Rule-based importance and sentiment of a text.
//!
//! Importance starts at [`BASE`] and increases with the following kinds of content, each counted once:
//!
//! | what | adds |
//! |---|---|
//! | identity and life: "my name is", birth, death, wedding, diagnosis, allergy, a new job, a move | 0.30 |
//! | an explicit request: "remember", "don't forget", "important" | 0.30 |
//! | a decision or a commitment: "we decided", "I promised", "the deadline is" | 0.20 |
//! | a preference: "favourite", "prefer", "hate" | 0.15 |
//! | a simple fact (`facts`) | 0.15 |
//! | a date | 0.10 |
//! | a word that looks like a name | 0.06 each, 0.12 at most |
//! | topics and tools | 0.03 each, 0.06 at most |
//! | a strong feeling | up to 0.10 |
//!
//! Questions halve the increase. Small talk ("hi", "thanks", "sounds good") without other content has [`SMALL_TALK`].
//! Valence is the sum of the lexicon weights of the words, inverted and halved after "not", increased by half after
//! "very", and squeezed into -1 to 1.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::cues;
use crate::dates;
use crate::extract::{MAX_TEXT_BYTES, extract};
use crate::facts;
use crate::proper_names;
use crate::text::{Kind, Text};

const BASE: f64 = 0.2;
pub(crate) const SMALL_TALK: f64 = 0.05;
/// Sum of word weights that corresponds to a valence of two thirds.
const VALENCE_SCALE: f64 = 3.0;

/// Maximum number of names and topics that are counted.
const MAX_COUNTED: usize = 64;

const LEXICON: &str = include_str!("../data/valence.txt");

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evaluation {
    /// Importance from 0 to 1.
    pub importance: f64,
    /// Sentiment from -1 (negative) to 1 (positive).
    pub valence: f64,
}

/// Lexicon weights of words, -3 to 3.
static WEIGHTS: LazyLock<HashMap<&'static str, f64>> = LazyLock::new(|| {
    let mut weights = HashMap::new();
    for line in LEXICON.lines().filter(|line| !line.starts_with('#')) {
        if let Some((weight, words)) = line.split_once(':')
            && let Ok(weight) = weight.trim().parse::<f64>()
        {
            words.split_whitespace().for_each(|word| {
                weights.insert(word, weight);
            });
        }
    }
    weights
});

const LIFE_EVENTS: &[&str] = &[
    "my name is",
    "call me",
    "i was born",
    "was born",
    "my birthday",
    "passed away",
    "died",
    "got married",
    "getting married",
    "get married",
    "engaged",
    "pregnant",
    "divorced",
    "divorce",
    "diagnosed",
    "diagnosis",
    "allergic",
    "allergy",
    "graduated",
    "new job",
    "got the job",
    "promoted",
    "promotion",
    "got fired",
    "laid off",
    "retired",
    "i moved",
    "moved to",
    "we moved",
    "my address",
    "phone number",
    "adopted",
    "i live in",
    "i work at",
    "i work for",
    "i am a",
    "i'm a",
    "gave birth",
    "surgery",
    "quit my job",
    "came out",
    "accepted into",
    "lost my",
    "years old",
    "immigrated",
];
pub(crate) const REQUESTS: &[&str] = &[
    "remember that",
    "remember this",
    "please remember",
    "remember to",
    "remind me to",
    "remind me that",
    "don't forget",
    "do not forget",
    "note that",
    "important",
    "keep in mind",
    "from now on",
    "always use",
    "never use",
    "make sure",
    "must not",
    "urgent",
    "critical",
];
const COMMITMENTS: &[&str] = &[
    "decided",
    "decision",
    "agreed",
    "we will",
    "i will",
    "i'll",
    "we'll",
    "promise",
    "promised",
    "deadline",
    "due",
    "scheduled",
    "appointment",
    "signed",
    "committed",
    "plan to",
    "planning to",
    "going to",
    "goal",
    "switched to",
    "migrated",
    "released",
    "accepted",
    "booked",
    "bought",
    "started",
    "root cause",
    "fixed",
];
const PREFERENCES: &[&str] = &[
    "favourite",
    "favorite",
    "prefer",
    "prefers",
    "i love",
    "i like",
    "i hate",
    "i dislike",
    "can't stand",
    "loves",
    "hates",
    "likes",
    "enjoy",
    "enjoys",
    "fan of",
    "dream",
    "afraid of",
    "no longer",
    "would rather",
    "vegetarian",
    "vegan",
];
const SMALL_TALK_PHRASES: &[&str] = &[
    "hi",
    "hey",
    "hello",
    "thanks",
    "thank you",
    "good morning",
    "good night",
    "good evening",
    "how are you",
    "what's up",
    "sounds good",
    "see you",
    "bye",
    "ok",
    "okay",
    "cool",
    "nice",
    "wow",
    "great",
    "lol",
    "haha",
    "talk later",
    "talk soon",
    "take care",
    "no problem",
    "you're welcome",
    "sure",
    "yes",
    "no",
    "yeah",
    "yep",
    "congrats",
    "that's awesome",
    "that's great",
    "good to see you",
    "got it",
];

/// Evaluates a text. Only the part that the extraction reads is considered.
#[must_use]
pub fn evaluate(text: &str) -> Evaluation {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    let tokens = Text::new(text);
    let valence = valence(&tokens);
    let phrases = Phrases::of(&tokens);
    let mut added = 0.0;
    for (words, weight) in [(LIFE_EVENTS, 0.30), (REQUESTS, 0.30), (COMMITMENTS, 0.20), (PREFERENCES, 0.15)] {
        if phrases.any(words) {
            added += weight;
        }
    }
    let topics = extract(text, &[]).mentions;
    if !facts::facts_in(&tokens, &topics).is_empty() {
        added += 0.15;
    }
    let has_date = (0..tokens.tokens.len()).any(|at| dates::date_at(&tokens, at).is_some());
    added += if has_date { 0.10 } else { 0.0 };
    let names = proper_names::inside_sentences(&tokens).into_iter();
    // Entries of the word lists count as topics.
    let is_topic =
        |start: usize| topics.iter().any(|topic| Some(topic.range.start) == tokens.get(start).map(|t| t.start));
    let names = names.take(MAX_COUNTED).filter(|name| !is_topic(name.start)).map(|name| tokens.key_of(name));
    added += (distinct(names.collect()) * 0.06).min(0.12);
    added += (distinct(topics.iter().take(MAX_COUNTED).map(|topic| topic.key.clone()).collect()) * 0.03).min(0.06);
    let asks = tokens.source.trim_end().ends_with('?');
    if asks {
        added /= 2.0;
    }
    let words = tokens.tokens.iter().filter(|token| token.kind == Kind::Word).count();
    let is_small = added < 0.07 && (words <= 12 && phrases.any(SMALL_TALK_PHRASES) || words <= 2);
    let importance = if words == 0 {
        0.0
    } else if is_small {
        SMALL_TALK
    } else {
        BASE + added + valence.abs() * 0.10
    };
    Evaluation { importance: importance.clamp(0.0, 1.0), valence }
}

fn distinct(mut keys: Vec<String>) -> f64 {
    keys.sort_unstable();
    keys.dedup();
    f64::from(u8::try_from(keys.len()).unwrap_or(u8::MAX))
}

fn valence(text: &Text<'_>) -> f64 {
    let mut sum = 0.0;
    for (index, token) in text.tokens.iter().enumerate() {
        let Some(weight) = (token.kind == Kind::Word).then(|| WEIGHTS.get(text.folded(index))).flatten() else {
            continue;
        };
        let is_negated =
            (1..4).any(|distance| text.before(index, distance).is_some_and(|(_, token)| token.has(cues::NEGATION)));
        let is_stressed = matches!(
            text.word_before(index, 1),
            "very" | "so" | "really" | "extremely" | "incredibly" | "totally" | "absolutely" | "super" | "too"
        );
        let stress = if is_stressed { 1.5 } else { 1.0 };
        sum += weight * stress * if is_negated { -0.5 } else { 1.0 };
    }
    sum / (sum.abs() + VALENCE_SCALE / 2.0)
}

/// Folded words with single spaces, for phrase lookup.
pub(crate) struct Phrases(String);

impl Phrases {
    pub(crate) fn of(text: &Text<'_>) -> Self {
        let mut words = String::from(" ");
        for (index, token) in text.tokens.iter().enumerate() {
            if matches!(token.kind, Kind::Word | Kind::Number) {
                words.push_str(text.folded(index));
                words.push(' ');
            }
        }
        Self(words)
    }

    pub(crate) fn any(&self, phrases: &[&str]) -> bool {
        // Compared at the beginning of each word, which is cheaper than a search for every phrase.
        self.0.match_indices(' ').any(|(space, _)| {
            let words = &self.0[space + 1..];
            phrases.iter().any(|phrase| words.strip_prefix(phrase).is_some_and(|rest| rest.starts_with(' ')))
        })
    }
}
