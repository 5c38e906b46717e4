//! Simple facts, which newer ones can replace: "I live in Berlin", "Anna works at Siemens now", "my favourite colour is
//! blue", "I no longer drink coffee".
//!
//! Precision before recall: only plain indicative sentences with a known subject (the first person, a named person, or
//! the speaker's relative). Questions, conditions, wishes, reported speech, the past and uncertain statements are not
//! facts. German support is limited to the plainest forms (`german`).
//!
//! An attribute either has a single value (`lives_in`, `works_at`, `age`, `favorite color`), or includes its object
//! (`like coffee`), so that liking coffee never contradicts liking tea.

mod german;
mod reader;
mod sentence;
mod vocabulary;

use crate::cues;
use crate::extract::{MAX_TEXT_BYTES, extract};
use crate::text::Text;
use crate::types::{Mention, TaggedName};
use reader::Reader;

/// Subject of first-person statements by an unnamed speaker.
pub const FIRST_PERSON: &str = "self";
/// Maximum number of facts per text.
pub const MAX_FACTS: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FactKey {
    /// Key of a person, [`FIRST_PERSON`], or one of these with a kinship term: `self sister`.
    pub subject: String,
    pub attribute: String,
    pub value: String,
    /// Whether the fact is true; `false` for "no longer" and "not".
    pub polarity: bool,
}

impl FactKey {
    /// Whether the two facts exclude each other: another value of the same attribute, or the opposite polarity.
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

/// Returns the fact that a text states, if it states exactly one.
#[must_use]
pub fn fact_key(text: &str, names: &[TaggedName]) -> Option<FactKey> {
    let mut facts = fact_keys(text, names, None);
    if facts.len() == 1 { facts.pop() } else { None }
}

/// Returns the simple facts of a text in text order, at most [`MAX_FACTS`]. `names` are the names found by a tagger; if
/// there are none, capitalization is used. `speaker` identifies "I"; a prefix in the text (`Anna: …`) takes precedence.
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
        // A clause after one that is not a fact may depend on it: "if I move and I live there".
        for end in clause_ends(text, reader.at, range.end) {
            let mut clause = Reader { text, mentions: own, at: reader.at, end };
            let Some(fact) = clause.fact(&speaker).filter(|_| facts.len() < MAX_FACTS) else { break };
            facts.push(fact);
            reader.at = end + 1;
        }
    }
    facts
}

/// Returns the ends of the clauses of a sentence that refer to the speaker again: "my name is Ada and I live in
/// Berlin".
fn clause_ends(text: &Text<'_>, start: usize, end: usize) -> Vec<usize> {
    let begins_anew = |at: usize| at + 1 < end && matches!(text.folded(at + 1), "i" | "my" | "ich" | "mein" | "meine");
    let joins = |at: usize| matches!(text.folded(at), "and" | "und");
    let mut ends: Vec<usize> = (start..end).filter(|at| joins(*at) && begins_anew(*at)).collect();
    ends.push(end);
    ends
}
