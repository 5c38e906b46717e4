//! Persons: a given name of the list with a capital, a title, a word of kinship, a verb that only
//! people do, a speaker's prefix (`Anna: …` at the start of a line), or two unknown capitalized words
//! beside such a cue. A capital at a sentence's start alone makes nobody a person.
//!
//! Given names that are also words, months or places (`@unsure` in the list) need a cue of their own
//! there; inside a sentence their capital is enough unless an article stands before it.

use crate::cues;
use crate::dates;
use crate::gazetteer::Rule;
use crate::scene::{Candidate, Confidence, Naming, Scene};
use crate::text::{Case, Kind};
use crate::types::EntityType;

const SPEAKER: Confidence = 90;
const TITLED: Confidence = 86;
const KIN: Confidence = 84;
const FULL_NAME: Confidence = 82;
const ACTING: Confidence = 76;
const NAMED: Confidence = 60;
const POSSIBLE: Confidence = 50;
const WEAK: Confidence = 40;

/// Words of a name, the first and particles included.
const MAX_NAME_TOKENS: usize = 5;

pub(crate) fn candidates(scene: &Scene<'_, '_>, into: &mut Vec<Candidate>) {
    for start in 0..scene.text.tokens.len() {
        let token = &scene.text.tokens[start];
        if token.kind != Kind::Word {
            continue;
        }
        let mut push = |start: usize, end: usize, key_from: usize, confidence: Confidence| {
            into.push(Candidate {
                start,
                end,
                end_byte: None,
                entity_type: EntityType::Person,
                naming: Naming::TextFrom(key_from),
                confidence,
            });
        };
        if token.starts_line
            && let Some(end) = speaker(scene, start)
        {
            push(start, end, start, SPEAKER);
        }
        if token.has(cues::TITLE)
            && let Some((name, end, keeps_title)) = titled(scene, start)
        {
            push(if keeps_title { start } else { name }, end, name, TITLED);
        }
        if token.case == Case::Capitalized
            && let Some((end, confidence)) = named(scene, start)
        {
            push(start, end, start, confidence);
        }
    }
}

/// `Anna:` or `Anna Berg:` at the start of a line, with something behind it.
fn speaker(scene: &Scene<'_, '_>, start: usize) -> Option<usize> {
    let text = scene.text;
    let mut end = start;
    while end < start + 3
        && text.get(end).is_some_and(|token| {
            token.kind == Kind::Word
                && token.case == Case::Capitalized
                && !token.has(cues::HEADING | cues::FUNCTION)
                && text.same_sentence(start, end)
        })
    {
        end += 1;
    }
    let says =
        text.word_at(start, end) == ":" && text.get(end + 1).is_some_and(|next| next.is_spaced && !next.starts_line);
    let is_known = scene.given_name(start).is_some();
    let is_thing = scene.certain_type(start).is_some() || scene.matches_at(start, end) && !is_known;
    let is_day = !is_known && dates::date_at(text, start).is_some();
    (end > start && says && !is_day && (is_known || !is_thing && end == start + 1)).then_some(end)
}

/// `Dr. Meyer`, `Uncle Bob`, `president Lincoln`: where the name starts and ends, and whether the title
/// is shown with it.
fn titled(scene: &Scene<'_, '_>, start: usize) -> Option<(usize, usize, bool)> {
    let text = scene.text;
    let token = text.get(start)?;
    let dot = usize::from(text.word_at(start, start + 1) == "." && token.has(cues::ABBREVIATION));
    let name = start + 1 + dot;
    let is_name = text.same_sentence(start, name) && (scene.is_unknown_name(name) || scene.given_name(name).is_some());
    let is_capital = text.get(name)?.case == Case::Capitalized && !text.get(name)?.has(cues::FUNCTION);
    let is_thing = scene.certain_type(name).is_some() && !token.has(cues::ABBREVIATION);
    if !is_name || !is_capital || is_thing || ends_otherwise(scene, name) {
        return None;
    }
    let shows = token.is_capital();
    // "Coach" and "King" start a sentence without being a title.
    let is_strict =
        token.has(cues::ABBREVIATION) || shows && !scene.is_title_case(start) || scene.given_name(name).is_some();
    let after_owner =
        text.before(start, 1).is_some_and(|(_, token)| token.has(cues::DETERMINER) || token.kind == Kind::Possessive);
    (is_strict && (shows || token.has(cues::ABBREVIATION) || !token.has(cues::KINSHIP)))
        .then(|| (name, extent(scene, name), shows && !after_owner))
}

