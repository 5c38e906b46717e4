//! What is to be written or said, and other words that are used as they stand.

use std::ops::Range;

use crate::fill::Filled;
use crate::form::Parameter;
use crate::literals::{Kind, Message};
use crate::phrases::{Piece, after_colon, after_cue, clean, phrase_end, strip_lead};
use crate::words::{Word, actions, is_filler, stem};

use super::texts::{free, quoted};

/// Things that are made up, not quoted.
const COMPOSITIONS: &[&str] = &[
    "poem",
    "story",
    "letter",
    "haiku",
    "song",
    "essay",
    "summary",
    "joke",
    "recipe",
    "introduction",
    "paragraph",
    "description",
    "plan",
    "greeting",
    "outline",
    "article",
    "verse",
    "program",
    "script",
    "function",
    "list",
    "report",
    "draft",
    "tale",
    "limerick",
    "invitation",
];

/// What is to be written or said.
pub(crate) fn content(message: &Message, filled: &Filled) -> Option<Piece> {
    if let Some(literal) = quoted(message, filled).max_by_key(|literal| literal.value.len()) {
        return Some(Piece::of(literal));
    }
    let cues: [&[&str]; 17] = [
        &["saying", "that"],
        &["saying"],
        &["that", "says"],
        &["which", "says"],
        &["with", "the", "text"],
        &["with", "the", "content"],
        &["with", "the", "contents"],
        &["with", "the", "words"],
        &["with", "the", "message"],
        &["with", "text"],
        &["with", "content"],
        &["know", "that"],
        &["containing"],
        &["that", "reads"],
        &["that"],
        &["say"],
        &["me", "to"],
    ];
    let empty = message.words.windows(2).find(|pair| pair[0].lower == "empty" && pair[1].stem == stem("file"));
    if let Some(pair) = empty {
        return Some(Piece { text: String::new(), range: pair[0].start..pair[0].end });
    }
    let reminds = message.words.iter().find(|word| word.stem == "remind");
    if let Some(to) =
        reminds.and_then(|verb| message.words.iter().find(|word| word.start > verb.end && word.lower == "to"))
    {
        return clean(message, to.end..phrase_end(message, to.end, &[])).filter(free(filled));
    }
    let colon = after_colon(message).filter(free(filled));
    if let Some(piece) = colon.and_then(|piece| clean_tail(message, piece)) {
        return Some(piece).filter(|piece| !is_composition(message, &piece.range));
    }
    for cue in cues {
        let Some(start) = after_cue(message, cue) else { continue };
        let end = if matches!(cue, ["containing"]) { phrase_end(message, start, &[]) } else { say_end(message, start) };
        let Some(piece) = clean(message, start..end).filter(free(filled)) else { continue };
        return (!is_composition(message, &piece.range)).then_some(piece);
    }
    if let Some(piece) = told(message, filled) {
        return Some(piece);
    }
    let verb = between(message)?;
    if is_composition(message, &verb) {
        return None;
    }
    let range = strip_lead(message, verb, &["down", "the", "text", "line", "words", "word", "a", "note", "that"]);
    let piece = clean(message, range).filter(free(filled))?;
    let only_names_a_file = piece.text.split_whitespace().all(|word| {
        let lower = word.to_lowercase();
        is_filler(&lower)
            || matches!(lower.as_str(), "file" | "new" | "text" | "called" | "named" | "document" | "note" | "empty")
    });
    (!only_names_a_file || matches!(piece.text.as_str(), "it" | "that" | "this"))
        .then_some(piece)
        .filter(|piece| !is_composition(message, &piece.range))
}

fn clean_tail(message: &Message, piece: Piece) -> Option<Piece> {
    let end = piece.range.end;
    clean(message, piece.range.start..end)
}

/// What is said goes on to the end of its sentence, or to a path.
fn say_end(message: &Message, start: usize) -> usize {
    phrase_end(message, start, &[])
}

/// What stands between the verb and the path: "write X to PATH".
fn between(message: &Message) -> Option<Range<usize>> {
    let write = actions(&stem("write"));
    let verb = message.words.iter().take(6).find(|word| actions(&word.stem) & write != 0)?;
    let path = message.literals.iter().find(|literal| literal.is_path() && literal.range.start > verb.end)?;
    let connects = |word: &&Word| {
        word.end <= path.range.start
            && word.start > verb.end
            && matches!(word.lower.as_str(), "to" | "in" | "into" | "as" | "under")
    };
    let connector = message.words.iter().rev().find(connects)?;
    Some(verb.end..connector.start)
}

fn is_composition(message: &Message, range: &Range<usize>) -> bool {
    let inside: Vec<&Word> =
        message.words.iter().filter(|word| word.start >= range.start && word.end <= range.end).collect();
    let article = inside
        .first()
        .is_some_and(|word| matches!(word.lower.as_str(), "a" | "an" | "some" | "my" | "the" | "two" | "three"));
    article && inside.iter().take(6).any(|word| COMPOSITIONS.iter().any(|thing| stem(thing) == word.stem))
}

