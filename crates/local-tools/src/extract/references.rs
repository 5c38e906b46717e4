//! Things that are somewhere or someone: addresses, paths, places, people.

use crate::fill::Filled;
use crate::literals::{Kind, Literal, Message};
use crate::phrases::{Piece, name_at};
use crate::role::Wants;
use crate::words::{Word, actions, is_filler, stem};

fn free<'m>(message: &'m Message, filled: &'m Filled) -> impl Iterator<Item = &'m Literal> {
    message.literals.iter().filter(|literal| filled.is_free(&literal.range))
}

/// An address; a bare host gets the scheme that is safe.
pub(crate) fn url(message: &Message, filled: &Filled) -> Option<Piece> {
    let whole = free(message, filled).find(|literal| literal.kind == Kind::Url).map(Piece::of);
    whole.or_else(|| {
        let host = free(message, filled).find(|literal| literal.kind == Kind::Domain)?;
        Some(Piece { text: format!("https://{}", host.value), range: host.range.clone() })
    })
}

pub(crate) fn email(message: &Message, filled: &Filled) -> Option<Piece> {
    free(message, filled).find(|literal| literal.kind == Kind::Email).map(Piece::of)
}

const FOLDER_WORDS: &[&str] = &["folder", "directory", "dir", "subfolder", "subdirectory"];

pub(crate) fn path(message: &Message, filled: &Filled, wants: Wants, required: bool) -> Option<Piece> {
    let fits = |literal: &&Literal| match literal.kind {
        Kind::File => wants != Wants::Folder,
        Kind::Folder => wants != Wants::File,
        Kind::Path => true,
        _ => false,
    };
    let mut candidates: Vec<&Literal> = free(message, filled).filter(fits).collect();
    // Quoted ones last: what is quoted is more often a text to be used.
    candidates.sort_by_key(|literal| literal.quoted);
    if let Some(literal) = candidates.first() {
        return Some(Piece::of(literal));
    }
    named(message, filled, wants).or_else(|| if required { None } else { inside(message, filled, wants) })
}

/// "the docs folder", "the folder photos", "a file called notes".
fn named(message: &Message, filled: &Filled, wants: Wants) -> Option<Piece> {
    let piece = |word: &Word| {
        let range = word.start..word.end;
        (filled.is_free(&range) && !is_filler(&word.lower))
            .then(|| Piece { text: message.slice(&range).to_owned(), range })
    };
    for (at, word) in message.words.iter().enumerate() {
        let is_folder = FOLDER_WORDS.contains(&word.lower.as_str());
        let is_file = word.lower == "file";
        if !(is_folder && wants != Wants::File || is_file && wants != Wants::Folder) {
            continue;
        }
        let adjacent = |one: &Word, other: &Word| message.text[one.end..other.start].trim().is_empty();
        let mut next = message.words.get(at + 1).filter(|next| adjacent(word, next));
        let is_named = next.is_some_and(|next| matches!(next.lower.as_str(), "called" | "named"));
        if is_named {
            next = message.words.get(at + 2);
        }
        if is_named || is_folder {
            let quoted = message.literals.iter().find(|literal| {
                literal.quoted
                    && filled.is_free(&literal.range)
                    && literal.range.start > word.end
                    && literal.range.start <= word.end + 10
            });
            if let Some(literal) = quoted.filter(|_| is_named) {
                return Some(Piece::of(literal));
            }
            // "the folder photos", but not "the folder two levels deep".
            let bare = next.filter(|next| {
                is_named
                    || (crate::words::number_word(&next.lower).is_none()
                        && actions(&next.stem) == 0
                        && !is_filler(&next.lower))
            });
            let before =
                at.checked_sub(1).and_then(|before| message.words.get(before)).filter(|before| adjacent(before, word));
            let before = before.filter(|before| {
                is_folder
                    && !is_named
                    && actions(&before.stem) == 0
                    && !matches!(
                        before.lower.as_str(),
                        "workspace" | "current" | "whole" | "same" | "file" | "new" | "each" | "every" | "first"
                    )
            });
            if let Some(found) = before.and_then(piece).or_else(|| bare.and_then(piece)) {
                return Some(found);
            }
        }
    }
    None
}

/// A bare word behind "in", at the end of what is said: "look for apples in recipes".
fn inside(message: &Message, filled: &Filled, wants: Wants) -> Option<Piece> {
    if wants == Wants::File {
        return None;
    }
    let known =
        ["workspace", "terminal", "shell", "bash", "python", "file", "text", "general", "detail", "total", "order"];
    message.words.windows(2).find_map(|pair| {
        let range = pair[1].start..pair[1].end;
        let leads = matches!(pair[0].lower.as_str(), "in" | "inside" | "under" | "within");
        let joined = message.text[pair[0].end..pair[1].start].trim().is_empty();
        let ends = message.text[pair[1].end..].chars().find(|c| !c.is_whitespace()).is_none_or(|c| ",.!?;".contains(c));
        let plain = !pair[1].capital
            && !is_filler(&pair[1].lower)
            && actions(&pair[1].stem) == 0
            && !known.iter().any(|word| stem(word) == pair[1].stem);
        (leads && joined && ends && plain && filled.is_free(&range))
            .then(|| Piece { text: message.slice(&range).to_owned(), range })
    })
}

