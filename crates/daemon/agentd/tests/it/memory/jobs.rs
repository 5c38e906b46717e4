//! Memory jobs: started on request, executed once, with visible progress.

use std::time::Duration;

use agentd_store::args;
use agentd_testing_llm::{DocumentedFailure, Reply, Script};
use serde_json::{Value, json};

use super::{chat, episodes, events, remember, remembered, say, settings, sql, stats};
use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE};

const CONSOLIDATE: &str = "consolidate/conversations";
const GENERATE: &str = "generate-episodes";
const BACKFILL: &str = "backfill-entities";
const FACT: &str = "My name is Ada and I work at Siemens.";

async fn run(app: &TestApp, job: &str) -> Value {
    app.post(&format!("/api/memory/{job}")).send().await.expect_status(200).json()
}

fn tally(processed: u64, created: u64, merged: u64, skipped: u64) -> Value {
    json!({"processed": processed, "created": created, "merged": merged, "skipped": skipped})
}

async fn job(app: &TestApp, name: &str) -> Value {
    let list = app.get("/api/memory/jobs").send().await.expect_status(200).json();
    let jobs = list["jobs"].as_array().expect("jobs");
    jobs.iter().find(|job| job["name"] == name).expect("the job").clone()
}

/// Creates chats without stored memories.
async fn chats_without_memories(texts: &[&str]) -> ChatFixture {
    let fixture = ChatFixture::saying(&["All right."]).await;
    settings(&fixture.app, json!({"auto_store": false})).await;
    for text in texts {
        chat(&fixture, None, text).await;
    }
    fixture
}

#[tokio::test]
async fn second_consolidation_does_nothing() {
    let fixture = chats_without_memories(&[FACT, "Hi!", "my name is Ada, and I work at Siemens"]).await;
    assert_eq!(job(&fixture.app, "consolidate_conversations").await["status"], "idle");
    assert_eq!(run(&fixture.app, CONSOLIDATE).await, tally(6, 1, 1, 4));
    assert_eq!(remembered(&fixture.app).await, [FACT]);
    assert_eq!(events(&fixture.app, "memory.consolidated").await, [tally(6, 1, 1, 4)]);
    let shown = job(&fixture.app, "consolidate_conversations").await;
    assert_eq!((&shown["processed"], &shown["total"], &shown["status"]), (&json!(3), &json!(3), &json!("idle")));
    assert_eq!(run(&fixture.app, CONSOLIDATE).await, tally(0, 0, 0, 0));
    assert_eq!(remembered(&fixture.app).await, [FACT]);
}

#[tokio::test]
async fn concurrent_consolidation_processes_everything_once() {
    let fixture = ChatFixture::saying(&["All right."]).await;
    let mut facts = Vec::new();
    for room in 0..4 {
        let names = ["Anna", "Boris", "Clara", "David", "Emma"];
        for name in names {
            let fact = format!("{name} works at Siemens in room {room}.");
            chat(&fixture, None, &fact).await;
            facts.push(fact);
        }
        tokio::join!(fixture.app.run_workers(), run(&fixture.app, CONSOLIDATE));
        assert_eq!(run(&fixture.app, CONSOLIDATE).await, tally(0, 0, 0, 0));
        let mut all = remembered(&fixture.app).await;
        all.sort();
        let mut expected = facts.clone();
        expected.sort();
        assert_eq!(all, expected);
    }
}

#[tokio::test]
async fn repeated_external_texts_are_merged_on_request() {
    let fixture = chats_without_memories(&[]).await;
    let given = |content: &str, source: &str| json!({"content": content, "source": source, "agent_id": "scout"});
    let first = remember(&fixture.app, &given("Mia is allergic to peanuts.", "conversation")).await;
    remember(&fixture.app, &given("Mia is allergic to peanuts!", "conversation")).await;
    remember(&fixture.app, &given("Mia is allergic to peanuts", "manual")).await;
    assert_eq!(run(&fixture.app, CONSOLIDATE).await, tally(0, 0, 1, 0));
    let left = episodes(&fixture.app).await;
    assert_eq!(left.len(), 2, "manual episodes are not merged: {left:?}");
    assert_eq!((&left[1]["id"], &left[1]["access_count"]), (&first["id"], &json!(1)));
    assert_eq!(run(&fixture.app, CONSOLIDATE).await, tally(0, 0, 0, 0));
}

