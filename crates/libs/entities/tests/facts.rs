//! Contradicting and compatible facts, near duplicates, and importance.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use agentd_entities::{FactKey, evaluate, near_duplicate};

fn fact_key(text: &str) -> Option<FactKey> {
    agentd_entities::fact_key(text, &[])
}

fn fact_keys(text: &str, speaker: Option<&str>) -> Vec<FactKey> {
    agentd_entities::fact_keys(text, &[], speaker)
}

fn contradict(a: &str, b: &str) -> Option<bool> {
    Some(fact_key(a)?.contradicts(&fact_key(b)?))
}

#[test]
fn contradicting_facts() {
    for (a, b) in [
        ("I live in Berlin.", "I live in Munich now."),
        ("I live in Berlin.", "I moved to Lisbon."),
        ("I'm based in Oslo.", "I live in Rome."),
        ("I live in Berlin.", "I no longer live in Berlin."),
        ("I live in Berlin", "I don't live in Berlin anymore."),
        ("My favourite colour is blue.", "My favorite color is green"),
        ("My favorite food is sushi.", "Actually, my favorite food is ramen now."),
        ("Anna works at Siemens.", "Anna now works at Bosch."),
        ("Anna works at Siemens.", "Anna works for Google."),
        ("Anna works at Siemens now", "Anna joined Microsoft."),
        ("I drink coffee.", "I no longer drink coffee."),
        ("I drink coffee", "I stopped drinking coffee."),
        ("I smoke cigarettes.", "I gave up smoking cigarettes"),
        ("I like cilantro.", "I hate cilantro."),
        ("I love hiking.", "I don't like hiking."),
        ("I eat meat.", "I don't eat meat."),
        ("I am 29 years old.", "I'm 30 years old."),
        ("I am single.", "I'm married now."),
        ("Tom is married.", "Tom is divorced."),
        ("My phone number is 555-0101.", "My phone number is 555-0199."),
        ("My email is anna@example.com.", "My email is anna@example.org"),
        ("My boss is Tom.", "My new boss is Julia."),
        ("My job title is analyst.", "My job title is team lead."),
        ("My sister lives in Rome.", "My sister lives in Paris now."),
        ("My sister Anna lives in Rome.", "Anna moved to Paris."),
        ("I prefer tabs over spaces.", "I prefer spaces over tabs."),
        ("I prefer Rust to Go.", "I prefer Go to Rust."),
        ("I am allergic to peanuts.", "I'm not allergic to peanuts."),
        ("I work as a nurse.", "I work as a teacher now."),
        ("Anna: I live in Bonn.", "Anna lives in Köln."),
        ("I'm a vegetarian.", "I'm vegan now."),
        ("I use Postgres.", "I no longer use PostgreSQL."),
        ("I speak Spanish.", "I don't speak Spanish."),
    ] {
        assert_eq!(contradict(a, b), Some(true), "{a} / {b}: {:?} {:?}", fact_key(a), fact_key(b));
        assert_eq!(contradict(b, a), Some(true), "{b} / {a}");
    }
}

#[test]
fn compatible_facts() {
    for (a, b) in [
        ("I live in Berlin.", "Anna lives in Munich."),
        ("I live in Berlin.", "I work at Siemens."),
        ("I like coffee.", "I like tea."),
        ("I speak Spanish.", "I speak German."),
        ("I use PostgreSQL.", "I use postgres."),
        ("My favorite color is blue.", "My favorite food is blueberries."),
        ("I live in München.", "I live in Munich"),
        ("I no longer live in Berlin.", "I live in Munich."),
        ("My sister lives in Rome.", "My brother lives in Paris."),
        ("Tom works at Bosch.", "Tom works for Bosch."),
        ("I hate cilantro.", "I don't like cilantro."),
    ] {
        assert_eq!(contradict(a, b), Some(false), "{a} / {b}: {:?} {:?}", fact_key(a), fact_key(b));
    }
}

#[test]
fn texts_without_facts() {
    for text in [
        "Do I live in Berlin?",
        "I would live in Berlin if I could.",
        "I used to live in Berlin.",
        "Anna said I live in Berlin.",
        "I think Anna works at Siemens.",
        "I might work at Siemens.",
        "When I live in Berlin, I walk.",
        "You live in Berlin.",
        "He works at Siemens.",
        "I want to live in Berlin.",
        "I live in fear.",
        "I work at night.",
        "I live in Berlin. I work at Siemens.",
        "Siemens is in Munich.",
        "I like it.",
        "My favorite.",
        "My dog is brown.",
        "The weather is nice.",
        "I quit my job.",
        "I stopped at the shop.",
        "I like to think that it works.",
        "Paris is nice",
        "",
        "my",
        "I",
        "I am",
    ] {
        assert_eq!(fact_key(text), None, "{text}");
    }
}

