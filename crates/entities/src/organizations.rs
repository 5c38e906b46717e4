//! Organizations that no list knows: by their last word (`Acme Widgets GmbH`), by their first
//! (`University of Edinburgh`), and by what is said of them (`works at Kestrel`, `the CTO of Kestrel`).

use crate::cues;
use crate::scene::{Candidate, Confidence, Naming, Scene};
use crate::text::{Case, Kind, Token};
use crate::types::EntityType;

const BY_NAME: Confidence = 83;
const BY_WORK: Confidence = 74;
/// Words of a name before its last.
const MAX_LEADING_WORDS: usize = 5;

/// Suffixes that make a name of one capitalized word before them, even at a sentence's start.
const LEGAL_FORMS: [&str; 12] =
    ["inc", "gmbh", "ag", "ltd", "llc", "corp", "corporation", "plc", "co", "kg", "bv", "sarl"];

/// Further ones, which say nothing behind a name that is not known.
const FURTHER_FORMS: [&str; 5] = ["sa", "se", "nv", "limited", "company"];

pub(crate) fn candidates(scene: &Scene<'_, '_>, into: &mut Vec<Candidate>) {
    for index in 0..scene.text.tokens.len() {
        let token = &scene.text.tokens[index];
        if token.kind != Kind::Word || !(token.is_capital() || token.case == Case::Mixed) {
            continue;
        }
        if let Some(candidate) = by_known_name(scene, index) {
            into.push(candidate);
            continue;
        }
        let found = by_suffix(scene, index, token)
            .or_else(|| by_head(scene, index, token))
            .map(|range| (range, BY_NAME))
            .or_else(|| by_work(scene, index).map(|range| (range, BY_WORK)));
        if let Some(((start, end), confidence)) = found {
            into.push(Candidate {
                start,
                end,
                end_byte: None,
                entity_type: EntityType::Organization,
                naming: Naming::TextFrom(start),
                confidence,
            });
        }
    }
}

/// `Microsoft Corp.`, where Microsoft is known, is Microsoft.
fn by_known_name(scene: &Scene<'_, '_>, index: usize) -> Option<Candidate> {
    let text = scene.text;
    let form = text.folded(index);
    if !LEGAL_FORMS.contains(&form) && !FURTHER_FORMS.contains(&form) {
        return None;
    }
    let end = if text.word_before(index, 1) == "," { index.checked_sub(1)? } else { index };
    let first = index.saturating_sub(MAX_LEADING_WORDS);
    let (start, entry) = (first..end).find_map(|start| Some((start, scene.organization_at(start, end)?)))?;
    let dot = usize::from(text.word_at(index, index + 1) == "." && text.same_sentence(index, index + 2));
    Some(Candidate {
        start,
        end: index + 1 + dot,
        end_byte: None,
        entity_type: EntityType::Organization,
        naming: Naming::Entry(entry),
        confidence: BY_NAME,
    })
}

fn is_name_word(token: &Token) -> bool {
    token.kind == Kind::Word && (token.is_capital() || token.case == Case::Mixed) && !token.has(cues::FUNCTION)
}

