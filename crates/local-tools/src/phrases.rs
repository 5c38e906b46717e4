//! Pieces of a message that are no literals: what follows a cue, names, sums, replacements.

use std::ops::Range;

use crate::literals::{Kind, Literal, Message};
use crate::words::{Word, number_word, unit};

/// A piece of a message, cleaned, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) range: Range<usize>,
}

impl Piece {
    pub(crate) fn of(literal: &Literal) -> Self {
        Self { text: literal.value.clone(), range: literal.range.clone() }
    }
}

/// Words that end a phrase when a path, a place or a politeness follows them.
const ENDS: &[&str] =
    &["in", "into", "inside", "to", "from", "under", "within", "at", "on", "using", "with", "and", "please", "but"];

/// Longer phrases are cut: they are no small request, and would be looked through again and again.
const MAX_PHRASE_BYTES: usize = 2000;

/// Where a phrase that begins at `from` ends: before a mark, or before a word that leads to
/// something else (a path, a count), or at the end.
pub(crate) fn phrase_end(message: &Message, from: usize, stops: &[&str]) -> usize {
    let text = &message.text;
    let mut end = text.len();
    for (offset, character) in text[from..].char_indices() {
        if offset > MAX_PHRASE_BYTES {
            end = from + offset;
            break;
        }
        let at = from + offset;
        if message.literals.iter().any(|literal| literal.range.start < at && at < literal.range.end) {
            continue;
        }
        let after = text[at + character.len_utf8()..].chars().next();
        let is_mark = matches!(character, '.' | '!' | '?' | ';' | ',' | '\n') && after.is_none_or(char::is_whitespace);
        if is_mark && at > from {
            end = at;
            break;
        }
    }
    for word in message.words.iter().filter(|word| word.start > from && word.end <= end) {
        if stops.contains(&word.lower.as_str()) || leads_away(message, word) {
            return word.start;
        }
    }
    end
}

/// Whether a word such as `in` leads to a path or to the end of the request.
fn leads_away(message: &Message, word: &Word) -> bool {
    if word.lower == "please" {
        return true;
    }
    if !ENDS.contains(&word.lower.as_str()) {
        return false;
    }
    let next_literal = message.literals.iter().find(|literal| literal.range.start >= word.end);
    let next_words: Vec<&Word> = message.words.iter().filter(|other| other.start >= word.end).take(3).collect();
    let leads_to_path = next_literal.is_some_and(|literal| {
        literal.is_path() && next_words.iter().take_while(|next| next.start < literal.range.start).count() <= 3 && {
            let between = &message.text[word.end..literal.range.start];
            !between.contains([',', '.', ';'])
        }
    });
    let names_a_place = next_words.first().is_some_and(|next| {
        matches!(
            next.lower.as_str(),
            "workspace" | "terminal" | "shell" | "bash" | "console" | "python" | "folder" | "directory"
        )
    }) || next_words.first().is_some_and(|next| matches!(next.lower.as_str(), "the" | "my" | "a"))
        && next_words.get(1).is_some_and(|next| {
            matches!(
                next.lower.as_str(),
                "workspace" | "terminal" | "shell" | "file" | "files" | "folder" | "directory" | "console" | "sandbox"
            )
        });
    let limits = word.lower == "at" && next_words.first().is_some_and(|next| next.lower == "most");
    leads_to_path || names_a_place || limits
}

/// The text of a range without what surrounds it, or `None` when nothing is left.
pub(crate) fn clean(message: &Message, range: Range<usize>) -> Option<Piece> {
    let raw = message.text.get(range.clone())?;
    let trimmed_start = raw.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, ':' | ',' | '-' | '='));
    let start = range.end - trimmed_start.len();
    let trimmed = trimmed_start.trim_end().trim_end_matches(['.', '!', '?', ',', ';', ':']).trim_end();
    if trimmed.is_empty() {
        return None;
    }
    let range = start..start + trimmed.len();
    // A phrase that is one quotation is what is quoted.
    if let Some(literal) = message.literal_at(start).filter(|literal| literal.quoted && literal.range.end >= range.end)
    {
        return Some(Piece::of(literal));
    }
    Some(Piece { text: trimmed.to_owned(), range })
}

/// The position after a sequence of words, which may have spaces or a colon between them.
pub(crate) fn after_cue(message: &Message, cue: &[&str]) -> Option<usize> {
    let words = &message.words;
    (0..words.len().saturating_sub(cue.len().saturating_sub(1))).find_map(|at| {
        let here = &words[at..at + cue.len()];
        let matches = here.iter().zip(cue).all(|(word, wanted)| word.lower == *wanted)
            && here.windows(2).all(|pair| message.text[pair[0].end..pair[1].start].trim().is_empty());
        matches.then(|| here.last().map_or(0, |word| word.end))
    })
}

/// The text after the first colon that a space or line follows, outside literals.
pub(crate) fn after_colon(message: &Message) -> Option<Piece> {
    let text = &message.text;
    let at = text.char_indices().find(|&(at, character)| {
        character == ':'
            && text[at + 1..].starts_with(char::is_whitespace)
            && !message.literals.iter().any(|literal| literal.range.start <= at && at < literal.range.end)
    })?;
    let rest = text[at.0 + 1..].trim();
    let start = text.len() - text[at.0 + 1..].trim_start().len();
    if let Some(literal) = message.literal_at(start).filter(|literal| literal.quoted) {
        return Some(Piece::of(literal));
    }
    (!rest.is_empty()).then(|| Piece { text: rest.to_owned(), range: start..start + rest.len() })
}