#[tokio::test]
async fn conversations_are_consolidated_periodically() {
    let fixture = ChatFixture::saying(&["All right."]).await;
    chat(&fixture, None, FACT).await;
    fixture.app.run_workers().await;
    assert_eq!(remembered(&fixture.app).await, [FACT]);
    let first = job(&fixture.app, "consolidate_conversations").await["started_at"].clone();
    fixture.app.clock.advance(Duration::from_secs(59 * 60));
    fixture.app.run_workers().await;
    assert_eq!(job(&fixture.app, "consolidate_conversations").await["started_at"], first);
    fixture.app.clock.advance(Duration::from_secs(2 * 60));
    fixture.app.run_workers().await;
    assert_ne!(job(&fixture.app, "consolidate_conversations").await["started_at"], first);
    settings(&fixture.app, json!({"consolidate_interval_minutes": 0})).await;
    let last = job(&fixture.app, "consolidate_conversations").await["started_at"].clone();
    fixture.app.clock.advance(Duration::from_secs(24 * 60 * 60));
    fixture.app.run_workers().await;
    assert_eq!(job(&fixture.app, "consolidate_conversations").await["started_at"], last);
}

fn summarizing(answer: &'static str) -> Script {
    Script::by(move |request| {
        let is_asked = request.body["messages"].to_string().contains("You keep the memory");
        Reply::text([if is_asked { answer } else { "All right." }], TEST_USAGE)
    })
}

#[tokio::test]
async fn conversation_is_summarized_by_the_model_of_the_agent() {
    let fixture = ChatFixture::with(summarizing("Ada works at Siemens and moves to Lisbon on 3 March 2026.")).await;
    settings(&fixture.app, json!({"auto_store": false, "auto_recall": false})).await;
    let conversation = chat(&fixture, None, FACT).await;
    assert_eq!(run(&fixture.app, GENERATE).await, tally(1, 1, 0, 0), "one message is enough");
    chat(&fixture, Some(&conversation), "We decided to move to Lisbon on 3 March 2026.").await;
    assert_eq!(run(&fixture.app, GENERATE).await, tally(1, 0, 1, 0));
    let all = episodes(&fixture.app).await;
    assert_eq!(all[0]["source"], "insight");
    let content = all[0]["content"].as_str().expect("a content");
    assert!(content.ends_with(": Ada works at Siemens and moves to Lisbon on 3 March 2026."), "{content}");
    let prompt = fixture.vendor.requests().last().expect("a request").body.clone();
    assert!(prompt.get("tools").is_none());
    assert!(prompt["messages"].to_string().contains("We decided to move to Lisbon"), "{prompt}");
    assert_eq!(run(&fixture.app, GENERATE).await, tally(0, 0, 0, 0));
    // The summary is updated, not duplicated.
    chat(&fixture, Some(&conversation), "And remember the cat.").await;
    assert_eq!(run(&fixture.app, GENERATE).await, tally(1, 0, 1, 0));
    assert_eq!(episodes(&fixture.app).await.len(), 1);
    assert_eq!(super::search(&fixture.app, "lisbon").await["total"], 1);
}

#[tokio::test]
async fn summary_excludes_deleted_facts() {
    const MOVE: &str = "We decided to move to Lisbon on 3 March 2026.";
    let script = Script::by(|request| {
        let body = request.body["messages"].to_string();
        let answer = match (body.contains("You keep the memory"), body.contains("Lisbon")) {
            (true, true) => "The owner moves to Lisbon.",
            (true, false) => "NOTHING",
            (false, _) => "All right.",
        };
        Reply::text([answer], TEST_USAGE)
    });
    let fixture = ChatFixture::with(script).await;
    settings(&fixture.app, json!({"auto_store": false, "auto_recall": false})).await;
    let delete = async |content: &str| {
        let all = episodes(&fixture.app).await;
        let found = all.iter().find(|episode| episode["content"] == content).expect("the episode");
        let id = found["id"].as_str().expect("an id");
        fixture.app.delete(&format!("/api/memory/episodes/{id}")).send().await.expect_status(200);
    };
    let conversation = chat(&fixture, None, FACT).await;
    chat(&fixture, Some(&conversation), MOVE).await;
    chat(&fixture, Some(&conversation), "my name is Ada, and I work at Siemens").await;
    run(&fixture.app, CONSOLIDATE).await;
    assert_eq!(remembered(&fixture.app).await, [FACT, MOVE]);
    delete(FACT).await;
    assert_eq!(run(&fixture.app, GENERATE).await, tally(1, 1, 0, 0));
    let prompt = fixture.vendor.requests().last().expect("a request").body["messages"].to_string();
    assert!(prompt.contains("Lisbon") && !prompt.contains("Siemens"), "even if it was said twice: {prompt}");
    assert_eq!(remembered(&fixture.app).await, [MOVE, "The owner moves to Lisbon."], "without the title");
    // A summary without remaining content is deleted.
    delete(MOVE).await;
    chat(&fixture, Some(&conversation), "Please go on.").await;
    assert_eq!(run(&fixture.app, GENERATE).await, tally(1, 0, 0, 1));
    assert_eq!(remembered(&fixture.app).await, [""; 0]);
}

