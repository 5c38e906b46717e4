//! Pure rules that decide which episodes are relevant to a question and whether an answer used them.
//!
//! - Small talk recalls nothing ([`Question::from_text`]).
//! - An episode is recalled if its meaning is close to the question ([`MIN_RELATED_COSINE`]). It is also recalled if it
//!   contains a share of the question's significant words ([`MIN_SHARED_WORD_RATIO`]), counting at most eight words.
//! - An answer used an episode if one of these applies; words of the question do not count:
//!   - It contains a name or number from the episode.
//!   - It contains at least a quarter of the episode's significant words, and at least two of them.
//!   - At least half of its significant words come from the episode.
//! - Episodes that are used rank higher, episodes that are ignored rank lower; see [`feedback_factor`].

use std::collections::BTreeSet;

use agentd_search_index::analyze;

use super::store::recalls::Feedback;

/// Minimum cosine at which two texts have a related meaning.
pub(super) const MIN_RELATED_COSINE: f32 = 0.35;
/// Minimum share of the question's significant words that an episode with a lower cosine must contain.
const MIN_SHARED_WORD_RATIO: f64 = 0.3;
/// Maximum number of words of a question that count for that share.
const MAX_COUNTED_WORDS: usize = 8;
/// Maximum importance of small talk.
const MAX_SMALL_TALK_IMPORTANCE: f64 = 0.05;
/// Minimum share of an episode's significant words that an answer must contain to count as use.
const MIN_USED_WORD_RATIO: f64 = 0.25;
const MIN_USED_WORD_COUNT: usize = 2;
/// Alternative minimum share of an answer's own words that come from the episode.
const MIN_ANSWER_WORD_RATIO: f64 = 0.5;
/// Maximum length of the compared beginning of a text, in bytes.
const MAX_COMPARED_BYTES: usize = 16_000;
/// Maximum effect of feedback on a score, upward and downward.
const MAX_GAIN: f64 = 0.15;
const MAX_LOSS: f64 = 0.10;
/// Number of evaluated answers after which feedback has half of its maximum effect.
const HALF_EFFECT_COUNT: f64 = 4.0;

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_COMPARED_BYTES)]
}

/// Returns the significant words of a text.
pub(super) fn significant_words(text: &str) -> BTreeSet<String> {
    let tokens = analyze(beginning(text)).into_iter();
    tokens.filter(|token| token.is_counted && !token.is_stop_word).map(|token| token.term).collect()
}

/// Question that episodes may be recalled for.
#[derive(Debug)]
pub(super) struct Question {
    words: BTreeSet<String>,
}

impl Question {
    /// Returns `None` for small talk and for texts without significant words.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let words = significant_words(text);
        if words.is_empty() || agentd_entities::evaluate(beginning(text)).importance <= MAX_SMALL_TALK_IMPORTANCE {
            return None;
        }
        Some(Self { words })
    }

    /// Whether a text is relevant to this question.
    #[allow(clippy::cast_precision_loss, reason = "counts of words")]
    pub(super) fn is_relevant(&self, content: &str, cosine: Option<f32>) -> bool {
        if cosine.is_some_and(|cosine| cosine >= MIN_RELATED_COSINE) {
            return true;
        }
        let shared = significant_words(content).intersection(&self.words).count();
        shared as f64 >= MIN_SHARED_WORD_RATIO * self.words.len().min(MAX_COUNTED_WORDS) as f64 && shared > 0
    }
}

/// Returns whether an answer contains what the episode adds to the question.
#[allow(clippy::cast_precision_loss, reason = "counts of words")]
pub(super) fn is_used(content: &str, question: &str, answer: &str) -> bool {
    let (asked, answered) = (significant_words(question), significant_words(answer));
    let own: BTreeSet<String> = significant_words(content).difference(&asked).cloned().collect();
    if own.is_empty() {
        return false;
    }
    let used = own.intersection(&answered).count();
    if used == 0 {
        return false;
    }
    let is_number = |word: &&String| word.chars().any(|character| character.is_ascii_digit());
    if own.intersection(&answered).any(|word| is_number(&word)) {
        return true;
    }
    let topics = agentd_entities::extract(beginning(content), &[]).mentions.into_iter().map(|mention| mention.name);
    let mut names = agentd_entities::proper_names(beginning(content)).into_iter().chain(topics);
    if names.any(|name| significant_words(&name).iter().any(|word| own.contains(word) && answered.contains(word))) {
        return true;
    }
    // One word can be a complete answer.
    let new_word_count = answered.difference(&asked).count();
    used as f64 >= MIN_ANSWER_WORD_RATIO * new_word_count as f64
        || used as f64 >= MIN_USED_WORD_RATIO * own.len() as f64 && used >= MIN_USED_WORD_COUNT.min(own.len())
}

