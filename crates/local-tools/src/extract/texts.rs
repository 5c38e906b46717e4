//! Quotations, programs, command lines, and what is to be looked for.

use crate::fill::Filled;
use crate::literals::{Kind, Literal, Message, looks_like_code};
use crate::phrases::{Piece, after_colon, after_cue, clean, phrase_end, strip_lead};
use crate::words::is_filler;

pub(super) fn quoted<'m>(message: &'m Message, filled: &'m Filled) -> impl Iterator<Item = &'m Literal> {
    message.literals.iter().filter(|literal| literal.quoted && filled.is_free(&literal.range))
}

pub(super) fn free(filled: &Filled) -> impl Fn(&Piece) -> bool {
    |piece| filled.is_free(&piece.range)
}

pub(crate) fn all_quoted(message: &Message) -> Vec<Piece> {
    message.literals.iter().filter(|literal| literal.quoted).map(Piece::of).collect()
}

/// A program: fenced, quoted, or behind a colon.
pub(crate) fn code(message: &Message, filled: &Filled) -> Option<Piece> {
    let fenced = quoted(message, filled).find(|literal| literal.kind == Kind::Fence).map(Piece::of);
    let inline = || quoted(message, filled).find(|literal| looks_like_code(&literal.value)).map(Piece::of);
    let behind = || after_colon(message).filter(free(filled)).filter(|piece| looks_like_code(&piece.text));
    fenced.or_else(inline).or_else(behind)
}

/// A command line: quoted, behind a colon, or behind "run".
pub(crate) fn command(message: &Message, filled: &Filled) -> Option<Piece> {
    let plain = |piece: &Piece| !looks_like_code(&piece.text) || piece.text.contains("$(");
    if let Some(piece) = quoted(message, filled).map(Piece::of).find(plain) {
        return Some(piece);
    }
    if let Some(piece) = after_colon(message).filter(free(filled)).filter(plain) {
        return Some(piece);
    }
    let word =
        message.words.iter().find(|word| matches!(word.lower.as_str(), "run" | "execute" | "launch" | "running"))?;
    let lead = strip_lead(message, word.end..message.text.len(), &["the", "this", "command", "shell"]);
    let named = message.slice(&(word.end..lead.start)).contains("command");
    let first = message.word_after(lead.start)?;
    // "run the tests" says what, not how; the model finds the command.
    let says_what = !named && (lead.start != word.end || is_filler(&first.lower) || first.capital);
    if says_what || first.lower == "python" {
        return None;
    }
    let end = command_end(message, lead.start);
    let range = lead.start..end;
    let text = message.slice(&range).trim_start();
    let start = end - text.len();
    let text = text.trim_end().trim_end_matches(['!', '?', ',', ';']).trim_end();
    let text = text.strip_suffix('.').filter(|rest| !rest.ends_with([' ', '.', '/'])).unwrap_or(text);
    (!text.is_empty()).then(|| Piece { text: text.to_owned(), range: start..start + text.len() }).filter(free(filled))
}

fn command_end(message: &Message, from: usize) -> usize {
    let tails: [&[&str]; 12] = [
        &["in", "the", "terminal"],
        &["in", "the", "shell"],
        &["in", "the", "console"],
        &["in", "a", "shell"],
        &["in", "bash"],
        &["in", "the", "sandbox"],
        &["in", "the", "workspace"],
        &["for", "me"],
        &["please"],
        &["and", "stop"],
        &["and", "show"],
        &["and", "tell"],
    ];
    let more: [&[&str]; 6] = [
        &["with", "a", "timeout"],
        &["for", "at", "most"],
        &["in", "a", "terminal"],
        &["on", "the", "command"],
        &["and", "give"],
        &["and", "then"],
    ];
    tails
        .iter()
        .chain(&more)
        .filter_map(|tail| {
            let after = after_cue(message, tail)?;
            message.words_before(after).nth(tail.len() - 1).map(|word| word.start)
        })
        .filter(|&start| start > from)
        .min()
        .unwrap_or(message.text.len())
}

const NAMING: &[&str] = &[
    "the",
    "a",
    "an",
    "text",
    "word",
    "words",
    "string",
    "phrase",
    "line",
    "term",
    "pattern",
    "any",
    "all",
    "every",
    "occurrences",
    "occurrence",
    "of",
    "mentions",
    "where",
    "for",
    "my",
    "files",
    "file",
];

/// What is to be looked for.
pub(crate) fn query(message: &Message, filled: &Filled) -> Option<Piece> {
    if let Some(literal) = quoted(message, filled).next() {
        return Some(Piece::of(literal));
    }
    let cues: [&[&str]; 17] = [
        &["the", "word"],
        &["the", "words"],
        &["the", "phrase"],
        &["the", "term"],
        &["the", "text"],
        &["the", "string"],
        &["mentioning"],
        &["mention"],
        &["mentions"],
        &["containing"],
        &["contain"],
        &["contains"],
        &["for"],
        &["about"],
        &["grep"],
        &["occurrences", "of"],
        &["find"],
    ];
    for cue in cues {
        let Some(start) = after_cue(message, cue) else { continue };
        let start = strip_lead(message, start..message.text.len(), NAMING).start;
        let stops: &[&str] = if filled.has_path { &["in", "inside", "under", "within"] } else { &[] };
        let end = phrase_end(message, start, stops);
        let piece = (start < end).then(|| clean(message, start..end)).flatten().filter(free(filled));
        // "search for it in the files" looks for nothing that stands here.
        if let Some(piece) =
            piece.filter(|piece| piece.text.split_whitespace().count() <= 8 && !is_filler(&piece.text.to_lowercase()))
        {
            return Some(piece);
        }
    }
    let identifier =
        message.literals.iter().find(|literal| literal.kind == Kind::Identifier && filled.is_free(&literal.range));
    identifier.map(Piece::of)
}
