//! Automatic storage of memories from conversations.

use agentd_testing_llm::{DocumentedFailure, Reply, Script};
use serde_json::json;

use super::{chat, episodes, events, remembered, settings, stats};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};

const FACT: &str = "My name is Ada and I work at Siemens.";

#[tokio::test]
async fn message_is_remembered_once() {
    let mut fixture = ChatFixture::saying(&["Nice to meet you!"]).await;
    let conversation = chat(&fixture, None, FACT).await;
    assert_eq!(stats(&fixture.app).await["total_episodes"], 0, "nothing is stored during the turn");
    fixture.app.run_workers().await;
    let all = episodes(&fixture.app).await;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!((&all[0]["content"], &all[0]["source"]), (&json!(FACT), &json!("conversation")));
    assert!(all[0]["importance"].as_f64() > Some(0.4), "{}", all[0]);
    let messages = fixture.conversation(&conversation).await["messages"].clone();
    assert_eq!(all[0]["occurred_at"], messages[0]["created_at"]);
    assert_eq!(events(&fixture.app, "memory.stored").await.len(), 1);
    // The memory can be searched.
    assert_eq!(super::search(&fixture.app, "siemens&source=conversation").await["total"], 1);

    fixture.app.run_workers().await;
    fixture.app.restart().await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [FACT]);
    chat(&fixture, Some(&conversation), "We decided to launch on 3 March 2026.").await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [FACT, "We decided to launch on 3 March 2026."]);
    // Deleted memories are not stored again.
    fixture.app.delete("/api/settings/memory/data").send().await.expect_status(200);
    fixture.app.restart().await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [""; 0]);
}

#[tokio::test]
async fn small_talk_and_questions_are_not_remembered() {
    let fixture = ChatFixture::saying(&["It is Paris."]).await;
    for text in ["Hi!", "Thanks, sounds good.", "What is the capital of that country?"] {
        chat(&fixture, None, text).await;
    }
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [""; 0]);
    settings(&fixture.app, json!({"min_importance": 0.9})).await;
    chat(&fixture, None, FACT).await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [""; 0]);
}

#[tokio::test]
async fn agent_conclusion_is_remembered_with_its_tools() {
    let calls = vec![agentd_llm::ToolCall::new("c1", "list_files", json!({}))];
    let script = Script::queue([
        Reply::tool_calls(calls, TEST_USAGE),
        Reply::text(["The folder is empty, so we agreed to begin with the parser in Rust."], TEST_USAGE),
    ]);
    let fixture = ChatFixture::with(script).await;
    chat(&fixture, None, "Look into the folder.").await;
    fixture.app.run_workers().await;
    let all = remembered(&fixture.app).await;
    let concluded = "scout: The folder is empty, so we agreed to begin with the parser in Rust. (used list_files)";
    assert!(all.contains(&concluded.to_owned()), "{all:?}");
}

#[tokio::test]
async fn repeated_message_is_one_episode() {
    let fixture = ChatFixture::saying(&["All right."]).await;
    settings(&fixture.app, json!({"auto_recall": false})).await;
    chat(&fixture, None, "My daughter Mia is allergic to peanuts.").await;
    fixture.app.run_workers().await;
    let before = episodes(&fixture.app).await;
    fixture.app.clock.advance(std::time::Duration::from_secs(60));
    chat(&fixture, None, "my daughter Mia is allergic to peanuts!").await;
    chat(&fixture, None, "My daughter Lea is allergic to peanuts.").await;
    fixture.app.run_workers().await;
    let after = episodes(&fixture.app).await;
    assert_eq!(after.len(), 2, "a different name is a different fact: {after:?}");
    assert_eq!(after[1]["id"], before[0]["id"]);
    assert_eq!(after[1]["access_count"], 1);
    assert_ne!(after[1]["updated_at"], before[0]["updated_at"]);
    // The statistics include the raised importance.
    let sum: f64 = after.iter().filter_map(|episode| episode["importance"].as_f64()).sum();
    let average = stats(&fixture.app).await["avg_importance"].as_f64().expect("a number");
    assert!((average - sum / 2.0).abs() < 1e-6, "{average} {sum}");
}

