//! Hostile texts. Termination of each is the test; a cost quadratic in the size would take hours.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use agentd_entities::{
    EntityType, MAX_MENTIONS, MAX_RELATIONS, MAX_TEXT_BYTES, TaggedName, evaluate, extract, extract_as, fact_key,
    fact_keys, near_duplicate,
};
use proptest::prelude::*;

const SIZE: usize = 32 << 10;

const PIECES: &[&str] = &[
    "Anna ",
    "Rust ",
    "Go ",
    "a",
    "A",
    "'",
    "'s",
    ".",
    "-",
    "- ",
    "a-",
    "A.",
    "Dr. ",
    "2022 ",
    "May ",
    "1/",
    "@",
    "a@",
    "/",
    "\n",
    "A:\n",
    "Anna: ",
    "in ",
    "University of ",
    "Berlin, ",
    "von ",
    "my sister ",
    "\u{301}",
    "e\u{301}",
    "👍",
    "我",
    "我Rust",
    "Inc ",
    "Bank Inc ",
    "machine ",
    "New ",
    "I live in Berlin. ",
    "I live in Berlin and ",
    "Apple pie ",
    "not good ",
    "Anna met Tom and ",
    "\u{0}",
    "\u{202e}x",
    "\"",
    "( ",
    "Anna-",
    "Anna J. ",
    "last ",
    "a few ",
    "it's ",
    "uses ",
    "Anna uses Rust, ",
    "is Anna's ",
    "x://",
    "_",
    "one two three ",
];

/// Tags every run of letters as a name of some type.
fn runs(text: &str) -> Vec<TaggedName> {
    let kinds = [Some(EntityType::Person), Some(EntityType::Organization), Some(EntityType::Place), None];
    let mut names = Vec::new();
    let mut start = None;
    for (at, character) in text.char_indices().chain([(text.len(), ' ')]) {
        match (character.is_alphabetic(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                names.push(TaggedName { range: from..at, entity_type: kinds[at % kinds.len()] });
                start = None;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn results_for_large_texts_are_bounded() {
    for piece in PIECES {
        let text = piece.repeat(SIZE / piece.len());
        let extraction = extract_as(&text, &runs(&text), Some("tom"));
        assert!(extraction.mentions.len() <= MAX_MENTIONS && extraction.relations.len() <= MAX_RELATIONS, "{piece}");
        let _ = (evaluate(&text), fact_keys(&text, &runs(&text), None).len(), near_duplicate(&text, &text));
    }
}

#[test]
fn text_beyond_the_limit_is_ignored_and_reported() {
    let text = format!("{} Kubernetes", "word ".repeat(MAX_TEXT_BYTES / 5));
    let extraction = extract(&text, &[]);
    assert!(extraction.is_truncated && extraction.mentions.is_empty());
    let many = extract(&"Redis. ".repeat(MAX_MENTIONS + 1), &[]);
    assert!(many.is_truncated && many.mentions.len() == MAX_MENTIONS);
    assert!(!extract("Redis", &[]).is_truncated);
    // The limit is inside a character.
    assert!(extract(&format!("{}é", "x".repeat(MAX_TEXT_BYTES - 1)), &[]).is_truncated);
}

fn check(text: &str) {
    let extraction = extract_as(text, &runs(text), Some("me"));
    let mut end = 0;
    for mention in &extraction.mentions {
        assert!(mention.range.start >= end && mention.range.end > mention.range.start, "{text:?}: {mention:?}");
        assert!(text.get(mention.range.clone()).is_some());
        assert!(!mention.key.is_empty() && !mention.name.is_empty(), "{text:?}: {mention:?}");
        end = mention.range.end;
    }
    for relation in &extraction.relations {
        assert!(relation.weight > 0.0 && relation.weight <= 1.0);
        assert_ne!(relation.source, relation.target);
    }
    let judgement = evaluate(text);
    assert!((0.0..=1.0).contains(&judgement.importance) && (-1.0..=1.0).contains(&judgement.valence));
    assert_eq!(extract_as(text, &runs(text), Some("me")), extraction);
    let _ = fact_key(text, &runs(text));
}

proptest! {
    #[test]
    fn any_text_is_processed(text in any::<String>()) {
        check(&text);
        let _ = near_duplicate(&text, "x");
    }

    #[test]
    fn any_mix_of_words_is_processed(pieces in prop::collection::vec(prop_oneof![prop::sample::select(PIECES), Just(" "), Just("8"), Just("th "), Just("Smith "), Just("works at "), Just("favorite "), Just("is ")], 0..40)) {
        check(&pieces.concat());
    }
}
