//! Places that no list knows: by their last or first word (`Mill Creek`, `Lake Garda`), after "in"
//! (`in Ravensburg`), and after a verb of living or going with its preposition.

use crate::cues;
use crate::dates;
use crate::scene::{Candidate, Confidence, Naming, Scene};
use crate::text::{Case, Kind, Token};
use crate::types::EntityType;

const BY_NAME: Confidence = 81;
const BY_TRAVEL: Confidence = 72;
const AFTER_IN: Confidence = 47;

pub(crate) fn candidates(scene: &Scene<'_, '_>, into: &mut Vec<Candidate>) {
    for index in 0..scene.text.tokens.len() {
        let token = &scene.text.tokens[index];
        if token.kind != Kind::Word || token.case != Case::Capitalized || scene.is_title_case(index) {
            continue;
        }
        let found = by_suffix(scene, index, token)
            .or_else(|| by_head(scene, index, token))
            .map(|range| (range, BY_NAME))
            .or_else(|| by_travel(scene, index));
        if let Some(((start, end), confidence)) = found {
            into.push(Candidate {
                start,
                end,
                end_byte: None,
                entity_type: EntityType::Place,
                naming: Naming::TextFrom(start),
                confidence,
            });
        }
    }
}

fn is_name_word(token: &Token) -> bool {
    token.kind == Kind::Word && token.case == Case::Capitalized && !token.has(cues::FUNCTION)
}

fn by_suffix(scene: &Scene<'_, '_>, index: usize, token: &Token) -> Option<(usize, usize)> {
    let text = scene.text;
    if !token.has(cues::PLACE_SUFFIX) || !token.is_spaced {
        return None;
    }
    let mut start = index;
    while index - start < 3 && start > 0 && text.same_sentence(start - 1, index) {
        if !is_name_word(&text.tokens[start - 1]) || dates::date_at(text, start - 1).is_some() {
            break;
        }
        start -= 1;
    }
    let is_heading =
        start + 1 == index && text.get(start)?.is_first && text.get(start)?.has(cues::TITLE | cues::HEADING);
    (start < index && !is_heading).then_some((start, index + 1))
}

fn by_head(scene: &Scene<'_, '_>, index: usize, token: &Token) -> Option<(usize, usize)> {
    let next = scene.token_in(index, index + 1)?;
    let is_saint = matches!(scene.text.folded(index), "saint" | "san" | "santa");
    let is_reached = scene.text.before(index, 1).is_some_and(|(_, token)| token.has(cues::PLACE_PREPOSITION));
    let is_head = token.has(cues::PLACE_HEAD) && !token.has(cues::NAME_PARTICLE) && (!is_saint || is_reached);
    let is_named = is_head && next.is_spaced && is_name_word(next);
    is_named.then_some((index, index + 2))
}

fn by_travel(scene: &Scene<'_, '_>, index: usize) -> Option<((usize, usize), Confidence)> {
    let text = scene.text;
    if !scene.is_unknown_name(index) || text.get(index)?.is_first {
        return None;
    }
    let (before_at, before) = text.before(index, 1)?;
    let preposition = text.folded(before_at);
    let mut end = index + 1;
    while end < index + 3
        && text.same_sentence(index, end)
        && is_name_word(&text.tokens[end])
        && text.tokens[end].is_spaced
    {
        end += 1;
    }
    if scene.token_in(index, end).is_some_and(|next| next.kind == Kind::Number) {
        return None;
    }
    let moves = |from: usize, to: usize| {
        (from..to).any(|distance| text.before(index, distance).is_some_and(|(_, token)| token.has(cues::MOVEMENT)))
    };
    let is_person = scene.given_name(index).is_some();
    let confidence = match preposition {
        "in" | "near" if moves(2, 6) => BY_TRAVEL,
        "to" | "from" | "at" if moves(2, 4) && !is_person => BY_TRAVEL,
        "from"
            if matches!(text.word_before(index, 2), "is" | "am" | "are" | "i'm" | "he's" | "she's") && !is_person =>
        {
            AFTER_IN
        }
        "in" if !is_person && scene.technical_context(index, 0) == 0 => AFTER_IN,
        _ if before.has(cues::MOVEMENT) && matches!(preposition, "visit" | "visited" | "visiting") && !is_person => {
            AFTER_IN
        }
        _ => return None,
    };
    Some(((index, end), confidence))
}
