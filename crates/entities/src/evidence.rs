//! Judges the gazetteer's matches. What each rule of an entry asks for:
//!
//! | type | certain | cased | context |
//! |---|---|---|---|
//! | technical | – | a capital inside the sentence, or talk of software | a capital and talk of software, or a capital after a verb like "use" |
//! | concept | – | as above | as above |
//! | organization | a capital | a capital inside the sentence, or a verb that firms do | a capital, and "at", "for", "from", "by" or talk of employment |
//! | place | a capital, or "in", "to", "from", "near" | "in", travel, ", Germany" or another place | "in", or travel |
//! | natural language | | | a capital and talk of language, and nobody behind it whose nation it is |
//!
//! Words that the entry names in its line exclude it (`apple … pie`). A sentence in title case has no
//! telling capitals. Given names are classified in `persons`.

use crate::cues;
use crate::gazetteer::{Entry, Match, Rule, gazetteer};
use crate::scene::{Candidate, Confidence, Naming, Scene};
use crate::text::{Case, Kind, Token};
use crate::types::EntityType;

const SURE: Confidence = 80;
const LIKELY: Confidence = 65;
const PLAUSIBLE: Confidence = 45;

/// What is so short that a capital and the talk around it are not enough.
const SHORT_NAMES: [&str; 3] = ["go", "r", "c"];

/// What is done in a programming language.
const WRITING: [&str; 14] = [
    "write",
    "writes",
    "wrote",
    "written",
    "writing",
    "rewrite",
    "rewrote",
    "rewritten",
    "code",
    "coded",
    "program",
    "programmed",
    "implemented",
    "script",
];
/// What a programming language stands before.
const CODE: [&str; 6] = ["code", "script", "scripts", "program", "programs", "codebase"];

pub(crate) fn candidates(scene: &Scene<'_, '_>, into: &mut Vec<Candidate>) {
    for &(start, matched) in &scene.matches {
        let entry = &gazetteer().entries[matched.entry];
        if entry.entity_type == EntityType::Person || scene.is_near(start, &entry.excluding) {
            continue;
        }
        if let Some(confidence) = classify(scene, start, matched, entry) {
            into.push(Candidate {
                start,
                end: matched.end,
                end_byte: None,
                entity_type: entry.entity_type,
                naming: Naming::Entry(matched.entry),
                confidence,
            });
        }
    }
}

fn classify(scene: &Scene<'_, '_>, start: usize, matched: Match, entry: &Entry) -> Option<Confidence> {
    let is_supported = scene.is_near(start, &entry.supporting);
    match entry.entity_type {
        _ if entry.rule == Rule::Spoken => spoken(scene, start, matched),
        EntityType::Organization => organization(scene, start, matched, entry),
        EntityType::Place => place(scene, start, matched, entry),
        _ if matched.is_unambiguous || is_supported => Some(SURE),
        _ => technical(scene, start, matched, entry),
    }
}

fn technical(scene: &Scene<'_, '_>, start: usize, matched: Match, entry: &Entry) -> Option<Confidence> {
    let text = scene.text;
    let token = text.get(start)?;
    let context = scene.technical_context(start, u32::from(token.has(cues::TECHNICAL)));
    let is_telling = scene.is_telling_capital(start) || token.case == Case::Mixed;
    let after_verb = text.before(start, 1).is_some_and(|(_, token)| token.has(cues::TECHNICAL_VERB))
        || matches!(text.word_before(start, 1), "in" | "on")
            && text.before(start, 2).is_some_and(|(_, token)| token.has(cues::TECHNICAL_VERB));
    let before = text.before(start, 1).map(|(_, token)| token);
    let is_hyphenated = matches!(text.folded(matched.end), "-")
        && text.get(matched.end).is_some_and(|token| !token.is_spaced)
        || text.word_before(start, 1) == "-" && !token.is_spaced;
    if stands_alone(scene, start, matched)
        || entry.entity_type == EntityType::Language && is_written_in(scene, start, matched)
    {
        return Some(LIKELY);
    }
    match entry.rule {
        Rule::Cased => {
            let subject = token.is_first
                && token.is_capital()
                && scene.token_in(start, matched.end).is_some_and(|next| next.has(cues::COPULA));
            if is_telling && !before.is_some_and(|token| token.has(cues::TITLE | cues::KINSHIP)) {
                Some(if context > 0 || after_verb { SURE } else { LIKELY })
            } else if context > 0 && (token.is_capital() || entry.name.starts_with(char::is_lowercase)) || subject {
                Some(LIKELY)
            } else {
                (context > 1).then_some(PLAUSIBLE)
            }
        }
        _ => {
            let is_lower_by_nature =
                entry.name.starts_with(char::is_lowercase) || entry.entity_type == EntityType::Framework;
            if is_hyphenated && !is_telling {
                return None;
            }
            if SHORT_NAMES.contains(&&*entry.key) {
                return short(scene, start, matched);
            }
            if token.is_capital() && !scene.is_title_case(start) {
                let is_named_person =
                    before.is_some_and(|token| token.has(cues::TITLE | cues::KINSHIP | cues::ACQUAINTANCE));
                return match (context, is_telling && after_verb, is_named_person) {
                    (_, _, true) => None,
                    (1.., true, _) => Some(SURE),
                    (0, true, _) | (1.., ..) => Some(LIKELY),
                    _ => None,
                };
            }
            (is_lower_by_nature && context > 1).then_some(PLAUSIBLE)
        }
    }
}

