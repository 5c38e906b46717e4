//! What is remembered of what was said.

use agentd_testing_llm::{DocumentedFailure, Reply, Script};
use serde_json::json;

use super::{chat, episodes, events, remembered, settings, stats};
use crate::support::talk::{COUNTED, Talk};

const FACT: &str = "My name is Ada and I work at Siemens.";

#[tokio::test]
async fn what_was_said_is_remembered_once() {
    let mut talk = Talk::saying(&["Nice to meet you!"]).await;
    let conversation = chat(&talk, None, FACT).await;
    assert_eq!(stats(&talk.app).await["total_episodes"], 0, "never while the turn runs");
    talk.app.run_workers().await;
    let all = episodes(&talk.app).await;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!((&all[0]["content"], &all[0]["source"]), (&json!(FACT), &json!("conversation")));
    assert!(all[0]["importance"].as_f64() > Some(0.4), "{}", all[0]);
    let messages = talk.conversation(&conversation).await["messages"].clone();
    assert_eq!(all[0]["occurred_at"], messages[0]["created_at"]);
    assert_eq!(events(&talk.app, "memory.stored").await.len(), 1);
    // It can be found like anything else.
    assert_eq!(super::search(&talk.app, "siemens&source=conversation").await["total"], 1);

    talk.app.run_workers().await;
    talk.app.restart().await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, [FACT]);
    chat(&talk, Some(&conversation), "We decided to launch on 3 March 2026.").await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, [FACT, "We decided to launch on 3 March 2026."]);
    // What was deleted does not come back.
    talk.app.delete("/api/settings/memory/data").send().await.expect_status(200);
    talk.app.restart().await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, [""; 0]);
}

#[tokio::test]
async fn small_talk_and_plain_questions_are_not_remembered() {
    let talk = Talk::saying(&["It is Paris."]).await;
    for text in ["Hi!", "Thanks, sounds good.", "What is the capital of that country?"] {
        chat(&talk, None, text).await;
    }
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, [""; 0]);
    settings(&talk.app, json!({"min_importance": 0.9})).await;
    chat(&talk, None, FACT).await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, [""; 0]);
}

#[tokio::test]
async fn what_an_agent_did_is_remembered_in_short() {
    let calls = vec![agentd_llm::ToolCall::new("c1", "list_files", json!({}))];
    let script = Script::queue([
        Reply::tool_calls(calls, COUNTED),
        Reply::text(["The folder is empty, so we agreed to begin with the parser in Rust."], COUNTED),
    ]);
    let talk = Talk::with(script).await;
    chat(&talk, None, "Look into the folder.").await;
    talk.app.run_workers().await;
    let all = remembered(&talk.app).await;
    let concluded = "scout: The folder is empty, so we agreed to begin with the parser in Rust. (used list_files)";
    assert!(all.contains(&concluded.to_owned()), "{all:?}");
}

#[tokio::test]
async fn what_is_said_twice_is_one_episode() {
    let talk = Talk::saying(&["All right."]).await;
    settings(&talk.app, json!({"auto_recall": false})).await;
    chat(&talk, None, "My daughter Mia is allergic to peanuts.").await;
    talk.app.run_workers().await;
    let before = episodes(&talk.app).await;
    talk.app.clock.advance(std::time::Duration::from_secs(60));
    chat(&talk, None, "my daughter Mia is allergic to peanuts!").await;
    chat(&talk, None, "My daughter Lea is allergic to peanuts.").await;
    talk.app.run_workers().await;
    let after = episodes(&talk.app).await;
    assert_eq!(after.len(), 2, "another name is something else: {after:?}");
    assert_eq!(after[1]["id"], before[0]["id"]);
    assert_eq!(after[1]["access_count"], 1);
    assert_ne!(after[1]["updated_at"], before[0]["updated_at"]);
    // The figures follow what was raised.
    let sum: f64 = after.iter().filter_map(|episode| episode["importance"].as_f64()).sum();
    let average = stats(&talk.app).await["avg_importance"].as_f64().expect("a number");
    assert!((average - sum / 2.0).abs() < 1e-6, "{average} {sum}");
}