/// A name that starts at `start`: where it ends, and how sure that is.
fn named(scene: &Scene<'_, '_>, start: usize) -> Option<(usize, Confidence)> {
    let text = scene.text;
    let given = scene.given_name(start);
    if given.is_none() && !scene.is_unknown_name(start) || scene.is_title_case(start) && !after_kin(scene, start) {
        return None;
    }
    if ends_otherwise(scene, start) {
        return None;
    }
    let end = extent(scene, start);
    if after_kin(scene, start) {
        return Some((end, KIN));
    }
    if introduced(scene, start, given.is_some()) {
        return Some((end, KIN));
    }
    match given {
        Some(_) if end > start + 1 && !(text.get(start)?.has(cues::FUNCTION)) => Some((end, FULL_NAME)),
        Some(entry) if entry.rule == Rule::Certain => sure(scene, start, end),
        Some(_) => unsure(scene, start, end),
        None => unknown(scene, start, end),
    }
}

/// A given name that is little else.
fn sure(scene: &Scene<'_, '_>, start: usize, end: usize) -> Option<(usize, Confidence)> {
    let acts = scene.token_in(start, end).is_some_and(|next| next.has(cues::PERSON_VERB));
    let is_article = matches!(scene.text.word_before(start, 1), "the" | "a" | "an");
    match (acts, is_article) {
        (true, false) => Some((end, ACTING)),
        (false, false) => Some((end, NAMED)),
        _ => None,
    }
}

/// A given name that is also a word, a month or a place.
fn unsure(scene: &Scene<'_, '_>, start: usize, end: usize) -> Option<(usize, Confidence)> {
    let text = scene.text;
    let token = text.get(start)?;
    let next = scene.token_in(start, end);
    let next_word = text.word_at(start, end);
    let before = text.before(start, 1).map(|(_, token)| token);
    let is_month = dates::month_of(text.folded(start)).is_some();
    let acts = next.is_some_and(|next| next.has(cues::PERSON_VERB));
    if before.is_some_and(|token| token.has(cues::DETERMINER)) && !token.is_first {
        return None;
    }
    if token.is_first {
        let and_person = matches!(next_word, "and" | "&")
            && (matches!(text.word_at(start, end + 1), "i")
                || scene
                    .given_name(end + 1)
                    .is_some_and(|_| text.get(end + 1).is_some_and(crate::text::Token::is_capital)));
        let is_subject = next.is_some_and(|next| next.has(cues::COPULA))
            && !is_month
            && !matches!(
                text.folded(start),
                "will"
                    | "can"
                    | "may"
                    | "hope"
                    | "art"
                    | "joy"
                    | "summer"
                    | "autumn"
                    | "winter"
                    | "rose"
                    | "stone"
                    | "storm"
                    | "guy"
            );
        let is_owner = next_word == "'s" && !is_month && !matches!(text.folded(start), "summer" | "autumn" | "winter");
        return if acts
            && !(matches!(text.folded(start), "hope" | "will" | "can") && matches!(next_word, "helped" | "i'm"))
        {
            Some((end, ACTING))
        } else if and_person || is_owner {
            Some((end, POSSIBLE))
        } else {
            is_subject.then_some((end, WEAK))
        };
    }
    let is_object = before.is_some_and(|token| token.has(cues::PERSON_OBJECT) && !token.has(cues::MOVEMENT));
    let is_neighbor = before.is_some_and(|token| token.has(cues::PERSON_NEIGHBOR));
    let is_dated =
        is_month && before.is_some_and(|token| token.has(cues::DATE_PREPOSITION) || token.kind == Kind::Number);
    if acts || is_object && !is_month {
        return Some((end, ACTING));
    }
    if is_month {
        return (is_neighbor && !is_dated).then_some((end, WEAK));
    }
    let is_located = before.is_some_and(|token| token.has(cues::PLACE_PREPOSITION)) && !is_neighbor;
    (!is_located).then_some((end, if is_neighbor { POSSIBLE } else { WEAK }))
}

/// No list knows it: two words or more beside a cue, or one beside a strong cue.
fn unknown(scene: &Scene<'_, '_>, start: usize, end: usize) -> Option<(usize, Confidence)> {
    let text = scene.text;
    let token = text.get(start)?;
    let next = text.word_at(start, end);
    let speaks = matches!(
        next,
        "said"
            | "says"
            | "told"
            | "asked"
            | "thinks"
            | "replied"
            | "wrote"
            | "texted"
            | "emailed"
            | "mentioned"
            | "suggested"
            | "laughed"
            | "smiled"
    );
    let before = text.before(start, 1).map(|(_, token)| token);
    let is_met = before.is_some_and(|token| token.has(cues::PERSON_OBJECT))
        && !matches!(
            text.word_before(start, 1),
            "love" | "loves" | "miss" | "missed" | "visit" | "visited" | "saw" | "trust" | "trusts"
        );
    let is_talked_to = matches!(text.word_before(start, 1), "to" | "with")
        && text.before(start, 2).is_some_and(|(_, token)| token.has(cues::CONVERSATION));
    let is_greeted = matches!(text.word_before(start, 1), "hi" | "hello" | "hey" | "dear");
    if token.is_first {
        let is_group = text.folded(start).ends_with('s')
            || matches!(
                text.folded(start),
                "people" | "everyone" | "everybody" | "somebody" | "someone" | "nobody" | "police" | "management"
            );
        return (speaks && !is_group).then_some((end, POSSIBLE));
    }
    if speaks || is_met || is_talked_to || is_greeted {
        return Some((end, if end > start + 1 { FULL_NAME } else { NAMED }));
    }
    let is_neighbor = before.is_some_and(|token| token.has(cues::PERSON_NEIGHBOR))
        && matches!(text.word_before(start, 1), "with" | "by");
    let lives = scene.token_in(start, end).is_some_and(|next| next.has(cues::PERSON_VERB));
    (end == start + 2 && (is_neighbor || lives)).then_some((end, WEAK))
}

