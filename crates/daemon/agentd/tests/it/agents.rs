//! Agents: create, get, list, and delete.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use agentd_store::{Dialect, args};
use agentd_testing_llm::{Gate, Reply, Script};
use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, create_agent, read_tokens, started};

fn scout() -> Value {
    json!({"svc_name": "scout", "user_name": "Ada", "archetype": ["researcher", "pirate"], "custom_archetype": "You love maps.",
        "profile": {"model": "m-1", "instructions": "Be brief.", "colour": {"a": [1]}},
        "answers": [{"question": "Hobby?", "answer": "chess"}]})
}

fn workspace(app: &TestApp, name: &str) -> PathBuf {
    app.data_dir().join("agents").join(name)
}

#[tokio::test]
async fn agent_is_created_found_and_listed() {
    let app = TestApp::with_owner().await;
    assert_eq!(app.get("/api/agents").send().await.expect_status(200).json(), json!({"agents": []}));
    let made = app.post("/api/agents").json(&scout()).send().await.expect_status(201).json();
    assert_eq!(made["archetype"], json!(["researcher", "pirate"]));
    assert_eq!(made["evolution_choice"], "check");
    assert_eq!(made["profile"], scout()["profile"]);
    assert_eq!(made["answers"], scout()["answers"]);
    let id = made["id"].as_str().expect("an id");
    assert!(id.starts_with("agent_"));
    for name in ["scout", id] {
        let found = app.get(&format!("/api/agents/{name}")).send().await.expect_status(200).json();
        assert_eq!(found, made);
    }
    app.clock.advance(std::time::Duration::from_secs(1));
    create_agent(&app, "second").await;
    let list = app.get("/api/agents").send().await.expect_status(200).json();
    let entry = json!({"name": "scout", "archetype": ["researcher", "pirate"], "user_name": "Ada", "svc_name": "scout",
        "created_at": made["created_at"]});
    assert_eq!(list["agents"][0], entry);
    assert_eq!(list["agents"][1]["svc_name"], "second");
    assert_eq!(list["agents"][1]["archetype"], json!(["assistant"]));
    for (name, exists) in [("scout", true), ("nobody", false), ("..%2Fscout", false)] {
        let answer = app.get(&format!("/api/agents/{name}/exists")).send().await.expect_status(200).json();
        assert_eq!(answer, json!({"exists": exists}), "{name}");
    }
    let mode = std::fs::metadata(workspace(&app, "scout")).expect("a folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

/// Agents are addressed by name or id: deleting by a name that is another agent's id would delete that other agent.
#[tokio::test]
async fn agent_name_cannot_be_the_id_of_another_agent() {
    let app = TestApp::with_owner().await;
    let id = create_agent(&app, "scout").await["id"].as_str().expect("an id").to_owned();
    let thief = json!({"svc_name": id, "user_name": "Eve", "archetype": "assistant"});
    let refused = app.post("/api/agents").json(&thief).send().await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["svc_name"]);
    app.get("/api/agents/scout").send().await.expect_status(200);
    // A name that only resembles an id is accepted.
    create_agent(&app, "agent_smith").await;
}

#[tokio::test]
async fn invalid_agent_is_rejected_without_leftovers() {
    let app = TestApp::with_owner().await;
    let answer = app.post("/api/agents").json(&json!({"svc_name": "", "archetype": ["a", "b", "c", "d"]})).send().await;
    assert!(answer.text().contains("must have at most 3 entries"), "{}", answer.text());
    assert_eq!(answer.expect_error(400, "invalid_request").bad_fields(), ["user_name", "archetype", "svc_name"]);
    let with = |field: &str, value: Value| {
        let mut body = scout();
        body[field] = value;
        body
    };
    for name in ["../x", "Scout", "-x", "a/b", "a b", "é", ".lock", &"x".repeat(64)] {
        let answer = app.post("/api/agents").json(&with("svc_name", json!(name))).send().await;
        assert_eq!(answer.expect_error(400, "invalid_request").bad_fields(), ["svc_name"], "{name}");
    }
    for (field, value) in [
        ("archetype", json!([])),
        ("archetype", json!(" ")),
        ("archetype", json!(7)),
        ("evolution_choice", json!("maybe")),
        ("profile", json!("text")),
        ("profile", json!({"blob": "x".repeat(40_000)})),
        ("answers", json!({})),
        ("answers", json!(["x".repeat(40_000)])),
        ("user_name", json!("  ")),
        ("custom_archetype", json!("x".repeat(5_000))),
    ] {
        let answer =
            app.post("/api/agents").json(&with(field, value)).send().await.expect_error(400, "invalid_request");
        assert!(answer.bad_fields().iter().any(|bad| bad.starts_with(field)), "{field}: {}", answer.text());
    }
    assert_eq!(app.get("/api/agents").send().await.json(), json!({"agents": []}));
    let left = std::fs::read_dir(app.data_dir().join("agents")).map(|entries| {
        entries
            .filter(|entry| entry.as_ref().is_ok_and(|entry| !entry.file_name().to_string_lossy().starts_with('.')))
            .count()
    });
    assert_eq!(left.unwrap_or(0), 0);
    app.get("/api/agents/nobody").send().await.expect_error(404, "agent_not_found");
    app.delete("/api/agents/nobody").send().await.expect_error(404, "agent_not_found");
}

#[tokio::test]
async fn invalid_tool_names_are_rejected() {
    let app = TestApp::with_owner().await;
    let bad = json!(["shell", "", "a b", "device_*", "x".repeat(65), "server_tool-1"]);
    let fields = ["profile.tools[1]", "profile.tools[2]", "profile.tools[3]", "profile.tools[4]"];
    let mut body = scout();
    body["profile"]["tools"] = bad.clone();
    let refused = app.post("/api/agents").json(&body).send().await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), fields);
    // A name is accepted before its tool exists: its server may connect later.
    body["profile"]["tools"] = json!(["server_tool-1"]);
    app.post("/api/agents").json(&body).send().await.expect_status(201);
    let refused = app.patch("/api/agents/scout").json(&json!({"profile": {"tools": bad}})).send().await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), fields);
    let kept = app.get("/api/agents/scout").send().await.json();
    assert_eq!(kept["profile"]["tools"], json!(["server_tool-1"]));
}

