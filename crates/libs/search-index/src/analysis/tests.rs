use proptest::prelude::*;

use super::*;

fn terms(text: &str) -> Vec<String> {
    analyze(text).into_iter().map(|token| token.term).collect()
}

fn query(text: &str) -> Vec<String> {
    query_terms(text).into_iter().map(|(term, _)| term).collect()
}

#[test]
fn words_are_folded_and_stemmed() {
    assert_eq!(
        terms("Running RUNS, the Café’s crème-brûlée!"),
        ["run", "run", "the", "cafe", "creme", "brule", "cremebrule"]
    );
    assert_eq!(terms("don't Caroline's O'Brien"), ["don", "carolin", "o", "brien"]);
}

#[test]
fn compounds_are_terms() {
    for (text, whole) in [
        ("I like C++.", "c++"),
        ("(C#)", "c#"),
        ("node.js, of course", "node.js"),
        ("see v1.2.", "v1.2"),
        ("mail ada@example.org now", "ada@example.org"),
        ("open snake_case.rs", "snake_case.rs"),
        ("the .NET runtime", ".net"),
        ("on 2023-05-08", "20230508"),
        ("e-mail", "email"),
    ] {
        assert!(terms(text).iter().any(|term| term == whole), "{text}: {:?}", terms(text));
        assert!(query(text).iter().any(|term| term == whole), "{text}: {:?}", query(text));
    }
    assert_eq!(terms("Wait... what?! a+b #tag"), ["wait", "what", "a", "b", "tag"]);
}

#[test]
fn scripts_without_spaces_give_characters_and_pairs() {
    assert_eq!(terms("東京都"), ["東", "京", "東京", "都", "京都"]);
    assert_eq!(query("東京都"), ["東京", "京都"]);
    assert_eq!(query("都"), ["都"]);
    assert_eq!(terms("ｶﾞｽ"), ["ガ", "ス", "ガス"]);
    assert_eq!(query("Rust言語"), ["rust", "言語"]);
    assert_eq!(query("서울 날씨"), ["서울", "날씨"]);
}

#[test]
fn stop_words_are_dropped_unless_the_query_has_no_others() {
    assert_eq!(query("what is the weather"), ["weather"]);
    assert_eq!(query("to be or not to be"), ["to", "be", "or", "not"]);
    assert!(query("\"' () AND\0").iter().eq(["and"]));
    assert!(query("… \0").is_empty());
    assert_eq!(query("Wann kommt die Müllabfuhr?"), ["kommt", "mullabfuhr", "muellabfuhr"]);
    assert_eq!(query("was ist das"), ["was", "ist", "das"]);
}

#[test]
fn alternative_spellings_match() {
    for (one, other) in [
        ("1,240", "1240"),
        ("1.240.000", "1,240,000"),
        ("Köln", "Koeln"),
        ("MÜNCHEN", "muenchen"),
        ("5 km", "5km"),
        ("1,200 kg", "1200kg"),
    ] {
        for (query_text, document_text) in [(one, other), (other, one)] {
            let document = terms(&format!("It is {document_text}, they say."));
            assert!(
                query(query_text).iter().any(|term| document.contains(term)),
                "{query_text} in {document_text}: {document:?}"
            );
        }
    }
    assert!(terms("call parseBound twice").contains(&"bound".to_owned()));
    assert_eq!(query("parseBound"), ["parsebound"]);
    assert_eq!(terms("McDonald iPhone"), ["mcdonald", "iphon"]);
    assert_eq!(query("🦀"), ["🦀"]);
    assert!(terms("A 🦀!").contains(&"🦀".to_owned()));
    assert_eq!(terms("12,34 1,2345 5 kings"), ["12", "34", "1", "2345", "5", "king"]);
}

#[test]
fn queries_are_limited_to_the_first_terms() {
    let text: String = (0..5000).map(|n| format!("word{n} ")).collect();
    let found = query(&text);
    assert_eq!((found.len(), found[0].as_str(), found[63].as_str()), (MAX_QUERY_TERMS, "word0", "word63"));
    assert!(query(&"x".repeat(100_000)).iter().all(|term| term.len() == MAX_TERM_BYTES));
}

proptest! {
    #[test]
    fn terms_are_bounded_and_in_range(text in "\\PC{0,60}|[\\x00-\\u{3FFFF}]{0,40}|[a-cA-C'.+#@_\\- 東ｶﾞ\\u{ad}]{0,30}") {
        for token in analyze(&text) {
            prop_assert!(!token.term.is_empty() && token.term.len() <= MAX_TERM_BYTES);
            prop_assert!(text.get(token.range.clone()).is_some_and(|part| !part.is_empty()));
        }
    }

    #[test]
    fn document_contains_the_terms_of_its_text_as_a_query(text in "\\PC{0,60}|[a-cA-C'.+#@_\\- 東京ｶﾞ]{0,30}") {
        let document = terms(&text);
        for term in query(&text) {
            prop_assert!(document.contains(&term), "{term} of {text:?} not in {document:?}");
        }
    }
}