/// `my sister Anna`, `his wife and daughter`, `Anna's brother Tom`, `a colleague, Xiomara`.
fn after_kin(scene: &Scene<'_, '_>, start: usize) -> bool {
    let text = scene.text;
    let is_kin = |distance: usize| {
        text.before(start, distance).is_some_and(|(_, token)| {
            token.has(cues::KINSHIP | cues::ACQUAINTANCE) && token.case == Case::Lower && token.kind == Kind::Word
        })
    };
    let is_owned = |distance: usize| {
        (distance..distance + 3).any(|at| {
            text.before(start, at)
                .is_some_and(|(_, token)| token.has(cues::DETERMINER) || token.kind == Kind::Possessive)
        })
    };
    let is_plural = matches!(
        text.word_before(start, 1),
        "parents" | "friends" | "colleagues" | "doctor" | "client" | "customer" | "nurse"
    );
    is_kin(1) && is_owned(2) && (!is_plural || scene.given_name(start).is_some())
        || text.word_before(start, 1) == "," && is_kin(2) && is_owned(3) && scene.given_name(start).is_some()
}

/// `my name is Priya`, `call me Tom`, `a guy named Radomir`, `I'm Farid`.
fn introduced(scene: &Scene<'_, '_>, start: usize, is_known: bool) -> bool {
    let text = scene.text;
    let (one, two) = (text.word_before(start, 1), text.word_before(start, 2));
    let people = cues::KINSHIP | cues::ACQUAINTANCE;
    let is_named = text.before(start, 1).is_some_and(|(_, token)| token.has(cues::NAMING))
        && (2..7).any(|distance| {
            text.before(start, distance).is_some_and(|(at, token)| {
                token.has(people)
                    || matches!(
                        text.folded(at),
                        "guy" | "man" | "woman" | "girl" | "boy" | "someone" | "person" | "baby"
                    )
            })
        });
    is_named
        || matches!((two, one), ("name", "is" | "'s") | ("call", "me") | ("named", "him" | "her"))
        || is_known && (one == "i'm" || matches!((two, one), ("i", "am") | ("this", "is") | ("it", "is")))
}

/// The word after makes it another thing: `Jordan River`, `Austin Labs`, `April 3`.
fn ends_otherwise(scene: &Scene<'_, '_>, start: usize) -> bool {
    let next = scene.token_in(start, start + 1);
    let is_thing = next.is_some_and(|next| {
        next.case == Case::Capitalized && next.has(cues::FIRM_SUFFIX | cues::PLACE_SUFFIX) && next.is_spaced
    });
    is_thing
        || next.is_some_and(|next| next.kind == Kind::Number) && dates::month_of(scene.text.folded(start)).is_some()
}

/// Where the name ends that starts at `start`: particles, initials, surnames.
fn extent(scene: &Scene<'_, '_>, start: usize) -> usize {
    let text = scene.text;
    let mut end = start + 1;
    while end < start + MAX_NAME_TOKENS && text.same_sentence(start, end) {
        let Some(token) = text.get(end) else { break };
        let is_surname = |index: usize| {
            text.same_sentence(start, index)
                && text.get(index).is_some_and(|token| token.is_spaced)
                && (scene.is_unknown_name(index)
                    || scene.given_name(index).is_some()
                        && text
                            .get(index)
                            .is_some_and(|token| token.case == Case::Capitalized && !token.has(cues::FUNCTION)))
                && !text.get(index).is_some_and(|token| token.has(cues::FIRM_SUFFIX | cues::PLACE_SUFFIX))
        };
        let is_compound = text.folded(end) == "-" && !token.is_spaced && scene.is_unknown_name(end + 1);
        let is_initial = token.case == Case::Capitalized
            && token.end - token.start == 1
            && text.word_at(start, end + 1) == "."
            && is_surname(end + 2);
        if is_initial {
            end += 3;
        } else if is_compound {
            end += 2;
        } else if is_surname(end) {
            end += 1;
        } else if token.has(cues::NAME_PARTICLE)
            && (is_surname(end + 1)
                || text.get(end + 1).is_some_and(|token| token.has(cues::NAME_PARTICLE)) && is_surname(end + 2))
        {
            end += 2;
        } else {
            break;
        }
    }
    end.min(text.tokens.len())
}