/// `index` is the last word: walks back over the name.
fn by_suffix(scene: &Scene<'_, '_>, index: usize, token: &Token) -> Option<(usize, usize)> {
    let text = scene.text;
    if !token.has(cues::FIRM_SUFFIX) || scene.is_title_case(index) && !LEGAL_FORMS.contains(&text.folded(index)) {
        return None;
    }
    // The name goes on.
    if scene.token_in(index, index + 1).is_some_and(|next| next.has(cues::FIRM_SUFFIX) && next.is_capital())
        || text.word_at(index, index + 1) == "of"
    {
        return None;
    }
    let mut start = index;
    while index - start < MAX_LEADING_WORDS && start > 0 && text.same_sentence(start - 1, index) {
        let before = &text.tokens[start - 1];
        let is_connected = text.get(start).is_some_and(|token| token.is_spaced);
        let is_link = (matches!(text.folded(start - 1), "&" | "-") || before.kind == Kind::Possessive)
            && text.before(start - 1, 1).is_some_and(|(_, token)| is_name_word(token));
        let is_dot = text.folded(start - 1) == "."
            && text.before(start - 1, 1).is_some_and(|(_, token)| is_name_word(token) && token.has(cues::ABBREVIATION));
        let is_comma = text.folded(start - 1) == "," && start == index && LEGAL_FORMS.contains(&text.folded(index));
        if is_name_word(before) && (is_connected || before.kind == Kind::Word) || is_link || is_dot || is_comma {
            start -= 1;
        } else {
            break;
        }
    }
    if text.get(start)?.kind != Kind::Word || start == index {
        return None;
    }
    // A capitalized verb or adjective at a sentence's start belongs to the sentence.
    let is_legal = LEGAL_FORMS.contains(&text.folded(index));
    if start + 1 == index && text.get(start)?.is_first && !is_legal && !text.get(start)?.has(cues::FIRM_HEAD) {
        let is_name = scene.is_unknown_name(start) || scene.certain_type(start).is_some();
        return (is_name
            && !matches!(
                text.folded(index),
                "group"
                    | "systems"
                    | "media"
                    | "software"
                    | "agency"
                    | "company"
                    | "studio"
                    | "energy"
                    | "insurance"
                    | "council"
            ))
        .then_some((start, index + 1));
    }
    let dot = usize::from(is_legal && text.word_at(index, index + 1) == "." && text.same_sentence(index, index + 2));
    Some((start, index + 1 + dot))
}

/// `University of …`, `Bank of …`.
fn by_head(scene: &Scene<'_, '_>, index: usize, token: &Token) -> Option<(usize, usize)> {
    let text = scene.text;
    if !token.has(cues::FIRM_HEAD) || text.word_at(index, index + 1) != "of" {
        return None;
    }
    let mut end = index + 2;
    while end < index + 2 + MAX_LEADING_WORDS && text.same_sentence(index, end) {
        let is_link = matches!(text.folded(end), "and" | "the" | "for")
            && scene.token_in(index, end + 1).is_some_and(is_name_word)
            && end < index + 4;
        if !is_name_word(&text.tokens[end]) && !is_link {
            break;
        }
        end += 1;
    }
    (end > index + 2).then_some((index, end))
}

/// `works at Kestrel Dynamics`, `joined Kestrel`, `the CTO of Kestrel`, `an interview with Kestrel`.
fn by_work(scene: &Scene<'_, '_>, index: usize) -> Option<(usize, usize)> {
    let text = scene.text;
    if !scene.is_telling_capital(index)
        || !is_name_word(text.get(index)?)
        || scene.certain_type(index).is_some()
        || !scene.is_unknown_name(index)
    {
        return None;
    }
    let (one, two) = (text.word_before(index, 1), text.word_before(index, 2));
    let is_employed = match one {
        "at" => {
            (2..6).any(|distance| text.before(index, distance).is_some_and(|(_, token)| token.has(cues::EMPLOYMENT)))
        }
        "for" => matches!(two, "work" | "works" | "worked" | "working" | "consultant" | "freelance"),
        "by" => matches!(two, "employed" | "hired" | "acquired"),
        "of" => matches!(two, "ceo" | "cto" | "cfo" | "coo" | "founder" | "cofounder" | "vp" | "director" | "employee"),
        "joined" | "joining" => scene.given_name(index).is_none(),
        "with" => matches!(two, "interview" | "interviewed" | "interviewing" | "internship" | "contract"),
        _ => false,
    };
    if !is_employed || scene.given_name(index).is_some() && one != "at" {
        return None;
    }
    let mut end = index + 1;
    while end < index + 4
        && text.same_sentence(index, end)
        && is_name_word(&text.tokens[end])
        && text.tokens[end].is_spaced
    {
        end += 1;
    }
    Some((index, end))
}
