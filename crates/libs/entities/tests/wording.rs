//! Texts that repeat each other, and texts that differ in one word.

use agentd_entities::Wording;
use proptest::prelude::*;

fn repeats(one: &str, other: &str) -> bool {
    let (one, other) = (Wording::of(one), Wording::of(other));
    assert_eq!(one.repeats(&other), other.repeats(&one));
    one.repeats(&other)
}

/// Sentences with a gap, and two words for it with different meanings.
const DIFFERENCES: [(&str, &str, &str); 40] = [
    ("{} is allergic to _ and must never get it, the doctor told us.", "penicillin", "ibuprofen"),
    ("The doctor says that {} takes _ tablets of it every morning.", "one", "two"),
    ("The doctor says that {} takes _ mg of it every morning.", "5", "50"),
    ("The doctor says that {} takes 5 _ of it every morning.", "mg", "ml"),
    ("The tablets of {} are to be taken _ the meal.", "before", "after"),
    ("The alarm in the house of {} is _ while nobody is at home.", "on", "off"),
    ("The fuse box of {} is behind the _ door in the cellar.", "left", "right"),
    ("On the way to {} turn _ at the church and go on for a mile.", "north", "south"),
    ("The team of {} meets on every _ Monday of the month.", "first", "second"),
    ("The dentist sees {} on _ morning at nine.", "Monday", "Thursday"),
    ("The spare key of {} lies under the _ flowerpot.", "red", "blue"),
    ("The heating of {} must be _ during the night.", "open", "closed"),
    ("{} said that the meeting went very _ this time.", "well", "badly"),
    ("{} wants the report to be _ than last year.", "longer", "shorter"),
    ("{} is to be called in the _ and at no other time.", "morning", "evening"),
    ("{} has _ paid the invoice for the roof.", "already", "not"),
    ("The passphrase of {} has the word _ in the middle.", "anchor", "lantern"),
    ("{} would _ move to the sea.", "gladly", "never"),
    ("The water for {} must be _ when it comes to the table.", "cold", "hot"),
    ("{} _ the house in the village last spring.", "bought", "sold"),
    ("{} can _ eat nuts and fish.", "safely", "hardly"),
    ("The server of {} runs the _ version of the program.", "old", "new"),
    ("{} gave the book to _ at the station.", "him", "her"),
    ("The password of {} is _ on every machine.", "hUnterTwo", "huNterTwo"),
    ("The backup of {} has 5 _ in all.", "Mb", "MB"),
    ("The balance of {} stands at _ at the end of the month.", "-40", "40"),
    ("The share of {} is _ of the whole.", "1.5", "1,5"),
    ("{} learns _ in the evenings.", "C", "C++"),
    ("Is {} at home _", "today?", "today."),
    ("The bread for {} is baked _ salt.", "with", "without"),
    ("{} ist gegen _ allergisch und darf es nie bekommen.", "Penicillin", "Ibuprofen"),
    ("{} nimmt die Tabletten immer _ dem Essen.", "vor", "nach"),
    ("Die Heizung von {} ist nachts immer _.", "an", "aus"),
    ("Zur Praxis von {} geht es an der Kirche nach _.", "links", "rechts"),
    ("{} nimmt davon jeden Morgen _ Tabletten.", "zwei", "drei"),
    ("Der Schlüssel von {} liegt _ der Matte.", "auf", "unter"),
    ("{} hat die Rechnung für das Dach _ bezahlt.", "schon", "nicht"),
    ("Die Fahrt mit {} war _.", "schon", "schön"),
    ("{} trifft sich am _ Montag im Monat.", "ersten", "zweiten"),
    ("{} mag _ Kaffee am Abend.", "keinen", "einen"),
];

const NAMES: [&str; 25] = [
    "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Hugo", "Ida", "Jan", "Karla", "Leo", "Mia", "Nora",
    "Otto", "Paula", "Quirin", "Rosa", "Simon", "Tilda", "Uwe", "Vera", "Wim", "Xenia", "Yara",
];

/// Returns a thousand pairs of texts that differ in one word.
fn pairs() -> impl Iterator<Item = (String, String)> {
    DIFFERENCES.into_iter().flat_map(|(sentence, one, other)| {
        NAMES.into_iter().map(move |name| {
            let sentence = sentence.replace("{}", name);
            (sentence.replace('_', one), sentence.replace('_', other))
        })
    })
}

#[test]
fn texts_that_differ_in_one_word_do_not_repeat_each_other() {
    let mut count = 0;
    for (one, other) in pairs() {
        assert!(!repeats(&one, &other), "{one} / {other}");
        count += 1;
    }
    assert_eq!(count, 1_000);
}

#[test]
fn spaces_punctuation_and_case_are_ignored() {
    for (one, other) in pairs() {
        for text in [one, other] {
            assert!(repeats(&text, &format!("  {}\n", text.replace(' ', " \t "))), "{text}");
            let statement = text.trim_end_matches('.');
            assert!(repeats(statement, &format!("“{statement}!”")), "{text}");
            assert!(repeats(&format!("{statement}…"), statement), "{text}");
        }
    }
    for (one, other) in [
        ("I live in Berlin.", "i live in BERLIN"),
        ("My name is Ada, and I don't work.", "MY NAME IS ADA AND I DON'T WORK!"),
        ("Well-known; to all: yes", "well-known to all yes"),
    ] {
        assert!(repeats(one, other), "{one} / {other}");
    }
}

#[test]
fn texts_without_words_repeat_nothing() {
    for text in ["", " ", "...", "!!! \"'"] {
        assert!(!repeats(text, text), "{text:?}");
    }
}

proptest! {
    #[test]
    fn texts_with_words_repeat_only_themselves(text in ".{0,60}", word in "[a-zäöü]{1,8}") {
        let (behind, before) = (format!("{text} {word}"), format!("{word} {text}"));
        prop_assert!(repeats(&behind, &behind.clone()));
        prop_assert!(!repeats(&text, &behind));
        prop_assert!(!repeats(&text, &before));
    }
}
