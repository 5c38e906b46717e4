//! Conversations over HTTP.

use agentd_testing_llm::{Gate, Reply, Script};
use serde_json::{Value, json};

use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, create_agent, read_tokens, started};
use crate::support::{Eventually, TestApp};

async fn create(app: &TestApp, body: Value) -> Value {
    app.post("/api/chat/conversations").json(&body).send().await.expect_status(201).json()
}

#[tokio::test]
async fn conversation_is_created_changed_and_deleted() {
    let app = TestApp::with_owner().await;
    let agent = create_agent(&app, "scout").await;
    let made = create(&app, json!({})).await;
    let id = made["id"].as_str().expect("an id");
    assert!(id.starts_with("conv_"));
    assert_eq!(made["agent_id"], agent["id"]);
    assert_eq!(made["mode"], "agent");
    assert_eq!(made["execution_mode"], "autonomous");
    assert_eq!((made["message_count"].as_u64(), made["title"].as_str()), (Some(0), Some("New conversation")));
    let path = format!("/api/chat/conversations/{id}");
    app.clock.advance(std::time::Duration::from_secs(5));
    let changed = app.put(&path).json(&json!({"title": "  My \n week "})).send().await.expect_status(200).json();
    assert_eq!(changed["title"], "My week");
    assert_ne!(changed["updated_at"], made["updated_at"]);
    assert_eq!(changed["created_at"], made["created_at"]);
    app.clock.advance(std::time::Duration::from_secs(5));
    let same = app.put(&path).json(&json!({})).send().await.expect_status(200).json();
    assert_eq!(same, changed, "an empty update changes nothing");

    let mode = format!("{path}/mode");
    assert_eq!(app.get(&mode).send().await.expect_status(200).json(), json!({"mode": "agent"}));
    let set = app.patch(&mode).json(&json!({"mode": "plan"})).send().await.expect_status(200).json();
    assert_eq!(set, json!({"mode": "plan"}));
    let execution = format!("{path}/execution-mode");
    let set = app.put(&execution).json(&json!({"execution_mode": "approval_required"})).send().await;
    assert_eq!(set.expect_status(200).json(), json!({"execution_mode": "approval_required"}));
    assert_eq!(app.get(&execution).send().await.json(), json!({"execution_mode": "approval_required"}));
    let found = app.get(&path).send().await.expect_status(200).json();
    assert_eq!((found["mode"].as_str(), found["messages"].as_array().map(Vec::len)), (Some("plan"), Some(0)));
    app.patch(&mode).json(&json!({"mode": "wild"})).send().await.expect_error(400, "invalid_request");
    app.put(&execution).json(&json!({})).send().await.expect_error(400, "invalid_request");

    assert_eq!(app.delete(&path).send().await.expect_status(200).json(), json!({"deleted": true}));
    for path in [&path, &mode, &execution] {
        app.get(path).send().await.expect_error(404, "conversation_not_found");
    }
    app.delete(&path).send().await.expect_error(404, "conversation_not_found");
    app.put(&path).json(&json!({"title": "x"})).send().await.expect_error(404, "conversation_not_found");
}