#[tokio::test]
async fn summary_without_a_model_uses_the_most_important_sentences() {
    let fixture = ChatFixture::with(Script::always(Reply::failure(DocumentedFailure::WrongKey))).await;
    settings(&fixture.app, json!({"auto_store": false})).await;
    let conversation = chat(&fixture, None, FACT).await;
    chat(&fixture, Some(&conversation), "Okay. We decided to move to Lisbon on 3 March 2026.").await;
    let requests = fixture.vendor.requests().len();
    assert_eq!(run(&fixture.app, GENERATE).await, tally(1, 1, 0, 0));
    assert!(fixture.vendor.requests().len() > requests, "the model was asked");
    let content = remembered(&fixture.app).await.pop().expect("an insight");
    assert!(content.ends_with(&format!("{FACT} We decided to move to Lisbon on 3 March 2026.")), "{content}");
}

#[tokio::test]
async fn entities_are_extracted_from_earlier_episodes() {
    let app = super::app().await;
    settings(&app, json!({"entity_extraction": "off"})).await;
    say(&app, "We use Rust and PostgreSQL.").await;
    say(&app, "Nothing of note here.").await;
    assert_eq!(stats(&app).await["total_entities"], 0);
    app.post("/api/memory/backfill-entities").send().await.expect_error(503, "entity_extraction_off");
    settings(&app, json!({"entity_extraction": "rules"})).await;
    assert_eq!(run(&app, BACKFILL).await, tally(2, 1, 0, 1));
    assert_eq!(stats(&app).await["entity_type_distribution"], json!({"language": 1, "tool": 1}));
    assert_eq!(run(&app, BACKFILL).await, tally(0, 0, 0, 0));
}

#[tokio::test]
async fn model_extracts_entities_when_configured() {
    let script = Script::by(|request| {
        let body = request.body["messages"].to_string();
        if !body.contains("You find entities") {
            return Reply::text(["All right."], TEST_USAGE);
        }
        let answer = if body.contains("nonsense") {
            "I found nothing."
        } else {
            r#"{"entities": [{"name": "Zorblax", "type": "tool"}, {"name": "Rust", "type": "language"}],
                "relations": [{"source": "Zorblax", "target": "Rust", "type": "uses"}]}"#
        };
        Reply::text([answer], TEST_USAGE)
    });
    let fixture = ChatFixture::with(script).await;
    settings(&fixture.app, json!({"entity_extraction": "llm"})).await;
    say(&fixture.app, "Zorblax is written in Rust.").await;
    say(&fixture.app, "Docker is nonsense.").await;
    remember(&fixture.app, &json!({"content": "Nobody's Zorblax."})).await;
    fixture.app.run_workers().await;
    let graph = fixture.app.get("/api/memory/graph").send().await.expect_status(200).json();
    let names: Vec<&str> =
        graph["entities"].as_array().expect("entities").iter().map(|e| e["name"].as_str().expect("a name")).collect();
    assert_eq!(names.iter().filter(|name| **name == "Zorblax").count(), 1, "{graph}");
    assert!(names.contains(&"Docker"), "entities of the tagger are kept if the model fails: {graph}");
    let uses = graph["relationships"].as_array().expect("relations").iter().filter(|r| r["type"] == "uses").count();
    assert_eq!(uses, 1, "{graph}");
    assert_eq!(stats(&fixture.app).await["entity_type_distribution"], json!({"language": 1, "tool": 2}));
    let call_count = fixture.vendor.requests().len();
    fixture.app.run_workers().await;
    assert_eq!(fixture.vendor.requests().len(), call_count, "one model call per episode");
}

