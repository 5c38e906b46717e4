//! Relations stated by a sentence, negated statements, and co-occurrence.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use agentd_entities::{EntityType, Extraction, RelationType, TaggedName};

/// Names as found by a tagger.
const NAMES: &[(&str, EntityType)] = &[
    ("Anna Berg", EntityType::Person),
    ("Anna Lind", EntityType::Person),
    ("Anna", EntityType::Person),
    ("Tom", EntityType::Person),
    ("Julia", EntityType::Person),
    ("Caroline", EntityType::Person),
    ("Xiomara", EntityType::Person),
    ("José", EntityType::Person),
    ("Jose\u{301}", EntityType::Person),
    ("Siemens", EntityType::Organization),
    ("Google", EntityType::Organization),
    ("Microsoft Corp.", EntityType::Organization),
    ("Microsoft, Inc.", EntityType::Organization),
    ("Microsoft", EntityType::Organization),
    ("MIT", EntityType::Organization),
    ("Stanford", EntityType::Organization),
    ("Munich", EntityType::Place),
    ("München", EntityType::Place),
    ("Muenchen", EntityType::Place),
    ("munich", EntityType::Place),
    ("Berlin", EntityType::Place),
    ("Germany", EntityType::Place),
    ("Lisbon", EntityType::Place),
    ("Paris", EntityType::Place),
    ("France", EntityType::Place),
    ("Rome", EntityType::Place),
];

fn names(text: &str) -> Vec<TaggedName> {
    let mut found: Vec<TaggedName> = Vec::new();
    for (name, entity_type) in NAMES {
        for (at, _) in text.match_indices(name) {
            if found.iter().all(|other| !other.range.contains(&at)) {
                found.push(TaggedName { range: at..at + name.len(), entity_type: Some(*entity_type) });
            }
        }
    }
    found
}

fn extract(text: &str) -> Extraction {
    agentd_entities::extract(text, &names(text))
}

fn stated(text: &str, speaker: Option<&str>) -> Vec<String> {
    let mut relations: Vec<String> = agentd_entities::extract_as(text, &names(text), speaker)
        .relations
        .iter()
        .filter(|relation| relation.relation_type != RelationType::CoOccurs)
        .map(|relation| format!("{} {} {}", relation.source.key, relation.relation_type, relation.target.key))
        .collect();
    relations.sort();
    relations
}

#[test]
fn stated_relations_are_found() {
    for (text, expected) in [
        ("Anna works at Siemens.", vec!["anna works_at siemens"]),
        ("Anna works as an engineer at Siemens in Munich.", vec!["anna works_at siemens"]),
        ("Tom lives in Berlin, Germany.", vec!["berlin located_in germany", "tom lives_in berlin"]),
        ("Tom moved to Lisbon last year.", vec!["tom lives_in lisbon"]),
        ("Anna uses Rust and Postgres.", vec!["anna uses postgresql", "anna uses rust"]),
        ("Grafana is written in Go.", vec!["grafana uses go"]),
        ("Anna prefers Rust over Java.", vec!["anna prefers rust"]),
        ("Anna hates meetings and Jira.", vec!["anna dislikes jira"]),
        ("Anna doesn't like Jira.", vec!["anna dislikes jira"]),
        ("Anna doesn't work at Siemens.", vec![]),
        ("Google developed Kubernetes.", vec!["google created kubernetes"]),
        ("Kubernetes was created by Google.", vec!["google created kubernetes"]),
        ("GitHub is part of Microsoft.", vec!["github part_of microsoft"]),
        ("Paris is the capital of France.", vec!["paris located_in france"]),
        ("Anna's brother Tom visited Rome.", vec!["tom sibling_of anna", "tom visited rome"]),
        ("Tom is Anna's brother.", vec!["tom sibling_of anna"]),
        ("Julia married Tom.", vec!["julia spouse_of tom"]),
        ("Anna met Tom in Rome.", vec!["anna knows tom"]),
        ("Anna moved. She lives in Rome.", vec!["anna lives_in rome"]),
        ("She studied at MIT.", vec![]),
        ("Anna studied physics at Stanford.", vec!["anna studies_at stanford"]),
        ("I live in Rome.", vec![]),
    ] {
        assert_eq!(stated(text, None), expected, "{text}");
    }
}