#[tokio::test]
async fn conversations_are_listed_by_last_change_newest_first() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    create_agent(&app, "other").await;
    let mut ids = Vec::new();
    for (number, agent) in ["scout", "scout", "other"].into_iter().enumerate() {
        app.clock.advance(std::time::Duration::from_secs(1));
        let made = create(&app, json!({"agent_id": agent, "title": format!("c{number}")})).await;
        ids.push(made["id"].as_str().expect("an id").to_owned());
    }
    app.clock.advance(std::time::Duration::from_secs(1));
    let injected = json!({"conversation_id": ids[0], "role": "user", "content": "hello"});
    app.post("/api/chat/messages/inject").json(&injected).send().await.expect_status(201);
    let list = async |query: &str| {
        let answer = app.get(&format!("/api/chat/conversations{query}")).send().await.expect_status(200).json();
        let titles = answer["conversations"].as_array().expect("a list").iter();
        let titles: Vec<String> = titles.map(|one| one["title"].as_str().expect("a title").to_owned()).collect();
        (titles.join(" "), answer["total"].as_u64().expect("a total"))
    };
    assert_eq!(list("").await, ("c0 c2 c1".to_owned(), 3));
    assert_eq!(list("?limit=1&offset=1").await, ("c2".to_owned(), 3));
    assert_eq!(list("?agent_id=scout").await, ("c0 c1".to_owned(), 2));
    assert_eq!(list("?agent_id=other&offset=1").await, (String::new(), 1));
    for query in ["?limit=0", "?limit=201", "?limit=x", "?offset=-1", "?limit=99999999999999999999"] {
        app.get(&format!("/api/chat/conversations{query}")).send().await.expect_error(400, "invalid_request");
    }
    app.get("/api/chat/conversations?agent_id=nobody").send().await.expect_error(404, "agent_not_found");
}

#[tokio::test]
async fn agent_is_optional_if_it_is_unambiguous() {
    let app = TestApp::with_owner().await;
    let none = app.post("/api/chat/conversations").json(&json!({})).send().await.expect_error(400, "agent_required");
    assert_eq!(none.bad_fields(), ["agent_id"]);
    create_agent(&app, "scout").await;
    create(&app, json!({})).await;
    let other = create_agent(&app, "other").await;
    // The first agent is the default until the settings name another one.
    let scout = app.get("/api/agents/scout").send().await.expect_status(200).json();
    assert_eq!(create(&app, json!({})).await["agent_id"], scout["id"]);
    app.put("/api/settings/interface").json(&json!({"default_agent": null})).send().await.expect_status(200);
    app.post("/api/chat/conversations").json(&json!({})).send().await.expect_error(400, "agent_required");
    app.put("/api/settings/interface").json(&json!({"default_agent": "other"})).send().await.expect_status(200);
    assert_eq!(create(&app, json!({})).await["agent_id"], other["id"]);
    assert_eq!(create(&app, json!({"agent_id": other["id"]})).await["agent_id"], other["id"]);
    let unknown = app.post("/api/chat/conversations").json(&json!({"agent_id": "nobody"})).send().await;
    unknown.expect_error(404, "agent_not_found");
}

#[tokio::test]
async fn title_is_derived_from_the_first_message_until_it_is_set() {
    let fixture = ChatFixture::saying(&["ok"]).await;
    let events = fixture.exchange(&json!({"content": "Plan my week. Begin on Monday."})).await;
    let id = started(&events, "conversation_id");
    assert_eq!(fixture.conversation(&id).await["title"], "Plan my week");
    fixture.exchange(&json!({"content": "Another thing", "conversation_id": id})).await;
    assert_eq!(fixture.conversation(&id).await["title"], "Plan my week");
    let titled = create(&fixture.app, json!({"title": "Mine"})).await;
    fixture.exchange(&json!({"content": "Hello", "conversation_id": titled["id"]})).await;
    assert_eq!(fixture.conversation(titled["id"].as_str().expect("an id")).await["title"], "Mine");
    let empty = create(&fixture.app, json!({})).await;
    fixture.exchange(&json!({"content": "What is Rust? Tell me.", "conversation_id": empty["id"]})).await;
    assert_eq!(fixture.conversation(empty["id"].as_str().expect("an id")).await["title"], "What is Rust?");
}

