//! What kind of sentence a message is: an order, a question, a wish for knowledge, a remark.

use crate::literals::Message;
use crate::words::{Word, actions};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// "Read notes.txt", "could you run the tests".
    Order,
    /// "What is in docs?"
    Question,
    /// "How do I …", "why …", "explain …": to be answered, not acted on.
    Knowledge,
    /// "I sent it yesterday", "thanks".
    Remark,
    /// A refusal of action: "don't run anything".
    Refusal,
}

/// A message's kind, and the groups of its main verb (0 where there is none).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mood {
    pub(crate) kind: RequestKind,
    pub(crate) verb: u32,
    /// The verb leads an order, so another one cannot be meant.
    pub(crate) is_told: bool,
}

const COURTESY: &[&[&str]] = &[
    &["please"],
    &["kindly"],
    &["hey"],
    &["hi"],
    &["hello"],
    &["ok"],
    &["okay"],
    &["now"],
    &["then"],
    &["and"],
    &["also"],
    &["just"],
    &["can", "you"],
    &["could", "you"],
    &["would", "you"],
    &["will", "you"],
    &["can", "i"],
    &["could", "i"],
    &["let", "me"],
    &["i'd", "like", "you", "to"],
    &["i", "would", "like", "you", "to"],
    &["i'd", "like", "to"],
    &["i", "would", "like", "to"],
    &["i", "want", "you", "to"],
    &["i", "want", "to"],
    &["i", "need", "you", "to"],
    &["i", "need", "to"],
    &["let's"],
    &["go", "and"],
    &["use", "the"],
    &["quickly"],
    &["first"],
    &["next"],
    &["take", "a"],
    &["have", "a"],
];

const KNOWLEDGE: &[&[&str]] = &[
    &["how", "do"],
    &["how", "does"],
    &["how", "did"],
    &["how", "to"],
    &["how", "can"],
    &["how", "should"],
    &["how", "would"],
    &["how", "are"],
    &["why"],
    &["explain"],
    &["describe"],
    &["define"],
    &["suggest"],
    &["recommend"],
    &["imagine"],
    &["who"],
    &["whose"],
    &["when"],
    &["what", "is", "a"],
    &["what", "is", "an"],
    &["what's", "a"],
    &["what's", "an"],
    &["what", "are"],
    &["what", "is", "the", "best"],
    &["what", "is", "the", "difference"],
    &["what's", "the", "difference"],
    &["what's", "the", "best"],
    &["what", "is", "the", "meaning"],
    &["what", "does", "the"],
    &["what", "does", "it", "mean"],
    &["what", "can", "you"],
    &["what", "do", "you"],
    &["are", "you"],
    &["do", "you"],
    &["did", "you"],
    &["have", "you"],
    &["should"],
    &["can", "i"],
    &["tell", "me", "a"],
    &["tell", "me", "about"],
    &["tell", "me", "something"],
    &["tell", "me", "why"],
    &["tell", "me", "how"],
    &["give", "me", "a"],
    &["give", "me", "an"],
    &["write", "me", "a"],
    &["teach"],
];

const QUESTION: &[&str] = &[
    "what", "what's", "which", "where", "where's", "how", "how's", "is", "are", "do", "does", "did", "will", "would",
    "can", "could", "has", "have", "should", "was", "were", "who's",
];

/// Verbs that order without saying what.
const ORDERS: &[&str] = &["use", "try", "let", "give", "set", "ask", "make", "do", "go", "put", "keep", "bring"];

const PERSONS: &[&str] = &[
    "i", "i'm", "i've", "we", "we're", "he", "she", "they", "it", "it's", "my", "our", "his", "her", "thanks", "thank",
    "that", "this", "you",
];

pub(crate) fn mood(message: &Message) -> Mood {
    let words = &message.words;
    let knows = KNOWLEDGE.iter().any(|opening| begins(words, opening));
    let mut from = 0;
    while let Some(courtesy) =
        COURTESY.iter().filter(|phrase| begins(&words[from..], phrase)).max_by_key(|phrase| phrase.len())
    {
        from += courtesy.len();
    }
    let rest = &words[from..];
    let first = rest.first();
    let verb = first.map_or(0, |word| actions(&word.stem));
    let anywhere = || rest.iter().take(10).map(|word| actions(&word.stem)).find(|&bits| bits != 0).unwrap_or(0);
    let lower = first.map(|word| word.lower.as_str()).unwrap_or_default();
    let refuses = matches!(lower, "don't" | "never") || begins(rest, &["do", "not"]) || begins(rest, &["stop"]);
    // "what files are in docs", "which of my notes …" ask for a list.
    let second = rest.get(1).map(|word| word.lower.as_str()).unwrap_or_default();
    let lists = !knows && (lower == "which" || lower == "what" && !QUESTION.contains(&second));
    let asks_later = || {
        message.text.trim_end().ends_with('?')
            || words.iter().any(|word| matches!(word.lower.as_str(), "how" | "what" | "what's" | "which"))
    };
    let kind = if refuses {
        RequestKind::Refusal
    } else if knows || KNOWLEDGE.iter().any(|opening| begins(rest, opening)) && from == 0 {
        RequestKind::Knowledge
    } else if (verb != 0 || ORDERS.contains(&lower)) && !QUESTION.contains(&lower) {
        RequestKind::Order
    } else if QUESTION.contains(&lower) {
        RequestKind::Question
    } else if PERSONS.contains(&lower) && from == 0 {
        if asks_later() { RequestKind::Question } else { RequestKind::Remark }
    } else if anywhere() != 0 || from > 0 {
        RequestKind::Order
    } else {
        RequestKind::Question
    };
    // "what is in notes.txt", "what's on that page" ask to be shown.
    let shown = matches!(lower, "what" | "what's")
        && rest.iter().any(|word| matches!(word.lower.as_str(), "in" | "inside" | "on" | "at"));
    let is_told = kind == RequestKind::Order && verb != 0;
    let verb = match (verb, lists) {
        (0, true) => anywhere() | actions("list"),
        (0, false) if shown && kind == RequestKind::Question => anywhere() | actions("show"),
        (0, false) => anywhere(),
        (verb, _) => verb,
    };
    Mood { kind, verb, is_told }
}

fn begins(words: &[Word], phrase: &[&str]) -> bool {
    words.len() >= phrase.len() && words.iter().zip(phrase).all(|(word, wanted)| word.lower == *wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_sentences() {
        for (text, kind) in [
            ("Please read notes.txt", RequestKind::Order),
            ("could you run the tests", RequestKind::Order),
            ("I'd like to see a.txt", RequestKind::Order),
            ("What is in docs/?", RequestKind::Question),
            ("How do I read a file?", RequestKind::Knowledge),
            ("Why is the sky blue?", RequestKind::Knowledge),
            ("I sent her a message", RequestKind::Remark),
            ("I ran 5 km, how much is that in miles?", RequestKind::Question),
            ("Don't run anything", RequestKind::Refusal),
        ] {
            assert_eq!(mood(&Message::new(text)).kind, kind, "{text}");
        }
    }
}