/// Returns the factor for the score of an episode. It is 1 before any answer was evaluated, at most `1 + MAX_GAIN` if
/// the episode is always used and at least `1 - MAX_LOSS` if it never is. The share of use starts at one half; its
/// effect grows with the number of evaluated answers.
#[allow(clippy::cast_precision_loss, reason = "counts of answers")]
pub(super) fn feedback_factor(feedback: Feedback) -> f64 {
    let evaluated = feedback.evaluated as f64;
    let share = (feedback.used as f64 + 1.0) / (evaluated + 2.0);
    let bias = (share - 0.5) * 2.0 * (evaluated / (evaluated + HALF_EFFECT_COUNT));
    1.0 + bias * if bias > 0.0 { MAX_GAIN } else { MAX_LOSS }
}

/// Returns the cosine of two vectors of the same length; 0 where it is undefined.
pub(super) fn cosine(one: &[f32], other: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let norms = (dot(one, one) * dot(other, other)).sqrt();
    if one.len() == other.len() && norms > 0.0 { dot(one, other) / norms } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_talk_recalls_nothing() {
        for text in ["Hi!", "Thanks, sounds good.", "ok", "   ", "How are you?", "👍", "What is it?"] {
            assert!(Question::from_text(text).is_none(), "{text}");
        }
        assert!(Question::from_text("Where does my sister live?").is_some());
    }

    #[test]
    fn episode_sharing_few_words_is_not_relevant() {
        let question = Question::from_text("Which database did we choose for the crawler?").expect("a question");
        assert!(question.is_relevant("We chose PostgreSQL as the database of the crawler.", None));
        assert!(!question.is_relevant("My dog likes long walks in the rain.", None));
        assert!(!question.is_relevant("My dog likes long walks in the rain.", Some(0.2)));
        assert!(question.is_relevant("PostgreSQL it is.", Some(0.6)));
    }

    #[test]
    fn answer_uses_an_episode_only_beyond_the_question() {
        let (content, question) = ("My sister Anna lives in Oslo.", "Where does my sister live?");
        assert!(is_used(content, question, "She lives in Oslo."));
        assert!(!is_used(content, question, "Your sister? I do not know where she lives."));
        assert!(!is_used("We meet at the station.", "Where do we meet?", "No idea."));
        assert!(is_used("The rent is 740 a month.", "What is the rent?", "It is 740."));
        let (content, question) =
            ("My boat is called Pequod and it lies in the harbour of Kiel.", "What do you know of my boat?");
        for answer in ["In Kiel.", "Pequod.", "Its name is Pequod.", "In the harbour."] {
            assert!(is_used(content, question, answer), "{answer}");
        }
        assert!(!is_used(content, question, "It is a wooden one, built in Denmark a hundred years ago, I was called."));
        assert!(!is_used("sister", "Where does my sister live?", "A sister."));
    }

    proptest! {
        #[test]
        fn feedback_is_bounded_and_follows_use(evaluated in 0u64..1000, used in 0u64..1000) {
            let used = used.min(evaluated);
            let factor = feedback_factor(Feedback { evaluated, used });
            prop_assert!((1.0 - MAX_LOSS..=1.0 + MAX_GAIN).contains(&factor));
            if used < evaluated {
                let more = feedback_factor(Feedback { evaluated, used: used + 1 });
                prop_assert!(more >= factor);
            }
        }

        #[test]
        fn arbitrary_texts_do_not_panic(one in ".{0,200}", two in ".{0,200}", three in ".{0,200}") {
            if let Some(question) = Question::from_text(&one) {
                question.is_relevant(&two, None);
            }
            is_used(&one, &two, &three);
        }
    }
}
