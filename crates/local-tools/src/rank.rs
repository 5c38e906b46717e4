//! How well a tool fits a message, as a number, from words and from what its form takes.

use std::collections::HashMap;

use crate::fill::{Background, Filled, fill};
use crate::form::Parameter;
use crate::literals::Message;
use crate::request_kind::{Mood, RequestKind};
use crate::words::{actions, identifier_stems, is_filler, likeness, words};

/// Below this no tool is meant.
pub(crate) const THRESHOLD: f32 = 2.4;

const NAME: f32 = 1.8;
const NAME_LIMIT: f32 = 3.2;
const DESCRIPTION: f32 = 0.5;
const DESCRIPTION_LIMIT: f32 = 1.4;
const VERB: f32 = 1.3;
const OTHER_VERB: f32 = -1.0;
const HINT: f32 = 3.0;
const KNOWLEDGE: f32 = -3.0;
/// Only the verb fits, and what it is done to is something else.
const OFF_TOPIC: f32 = -1.5;
const REMARK: f32 = -3.0;
/// The tool needs nothing, and the message says nothing that the tool does not.
const SAYS_IT_ALL: f32 = 0.8;
/// What the model has to make up speaks a little against the tool.
const OPEN: f32 = -0.4;

/// A tool as the ranking sees it.
#[derive(Debug)]
pub(crate) struct Profile {
    name: Vec<String>,
    description: Vec<String>,
    verbs: u32,
    /// Example requests out of the description: what stands there in quotation marks.
    hints: Vec<Vec<String>>,
}

impl Profile {
    pub(crate) fn new(name: &str, description: &str, parameters: &[Parameter]) -> Self {
        let description: String = description.chars().take(2000).collect();
        let text = Message::new(&description);
        let name = identifier_stems(name);
        let first = text.words.first().map_or(0, |word| actions(&word.stem));
        let mut terms: Vec<String> =
            text.words.iter().filter(|word| !is_filler(&word.lower)).map(|word| word.stem.clone()).collect();
        terms.extend(parameters.iter().flat_map(|parameter| parameter.stems.iter().cloned()));
        terms.retain(|term| !name.contains(term) && !is_filler(term) && term.len() > 1);
        terms.sort_unstable();
        terms.dedup();
        let hints = text.literals.iter().filter(|literal| literal.quoted).map(|literal| {
            words(&literal.value).into_iter().filter(|word| !is_filler(&word.lower)).map(|word| word.stem).collect()
        });
        Self {
            verbs: name.iter().fold(first, |bits, word| bits | actions(word)),
            hints: hints.filter(|hint: &Vec<String>| !hint.is_empty()).collect(),
            description: terms,
            name,
        }
    }
}

/// How many of the offered tools use a word: what all have tells none from another.
#[derive(Debug, Default)]
pub(crate) struct Rarity(HashMap<String, f32>);

impl Rarity {
    pub(crate) fn of<'p>(profiles: impl Iterator<Item = &'p Profile>) -> Self {
        let mut counts: HashMap<String, f32> = HashMap::new();
        for profile in profiles {
            for term in profile.name.iter().chain(&profile.description) {
                *counts.entry(term.clone()).or_default() += 1.0;
            }
        }
        Self(counts)
    }

    fn weight(&self, term: &str) -> f32 {
        1.0 / self.0.get(term).copied().unwrap_or(1.0).max(1.0).sqrt()
    }
}

/// A tool that fits, how well, and its form as far as it is filled.
#[derive(Debug)]
pub(crate) struct Fit {
    pub(crate) score: f32,
    pub(crate) filled: Filled,
}

