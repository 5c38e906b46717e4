//! Sentences that speak of time and order nothing: questions, stories, and what is called off.

use super::lexer::Token;
use super::token::{Kind, Unit};

/// First words of a question or a story.
const FIRST: [&str; 36] = [
    "what", "what's", "whats", "who", "whom", "whose", "why", "how", "how's", "when", "where", "which", "is", "are",
    "was", "were", "does", "did", "has", "wer", "wie", "was", "wann", "warum", "wo", "wieso", "weshalb", "welche",
    "welcher", "welches", "ist", "sind", "war", "hat", "hast", "there's",
];
/// Words that call off, deny, or tell of the past, wherever they stand.
const ANYWHERE: [&str; 47] = [
    "cancel",
    "delete",
    "disable",
    "unsubscribe",
    "stop",
    "pause",
    "don't",
    "dont",
    "never",
    "not",
    "no",
    "won't",
    "didn't",
    "doesn't",
    "isn't",
    "wasn't",
    "nicht",
    "nie",
    "niemals",
    "kein",
    "keine",
    "keinen",
    "lösche",
    "stoppe",
    "beende",
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
    "whenever",
    "haben",
    "habe",
    "whilst",
    "jedesmal",
    "war",
];
const SUBJECTS: [&str; 12] = ["i", "he", "she", "we", "they", "it", "er", "sie", "wir", "es", "ihr", "ich"];
/// What makes "I …" a wish.
const WISHES: [&str; 22] = [
    "want", "wanna", "need", "would", "should", "must", "will", "shall", "can", "could", "have", "like", "wish",
    "möchte", "will", "brauche", "hätte", "muss", "soll", "sollte", "würde", "get",
];

/// Whether nothing in the sentence may be taken for an order.
pub(super) fn refuses(tokens: &[Token]) -> bool {
    let text = |place: usize| tokens.get(place).map_or("", |token: &Token| token.text.as_str());
    if FIRST.contains(&text(0)) || matches!((text(0), text(1)), ("do", "you" | "we" | "i" | "they")) {
        return true;
    }
    // "I read it in two days" tells; "I want it in two days" orders.
    if SUBJECTS.contains(&text(0)) && !WISHES.contains(&text(1)) {
        return true;
    }
    tokens.iter().enumerate().any(|(place, token)| {
        let words = token.text.as_str();
        let next = tokens.get(place + 1).map(|token| token.kind);
        match token.kind {
            _ if ANYWHERE.contains(&words) => true,
            // "every time I …", "jedes Mal wenn …"
            Kind::Every => matches!(text(place + 1), "time" | "mal"),
            // "last week", but not "the last week of …", which is not claimed anyway.
            Kind::Last => {
                matches!(next, Some(Kind::Unit(Unit::Week | Unit::Month | Unit::Year | Unit::Quarter)))
                    || matches!(next, Some(Kind::Part { .. }))
            }
            // "vor zwei Tagen"
            Kind::Before => {
                words == "vor"
                    && matches!(next, Some(Kind::Number(_) | Kind::A))
                    && matches!(tokens.get(place + 2).map(|token| token.kind), Some(Kind::Unit(_)))
            }
            _ => false,
        }
    })
}
