//! Detection of texts that only request information.

use crate::evaluate::{Phrases, REQUESTS, SMALL_TALK, evaluate};
use crate::extract::MAX_TEXT_BYTES;
use crate::text::{Kind, Text};

/// Words that begin a question.
const QUESTION_WORDS: [&str; 9] = ["who", "whom", "whose", "what", "which", "when", "where", "why", "how"];
const AUXILIARIES: [&str; 35] = [
    "'s",
    "is",
    "are",
    "am",
    "was",
    "were",
    "do",
    "does",
    "did",
    "have",
    "has",
    "had",
    "can",
    "could",
    "will",
    "would",
    "should",
    "shall",
    "may",
    "might",
    "must",
    "isn't",
    "aren't",
    "wasn't",
    "weren't",
    "don't",
    "doesn't",
    "didn't",
    "haven't",
    "hasn't",
    "can't",
    "couldn't",
    "won't",
    "wouldn't",
    "shouldn't",
];
/// Words that may precede a question or a command.
const INTRODUCTIONS: [&str; 12] =
    ["and", "but", "so", "or", "ok", "okay", "well", "hey", "hi", "hello", "please", "now"];
/// Questions that contain information.
const INFORMATIVE_QUESTIONS: [&str; 11] = [
    "did you know",
    "do you know that",
    "did i tell you",
    "have i told you",
    "did i mention",
    "have i mentioned",
    "guess what",
    "guess who",
    "how about",
    "what about",
    "what if",
];
/// Maximum number of words of an address before a comma.
const MAX_ADDRESS_WORDS: usize = 2;
/// Commands to find or show something, with required second words if the first one is ambiguous.
const COMMANDS: [(&str, &[&str]); 14] = [
    ("tell", &["me", "us"]),
    ("show", &[]),
    ("search", &[]),
    ("find", &[]),
    ("look", &["up", "for", "at", "into", "that", "it", "this"]),
    ("list", &[]),
    ("give", &["me", "us"]),
    ("explain", &[]),
    ("describe", &[]),
    ("summarize", &[]),
    ("summarise", &[]),
    ("google", &[]),
    ("check", &[]),
    ("recall", &[]),
];
/// First-person words, whose presence in a command means that it contains information.
const FIRST_PERSON: [&str; 9] = ["i", "i'm", "i've", "i'd", "i'll", "we", "we're", "we've", "we'll"];

/// Whether every sentence of a text is a question or a command to find something, ignoring small talk. Requests to
/// remember something do not count.
#[must_use]
pub fn is_request_only(text: &str) -> bool {
    let text = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
    let mut asks = false;
    for sentence in sentences(text) {
        let tokens = Text::new(sentence);
        if Phrases::of(&tokens).any(REQUESTS) {
            return false;
        }
        if is_ask(&tokens, sentence) {
            asks = true;
        } else if evaluate(sentence).importance > SMALL_TALK {
            return false;
        }
    }
    asks
}

/// Returns the sentences with their final mark.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .flat_map(|line| line.split_inclusive("? "))
        .flat_map(|part| part.split_inclusive("! "))
        .flat_map(|part| part.split_inclusive(". "))
        .map(str::trim)
        .filter(|sentence| !sentence.is_empty())
}

fn is_ask(tokens: &Text<'_>, sentence: &str) -> bool {
    if Phrases::of(tokens).any(&INFORMATIVE_QUESTIONS) {
        return false;
    }
    let words = without_introduction(tokens);
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    // "Could you please find …"
    if ["can", "could", "will", "would"].contains(&word(0)) && word(1) == "you" {
        return is_command(&words[2 + usize::from(word(2) == "please")..]);
    }
    let is_marked = sentence.trim_end_matches(['"', '\'', ')', ' ']).ends_with('?');
    let opens = QUESTION_WORDS.contains(&word(0));
    if is_marked && (opens || AUXILIARIES.contains(&word(0))) {
        return true;
    }
    // The question mark is often omitted.
    let is_open = !sentence.ends_with(['.', '!']);
    is_open && opens && AUXILIARIES.contains(&word(1)) || is_command(&words)
}

/// Returns the words of a sentence without its introduction: `and`, `please`, a name followed by a comma.
fn without_introduction<'t>(tokens: &'t Text<'_>) -> Vec<&'t str> {
    let mut words: Vec<&str> = Vec::new();
    let mut comma = None;
    for (index, token) in tokens.tokens.iter().enumerate() {
        match token.kind {
            Kind::Word | Kind::Number | Kind::Possessive => words.push(tokens.folded(index)),
            _ if tokens.folded(index) == "," => comma = comma.or(Some(words.len())),
            _ => {}
        }
    }
    let leads = |words: &[&str]| words.iter().take_while(|word| INTRODUCTIONS.contains(word)).count();
    let mut start = leads(&words);
    if let Some(comma) = comma.filter(|comma| (start..=start + MAX_ADDRESS_WORDS).contains(comma)) {
        start = comma + leads(&words[comma..]);
    }
    words.split_off(start)
}

fn is_command(words: &[&str]) -> bool {
    let Some(first) = words.first() else { return false };
    let second = words.get(1).copied().unwrap_or_default();
    let is_one = COMMANDS.iter().any(|(verb, then)| verb == first && (then.is_empty() || then.contains(&second)));
    is_one && !words.iter().any(|word| FIRST_PERSON.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_commands_only_ask() {
        for text in [
            "Where does my sister Anna live?",
            "Tell me about project Falcon milestones",
            "Hi! Which database did we choose for the crawler?",
            "so what is the rent of the flat in Bonn",
            "Please show me the notes from 3 March 2026.",
            "Can you look that up? Search my notes for Falcon.",
            "Who's Anna?",
            "Hey scout, what's my boat called",
            "Could you please find the notes about Falcon?",
        ] {
            assert!(is_request_only(text), "{text}");
        }
    }

    #[test]
    fn informative_texts_do_not_only_ask() {
        for text in [
            "",
            "My sister Anna lives in Oslo.",
            "My sister Anna lives in Oslo. Where is that?",
            "I moved to Berlin, did you know?",
            "Did you know that I got a new job at Siemens?",
            "Remember that the rent is 740. What was it before?",
            "What do you think, should I remember to call Anna? Don't forget her birthday on 3 March.",
            "Find a flat for us, we live in Berlin now.",
            "Tell Anna that the meeting is on Monday.",
            "What I want is a boat.",
            "Can you book a table for Anna's birthday on 3 March?",
            "How about we meet at the station on Monday?",
            "Hi!",
        ] {
            assert!(!is_request_only(text), "{text}");
        }
    }
}