#[tokio::test]
async fn model_receives_the_messages_in_order() {
    let fixture = ChatFixture::saying(&["first answer"]).await;
    let id = started(&fixture.exchange(&json!({"content": "first question"})).await, "conversation_id");
    for (role, content) in [("system", "The owner is in a hurry."), ("assistant", "an aside"), ("user", "a note")] {
        let body = json!({"conversation_id": id, "role": role, "content": content});
        let message = fixture.app.post("/api/chat/messages/inject").json(&body).send().await.expect_status(201).json();
        assert_eq!((&message["role"], &message["content"]), (&json!(role), &json!(content)));
        assert_eq!((&message["status"], &message["tool_calls"]), (&json!("complete"), &json!([])));
    }
    fixture.exchange(&json!({"content": "second question", "conversation_id": id, "model": "other-model"})).await;
    let request = &fixture.vendor.requests()[1].body;
    assert_eq!(request["model"], "other-model");
    let messages = request["messages"].as_array().expect("messages");
    let system = messages[0]["content"].as_str().expect("a system prompt");
    assert!(system.ends_with("The owner is in a hurry."), "{system}");
    let sent: Vec<(&str, &str)> = messages[1..]
        .iter()
        .map(|one| (one["role"].as_str().expect("a role"), one["content"].as_str().expect("text")))
        .collect();
    assert_eq!(
        sent,
        [("user", "first question"), ("assistant", "first answer\n\nan aside"), ("user", "a note\n\nsecond question")]
    );
    let conversation = fixture.conversation(&id).await;
    assert_eq!(conversation["message_count"], 7);
    let contents: Vec<&str> = conversation["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .filter_map(|one| one["content"].as_str())
        .collect();
    assert_eq!(
        contents,
        [
            "first question",
            "first answer",
            "The owner is in a hurry.",
            "an aside",
            "a note",
            "second question",
            "first answer"
        ]
    );
    let page = fixture.app.get(&format!("/api/chat/conversations/{id}?limit=2&offset=1")).send().await.json();
    assert_eq!(page["messages"][0]["content"], "first answer");
    assert_eq!(page["messages"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn messages_are_removed_from_either_end() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    let id = create(&app, json!({})).await["id"].clone();
    let mut messages = Vec::new();
    for number in 0..6 {
        let body = json!({"conversation_id": id, "role": "user", "content": format!("m{number}")});
        messages.push(app.post("/api/chat/messages/inject").json(&body).send().await.json()["id"].clone());
    }
    let truncate = async |more: Value| {
        let mut body = json!({"conversation_id": id});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        app.post("/api/chat/messages/truncate").json(&body).send().await
    };
    assert_eq!(
        truncate(json!({"after_message_id": messages[3]})).await.expect_status(200).json(),
        json!({"removed": 2})
    );
    assert_eq!(truncate(json!({"keep_last": 3})).await.expect_status(200).json(), json!({"removed": 1}));
    assert_eq!(truncate(json!({"keep_last": 100})).await.expect_status(200).json(), json!({"removed": 0}));
    let left = app.get(&format!("/api/chat/conversations/{}", id.as_str().expect("an id"))).send().await.json();
    let left: Vec<&Value> = left["messages"].as_array().expect("messages").iter().map(|one| &one["id"]).collect();
    assert_eq!(left, [&messages[1], &messages[2], &messages[3]]);
    truncate(json!({"after_message_id": messages[5]})).await.expect_error(404, "message_not_found");
    truncate(json!({})).await.expect_error(400, "invalid_request");
    truncate(json!({"keep_last": 1, "after_message_id": "m"})).await.expect_error(400, "invalid_request");
    truncate(json!({"keep_last": -1})).await.expect_error(400, "invalid_request");
    let huge: Value = serde_json::from_str("99999999999999999999").expect("a number");
    let refused = truncate(json!({"keep_last": huge})).await.expect_error(400, "invalid_request");
    assert!(refused.text().contains("keep_last: must be between 0 and 1000000000"), "{}", refused.text());
    assert_eq!(truncate(json!({"keep_last": 0})).await.expect_status(200).json(), json!({"removed": 3}));
    let body = json!({"conversation_id": "conv_none", "keep_last": 0});
    app.post("/api/chat/messages/truncate").json(&body).send().await.expect_error(404, "conversation_not_found");
}

async fn count(app: &TestApp, sql: &'static str) -> u64 {
    let mut read = app.running().context().db.read().await.expect("a connection");
    read.fetch_one(sql, agentd_store::args![]).await.expect("a count").first().expect("a number")
}

/// Truncated messages are hidden immediately, regardless of their number, and deleted later.
#[tokio::test]
async fn truncated_messages_are_hidden_immediately_and_deleted_in_batches() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    let conversation = create(&app, json!({})).await["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/chat/conversations/{conversation}");
    let inject = async |content: String| {
        let body = json!({"conversation_id": conversation, "role": "user", "content": content});
        app.post("/api/chat/messages/inject").json(&body).send().await.expect_status(201).json()["id"].clone()
    };
    let truncate = async |more: Value| {
        let mut body = more;
        body["conversation_id"] = json!(conversation);
        let answer = app.post("/api/chat/messages/truncate").json(&body).send().await;
        answer.expect_status(200).json()["removed"].as_u64().expect("a number")
    };
    // Compares with a list on which the same operations are performed.
    let mut expected: Vec<Value> = Vec::new();
    for round in 0..4 {
        for number in 0..20 {
            expected.push(inject(format!("{round} {number}")).await);
        }
        let last = expected[expected.len() - 1 - 3 * round].clone();
        assert_eq!(truncate(json!({"after_message_id": last})).await, 3 * round as u64);
        expected.truncate(expected.len() - 3 * round);
        let keep = 30 - 5 * round;
        assert_eq!(truncate(json!({"keep_last": keep})).await, expected.len().saturating_sub(keep) as u64);
        expected.drain(..expected.len().saturating_sub(keep));
        let shown = app.get(&format!("{path}?limit=200")).send().await.expect_status(200).json();
        let ids: Vec<Value> = shown["messages"].as_array().expect("messages").iter().map(|m| m["id"].clone()).collect();
        assert_eq!((ids, &shown["message_count"]), (expected.clone(), &json!(expected.len())), "round {round}");
        if round == 2 {
            app.run_workers().await;
        }
    }
    assert!(count(&app, "SELECT COUNT(*) FROM messages").await > expected.len() as u64, "rows are deleted later");
    app.run_workers().await;
    assert_eq!(count(&app, "SELECT COUNT(*) FROM messages").await, expected.len() as u64);
    assert_eq!(count(&app, "SELECT COUNT(*) FROM message_cuts").await, 0);
    assert_eq!(app.get(&path).send().await.json()["message_count"], json!(expected.len()));
}

#[tokio::test]
async fn event_log_of_a_reply_is_deleted_with_the_reply() {
    let fixture = ChatFixture::saying(&["a"]).await;
    let first = fixture.exchange(&json!({"content": "one"})).await;
    let conversation = started(&first, "conversation_id");
    let second = fixture.exchange(&json!({"content": "two", "conversation_id": conversation})).await;
    let truncate = async |body: Value| {
        fixture.app.post("/api/chat/messages/truncate").json(&body).send().await.expect_status(200).json()
    };
    // Removes the second reply without its question, then the first question without its reply.
    let body = json!({"conversation_id": conversation, "after_message_id": started(&first, "message_id")});
    assert_eq!(truncate(body).await, json!({"removed": 2}));
    assert_eq!(truncate(json!({"conversation_id": conversation, "keep_last": 1})).await, json!({"removed": 1}));
    fixture.app.run_workers().await;
    fixture.follow(&started(&second, "session_id")).send().await.expect_error(404, "session_not_found");
    fixture.follow(&started(&first, "session_id")).send().await.expect_status(200);
}

/// Running replies must not prevent the purge of other conversations.
#[tokio::test]
async fn purge_skips_conversations_with_running_replies() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b"], TEST_USAGE).gated(&gate))).await;
    let mut streams = Vec::new();
    for _ in 0..25 {
        streams.push(fixture.send(&json!({"content": "hello"})).stream().await);
    }
    // Simulates replies that were asked to stop and have not.
    let hide = async |tx: &mut agentd_store::Tx| {
        tx.execute("UPDATE conversations SET deleted_at = 1", agentd_store::args![]).await
    };
    let hidden: Result<u64, agentd_store::StoreError> = fixture.app.running().context().db.write(hide).await;
    assert_eq!(hidden.expect("hidden"), 25);
    let made = create(&fixture.app, json!({})).await;
    let path = format!("/api/chat/conversations/{}", made["id"].as_str().expect("an id"));
    fixture.app.delete(&path).send().await.expect_status(200);
    assert_eq!(count(&fixture.app, "SELECT COUNT(*) FROM conversations").await, 26);
    fixture.app.run_workers().await;
    assert_eq!(count(&fixture.app, "SELECT COUNT(*) FROM conversations").await, 25);
    gate.open();
    for stream in streams {
        stream.collect().await;
    }
    fixture.app.run_workers().await;
    assert_eq!(count(&fixture.app, "SELECT COUNT(*) FROM conversations").await, 0);
}

#[tokio::test]
async fn truncation_is_rejected_while_a_reply_is_written() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b"], TEST_USAGE).gated(&gate))).await;
    let mut stream = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(1);
    let id = started(&read_tokens(&mut stream, 1).await, "conversation_id");
    let body = json!({"conversation_id": id, "keep_last": 0});
    let refused = fixture.app.post("/api/chat/messages/truncate").json(&body).send().await;
    refused.expect_error(409, "turn_in_progress");
    gate.open();
    stream.collect().await;
    fixture.app.post("/api/chat/messages/truncate").json(&body).send().await.expect_status(200);
}

