//! Selects matches of the word lists (software and topics), which the tagger does not find.
//!
//! | rule of the entry | asks for |
//! |---|---|
//! | certain | nothing |
//! | cased | a capital inside the sentence, or any capital where the sentence speaks of software |
//! | context, spoken | a capital inside a sentence that speaks of software |
//!
//! A supporting word of the entry, or a name of another type by the tagger, replaces all of these requirements; an
//! excluding word takes precedence. In a sentence in title case, capitals carry no information.

use crate::cues;
use crate::gazetteer::{Entry, Match, Rule, gazetteer};
use crate::text::{Case, Kind, Text};
use crate::types::Candidate;

/// Distance within which a supporting or excluding word is searched, in tokens. Keeps the time linear in one endless
/// sentence.
const WINDOW_TOKENS: usize = 16;
/// Minimum number of words of a sentence in title case.
const TITLE_CASE_MIN_WORDS: usize = 3;

#[derive(Debug, Clone, Copy, Default)]
struct Sentence {
    is_technical: bool,
    is_title_case: bool,
}

/// Appends the entries that occur in a text. `confirmed` returns whether the tagger found a possible name at these
/// tokens.
pub(crate) fn candidates(text: &Text<'_>, confirmed: impl Fn(usize, usize) -> bool, into: &mut Vec<Candidate>) {
    let mut matches: Vec<(usize, Match)> = Vec::new();
    let mut found = Vec::new();
    for index in 0..text.tokens.len() {
        if may_start(text, index) {
            found.clear();
            gazetteer().matches(text, index, &mut found);
            matches.extend(found.iter().filter(|matched| may_end(text, matched.end)).map(|matched| (index, *matched)));
        }
    }
    let mut sentences: Vec<Sentence> = text.sentences.iter().map(|range| sentence(text, range.clone())).collect();
    for (start, matched) in &matches {
        let is_technical = gazetteer().entries[matched.entry].entity_type.is_technical();
        sentences[text.tokens[*start].sentence].is_technical |= matched.is_unambiguous && is_technical;
    }
    for (start, matched) in matches {
        let entry = &gazetteer().entries[matched.entry];
        let sentence = sentences[text.tokens[start].sentence];
        if has_evidence(text, start, matched, entry, sentence) || confirmed(start, matched.end) {
            into.push(Candidate {
                start,
                end: matched.end,
                entity_type: entry.entity_type,
                entry: Some(matched.entry),
            });
        }
    }
}

fn has_evidence(text: &Text<'_>, start: usize, matched: Match, entry: &Entry, sentence: Sentence) -> bool {
    let token = &text.tokens[start];
    if is_near(text, start, &entry.excluding) {
        return false;
    }
    let is_capital = (token.is_capital() || token.case == Case::Mixed) && !sentence.is_title_case;
    match entry.rule {
        _ if matched.is_unambiguous || is_near(text, start, &entry.supporting) => true,
        Rule::Certain => false,
        Rule::Cased => is_capital && (!token.is_first || sentence.is_technical),
        Rule::Context | Rule::Spoken => is_capital && !token.is_first && sentence.is_technical,
    }
}

fn sentence(text: &Text<'_>, tokens: std::ops::Range<usize>) -> Sentence {
    let mut sentence = Sentence::default();
    let (mut words, mut capitals, mut plain) = (0, 0, 0);
    for index in tokens {
        let token = &text.tokens[index];
        sentence.is_technical |= token.has(cues::TECHNICAL | cues::TECHNICAL_VERB);
        let is_counted = token.kind == Kind::Word && token.case != Case::None && !token.is_first;
        if is_counted && text.folded(index) != "i" {
            words += 1;
            capitals += usize::from(token.is_capital());
            plain += usize::from(!token.is_capital() && !token.has(cues::FUNCTION));
        }
    }
    sentence.is_title_case = words >= TITLE_CASE_MIN_WORDS && plain == 0 && capitals * 4 > words * 3;
    sentence
}

/// Whether an entry may start here, which is not inside `main.rs` or `name.example`.
fn may_start(text: &Text<'_>, index: usize) -> bool {
    let token = &text.tokens[index];
    let before = index.checked_sub(1).map_or("", |before| text.folded(before));
    let is_part = !token.is_spaced && matches!(before, "." | "@" | "\\" | "$" | "%" | "=");
    match token.kind {
        Kind::Word | Kind::Number => !is_part,
        Kind::Mark => token.is_spaced && text.folded(index) == ".",
        _ => false,
    }
}

fn may_end(text: &Text<'_>, end: usize) -> bool {
    let is_glued = |index: usize| text.get(index).is_some_and(|token| !token.is_spaced);
    let word_follows = text.get(end + 1).is_some_and(|token| !token.is_spaced && token.kind == Kind::Word);
    !(is_glued(end) && matches!(text.folded(end), "." | "@" | "=" | "\\" | "_") && word_follows)
}

fn is_near(text: &Text<'_>, index: usize, words: &[u64]) -> bool {
    let own = &text.tokens[index];
    let range = index.saturating_sub(WINDOW_TOKENS)..(index + WINDOW_TOKENS).min(text.tokens.len());
    !words.is_empty()
        && text.tokens[range]
            .iter()
            .any(|token| token.sentence == own.sentence && token.start != own.start && words.contains(&token.hash))
}