const NOBODY: &[&str] = &[
    "me",
    "us",
    "it",
    "him",
    "her",
    "them",
    "you",
    "that",
    "this",
    "a",
    "an",
    "the",
    "to",
    "my",
    "your",
    "everyone",
    "what",
    "how",
    "why",
    "who",
    "when",
    "where",
    "if",
    "about",
    "more",
    "some",
    "something",
    "i",
    "we",
];

/// Someone to whom something is sent or said.
pub(crate) fn person(message: &Message, filled: &Filled) -> Option<Piece> {
    if let Some(address) = email(message, filled) {
        return Some(address);
    }
    let is_free = |piece: &Piece| filled.is_free(&piece.range);
    let send = actions("send");
    for (at, word) in message.words.iter().enumerate() {
        let leads = word.lower == "to" || actions(&word.stem) & send != 0 && at < 6;
        let Some(next) = message.words.get(at + 1).filter(|_| leads) else { continue };
        if !message.text[word.end..next.start].trim().is_empty() || NOBODY.contains(&next.lower.as_str()) {
            continue;
        }
        if let Some(name) = name_at(message, next.start).filter(is_free) {
            return Some(name);
        }
        // A lower-case name only right behind the verb: "text mom that", "tell my boss" is left alone.
        let follows = message.words.get(at + 2);
        let introduces = message.text[next.end..].trim_start().starts_with(':')
            || follows.is_some_and(|word| {
                matches!(word.lower.as_str(), "that" | "know" | "a" | "an" | "saying" | "about" | "i")
            });
        if word.lower != "to" && introduces && !is_filler(&next.lower) && actions(&next.stem) == 0 {
            let range = next.start..next.end;
            return Some(Piece { text: message.slice(&range).to_owned(), range }).filter(is_free);
        }
    }
    None
}

const NO_PLACE: &[&str] = &[
    "today",
    "tomorrow",
    "tonight",
    "now",
    "please",
    "me",
    "the",
    "a",
    "an",
    "my",
    "our",
    "your",
    "this",
    "that",
    "it",
    "general",
    "celsius",
    "fahrenheit",
    "detail",
    "weekend",
    "week",
    "morning",
    "evening",
    "next",
    "like",
    "be",
    "is",
];

/// Where something is: a name, or words behind "in" and its like.
pub(crate) fn place(message: &Message, filled: &Filled) -> Option<Piece> {
    let is_free = |piece: &Piece| filled.is_free(&piece.range);
    let mut behind: Option<Piece> = None;
    for (at, word) in message.words.iter().enumerate() {
        if !matches!(word.lower.as_str(), "in" | "for" | "at" | "of" | "near" | "around" | "to") {
            continue;
        }
        let Some(next) = message.words.get(at + 1) else { continue };
        if !message.text[word.end..next.start].trim().is_empty() {
            continue;
        }
        if let Some(name) =
            name_at(message, next.start).filter(is_free).filter(|_| !NO_PLACE.contains(&next.lower.as_str()))
        {
            return Some(name);
        }
        let run = message.words[at + 1..]
            .iter()
            .take_while(|word| !NO_PLACE.contains(&word.lower.as_str()) && !is_filler(&word.lower));
        let run: Vec<&Word> = run.take(3).collect();
        if let (Some(first), Some(last)) = (run.first(), run.last()) {
            let range = first.start..last.end;
            let joined = !message.slice(&range).contains([',', '.', '?', '!', ':']);
            if behind.is_none() && joined && filled.is_free(&range) {
                behind = Some(Piece { text: message.slice(&range).to_owned(), range });
            }
        }
    }
    // "Berlin weather": any name that does not merely begin the sentence.
    let named = message.words.iter().filter(|word| word.start > 0 || word.lower.ends_with("'s")).find_map(|word| {
        name_at(message, word.start)
            .filter(is_free)
            .filter(|piece| !matches!(piece.text.as_str(), "I" | "I'm" | "I'd" | "I'll"))
    });
    let first = || {
        let word = message.words.first()?;
        let plain = actions(&word.stem) == 0 && !is_filler(&word.lower) && !NO_PLACE.contains(&word.lower.as_str());
        name_at(message, word.start).filter(is_free).filter(|_| plain)
    };
    behind.or(named).or_else(first)
}