#[tokio::test]
async fn welcome_message_is_not_stored() {
    let fixture = ChatFixture::saying(&["Hello ", "Ada! "]).await;
    let welcome = fixture.app.post("/api/chat/welcome").json(&json!({"agent_id": "scout"})).send().await;
    assert_eq!(welcome.expect_status(200).json(), json!({"message": "Hello Ada!"}));
    assert_eq!(fixture.app.get("/api/chat/conversations").send().await.json()["total"], 0);
    assert_eq!(fixture.usage().await, [("provider".to_owned(), 7, 3)]);
    let ask = || fixture.app.post("/api/chat/welcome").header("idempotency-key", "w").json(&json!({})).send();
    assert_eq!(ask().await.expect_status(200).header("idempotency-replayed"), None);
    let again = ask().await.expect_status(200);
    assert_eq!((again.json(), again.header("idempotency-replayed")), (json!({"message": "Hello Ada!"}), Some("true")));
    assert_eq!(fixture.vendor.requests().len(), 2);
    fixture
        .app
        .post("/api/chat/welcome")
        .json(&json!({"agent_id": "nobody"}))
        .send()
        .await
        .expect_error(404, "agent_not_found");
}

#[tokio::test]
async fn welcome_of_a_disconnected_client_is_regenerated() {
    let gate = Gate::new();
    let never = Reply::text(["Hello?"], TEST_USAGE).gated(&gate);
    let fixture = ChatFixture::with(Script::queue([never, Reply::text(["Hello Ada!"], TEST_USAGE)])).await;
    let ask = || fixture.app.post("/api/chat/welcome").header("idempotency-key", "w").json(&json!({})).send();
    let asked = async {
        let mut eventually = Eventually::new();
        while fixture.vendor.requests().is_empty() {
            eventually.retry().await;
        }
    };
    tokio::select! {
        answer = ask() => panic!("the reply is incomplete: {}", answer.text()),
        () = asked => {}
    }
    // The daemon detects the closed connection.
    fixture.vendor.wait_for_aborted(1).await;
    let mut answer = ask().await;
    // The first request may still be running.
    let mut eventually = Eventually::new();
    while answer.json()["code"] == "still_under_way" {
        eventually.retry().await;
        answer = ask().await;
    }
    let answer = answer.expect_status(200);
    assert_eq!((answer.json(), answer.header("idempotency-replayed")), (json!({"message": "Hello Ada!"}), None));
    let again = ask().await.expect_status(200);
    assert_eq!((again.json(), again.header("idempotency-replayed")), (json!({"message": "Hello Ada!"}), Some("true")));
    assert_eq!(fixture.vendor.requests().len(), 2);
}