#[tokio::test]
async fn concurrent_creations_with_one_name_create_one_agent() {
    let app = TestApp::with_owner().await;
    let attempts = (0..8).map(|_| app.post("/api/agents").json(&scout()).send());
    let answers = futures_util::future::join_all(attempts).await;
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
    let refused = answers.into_iter().find(|answer| answer.status == 409).expect("one");
    refused.expect_error(409, "name_taken");
    assert!(workspace(&app, "scout").is_dir());
}

#[tokio::test]
async fn repeated_request_creates_one_agent() {
    let app = TestApp::with_owner().await;
    let create = || app.post("/api/agents").header("idempotency-key", "once").json(&scout()).send();
    let first = create().await.expect_status(201);
    let again = create().await.expect_status(201);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.json(), again.json());
}

#[tokio::test]
async fn system_prompt_contains_the_profile_of_the_agent() {
    let fixture = ChatFixture::saying(&["ok"]).await;
    let settings = json!({"instructions": "Never lie."});
    fixture.app.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    fixture.app.put("/api/settings/interface").json(&json!({"language": "de"})).send().await.expect_status(200);
    let mut fields = scout();
    fields["svc_name"] = json!("mapper");
    fixture.app.post("/api/agents").json(&fields).send().await.expect_status(201);
    fixture.exchange(&json!({"content": "hello", "agent_id": "mapper"})).await;
    let request = &fixture.vendor.requests()[0].body;
    assert_eq!(request["model"], "m-1");
    let system_prompt = request["messages"][0]["content"].as_str().expect("a system prompt");
    for part in [
        "You are mapper",
        "Ada",
        "gather facts",
        "pirate",
        "You love maps.",
        "German",
        "Never lie.",
        "Be brief.",
        "Hobby? chess",
    ] {
        assert!(system_prompt.contains(part), "`{part}` is missing in: {system_prompt}");
    }
}