/// Strips words such as "the word" from the front of a phrase.
pub(crate) fn strip_lead(message: &Message, range: Range<usize>, leads: &[&str]) -> Range<usize> {
    let mut start = range.start;
    for word in message.words.iter().filter(|word| word.start >= range.start && word.end <= range.end) {
        if leads.contains(&word.lower.as_str()) && message.text[start..word.start].trim().is_empty() {
            start = word.end;
        } else {
            break;
        }
    }
    start..range.end
}

const NAMING: &[&str] = &[
    "the",
    "word",
    "words",
    "text",
    "string",
    "every",
    "each",
    "all",
    "occurrence",
    "occurrences",
    "of",
    "line",
    "value",
    "phrase",
    "term",
];

/// What is to be replaced, and by what.
pub(crate) fn replacement(message: &Message) -> Option<(Piece, Piece)> {
    let verbs: [(&[&str], &[&str]); 9] = [
        (&["replace"], &["with", "by"]),
        (&["swap"], &["for", "with"]),
        (&["exchange"], &["for", "with"]),
        (&["change"], &["to", "into"]),
        (&["rename"], &["to", "into"]),
        (&["correct"], &["to", "into"]),
        (&["update"], &["to"]),
        (&["turn"], &["into", "to"]),
        (&["from"], &["to"]),
    ];
    for (cue, connectors) in verbs {
        let Some(start) = after_cue(message, cue) else { continue };
        let Some(connector) =
            message.words.iter().find(|word| word.start > start && connectors.contains(&word.lower.as_str()))
        else {
            continue;
        };
        // "change the title from X to Y"
        let from = message
            .words
            .iter()
            .find(|word| word.lower == "from" && start < word.start && word.end < connector.start)
            .map_or(start, |word| word.end);
        let start = from;
        let old_end = phrase_end(message, start, &[]).min(connector.start);
        let old = clean(message, strip_lead(message, start..old_end, NAMING));
        let new_end = phrase_end(message, connector.end, &["everywhere"]);
        let new = clean(message, strip_lead(message, connector.end..new_end, NAMING));
        if let (Some(old), Some(new)) = (old, new) {
            return Some((old, new));
        }
    }
    for cue in [&["instead", "of"][..], &["rather", "than"]] {
        let Some(start) = after_cue(message, cue) else { continue };
        let old = clean(message, strip_lead(message, start..phrase_end(message, start, &[]), NAMING))?;
        let cue_start = message.words_before(start).nth(1)?.start;
        let quoted = message.literals.iter().rev().find(|literal| literal.quoted && literal.range.end <= cue_start);
        let new = match quoted {
            Some(literal) => Piece::of(literal),
            None => {
                let word = message.words_before(cue_start).next()?;
                Piece { text: message.text[word.start..word.end].to_owned(), range: word.start..word.end }
            }
        };
        return Some((old, new));
    }
    None
}

/// A run of words that each begin with a capital letter, from `at` on.
pub(crate) fn name_at(message: &Message, at: usize) -> Option<Piece> {
    let mut range: Option<Range<usize>> = None;
    for word in message.words.iter().filter(|word| word.start >= at) {
        let joined = range.as_ref().map_or(at, |range| range.end);
        let is_self = matches!(word.lower.as_str(), "i" | "i'm" | "i'll" | "i've" | "i'd");
        if is_self || !word.capital || !message.text[joined..word.start].trim().is_empty() {
            break;
        }
        range = Some(range.map_or(word.start, |range| range.start)..word.end);
    }
    let range = range?;
    let text = message.text[range.clone()].trim_end_matches("'s").trim_end_matches("’s").to_owned();
    Some(Piece { range: range.start..range.start + text.len(), text })
}

/// A number, the unit behind it, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Quantity {
    pub(crate) value: f64,
    pub(crate) unit: Option<(String, usize)>,
    pub(crate) range: Range<usize>,
}

/// Every number of the message, small numbers as words included.
pub(crate) fn quantities(message: &Message) -> Vec<Quantity> {
    let mut found = Vec::new();
    for literal in message.literals.iter().filter(|literal| literal.kind == Kind::Number && !literal.quoted) {
        if let Some(value) = super::literals::number(&literal.value) {
            let next = message.word_after(literal.range.end).filter(|word| {
                message.text[literal.range.end..word.start].chars().all(|c| c == ' ' || c == '°' || c == '-')
            });
            let unit = next.and_then(|word| unit(&word.lower).map(|group| (word.lower.clone(), group)));
            found.push(Quantity { value, unit, range: literal.range.clone() });
        }
    }
    for word in &message.words {
        let digits = word.lower.chars().take_while(char::is_ascii_digit).count();
        let attached = &word.lower[digits..];
        if digits > 0
            && !attached.is_empty()
            && !found.iter().any(|other| other.range.start <= word.start && word.start < other.range.end)
        {
            if let (Ok(value), Some(group)) = (word.lower[..digits].parse(), unit(attached)) {
                found.push(Quantity { value, unit: Some((attached.to_owned(), group)), range: word.start..word.end });
            }
        } else if let Some(value) = number_word(&word.lower).filter(|_| !matches!(word.lower.as_str(), "one")) {
            let next = message.word_after(word.end);
            let unit = next.and_then(|next| unit(&next.lower).map(|group| (next.lower.clone(), group)));
            #[allow(clippy::cast_precision_loss, reason = "small numbers")]
            found.push(Quantity { value: value as f64, unit, range: word.start..word.end });
        }
    }
    found.sort_by_key(|quantity| quantity.range.start);
    found
}