#[tokio::test]
async fn deleted_conversation_cancels_its_reply_and_deletes_its_logs() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b"], TEST_USAGE).gated(&gate))).await;
    let mut stream = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(1);
    let start = read_tokens(&mut stream, 1).await;
    let path = format!("/api/chat/conversations/{}", started(&start, "conversation_id"));
    fixture.app.delete(&path).send().await.expect_status(200);
    let last = stream.collect().await.pop().expect("an end");
    assert_eq!((last.event.as_str(), last.data["code"].as_str()), ("error", Some("cancelled")));
    fixture.app.run_workers().await;
    fixture.follow(&started(&start, "session_id")).send().await.expect_error(404, "session_not_found");
    let mut read = fixture.app.running().context().db.read().await.expect("a connection");
    for table in ["conversations", "messages", "sessions", "session_events"] {
        let count =
            read.fetch_one(format!("SELECT COUNT(*) FROM {table}"), agentd_store::args![]).await.expect("a count");
        assert_eq!(count.first::<u64>().expect("a number"), 0, "{table}");
    }
}

#[tokio::test]
async fn invalid_message_is_rejected_and_nothing_is_stored() {
    let fixture = ChatFixture::saying(&["never"]).await;
    for (body, fields) in [
        (json!({}), vec!["content"]),
        (json!({"content": ""}), vec!["content"]),
        (json!({"content": " \n "}), vec!["content"]),
        (json!({"content": "x\u{0}y"}), vec!["content"]),
        (json!({"content": 7, "model": 7, "agent_id": []}), vec!["content", "agent_id", "model"]),
        (json!({"content": "x".repeat(400_001)}), vec!["content"]),
        (json!([]), vec!["body"]),
    ] {
        let answer = fixture.send(&body).send().await.expect_error(400, "invalid_request");
        let mut found = answer.bad_fields();
        found.sort();
        let mut expected = fields;
        expected.sort_unstable();
        assert_eq!(found, expected);
    }
    fixture
        .send(&json!({"content": "x", "conversation_id": "conv_none"}))
        .send()
        .await
        .expect_error(404, "conversation_not_found");
    fixture.send(&json!({"content": "x", "agent_id": "nobody"})).send().await.expect_error(404, "agent_not_found");
    let raw = |text: &'static str| fixture.app.post("/api/chat/messages/stream").raw_json(text).send();
    raw("{").await.expect_error(400, "malformed_json");
    raw("").await.expect_error(400, "malformed_json");
    let text = fixture.app.post("/api/chat/messages/stream").body("text/plain", "hello").send().await;
    text.expect_error(415, "unsupported_media_type");
    let large = format!("{{\"content\": \"{}\"}}", "x".repeat(3 << 20));
    fixture.app.post("/api/chat/messages/stream").raw_json(large).send().await.expect_status(413);
    fixture.app.get("/api/chat/messages/stream").send().await.expect_status(405);
    for id in ["conv_x", "..%2F..%2Fetc", "%00", "é", &"x".repeat(2_000)] {
        let answer = fixture.app.get(&format!("/api/chat/conversations/{id}")).send().await;
        assert!(matches!(answer.status.as_u16(), 400 | 404), "{id}: {}", answer.status);
    }
    let other = create_agent(&fixture.app, "other").await;
    let conversation = create(&fixture.app, json!({"agent_id": "scout"})).await;
    let wrong = json!({"content": "x", "conversation_id": conversation["id"], "agent_id": other["id"]});
    assert_eq!(fixture.send(&wrong).send().await.expect_error(400, "invalid_request").bad_fields(), ["agent_id"]);
    let body = json!({"conversation_id": conversation["id"], "role": "tool", "content": "x"});
    fixture.app.post("/api/chat/messages/inject").json(&body).send().await.expect_error(400, "invalid_request");
    assert_eq!(fixture.vendor.requests().len(), 0);
    assert_eq!(fixture.usage().await.len(), 0);
    let found = fixture.conversation(conversation["id"].as_str().expect("an id")).await;
    assert_eq!(found["message_count"], 0);
}