pub(crate) fn fit(
    profile: &Profile,
    parameters: &[Parameter],
    rarity: &Rarity,
    message: &Message,
    mood: Mood,
    background: Background<'_>,
) -> Option<Fit> {
    if mood.kind == RequestKind::Refusal {
        return None;
    }
    let verb_fits = mood.verb & profile.verbs != 0 || called_by_name(profile, message);
    let may_compose = mood.kind == RequestKind::Order;
    let filled = fill(parameters, message, Background { may_compose, ..background });
    if filled.missing > 0 {
        return None;
    }
    let heard: Vec<&str> = message
        .words
        .iter()
        .filter(|word| !is_filler(&word.lower) && filled.is_free(&(word.start..word.end)))
        .map(|word| word.stem.as_str())
        .collect();
    let best = |term: &str| heard.iter().map(|word| likeness(word, term)).fold(0.0, f32::max) * rarity.weight(term);
    let by_name = NAME * profile.name.iter().filter(|term| !is_filler(term)).map(|term| best(term)).sum::<f32>();
    let by_description = DESCRIPTION * profile.description.iter().map(|term| best(term)).sum::<f32>();
    // "list three reasons" is not for a tool that lists files.
    let nouns = || profile.name.iter().filter(|term| actions(term) == 0 && !is_filler(term));
    let speaks_of_it = nouns().next().is_none() || nouns().any(|term| best(term) > 0.0);
    let hint = profile.hints.iter().map(|hint| similar(hint, message)).fold(0.0, f32::max);
    let words = by_name.min(NAME_LIMIT) + by_description.min(DESCRIPTION_LIMIT) + hint * HINT;
    // What the model is to make up needs a reason in words.
    if !filled.open.is_empty() && (!verb_fits || by_name + hint < 0.5) && hint < 0.6 {
        return None;
    }
    // "Show me the files": few words, and all of them are the tool's.
    let is_known = |word: &&str| {
        let is_like = |term: &String| likeness(word, term) > 0.5;
        actions(word) & mood.verb != 0 || profile.name.iter().chain(&profile.description).any(is_like)
    };
    let needs_nothing = parameters.iter().all(|parameter| !parameter.required);
    let says_it_all = verb_fits && needs_nothing && nouns().any(|term| best(term) > 0.0) && heard.iter().all(is_known);
    let explained = if says_it_all { SAYS_IT_ALL } else { 0.0 };
    let verb = if verb_fits {
        VERB
    } else if mood.is_told && profile.verbs != 0 && hint == 0.0 {
        OTHER_VERB
    } else {
        0.0
    };
    #[allow(clippy::cast_precision_loss, reason = "a handful")]
    let open = OPEN * filled.open.len() as f32;
    let sure = filled.evidence >= 2.4;
    let kind = match mood.kind {
        RequestKind::Knowledge if sure => KNOWLEDGE / 4.0,
        RequestKind::Knowledge => KNOWLEDGE,
        RequestKind::Remark => REMARK,
        _ => 0.0,
    };
    let off_topic = if speaks_of_it || filled.evidence >= 1.0 || hint > 0.0 { 0.0 } else { OFF_TOPIC };
    // What is left unused is what the model works with.
    let unused = if !filled.open.is_empty() && called_by_name(profile, message) { 0.0 } else { filled.unused(message) };
    let score = words + verb + explained + filled.evidence + open + kind + off_topic - unused;
    Some(Fit { score, filled })
}

/// The share of a hint's words that the message has; little overlap counts for nothing.
fn similar(hint: &[String], message: &Message) -> f32 {
    let has =
        |wanted: &String| message.words.iter().any(|word| word.stem == *wanted || likeness(&word.stem, wanted) > 0.5);
    #[allow(clippy::cast_precision_loss, reason = "a handful of words")]
    let share = hint.iter().filter(|word| has(word)).count() as f32 / hint.len() as f32;
    if share >= 0.6 { share } else { 0.0 }
}

/// "use the shell to …", "with python": the tool is called by its name.
fn called_by_name(profile: &Profile, message: &Message) -> bool {
    message.words.iter().enumerate().any(|(at, word)| {
        profile.name.contains(&word.stem)
            && !is_filler(&word.lower)
            && message.words[at.saturating_sub(2)..at]
                .iter()
                .any(|before| matches!(before.lower.as_str(), "use" | "using" | "with" | "via" | "through"))
    })
}