/// A value behind the parameter's own name ("with the title Plans"), or else a quotation.
pub(crate) fn labelled(parameter: &Parameter, message: &Message, filled: &Filled) -> Option<Piece> {
    for word in message.words.iter().filter(|word| parameter.stems.contains(&word.stem)) {
        let start =
            strip_lead(message, word.end..message.text.len(), &["is", "of", "named", "called", "to", "as"]).start;
        let end = phrase_end(message, start, &["and", "with", "for", "in"]);
        if let Some(piece) = (start < end).then(|| clean(message, start..end)).flatten().filter(free(filled)) {
            return Some(piece);
        }
    }
    quoted(message, filled).next().map(Piece::of)
}

/// What the main verb acts on: "translate good night into French", up to what another parameter took.
pub(crate) fn object(message: &Message, filled: &Filled) -> Option<Piece> {
    let verb = message.words.iter().take(6).find(|word| actions(&word.stem) != 0)?;
    let mut end = phrase_end(message, verb.end, &[]);
    if let Some(taken) = filled.next_used(verb.end).filter(|&taken| taken < end) {
        let connector = message.words_before(taken).next().filter(|word| {
            word.start > verb.end
                && matches!(word.lower.as_str(), "to" | "into" | "in" | "for" | "at" | "on" | "from" | "with" | "by")
        })?;
        end = connector.start;
    } else if filled.next_used(0).is_none() {
        // Nothing else was found in this sentence: it says too little to be sure of this either.
        return None;
    }
    let piece = clean(message, verb.end..end).filter(free(filled))?;
    let says_something = piece.text.split_whitespace().any(|word| !is_filler(&word.to_lowercase()));
    (says_something && !is_composition(message, &piece.range)).then_some(piece)
}

/// What follows the person: "tell Maria I love her".
fn told(message: &Message, filled: &Filled) -> Option<Piece> {
    let verb = message.words.iter().take(6).find(|word| actions(&word.stem) != 0)?;
    let person = message.word_after(verb.end).filter(|word| !filled.is_free(&(word.start..word.end)))?;
    let next =
        message.words.iter().find(|word| word.start > person.start && filled.is_free(&(word.start..word.end)))?;
    let begins = matches!(
        next.lower.as_str(),
        "i" | "i'm"
            | "i'll"
            | "i've"
            | "we"
            | "we're"
            | "he"
            | "she"
            | "they"
            | "it"
            | "it's"
            | "you"
            | "my"
            | "our"
            | "to"
            | "the"
            | "not"
    );
    let piece = clean(message, next.start..phrase_end(message, next.start, &[]))?;
    (begins && filled.is_free(&piece.range) && piece.text.contains(' ')).then_some(piece)
}

/// A short answer to "which?": a symbol, a name, or what follows "in", "for", "of".
pub(crate) fn attribute(message: &Message, filled: &Filled) -> Option<Piece> {
    let identifier =
        message.literals.iter().find(|literal| literal.kind == Kind::Identifier && filled.is_free(&literal.range));
    if let Some(literal) = identifier {
        return Some(Piece::of(literal));
    }
    message.words.iter().enumerate().find_map(|(at, word)| {
        if !matches!(
            word.lower.as_str(),
            "in" | "for" | "of" | "to" | "called" | "named" | "by" | "about" | "from" | "on" | "at"
        ) {
            return None;
        }
        let run = message.words[at + 1..]
            .iter()
            .skip_while(|word| matches!(word.lower.as_str(), "the" | "my" | "a" | "an" | "our"));
        let run: Vec<&Word> = run.take_while(|word| !is_filler(&word.lower)).take(3).collect();
        let range = run.first()?.start..run.last()?.end;
        let joined = !message.slice(&(word.end..range.end)).contains([',', '.', '?', '!', ':', ';']);
        (joined && filled.is_free(&range)).then(|| Piece { text: message.slice(&range).to_owned(), range })
    })
}

const LANGUAGES: &[&str] = &[
    "english",
    "spanish",
    "french",
    "german",
    "italian",
    "portuguese",
    "dutch",
    "polish",
    "russian",
    "ukrainian",
    "czech",
    "swedish",
    "danish",
    "norwegian",
    "finnish",
    "greek",
    "turkish",
    "arabic",
    "hebrew",
    "hindi",
    "chinese",
    "mandarin",
    "japanese",
    "korean",
    "vietnamese",
    "thai",
    "latin",
    "hungarian",
    "romanian",
    "bulgarian",
    "croatian",
    "serbian",
];

pub(crate) fn language(message: &Message, filled: &Filled) -> Option<Piece> {
    let word = message
        .words
        .iter()
        .rev()
        .find(|word| LANGUAGES.contains(&word.lower.as_str()) && filled.is_free(&(word.start..word.end)))?;
    Some(Piece { text: message.slice(&(word.start..word.end)).to_owned(), range: word.start..word.end })
}
