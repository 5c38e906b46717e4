//! Detection of statements: "the sun rises at 6", "every minute counts", "der Bus fährt jede Stunde".

use super::lexer::Token;
use super::token::Kind;

/// Unambiguous verbs in a form that requests do not use.
const STATES: [&str; 71] = [
    "is",
    "are",
    "am",
    "was",
    "were",
    "has",
    "isn't",
    "goes",
    "comes",
    "counts",
    "matters",
    "rises",
    "leaves",
    "arrives",
    "departs",
    "begins",
    "opens",
    "closes",
    "takes",
    "gets",
    "makes",
    "lasts",
    "happens",
    "occurs",
    "seems",
    "feels",
    "sleeps",
    "eats",
    "lives",
    "costs",
    "passes",
    "ist",
    "sind",
    "bin",
    "hat",
    "geht",
    "kommt",
    "fährt",
    "beginnt",
    "fängt",
    "öffnet",
    "schließt",
    "schliesst",
    "macht",
    "dauert",
    "zählt",
    "gibt",
    "steht",
    "liegt",
    "kostet",
    "klingelt",
    "trifft",
    "wacht",
    "schläft",
    "isst",
    "arbeitet",
    "fliegt",
    "passiert",
    "vergeht",
    "läuft",
    "wird",
    "it's",
    "that's",
    "he's",
    "she's",
    "we're",
    "they're",
    "you're",
    "fällt",
    "hast",
    "findet",
];
/// Words of this kind that are also nouns: only directly after a subject.
const MAY_STATE: [&str; 14] = [
    "runs", "works", "starts", "ends", "meets", "plays", "sets", "rings", "sounds", "looks", "calls", "wakes",
    "startet", "endet",
];
/// Past forms at the beginning of sentences without a subject.
const PAST: [&str; 16] = [
    "went", "got", "came", "left", "sat", "met", "saw", "ate", "slept", "woke", "ran", "arrived", "finished",
    "started", "forgot", "ging",
];
/// Words that start a clause with the content of the task.
const SUBORDINATORS: [&str; 28] = [
    "that", "which", "who", "what", "what's", "whats", "if", "whether", "when", "how", "where", "why", "because", "to",
    "dass", "ob", "wie", "was", "wer", "wo", "warum", "weil", "damit", "zu", "there", "welche", "welcher", "der",
];
/// Words at the beginning that make the sentence a request.
const ORDERS: [&str; 24] = [
    "please",
    "remind",
    "send",
    "wake",
    "run",
    "schedule",
    "set",
    "repeat",
    "can",
    "could",
    "would",
    "bitte",
    "kannst",
    "könntest",
    "erinnere",
    "weck",
    "wecke",
    "schick",
    "schicke",
    "sende",
    "tell",
    "check",
    "make",
    "let",
];
/// Subjects of statements, and words that turn them into requests.
const PRONOUNS: [&str; 5] = ["i", "he", "she", "we", "they"];
const WISHES: [&str; 12] =
    ["want", "wanna", "need", "would", "should", "must", "will", "shall", "can", "could", "have", "like"];
/// Verbs of tasks that take time, such as explaining.
const TELLING: [&str; 7] = ["explain", "describe", "teach", "learn", "erkläre", "erklär", "beschreibe"];
/// Maximum distance of the verb in the main clause, in words.
const MAX_VERB_DISTANCE: usize = 7;

pub(super) fn states(tokens: &[Token]) -> bool {
    let text = |index: usize| tokens.get(index).map_or("", |token: &Token| token.text.as_str());
    if ORDERS.contains(&text(0)) {
        return false;
    }
    let is_day = |index: usize| {
        tokens.get(index).is_some_and(|token| matches!(token.kind, Kind::At | Kind::Number(_) | Kind::Clock(..)))
    };
    // "sat at 9" may be a Saturday.
    if PAST.contains(&text(0))
        && !(text(0) == "sat" && (is_day(1) || tokens.len() == 1 || tokens[1].kind == Kind::Comma))
    {
        return true;
    }
    if TELLING.contains(&text(0)) && !recurs(tokens) {
        return true;
    }
    // "Tom called at 3".
    let is_past = text(1).ends_with("ed")
        && tokens.first().is_some_and(|first| first.kind == Kind::Unknown)
        && tokens.get(2).is_some_and(|next| matches!(next.kind, Kind::At | Kind::On));
    if is_past && !recurs(tokens) {
        return true;
    }
    // "every day I wake up at 7".
    let is_told = tokens.iter().enumerate().take(MAX_VERB_DISTANCE).any(|(index, token)| {
        PRONOUNS.contains(&token.text.as_str())
            && tokens
                .get(index + 1)
                .is_some_and(|next| next.kind == Kind::Unknown && !WISHES.contains(&next.text.as_str()))
            && tokens[..index].iter().all(|before| !matches!(before.kind, Kind::Unknown | Kind::Filler))
    });
    if is_told {
        return true;
    }
    let main = tokens.iter().enumerate().take(MAX_VERB_DISTANCE);
    let mut clause = main.take_while(|(index, token)| {
        *index == 0 || !SUBORDINATORS.contains(&token.text.as_str()) || (token.text == "der" && *index < 2)
    });
    clause.any(|(index, token)| {
        let word = token.text.as_str();
        // "am" is a part of the day or a German article, depending on its neighbours.
        let is_i_am = word == "am" && index > 0 && text(index - 1) == "i";
        let is_verb = STATES.contains(&word) && word != "am" || is_i_am;
        index > 0 && (is_verb || (MAY_STATE.contains(&word) && index <= 3 && is_predicate(tokens, index)))
    }) || names_an_event(tokens)
}

/// "the alarm rings", "Anna works", "every class starts": a noun with an article, or one word at the beginning.
fn is_predicate(tokens: &[Token], index: usize) -> bool {
    index == 1 && tokens[0].kind == Kind::Unknown && tokens.len() > 2
        || matches!(tokens[0].kind, Kind::The | Kind::A | Kind::This | Kind::Every)
        || ["my", "our", "his", "her", "their", "your", "mein", "meine", "unser", "unsere"]
            .contains(&tokens[0].text.as_str())
}

/// "the train at 6", "my birthday on June 3": names an event without a request.
fn names_an_event(tokens: &[Token]) -> bool {
    // German requests may begin with an article, too: "die Blumen morgen um 8 gießen".
    let article =
        tokens.first().is_some_and(|token| ["the", "my", "our", "his", "her", "their"].contains(&token.text.as_str()));
    let is_noun = tokens.get(1).is_some_and(|token| matches!(token.kind, Kind::Unknown | Kind::Event));
    let is_asked_for = tokens.iter().any(|token| matches!(token.text.as_str(), "please" | "bitte"));
    article && is_noun && !recurs(tokens) && !is_asked_for
}

fn recurs(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| {
        matches!(
            token.kind,
            Kind::Every
                | Kind::Adverb(..)
                | Kind::Always
                | Kind::Per
                | Kind::Count(_)
                | Kind::Weekday { repeats: true, .. }
                | Kind::Workday { .. }
                | Kind::Weekend { .. }
                | Kind::Part { repeats: true, .. }
        )
    })
}