#[test]
fn several_facts_and_their_speakers() {
    let facts = fact_keys("I live in Berlin. My sister Anna works at Siemens. How are you?", Some("Tom Berg"));
    assert_eq!(
        facts,
        [
            FactKey {
                subject: "tom berg".into(),
                attribute: "lives_in".into(),
                value: "berlin".into(),
                polarity: true
            },
            FactKey { subject: "anna".into(), attribute: "works_at".into(), value: "siemens".into(), polarity: true },
        ]
    );
    assert_eq!(fact_keys("Anna: I live in Bonn.", Some("Tom"))[0].subject, "anna");
    let facts = fact_keys("My name is Karla and I live in Lisbon.", None);
    assert!(facts.iter().any(|fact| (fact.attribute.as_str(), fact.value.as_str()) == ("lives_in", "lisbon")));
    assert_eq!(fact_keys("If my name is Karla and I live in Lisbon, call me.", None), []);
}

#[test]
fn near_duplicates_are_detected() {
    for (a, b) in [
        ("I live in Berlin.", "i live in berlin"),
        ("I love hiking in the Alps!", "I really love hiking in the Alps."),
        ("The café is closed", "The cafe is closed."),
        ("It’s fine", "It's fine"),
        (
            "We agreed to move the weekly planning meeting to the big room on the second floor from now on.",
            "We agreed to move the weekly planning meeting to the large room on the second floor from now on.",
        ),
        (
            "Anna showed us the pictures of her trip and told us all about the food she had there.",
            "Well, Anna showed us pictures of her trip and told us all about the food she had there!",
        ),
    ] {
        assert!(near_duplicate(a, b) && near_duplicate(b, a), "{a} / {b}");
    }
}

#[test]
fn small_significant_differences_are_not_duplicates() {
    for (a, b) in [
        ("I live in Berlin.", "I live in Munich."),
        ("I like coffee.", "I don't like coffee."),
        (
            "We agreed to move the weekly planning meeting to the big room on the second floor at 10.",
            "We agreed to move the weekly planning meeting to the big room on the second floor at 11.",
        ),
        (
            "We agreed to move the weekly planning meeting of the platform group to the room of Anna.",
            "We agreed to move the weekly planning meeting of the platform group to the room of Tom.",
        ),
        (
            "Anna showed us the pictures of her trip and told us all about the food she had there.",
            "Tom showed us the pictures of her trip and told us all about the food she had there.",
        ),
        (
            "The tests of the new release are green on every platform that we support at the moment.",
            "The tests of the new release are not green on every platform that we support at the moment.",
        ),
        ("See https://example.com/a", "See https://example.com/b"),
        ("", ""),
        ("!!!", "???"),
    ] {
        assert!(!near_duplicate(a, b) && !near_duplicate(b, a), "{a} / {b}");
    }
}

#[test]
fn important_texts_rank_higher() {
    for (more, less) in [
        ("My name is Priya and I am allergic to peanuts.", "The weather is nice."),
        ("We decided to move the launch to 2025-03-01.", "We talked about the launch."),
        ("Remember that the server key expires on May 8th.", "The server is there."),
        ("My favourite food is ramen.", "There was some food."),
        ("I promised Anna to send the report by Friday.", "I looked at the report."),
        ("I got the job at Siemens!", "How are you?"),
        ("My sister Anna got married in Rome.", "We went for a walk."),
        ("I was diagnosed with diabetes last month.", "I watched television."),
        ("I hate meetings before ten.", "ok thanks"),
        ("The walk was long and the path was wet.", "Sounds good!"),
        ("The deadline is tomorrow.", "Is the deadline tomorrow?"),
        ("I live in Berlin.", "Do you live in Berlin?"),
    ] {
        assert!(
            evaluate(more).importance > evaluate(less).importance,
            "{more} {:?} / {less} {:?}",
            evaluate(more),
            evaluate(less)
        );
    }
    for text in ["hi", "Thanks!", "Sounds good. Talk later.", "lol", "Good morning! How are you?", "👍", ""] {
        assert!(evaluate(text).importance <= 0.05, "{text}: {:?}", evaluate(text));
    }
}

#[test]
fn valence_has_sign_and_order() {
    let ordered = [
        "My grandmother died and I am devastated.",
        "I am sad that the trip failed.",
        "The day was not good.",
        "The table has four legs.",
        "The day was good.",
        "I am happy about the trip.",
        "I love this, it is amazing and wonderful!",
    ];
    let valences: Vec<f64> = ordered.iter().map(|text| evaluate(text).valence).collect();
    assert!(valences.is_sorted_by(|a, b| a < b), "{valences:?}");
    assert!(valences[3].abs() < f64::EPSILON);
    assert!(evaluate("I don't hate it").valence > 0.0 && evaluate("I am not happy").valence < 0.0);
    assert!(evaluate("very good").valence > evaluate("good").valence);
    assert!(evaluate(&"terrible ".repeat(10_000)).valence >= -1.0);
}
