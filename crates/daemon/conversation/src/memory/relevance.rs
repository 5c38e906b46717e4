//! What is relevant to a question, and whether an answer made use of it. Pure rules.
//!
//! - Small talk recalls nothing ([`Question::of`]).
//! - An episode is recalled only when it means something near to the question ([`NEAR`]), or holds a third of
//!   the question's telling words ([`SHARED_WORDS`]); of a long question eight words count.
//! - An answer made use of an episode when it holds what the episode says beyond the question: one of its
//!   names or numbers, or a quarter of its telling words and at least two; or when half of what the answer says
//!   beyond the question comes from the episode.
//! - What is used when it is recalled moves up, what is never used moves down: see [`feedback_factor`].

use std::collections::BTreeSet;

use agentd_search_index::analyze;

use super::store::recalls::Feedback;

/// The cosine from which on two texts speak of the same thing.
pub(super) const NEAR: f32 = 0.35;
/// The share of the question's telling words that an episode must hold if its meaning is not near.
const SHARED_WORDS: f64 = 0.3;
/// More words of a question do not ask for more.
const COUNTED_WORDS: usize = 8;
/// Small talk is taken to be no more important than this.
const SMALL_TALK: f64 = 0.05;
/// The share of an episode's own words that an answer must hold.
const USED_WORDS: f64 = 0.25;
const LEAST_USED_WORDS: usize = 2;
/// The share of an answer's own words that must come from the episode, else.
const USED_ANSWER: f64 = 0.5;
/// Of longer texts the beginning is compared.
const COMPARED_BYTES: usize = 16_000;
/// How far feedback moves a score at most: by this share up, and by this share down.
const MOST_GAIN: f64 = 0.15;
const MOST_LOSS: f64 = 0.10;
/// After so many evaluated answers feedback counts for half of what it can.
const HALF_SURE: f64 = 4.0;

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(COMPARED_BYTES)]
}

/// The words of a text that tell something.
pub(super) fn telling(text: &str) -> BTreeSet<String> {
    let tokens = analyze(beginning(text)).into_iter();
    tokens.filter(|token| token.counts && !token.is_stop_word).map(|token| token.term).collect()
}

/// A question that something may be recalled for.
#[derive(Debug)]
pub(super) struct Question {
    words: BTreeSet<String>,
}

impl Question {
    /// `None` for small talk, and for what holds no telling word.
    pub(super) fn of(text: &str) -> Option<Self> {
        let words = telling(text);
        if words.is_empty() || agentd_entities::evaluate(beginning(text)).importance <= SMALL_TALK {
            return None;
        }
        Some(Self { words })
    }

    /// Whether a text is relevant to this question.
    #[allow(clippy::cast_precision_loss, reason = "counts of words")]
    pub(super) fn is_met_by(&self, content: &str, cosine: Option<f32>) -> bool {
        if cosine.is_some_and(|cosine| cosine >= NEAR) {
            return true;
        }
        let shared = telling(content).intersection(&self.words).count();
        shared as f64 >= SHARED_WORDS * self.words.len().min(COUNTED_WORDS) as f64 && shared > 0
    }
}

/// Whether an answer holds what the episode says beyond the question.
#[allow(clippy::cast_precision_loss, reason = "counts of words")]
pub(super) fn is_used(content: &str, question: &str, answer: &str) -> bool {
    let (asked, answered) = (telling(question), telling(answer));
    let own: BTreeSet<String> = telling(content).difference(&asked).cloned().collect();
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
    if names.any(|name| telling(&name).iter().any(|word| own.contains(word) && answered.contains(word))) {
        return true;
    }
    // A short answer is right with one word.
    let answers_with = answered.difference(&asked).count();
    used as f64 >= USED_ANSWER * answers_with as f64
        || used as f64 >= USED_WORDS * own.len() as f64 && used >= LEAST_USED_WORDS.min(own.len())
}

/// What the score of an episode is multiplied by: 1 before any answer was evaluated, at most
/// `1 + MOST_GAIN` for one that is always used, at least `1 - MOST_LOSS` for one that never is. The share
/// of use begins at a half and is believed more the more answers were evaluated.
#[allow(clippy::cast_precision_loss, reason = "counts of answers")]
pub(super) fn feedback_factor(feedback: Feedback) -> f64 {
    let evaluated = feedback.evaluated as f64;
    let share = (feedback.used as f64 + 1.0) / (evaluated + 2.0);
    let lean = (share - 0.5) * 2.0 * (evaluated / (evaluated + HALF_SURE));
    1.0 + lean * if lean > 0.0 { MOST_GAIN } else { MOST_LOSS }
}

/// The cosine of two vectors of one length; 0 where that is not defined.
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
            assert!(Question::of(text).is_none(), "{text}");
        }
        assert!(Question::of("Where does my sister live?").is_some());
    }

    #[test]
    fn what_shares_little_is_not_told() {
        let question = Question::of("Which database did we choose for the crawler?").expect("a question");
        assert!(question.is_met_by("We chose PostgreSQL as the database of the crawler.", None));
        assert!(!question.is_met_by("My dog likes long walks in the rain.", None));
        assert!(!question.is_met_by("My dog likes long walks in the rain.", Some(0.2)));
        assert!(question.is_met_by("PostgreSQL it is.", Some(0.6)));
    }

    #[test]
    fn an_answer_uses_what_it_did_not_get_from_the_question() {
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
            prop_assert!((1.0 - MOST_LOSS..=1.0 + MOST_GAIN).contains(&factor));
            if used < evaluated {
                let more = feedback_factor(Feedback { evaluated, used: used + 1 });
                prop_assert!(more >= factor);
            }
        }

        #[test]
        fn no_text_breaks_the_rules(one in ".{0,200}", two in ".{0,200}", three in ".{0,200}") {
            if let Some(question) = Question::of(&one) {
                question.is_met_by(&two, None);
            }
            is_used(&one, &two, &three);
        }
    }
}