#[tokio::test]
async fn a_change_of_mind_outdates_what_was_said() {
    let talk = Talk::saying(&["All right."]).await;
    chat(&talk, None, "I live in Berlin.").await;
    talk.app.clock.advance(std::time::Duration::from_secs(3600));
    chat(&talk, None, "I live in Paris now.").await;
    talk.app.run_workers().await;
    let all = episodes(&talk.app).await;
    assert_eq!(all.len(), 2, "both stay: {all:?}");
    assert_eq!(all[1]["superseded_by"], all[0]["id"], "{all:?}");
    // Said again, it is no repetition of what is outdated.
    talk.app.clock.advance(std::time::Duration::from_secs(3600));
    chat(&talk, None, "I live in Berlin.").await;
    talk.app.run_workers().await;
    let all = episodes(&talk.app).await;
    assert_eq!(all.len(), 3);
    assert_eq!((&all[1]["superseded_by"], all[0]["superseded_by"].is_null()), (&all[0]["id"], true));
}

#[tokio::test]
async fn nothing_is_remembered_when_it_is_off() {
    let talk = Talk::saying(&["All right."]).await;
    settings(&talk.app, json!({"auto_store": false})).await;
    chat(&talk, None, FACT).await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, [""; 0]);
    settings(&talk.app, json!({"auto_store": true, "enabled": false})).await;
    talk.app.clock.advance(std::time::Duration::from_secs(7200));
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, [""; 0]);
}

#[tokio::test]
async fn what_was_said_while_it_was_off_stays_unremembered() {
    for off in [json!({"auto_store": false}), json!({"enabled": false})] {
        let talk = Talk::saying(&["All right."]).await;
        settings(&talk.app, off).await;
        talk.app.run_workers().await;
        let conversation = chat(&talk, None, FACT).await;
        talk.app.run_workers().await;
        talk.app.clock.advance(std::time::Duration::from_secs(60));
        settings(&talk.app, json!({"auto_store": true, "enabled": true})).await;
        talk.app.run_workers().await;
        talk.app.clock.advance(std::time::Duration::from_secs(2 * 3600));
        talk.app.run_workers().await;
        assert_eq!(remembered(&talk.app).await, [""; 0]);
        chat(&talk, Some(&conversation), "We decided to launch on 3 March 2026.").await;
        talk.app.run_workers().await;
        assert_eq!(remembered(&talk.app).await, ["We decided to launch on 3 March 2026."]);
    }
}

#[tokio::test]
async fn what_only_asks_is_not_remembered() {
    let talk = Talk::saying(&["I do not know."]).await;
    for text in ["Where does my sister Anna live?", "Tell me about project Falcon milestones"] {
        chat(&talk, None, text).await;
    }
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, [""; 0]);
}

#[tokio::test]
async fn what_an_agent_only_repeats_is_not_remembered() {
    let said = "My boat is called Pequod and it lies in the harbour of Kiel.";
    let talk = Talk::saying(&["Great, I will remember that your boat is called Pequod."]).await;
    chat(&talk, None, said).await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, [said]);
}

#[tokio::test]
async fn what_was_said_counts_even_without_an_answer() {
    let talk = Talk::with(Script::always(Reply::failure(DocumentedFailure::WrongKey))).await;
    chat(&talk, None, FACT).await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, [FACT]);
}

#[tokio::test]
async fn without_an_embedder_it_is_remembered_all_the_same() {
    let talk = Talk::saying(&["All right."]).await;
    let failure = agentd_inference::LocalError::new(agentd_inference::LocalErrorCode::ModelMissing, "not there");
    talk.app.embedder.set_failure(Some(failure));
    chat(&talk, None, FACT).await;
    chat(&talk, None, "my name is Ada, and I work at Siemens").await;
    talk.app.run_workers().await;
    assert_eq!(remembered(&talk.app).await, [FACT], "words alone tell that it is the same");
    talk.app.embedder.set_failure(None);
    talk.app.run_workers().await;
    assert_eq!(super::search(&talk.app, "siemens&mode=semantic").await["total"], 1);
}