#[tokio::test]
async fn job_runs_only_once_concurrently() {
    let fixture = chats_without_memories(&[FACT]).await;
    run(&fixture.app, GENERATE).await;
    let holder = fixture.app.running().context().instance.to_string();
    let hold = async move |tx: &mut agentd_store::Tx| {
        let until = tx.clock().now() + Duration::from_secs(20);
        tx.execute(
            "UPDATE leases SET owner = $1, lease_until = $2 WHERE name = 'memory.generate_episodes'",
            args![&holder, until],
        )
        .await?;
        tx.execute("UPDATE memory_jobs SET finished_at = NULL WHERE name = 'generate_episodes'", args![]).await
    };
    fixture.app.running().context().db.write::<_, agentd_store::StoreError, _>(hold).await.expect("held");
    fixture.app.post("/api/memory/generate-episodes").send().await.expect_error(409, "job_running");
    assert_eq!(job(&fixture.app, "generate_episodes").await["status"], "running");
    // The holder no longer exists.
    fixture.app.clock.advance(Duration::from_secs(21));
    assert_eq!(job(&fixture.app, "generate_episodes").await["status"], "interrupted");
    run(&fixture.app, GENERATE).await;
    assert_eq!(job(&fixture.app, "generate_episodes").await["status"], "idle");
}

#[tokio::test]
async fn jobs_are_refused_while_memory_is_disabled() {
    let fixture = chats_without_memories(&[FACT]).await;
    settings(&fixture.app, json!({"enabled": false})).await;
    for job in [CONSOLIDATE, GENERATE, BACKFILL] {
        fixture.app.post(&format!("/api/memory/{job}")).send().await.expect_error(503, "memory_disabled");
    }
}

#[tokio::test]
async fn progress_of_reembedding_is_shown() {
    let app = super::app().await;
    for text in ["One whale", "Two whales", "Three whales"] {
        say(&app, text).await;
    }
    let done = job(&app, "embed_episodes").await;
    assert_eq!((&done["status"], &done["processed"], &done["total"]), (&json!("idle"), &json!(3), &json!(3)));
    app.embedder.set_model_id("fake:1");
    let shown = job(&app, "embed_episodes").await;
    assert_eq!((&shown["status"], &shown["processed"], &shown["total"]), (&json!("running"), &json!(0), &json!(3)));
    app.run_workers().await;
    assert_eq!(job(&app, "embed_episodes").await["processed"], 3);
}

#[tokio::test]
async fn positions_of_deleted_conversations_are_removed() {
    let fixture = chats_without_memories(&[]).await;
    let conversation = chat(&fixture, None, FACT).await;
    run(&fixture.app, CONSOLIDATE).await;
    fixture.app.delete(&format!("/api/chat/conversations/{conversation}")).send().await.expect_status(200);
    run(&fixture.app, CONSOLIDATE).await;
    let mut read = fixture.app.running().context().db.read().await.expect("a connection");
    let left: u64 =
        read.fetch_one("SELECT COUNT(*) FROM memory_talks", args![]).await.expect("a row").first().expect("a number");
    assert_eq!(left, 0);
    drop(read);
    sql(&fixture.app, "UPDATE memory_jobs SET place = 0", || args![]).await;
    assert_eq!(run(&fixture.app, CONSOLIDATE).await, tally(0, 0, 0, 0));
}

#[tokio::test]
async fn jobs_skip_messages_sent_while_disabled_or_before_clearing() {
    let fixture = chats_without_memories(&[FACT]).await;
    settings(&fixture.app, json!({"enabled": false})).await;
    fixture.app.clock.advance(Duration::from_secs(5));
    chat(&fixture, None, "My hideout is a lighthouse in Cuxhaven.").await;
    fixture.app.clock.advance(Duration::from_secs(5));
    settings(&fixture.app, json!({"enabled": true})).await;
    for job in [CONSOLIDATE, GENERATE] {
        run(&fixture.app, job).await;
        assert_eq!(remembered(&fixture.app).await, [""; 0], "{job}");
    }
    fixture.app.clock.advance(Duration::from_secs(5));
    chat(&fixture, None, "My safe in Meissen has the combination 77-11-42.").await;
    fixture.app.clock.advance(Duration::from_secs(5));
    fixture.app.delete("/api/settings/memory/data").send().await.expect_status(200);
    for job in [CONSOLIDATE, GENERATE] {
        run(&fixture.app, job).await;
        assert_eq!(remembered(&fixture.app).await, [""; 0], "{job}");
    }
    fixture.app.clock.advance(Duration::from_secs(5));
    chat(&fixture, None, FACT).await;
    run(&fixture.app, CONSOLIDATE).await;
    assert_eq!(remembered(&fixture.app).await, [FACT], "later messages are processed");
}