/// Between backticks, or the whole of what a tag of markup is around.
fn stands_alone(scene: &Scene<'_, '_>, start: usize, matched: Match) -> bool {
    let text = scene.text;
    match (text.word_before(start, 1), text.word_at(start, matched.end)) {
        ("`", "`") => true,
        (">", "<") => text.get(start).is_some_and(Token::is_capital),
        _ => false,
    }
}

/// A language that something is written in (`wrote the service in python`), that names code (`our java code`), or
/// that somebody likes (`I like Rust.`). One of a letter or two is classified by itself.
fn is_written_in(scene: &Scene<'_, '_>, start: usize, matched: Match) -> bool {
    let text = scene.text;
    let Some(token) = text.get(start) else { return false };
    if text.folded(start).chars().count() < 3 || scene.is_title_case(start) {
        return false;
    }
    let next = scene.token_in(start, matched.end);
    // What goes on with a word of its own may be an adjective or another name.
    let is_last = next.is_none_or(|next| next.kind != Kind::Word || next.has(cues::FUNCTION));
    let before = text.word_before(start, 1);
    let is_written = || {
        (2..8).any(|distance| WRITING.contains(&text.word_before(start, distance)))
            && scene.technical_context(start, 0) > 0
    };
    match before {
        "in" => is_last && is_written(),
        "like" | "love" | "enjoy" | "hate" | "dislike" => {
            is_last && token.is_capital() && scene.given_name(start).is_none()
        }
        _ => CODE.contains(&text.word_at(start, matched.end)),
    }
}

/// Go, R and C: a capital inside the sentence, talk of software, and no other reading.
fn short(scene: &Scene<'_, '_>, start: usize, matched: Match) -> Option<Confidence> {
    let text = scene.text;
    let token = text.get(start)?;
    let before = text.word_before(start, 1);
    let is_label = text
        .before(start, 1)
        .is_some_and(|(_, token)| token.is_capital() && token.kind == Kind::Word && !token.is_first)
        || matches!(
            before,
            "letter"
                | "plan"
                | "vitamin"
                | "option"
                | "grade"
                | "section"
                | "let's"
                | "to"
                | "."
                | "'"
                | "drive"
                | "type"
        );
    let next = text.word_at(start, matched.end);
    let is_verb = token.is_first
        && text.folded(start) == "go"
        && matches!(
            next,
            "to" | "home" | "ahead" | "for" | "back" | "away" | "on" | "out" | "and" | "through" | "check" | "get"
        );
    let is_initial = next == "."
        && text.get(matched.end).is_some_and(|token| !token.is_spaced)
        && text.same_sentence(start, matched.end + 1);
    let context = scene.technical_context(start, 0);
    let is_usable = token.is_capital() && !is_label && !is_verb && !is_initial && !scene.is_title_case(start);
    let after_verb =
        matches!(before, "in" | "use" | "using" | "learn" | "learning" | "wrote" | "write" | "written" | "with")
            && !token.is_first;
    (is_usable && (context > 0 || after_verb && before != "with" && before != "in")).then_some(LIKELY)
}

fn spoken(scene: &Scene<'_, '_>, start: usize, matched: Match) -> Option<Confidence> {
    let text = scene.text;
    let token = text.get(start)?;
    let has_talk = scene.sentence_cues(start) & cues::SPOKEN != 0;
    let before = text.word_before(start, 1);
    let next = scene.token_in(start, matched.end);
    let next_word = text.word_at(start, matched.end);
    let is_object = matches!(
        before,
        "speak"
            | "speaks"
            | "spoke"
            | "speaking"
            | "learn"
            | "learning"
            | "learned"
            | "teach"
            | "teaches"
            | "taught"
            | "study"
            | "studying"
            | "studies"
            | "in"
            | "into"
            | "from"
            | "fluent"
            | "read"
            | "practice"
            | "practise"
            | "my"
            | "little"
            | "some"
    );
    let is_named = matches!(
        next_word,
        "class"
            | "classes"
            | "lesson"
            | "lessons"
            | "course"
            | "courses"
            | "teacher"
            | "grammar"
            | "language"
            | "vocabulary"
            | "accent"
            | "dictionary"
            | "speaker"
            | "speakers"
    );
    // An adjective stands before a noun.
    let is_adjective = next
        .is_some_and(|token| token.kind == Kind::Word && !token.has(cues::FUNCTION | cues::COPULA | cues::SPOKEN))
        && !is_named;
    let is_listed =
        matches!(before, "and" | "or" | "," | "to" | "of" | "than") || matches!(next_word, "and" | "or" | ",");
    let is_capital = token.is_capital() && !scene.is_title_case(start);
    let is_weak = matches!(before, "in" | "from" | "my" | "little" | "some");
    let is_object_of_skill = is_object && (!is_weak || has_talk);
    if is_capital
        && (is_named
            || !is_adjective && (is_object_of_skill || has_talk && (is_listed || next.is_none() || !token.is_first)))
    {
        return Some(SURE);
    }
    (!is_adjective && token.case == Case::Lower && has_talk && is_object_of_skill).then_some(PLAUSIBLE)
}

