//! Simple facts, so that a newer one can take an older one's place: "I live in Berlin", "Anna works at
//! Siemens now", "my favourite colour is blue", "I no longer drink coffee".
//!
//! Precision before recall: only the plain indicative with a known subject (the first person, a named
//! person, or the speaker's relative). Questions, conditions, wishes, reports of what somebody said,
//! the past and whatever is uncertain are no facts. German has the plainest of them (`german`).
//!
//! An attribute either has one value at a time (`lives_in`, `works_at`, `age`, `favorite color`), or
//! carries what it is about (`like coffee`), so that liking coffee never contradicts liking tea.

mod german;
mod reader;
mod sentence;
mod vocabulary;

use crate::cues;
use crate::extract::{MAX_TEXT_BYTES, extract};
use crate::text::Text;
use crate::types::{Mention, TaggedName};
use reader::Reader;

/// The subject of what is said in the first person by somebody who is not named.
pub const FIRST_PERSON: &str = "self";
/// How many facts are read from one text.
pub const MAX_FACTS: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FactKey {
    /// A person's key, [`FIRST_PERSON`], or one of these and a kinship: `self sister`.
    pub subject: String,
    pub attribute: String,
    pub value: String,
    /// Whether it is so; `false` for "no longer" and "not".
    pub polarity: bool,
}

impl FactKey {
    /// Whether both cannot hold at once: another value of the same attribute, or the same one denied.
    #[must_use]
    pub fn contradicts(&self, other: &Self) -> bool {
        self.subject == other.subject
            && self.attribute == other.attribute
            && match (self.polarity, other.polarity) {
                (true, true) => self.value != other.value,
                (false, false) => false,
                _ => self.value == other.value,
            }
    }
}

/// The fact that a text states, if it states exactly one.
#[must_use]
pub fn fact_key(text: &str, names: &[TaggedName]) -> Option<FactKey> {
    let mut facts = fact_keys(text, names, None);
    if facts.len() == 1 { facts.pop() } else { None }
}

/// Every simple fact of a text, in its order, at most [`MAX_FACTS`]. `names` are what a tagger found in it; where it
/// found nothing, capitals stand in. `speaker` is who "I" is; a prefix (`Anna: …`) wins.
#[must_use]
pub fn fact_keys(text: &str, names: &[TaggedName], speaker: Option<&str>) -> Vec<FactKey> {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    let mut facts = facts_in(&Text::new(text), &extract(text, names).mentions);
    if let Some(speaker) = speaker.map(crate::fold).filter(|speaker| !speaker.is_empty()) {
        for fact in &mut facts {
            if fact.subject == FIRST_PERSON {
                fact.subject.clone_from(&speaker);
            } else if let Some(kin) = fact.subject.strip_prefix("self ") {
                fact.subject = format!("{speaker} {kin}");
            }
        }
    }
    facts
}

pub(crate) fn facts_in(text: &Text<'_>, mentions: &[Mention]) -> Vec<FactKey> {
    let mut facts = Vec::new();
    let mut speaker = FIRST_PERSON.to_owned();
    let mut next = 0;
    for range in &text.sentences {
        let (Some(first), Some(last)) = (text.get(range.start), text.get(range.end - 1)) else { continue };
        while mentions.get(next).is_some_and(|mention| mention.range.start < first.start) {
            next += 1;
        }
        let until = next + mentions[next..].iter().take_while(|mention| mention.range.start < last.end).count();
        let own = &mentions[next..until];
        let mut reader = Reader { text, mentions: own, at: range.start, end: range.end };
        if first.starts_line
            && let Some((key, after)) = reader.person()
            && text.folded(after) == ":"
            && !first.has(cues::HEADING)
        {
            speaker = key;
            reader.at = after + 1;
        }
        // A clause after one that is no fact may hang on it: "if I move and I live there".
        for end in clause_ends(text, reader.at, range.end) {
            let mut clause = Reader { text, mentions: own, at: reader.at, end };
            let Some(fact) = clause.fact(&speaker).filter(|_| facts.len() < MAX_FACTS) else { break };
            facts.push(fact);
            reader.at = end + 1;
        }
    }
    facts
}

/// Where the clauses of a sentence end that speak of the speaker again: "my name is Ada and I live in Berlin".
fn clause_ends(text: &Text<'_>, start: usize, end: usize) -> Vec<usize> {
    let begins_anew = |at: usize| at + 1 < end && matches!(text.folded(at + 1), "i" | "my" | "ich" | "mein" | "meine");
    let joins = |at: usize| matches!(text.folded(at), "and" | "und");
    let mut ends: Vec<usize> = (start..end).filter(|at| joins(*at) && begins_anew(*at)).collect();
    ends.push(end);
    ends
}