/// Returns the tables and columns that contain `needle`.
async fn mentions(app: &TestApp, needle: &str) -> Vec<String> {
    let db = &app.running().context().db;
    let mut read = db.read().await.expect("a connection");
    let sql = match db.dialect() {
        Dialect::Sqlite => {
            "SELECT m.name AS t, c.name AS c FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'"
        }
        Dialect::Postgres => {
            "SELECT table_name::text AS t, column_name::text AS c FROM information_schema.columns \
             WHERE table_schema = current_schema()"
        }
    };
    let columns = read.fetch_all(sql, args![]).await.expect("columns");
    let mut found = Vec::new();
    for row in columns {
        let (table, column): (String, String) = (row.get("t").expect("a name"), row.get("c").expect("a name"));
        let sql = format!("SELECT COUNT(*) FROM {table} WHERE CAST({column} AS TEXT) LIKE $1");
        let count = read.fetch_one(sql, args![format!("%{needle}%")]).await.expect("a count");
        if count.first::<u64>().expect("a number") > 0 {
            found.push(format!("{table}.{column}"));
        }
    }
    found
}

/// Asserts that only usage counts refer to the agent, by its id.
fn assert_only_usage_counts_remain(mut found: Vec<String>) {
    found.sort_unstable();
    assert_eq!(found, ["counters.label", "usage.agent_id", "usage_rollups.label"]);
}

#[tokio::test]
async fn deleted_agent_leaves_only_usage_counts() {
    let fixture = ChatFixture::saying(&["a", "b"]).await;
    let app = &fixture.app;
    let id = app.get("/api/agents/scout").send().await.json()["id"].as_str().expect("an id").to_owned();
    for number in 0..3 {
        let content = format!("a secret wish {number}");
        fixture.exchange(&json!({"content": content, "agent_id": "scout"})).await;
    }
    let other = create_agent(app, "other").await;
    let kept = fixture.exchange(&json!({"content": "kept", "agent_id": "other"})).await;
    let kept = started(&kept, "conversation_id");
    let deep = workspace(app, "scout").join("a/b/c");
    std::fs::create_dir_all(&deep).expect("folders");
    std::fs::write(deep.join("notes.txt"), "x").expect("a file");

    let answer = app.delete(&format!("/api/agents/{id}")).send().await.expect_status(200).json();
    assert_eq!(answer, json!({"deleted": true}));
    app.get("/api/agents/scout").send().await.expect_status(404);
    app.delete("/api/agents/scout").send().await.expect_status(404);
    let list = app.get("/api/chat/conversations").send().await.json();
    assert_eq!((list["total"].as_u64(), list["conversations"][0]["id"].as_str()), (Some(1), Some(kept.as_str())));
    assert!(!workspace(app, "scout").exists());

    app.run_workers().await;
    assert_only_usage_counts_remain(mentions(app, &id).await);
    assert_eq!(mentions(app, "a secret wish").await, Vec::<String>::new());
    assert!(!app.data_dir().join("agents/.trash").join(&id).exists());
    assert_eq!(fixture.conversation(&kept).await["agent_id"], other["id"]);
}

