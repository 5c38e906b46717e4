//! Detection of sentences about time that are not requests: questions, statements and cancellations.

use super::lexer::Token;
use super::statement;
use super::token::{Kind, Unit};

/// First words of questions and statements.
const FIRST: [&str; 40] = [
    "what", "what's", "whats", "who", "whom", "whose", "why", "how", "how's", "when", "where", "which", "is", "are",
    "was", "were", "does", "did", "has", "wer", "wie", "was", "wann", "warum", "wo", "wieso", "weshalb", "welche",
    "welcher", "welches", "ist", "sind", "war", "hat", "hast", "there's", "i'll", "we'll", "i'm", "sorry",
];
/// Words that cancel something, at the beginning.
const CALLED_OFF: [&str; 10] =
    ["cancel", "forget", "stop", "pause", "disable", "unsubscribe", "skip", "stoppe", "beende", "pausiere"];
const REMOVED: [&str; 4] = ["delete", "remove", "lösche", "entferne"];
/// Nouns for schedules, whose removal is a cancellation.
const REMINDERS: [&str; 12] = [
    "alarm",
    "alarms",
    "reminder",
    "reminders",
    "job",
    "jobs",
    "schedule",
    "erinnerung",
    "erinnerungen",
    "wecker",
    "termin",
    "aufgabe",
];
const DENIALS: [&str; 15] = [
    "don't", "dont", "never", "not", "no", "won't", "didn't", "doesn't", "nicht", "nie", "niemals", "kein", "keine",
    "keinen", "without",
];
/// Words of statements, unless another part recurs.
const STORY: [&str; 21] = [
    "yesterday",
    "ago",
    "was",
    "were",
    "had",
    "did",
    "took",
    "been",
    "happened",
    "gestern",
    "vorgestern",
    "waren",
    "hatte",
    "hatten",
    "wurde",
    "gewesen",
    "haben",
    "habe",
    "war",
    "isn't",
    "wasn't",
];
const WHENEVER: [&str; 2] = ["whenever", "jedesmal"];
const SUBJECTS: [&str; 17] = [
    "i",
    "he",
    "she",
    "we",
    "they",
    "it",
    "er",
    "sie",
    "wir",
    "es",
    "ihr",
    "ich",
    "everyone",
    "everybody",
    "people",
    "somebody",
    "nobody",
];
/// Words that turn "I …" into a request.
const WISHES: [&str; 20] = [
    "want", "wanna", "need", "would", "should", "must", "will", "shall", "can", "could", "like", "wish", "möchte",
    "will", "brauche", "hätte", "muss", "soll", "sollte", "würde",
];

/// Whether the sentence is not a request.
pub(super) fn is_rejected(tokens: &[Token]) -> bool {
    let text = |index: usize| tokens.get(index).map_or("", |token: &Token| token.text.as_str());
    if FIRST.contains(&text(0)) || matches!((text(0), text(1)), ("do", "you" | "we" | "i" | "they")) {
        return true;
    }
    // "I read it in two days" is a statement; "I want it in two days" and "I have to" are requests.
    let has_to = matches!((text(1), text(2)), ("have" | "got" | "gotta", "to")) || text(1) == "gotta";
    let will_be = matches!((text(1), text(2)), ("will", "be"));
    if SUBJECTS.contains(&text(0)) && ((!WISHES.contains(&text(1)) && !has_to) || will_be) {
        return true;
    }
    if statement::states(tokens) {
        return true;
    }
    let is_greeting = matches!((text(0), text(1)), ("see" | "catch", "you" | "ya" | "u") | ("thank" | "thanks", _));
    // "sag den Termin am Freitag ab".
    let calls_off =
        matches!(text(0), "sag" | "sage") && tokens.last().is_some_and(|last| matches!(last.text.as_str(), "ab"));
    if is_greeting || calls_off {
        return true;
    }
    let order = tokens.iter().position(|token| token.kind != Kind::Filler).unwrap_or(0);
    if CALLED_OFF.contains(&text(order)) {
        return true;
    }
    let has = |words: &[&str]| tokens.iter().any(|token| words.contains(&token.text.as_str()));
    if REMOVED.contains(&text(order)) && has(&REMINDERS) {
        return true;
    }
    let repeats = tokens.iter().any(|token| matches!(token.kind, Kind::Every | Kind::Adverb(..)));
    if has(&WHENEVER) || (!repeats && has(&STORY)) {
        return true;
    }
    (0..tokens.len()).any(|index| denies(tokens, index, repeats) || is_past(tokens, index))
}

/// Whether "don't …" or "not every day" negates the sentence; not within the task: "check that it is not down every
/// hour".
fn denies(tokens: &[Token], index: usize, repeats: bool) -> bool {
    let before_every = tokens.get(index + 1).is_some_and(|next| next.kind == Kind::Every);
    // "don't forget", "nicht vergessen".
    let is_forgetting =
        tokens.get(index + 1).is_some_and(|next| matches!(next.text.as_str(), "forget" | "vergessen" | "miss"))
            || tokens.iter().any(|token| token.text == "vergiss");
    DENIALS.contains(&tokens[index].text.as_str()) && !is_forgetting && (!repeats || index < 3 || before_every)
}

/// Whether the position is in the past: "every time", "last week", "last Friday", "vor zwei Tagen".
fn is_past(tokens: &[Token], index: usize) -> bool {
    let kind = |ahead: usize| tokens.get(index + ahead).map(|token| token.kind);
    let text = |ahead: usize| tokens.get(index + ahead).map_or("", |token: &Token| token.text.as_str());
    match tokens[index].kind {
        Kind::Every => matches!(text(1), "time" | "mal"),
        Kind::Last => {
            let of_month = matches!(kind(2), Some(Kind::Of | Kind::In | Kind::Every | Kind::Per));
            let every = index.checked_sub(1).is_some_and(|before| tokens[before].kind == Kind::Every);
            // "every month on the last Sunday".
            let is_monthly = tokens[..index].windows(2).any(|pair| {
                let names_month =
                    matches!(pair[0].kind, Kind::Every | Kind::Number(_)) && pair[1].kind == Kind::Unit(Unit::Month);
                names_month || matches!(pair[0].kind, Kind::Adverb(_, Unit::Month))
            });
            let led = index
                .checked_sub(1)
                .is_some_and(|before| matches!(tokens[before].kind, Kind::The | Kind::Am | Kind::On | Kind::And));
            match kind(1) {
                Some(Kind::Unit(Unit::Week | Unit::Month | Unit::Year | Unit::Quarter) | Kind::Part { .. }) => true,
                Some(Kind::Weekday { .. } | Kind::Weekend { .. }) => !(of_month || every || is_monthly && led),
                _ => false,
            }
        }
        Kind::Before => {
            text(0) == "vor"
                && matches!(kind(1), Some(Kind::Number(_) | Kind::A))
                && matches!(kind(2), Some(Kind::Unit(_)))
        }
        _ => false,
    }
}
