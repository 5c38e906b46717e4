//! Only texts with the same words are merged; facts that differ in one word are retained.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{chat, episodes, remember, remembered, settings, stats};
use crate::support::TestApp;
use crate::support::chat_fixture::ChatFixture;

/// Sentence templates with two words that change the meaning.
const DIFFERENCES: [(&str, &str, &str); 20] = [
    ("Patient {} is allergic to _ and must never get it.", "penicillin", "ibuprofen"),
    ("Patient {} takes _ tablets of it every morning.", "one", "two"),
    ("Patient {} takes 5 _ of it every morning.", "mg", "ml"),
    ("Patient {} takes the tablets _ the meal.", "before", "after"),
    ("The alarm in house {} is _ while nobody is at home.", "on", "off"),
    ("The fuse box of house {} is behind the _ door.", "left", "right"),
    ("Team {} meets on every _ Monday of the month.", "first", "second"),
    ("The dentist sees patient {} on _ morning at nine.", "Monday", "Thursday"),
    ("The spare key of house {} lies under the _ flowerpot.", "red", "blue"),
    ("The valve of boiler {} must be _ during the night.", "open", "closed"),
    ("The meeting with team {} went very _ this time.", "well", "badly"),
    ("The report of team {} is to be _ than last year.", "longer", "shorter"),
    ("Customer {} is to be called in the _ only.", "morning", "evening"),
    ("Customer {} has _ paid the invoice.", "already", "not"),
    ("House {} was _ last spring.", "bought", "sold"),
    ("Patient {} ist gegen _ allergisch und darf es nie bekommen.", "Penicillin", "Ibuprofen"),
    ("Patient {} nimmt die Tabletten immer _ dem Essen.", "vor", "nach"),
    ("Die Heizung in Haus {} ist nachts immer _.", "an", "aus"),
    ("Zu Haus {} geht es an der Kirche nach _.", "links", "rechts"),
    ("Der Schlüssel von Haus {} liegt _ der Matte.", "auf", "unter"),
];
const SUBJECTS: u32 = 50;
const CONCURRENT_REQUESTS: usize = 20;

/// Returns a thousand pairs.
fn pairs() -> Vec<[String; 2]> {
    let of_sentence = |(sentence, one, other): (&str, &str, &str)| {
        let sentence = sentence.to_owned();
        let (one, other) = (one.to_owned(), other.to_owned());
        (0..SUBJECTS).map(move |subject| {
            let sentence = sentence.replace("{}", &format!("number {subject}"));
            [sentence.replace('_', &one), sentence.replace('_', &other)]
        })
    };
    DIFFERENCES.into_iter().flat_map(of_sentence).collect()
}

async fn store(app: &TestApp, texts: impl IntoIterator<Item = String>) {
    let texts: Vec<Value> = texts
        .into_iter()
        .map(|content| json!({"content": content, "source": "conversation", "agent_id": "scout"}))
        .collect();
    for some in texts.chunks(CONCURRENT_REQUESTS) {
        join_all(some.iter().map(|episode| remember(app, episode))).await;
    }
}

async fn merged(app: &TestApp) -> Value {
    let done = app.post("/api/memory/consolidate/conversations").send().await.expect_status(200).json();
    done["merged"].clone()
}

#[tokio::test]
async fn facts_that_differ_in_one_word_are_all_kept() {
    let app = super::app().await;
    store(&app, pairs().into_iter().flatten()).await;
    assert_eq!(merged(&app).await, 0);
    assert_eq!(stats(&app).await["total_episodes"], 2_000);
}

#[tokio::test]
async fn repeated_facts_are_merged() {
    let app = super::app().await;
    let facts: Vec<String> = pairs().into_iter().map(|[one, _]| one).collect();
    store(&app, facts.iter().cloned()).await;
    let repeat = |(number, fact): (usize, &String)| match number % 3 {
        0 => fact.clone(),
        1 => format!("{}!", fact.trim_end_matches('.').replace(' ', "  ")),
        _ => fact.replacen(|first: char| first.is_uppercase(), &fact[..1].to_lowercase(), 1),
    };
    store(&app, facts.iter().enumerate().map(repeat)).await;
    assert_eq!(merged(&app).await, 1_000);
    assert_eq!(stats(&app).await["total_episodes"], 1_000);
    assert_eq!(merged(&app).await, 0);
}

#[tokio::test]
async fn repeated_fact_is_merged_despite_higher_ranked_matches() {
    let app = super::app().await;
    store(&app, (0..150).map(|number| format!("Mia eats fish, Mia eats fish, Mia eats fish {number}."))).await;
    store(&app, ["Mia eats fish on some Fridays.", "mia eats fish on some Fridays"].map(str::to_owned)).await;
    assert_eq!(merged(&app).await, 1);
    assert_eq!(stats(&app).await["total_episodes"], 151);
}

#[tokio::test]
async fn conversation_facts_that_differ_in_one_word_are_all_remembered() {
    let fixture = ChatFixture::saying(&["All right."]).await;
    settings(&fixture.app, json!({"auto_recall": false, "min_importance": 0.0})).await;
    let statements = [
        "My daughter Mia is allergic to penicillin and must never get it, the doctor told us last week.",
        "My daughter Mia is allergic to ibuprofen and must never get it, the doctor told us last week.",
        "Mia is to take the tablets before the meal and with a glass of water, says the doctor in Kiel.",
        "Mia is to take the tablets after the meal and with a glass of water, says the doctor in Kiel.",
        "Meine Tochter Mia ist gegen Penicillin allergisch und darf es auf keinen Fall bekommen.",
        "Meine Tochter Mia ist gegen Ibuprofen allergisch und darf es auf keinen Fall bekommen.",
    ];
    for text in statements {
        chat(&fixture, None, text).await;
        fixture.app.run_workers().await;
        fixture.app.clock.advance(std::time::Duration::from_secs(60));
    }
    assert_eq!(remembered(&fixture.app).await, statements);
    assert_eq!(merged(&fixture.app).await, 0);
    chat(&fixture, None, &statements[1].to_uppercase()).await;
    fixture.app.run_workers().await;
    let all = episodes(&fixture.app).await;
    assert_eq!(all.len(), statements.len());
    assert_eq!((&all[4]["content"], &all[4]["access_count"]), (&json!(statements[1]), &json!(1)));
}