#[test]
fn first_person_refers_to_the_speaker() {
    assert_eq!(
        stated("I live in Rome and use Rust.", Some("José Berg")),
        ["jose berg lives_in rome", "jose berg uses rust"]
    );
    assert_eq!(stated("Caroline: I visited Paris.", None), ["caroline visited paris"]);
    assert_eq!(
        stated("Caroline: My sister Anna is here.\nTom: I live in Rome.", None),
        ["anna sibling_of caroline", "tom lives_in rome"]
    );
    assert_eq!(
        stated("My colleague Xiomara likes chess.", Some("tom")),
        ["tom knows xiomara", "xiomara prefers chess"]
    );
}

#[test]
fn co_occurrence_weight_decreases_with_distance() {
    let weight = |text: &str| {
        let relations = extract(text).relations;
        assert_eq!(relations.len(), 1, "{relations:?}");
        assert_eq!(relations[0].relation_type, RelationType::CoOccurs);
        relations[0].weight
    };
    let near = weight("Redis and Kafka.");
    let far = weight("Redis is what some of the people over there would call the cousin of Kafka.");
    assert!(near > far && near < 0.9 && far > 0.0);
    assert!(extract("Redis is here. Kafka is there.").relations.is_empty());
    assert!(extract("Redis was slow in May 2023.").relations.is_empty());
    // Repetition increases the weight.
    assert!(weight("Redis and Kafka. Kafka and Redis.") > near);
}

#[test]
fn all_spellings_are_the_same_entity() {
    for (texts, key, entity_type) in [
        (["Postgres", "PostgreSQL", "postgres", "pgsql"], "postgresql", EntityType::Tool),
        (["Kubernetes", "k8s", "kubectl", "KUBERNETES"], "kubernetes", EntityType::Tool),
        (["in München", "in Munich", "in Muenchen", "in munich"], "munich", EntityType::Place),
        (["machine learning", "Machine-learning", "ML", "MACHINE LEARNING"], "machine learning", EntityType::Concept),
        (["José", "Jose\u{301}", "José's", "with José"], "jose", EntityType::Person),
        (["Node.js", "nodejs", "node js", "NodeJS"], "node.js", EntityType::Framework),
    ] {
        for text in texts {
            let mentions = extract(text).mentions;
            assert_eq!(mentions.len(), 1, "{text}: {mentions:?}");
            assert_eq!((mentions[0].key.as_str(), mentions[0].entity_type), (key, entity_type), "{text}");
        }
    }
    let mentions = extract("Anna Berg called. I like Anna.").mentions;
    assert!(mentions.len() == 2 && mentions.iter().all(|mention| mention.key == "anna berg"));
    // With two Annas, neither is chosen.
    let mentions = extract("Anna Berg met Anna Lind. I like Anna.").mentions;
    assert_eq!(mentions[2].key, "anna");
}

#[test]
fn legal_form_does_not_change_the_company() {
    for text in ["We met Microsoft Corp. in March.", "She left Microsoft, Inc. yesterday.", "Microsoft hired her."] {
        assert_eq!(extract(text).mentions[0].key, "microsoft", "{text}");
    }
}

#[test]
fn untyped_names_confirm_list_entries() {
    let text = "Swift and Zorblax are nice.";
    let other = |name: &str| {
        let at = text.find(name).unwrap();
        TaggedName { range: at..at + name.len(), entity_type: None }
    };
    let found = agentd_entities::extract(text, &[other("Swift"), other("Zorblax")]).mentions;
    assert_eq!(
        found.iter().map(|mention| (&*mention.key, mention.entity_type)).collect::<Vec<_>>(),
        [("swift", EntityType::Language)]
    );
    assert!(agentd_entities::extract(text, &[]).mentions.is_empty());
}

#[test]
fn invalid_spans_are_ignored() {
    let name = |range| TaggedName { range, entity_type: Some(EntityType::Person) };
    let reversed = std::ops::Range { start: 5, end: 2 };
    for range in [0..0, 2..4, 3..99, 90..99, 0..99, reversed] {
        let _ = agentd_entities::extract("Änna met. Tom", &[name(range)]);
    }
}

#[test]
fn addresses_contain_no_entities() {
    for text in [
        "https://example.com/rust/python",
        "see anna@example.com",
        "/usr/lib/python/site",
        "www.berlin.example",
        "main.rs",
        "foo.python",
    ] {
        assert!(extract(text).mentions.is_empty(), "{text}: {:?}", extract(text).mentions);
    }
}