fn organization(scene: &Scene<'_, '_>, start: usize, matched: Match, entry: &Entry) -> Option<Confidence> {
    let text = scene.text;
    let token = text.get(start)?;
    let before = text.word_before(start, 1);
    let at_work = scene.sentence_cues(start) & cues::EMPLOYMENT != 0;
    let is_place_of_work =
        matches!(before, "at" | "for" | "joined" | "left" | "by" | "from" | "of" | "with" | "via") && at_work;
    let does = scene.token_in(start, matched.end).is_some_and(|next| next.has(cues::FIRM_VERB));
    let is_owner = text.word_at(start, matched.end) == "'s";
    if !token.is_capital() && token.case != Case::Mixed {
        let is_brand = token.case == Case::Lower && matched.is_unambiguous && token.end - token.start > 3;
        return (is_brand && (is_place_of_work || matches!(before, "at" | "on" | "from" | "via" | "use")))
            .then_some(PLAUSIBLE);
    }
    let is_telling = scene.is_telling_capital(start);
    match entry.rule {
        _ if matched.is_unambiguous => Some(if is_place_of_work { SURE + 5 } else { SURE }),
        Rule::Cased
            if is_place_of_work
                || does && token.is_first && !matches!(text.word_at(start, matched.end), "is" | "was" | "has") =>
        {
            Some(SURE)
        }
        Rule::Cased if is_telling && !matches!(before, "a" | "an" | "the") => Some(LIKELY),
        Rule::Cased => None,
        _ if is_telling && (is_place_of_work || matches!(before, "at") || does && at_work || is_owner && at_work) => {
            Some(LIKELY)
        }
        _ if token.is_first && does && at_work && scene.technical_context(start, 0) > 0 => Some(PLAUSIBLE),
        _ => None,
    }
}

fn place(scene: &Scene<'_, '_>, start: usize, matched: Match, entry: &Entry) -> Option<Confidence> {
    let text = scene.text;
    let token = text.get(start)?;
    let before = text.word_before(start, 1);
    let is_after_preposition = text.before(start, 1).is_some_and(|(_, token)| token.has(cues::PLACE_PREPOSITION));
    let travels = scene.sentence_cues(start) & cues::MOVEMENT != 0;
    let visits = text.before(start, 1).is_some_and(|(_, token)| token.has(cues::MOVEMENT));
    let within_larger = text.word_at(start, matched.end) == ","
        && scene.token_in(start, matched.end + 1).is_some()
        && scene.certain_type(matched.end + 1) == Some(EntityType::Place);
    let is_listed = matches!(before, "and" | "or" | ",")
        && text.before(start, 2).is_some_and(|(at, _)| scene.certain_type(at) == Some(EntityType::Place));
    if !token.is_capital() {
        let is_plain = matched.is_unambiguous && token.case == Case::Lower && token.end - token.start > 3;
        let is_reached = matches!(before, "in" | "to" | "from" | "near") || visits;
        return (is_plain && is_reached).then_some(PLAUSIBLE);
    }
    match entry.rule {
        _ if matched.is_unambiguous => Some(if is_after_preposition || within_larger { SURE } else { LIKELY }),
        _ if within_larger => Some(SURE),
        _ if is_listed && travels => Some(SURE),
        Rule::Context => {
            let is_reached = before == "in" || travels && is_after_preposition || visits;
            (is_reached && scene.is_telling_capital(start)).then_some(LIKELY)
        }
        _ if (is_after_preposition || visits) && travels => Some(SURE - 4),
        _ if before == "in" => Some(SURE - 10),
        _ if is_after_preposition => Some(52),
        _ if scene.is_telling_capital(start) => Some(PLAUSIBLE),
        _ => (scene.has_other_place(start) && !scene.is_title_case(start)).then_some(PLAUSIBLE - 1),
    }
}