#[tokio::test]
async fn contradicting_message_supersedes_the_older_one() {
    let fixture = ChatFixture::saying(&["All right."]).await;
    chat(&fixture, None, "I live in Berlin.").await;
    fixture.app.clock.advance(std::time::Duration::from_secs(3600));
    chat(&fixture, None, "I live in Paris now.").await;
    fixture.app.run_workers().await;
    let all = episodes(&fixture.app).await;
    assert_eq!(all.len(), 2, "both are retained: {all:?}");
    assert_eq!(all[1]["superseded_by"], all[0]["id"], "{all:?}");
    // The repeated message does not merge with the superseded one.
    fixture.app.clock.advance(std::time::Duration::from_secs(3600));
    chat(&fixture, None, "I live in Berlin.").await;
    fixture.app.run_workers().await;
    let all = episodes(&fixture.app).await;
    assert_eq!(all.len(), 3);
    assert_eq!((&all[1]["superseded_by"], all[0]["superseded_by"].is_null()), (&all[0]["id"], true));
}

#[tokio::test]
async fn nothing_is_remembered_when_disabled() {
    let fixture = ChatFixture::saying(&["All right."]).await;
    settings(&fixture.app, json!({"auto_store": false})).await;
    chat(&fixture, None, FACT).await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [""; 0]);
    settings(&fixture.app, json!({"auto_store": true, "enabled": false})).await;
    fixture.app.clock.advance(std::time::Duration::from_secs(7200));
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [""; 0]);
}

#[tokio::test]
async fn messages_sent_while_disabled_are_never_remembered() {
    for off in [json!({"auto_store": false}), json!({"enabled": false})] {
        let fixture = ChatFixture::saying(&["All right."]).await;
        settings(&fixture.app, off).await;
        fixture.app.run_workers().await;
        let conversation = chat(&fixture, None, FACT).await;
        fixture.app.run_workers().await;
        fixture.app.clock.advance(std::time::Duration::from_secs(60));
        settings(&fixture.app, json!({"auto_store": true, "enabled": true})).await;
        fixture.app.run_workers().await;
        fixture.app.clock.advance(std::time::Duration::from_secs(2 * 3600));
        fixture.app.run_workers().await;
        assert_eq!(remembered(&fixture.app).await, [""; 0]);
        chat(&fixture, Some(&conversation), "We decided to launch on 3 March 2026.").await;
        fixture.app.run_workers().await;
        assert_eq!(remembered(&fixture.app).await, ["We decided to launch on 3 March 2026."]);
    }
}

#[tokio::test]
async fn requests_without_facts_are_not_remembered() {
    let fixture = ChatFixture::saying(&["I do not know."]).await;
    for text in ["Where does my sister Anna live?", "Tell me about project Falcon milestones"] {
        chat(&fixture, None, text).await;
    }
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [""; 0]);
}

#[tokio::test]
async fn agent_repetition_is_not_remembered() {
    let statement = "My boat is called Pequod and it lies in the harbour of Kiel.";
    let fixture = ChatFixture::saying(&["Great, I will remember that your boat is called Pequod."]).await;
    chat(&fixture, None, statement).await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [statement]);
}

#[tokio::test]
async fn message_without_an_answer_is_remembered() {
    let fixture = ChatFixture::with(Script::always(Reply::failure(DocumentedFailure::WrongKey))).await;
    chat(&fixture, None, FACT).await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [FACT]);
}

#[tokio::test]
async fn messages_are_remembered_without_an_embedder() {
    let fixture = ChatFixture::saying(&["All right."]).await;
    let failure = agentd_inference::LocalError::new(agentd_inference::LocalErrorCode::ModelMissing, "not there");
    fixture.app.embedder.set_failure(Some(failure));
    chat(&fixture, None, FACT).await;
    chat(&fixture, None, "my name is Ada, and I work at Siemens").await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [FACT], "equal terms identify the repetition");
    fixture.app.embedder.set_failure(None);
    fixture.app.run_workers().await;
    assert_eq!(super::search(&fixture.app, "siemens&mode=semantic").await["total"], 1);
}
