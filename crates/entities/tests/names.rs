//! What one thing is called, and where a name that is also a word is one.

use agentd_entities::{EntityType, extract};

fn found(text: &str) -> Vec<(EntityType, String)> {
    extract(text).mentions.into_iter().map(|mention| (mention.entity_type, mention.key)).collect()
}

#[test]
fn a_legal_form_makes_no_other_firm_of_a_known_one() {
    for text in ["We met Microsoft Corp. in March.", "She left Microsoft, Inc. yesterday.", "Microsoft Ltd hired her."]
    {
        assert!(found(text).contains(&(EntityType::Organization, "microsoft".to_owned())), "{text}");
    }
    // Nobody knows which Kestrel is meant.
    assert!(found("He works at Kestrel Ltd now.").contains(&(EntityType::Organization, "kestrel ltd".to_owned())));
}

#[test]
fn languages_are_known_by_what_is_done_with_them() {
    for (text, key) in [
        ("I wrote the service in python.", "python"),
        ("our java code is old", "java"),
        ("I like Rust.", "rust"),
        ("`Python`", "python"),
        ("<b>Python</b>", "python"),
        ("We rewrote the parser in rust, and it is fast.", "rust"),
    ] {
        assert!(found(text).contains(&(EntityType::Language, key.to_owned())), "{text}: {:?}", found(text));
    }
    for text in [
        "I wrote a poem about a python in the zoo.",
        "There is rust on the gate.",
        "We spent a week in java, far from code.",
        "I like swift answers.",
        "I wrote the letter in swift strokes.",
    ] {
        let languages = found(text).into_iter().filter(|(entity_type, _)| *entity_type == EntityType::Language);
        assert_eq!(languages.count(), 0, "{text}");
    }
}