/// Deleting an agent hides its conversations without writing to any of them.
#[tokio::test]
async fn conversations_are_hidden_when_their_agent_is_deleted() {
    let fixture = ChatFixture::saying(&["a"]).await;
    let app = &fixture.app;
    let id = started(&fixture.exchange(&json!({"content": "hello"})).await, "conversation_id");
    let not_deleted = async || {
        let mut read = app.running().context().db.read().await.expect("a connection");
        let sql = "SELECT COUNT(*) FROM conversations WHERE deleted_at IS NULL";
        read.fetch_one(sql, args![]).await.expect("a count").first::<u64>().expect("a number")
    };
    app.delete("/api/agents/scout").send().await.expect_status(200);
    assert_eq!(not_deleted().await, 1);
    let path = format!("/api/chat/conversations/{id}");
    app.get(&path).send().await.expect_error(404, "conversation_not_found");
    app.put(&path).json(&json!({"title": "x"})).send().await.expect_error(404, "conversation_not_found");
    app.delete(&path).send().await.expect_error(404, "conversation_not_found");
    assert_eq!(app.get("/api/chat/conversations").send().await.json()["total"], 0);
    let inject = json!({"conversation_id": id, "role": "user", "content": "x"});
    app.post("/api/chat/messages/inject").json(&inject).send().await.expect_error(404, "conversation_not_found");
    fixture.send(&json!({"conversation_id": id, "content": "x"})).send().await.expect_status(404);
    app.run_workers().await;
    assert_eq!(not_deleted().await, 0);
}

#[tokio::test]
async fn name_of_a_deleted_agent_is_reusable_without_its_old_files() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    std::fs::write(workspace(&app, "scout").join("old"), "x").expect("a file");
    app.delete("/api/agents/scout").send().await.expect_status(200);
    let again = create_agent(&app, "scout").await;
    assert_eq!(std::fs::read_dir(workspace(&app, "scout")).expect("a folder").count(), 0);
    std::fs::write(workspace(&app, "scout").join("new"), "x").expect("a file");
    app.run_workers().await;
    assert!(workspace(&app, "scout").join("new").exists());
    let found = app.get("/api/agents/scout").send().await.expect_status(200).json();
    assert_eq!(found["id"], again["id"]);
}

#[tokio::test]
async fn deletion_resumes_after_a_restart() {
    let mut fixture = ChatFixture::saying(&["a"]).await;
    let id = fixture.app.get("/api/agents/scout").send().await.json()["id"].as_str().expect("an id").to_owned();
    fixture.exchange(&json!({"content": "hello"})).await;
    std::fs::write(workspace(&fixture.app, "scout").join("old"), "x").expect("a file");
    fixture.app.delete("/api/agents/scout").send().await.expect_status(200);
    // Simulates a kill before the folder was moved.
    let trash = fixture.app.data_dir().join("agents/.trash").join(&id);
    std::fs::rename(&trash, workspace(&fixture.app, "scout")).expect("moved back");
    let db = fixture.app.running().context().db.clone();
    db.write(async move |tx: &mut agentd_store::Tx| tx.execute("UPDATE agents SET leaves_folder = 1", args![]).await)
        .await
        .expect("written");
    drop(db);
    fixture.app.restart().await;
    create_agent(&fixture.app, "scout").await;
    assert_eq!(std::fs::read_dir(workspace(&fixture.app, "scout")).expect("a folder").count(), 0);
    fixture.app.run_workers().await;
    assert!(!trash.exists());
    assert_only_usage_counts_remain(mentions(&fixture.app, &id).await);
}

#[tokio::test]
async fn deleting_an_agent_cancels_its_reply() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b", "c"], TEST_USAGE).gated(&gate))).await;
    let mut stream = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(1);
    read_tokens(&mut stream, 1).await;
    fixture.app.delete("/api/agents/scout").send().await.expect_status(200);
    let last = stream.collect().await.pop().expect("an end");
    assert_eq!((last.event.as_str(), last.data["code"].as_str()), ("error", Some("cancelled")));
    fixture.vendor.wait_for_aborted(1).await;
    fixture.app.run_workers().await;
    assert_eq!(fixture.usage().await.len(), 1);
}
