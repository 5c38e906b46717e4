//! Projects: lifecycle, conversations and jobs in projects, and deletion.

use std::time::Duration;

use agentd_store::args;
use serde_json::{Value, json};

use crate::scheduler::{self, every, with};
use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, create_agent, started};

async fn create(app: &TestApp, fields: Value) -> Value {
    app.post("/api/projects").json(&fields).send().await.expect_status(201).json()
}

fn path(project: &Value) -> String {
    format!("/api/projects/{}", project["id"].as_str().expect("an id"))
}

/// Returns the types and data of project events, oldest first.
async fn events(app: &TestApp) -> Vec<(String, Value)> {
    let mut read = app.running().context().db.read().await.expect("a connection");
    let sql = "SELECT event_type, data FROM outbox WHERE event_type LIKE 'project.%' ORDER BY seq";
    let rows = read.fetch_all(sql, args![]).await.expect("events");
    rows.iter().map(|row| (row.get("event_type").expect("a type"), row.json("data").expect("JSON"))).collect()
}

#[tokio::test]
async fn project_is_created_changed_and_deleted() {
    let app = TestApp::with_owner().await;
    let empty = app.get("/api/projects").send().await.expect_status(200).json();
    assert_eq!(empty, json!({"projects": [], "total": 0}));
    let fields = json!({"name": "  Garden \n plan ", "description": " Beds. "});
    let send = || app.post("/api/projects").json(&fields).header("idempotency-key", "once").send();
    let made = send().await.expect_status(201).json();
    assert_eq!(
        (&made["name"], &made["description"], &made["status"]),
        (&json!("Garden plan"), &json!("Beds."), &json!("active"))
    );
    assert!(made["id"].as_str().expect("an id").starts_with("proj_"));
    let again = send().await.expect_status(201);
    assert_eq!((again.header("idempotency-replayed"), &again.json()), (Some("true"), &made));
    assert_eq!(app.get(&path(&made)).send().await.expect_status(200).json(), made);

    app.clock.advance(Duration::from_secs(60));
    let other = create(&app, json!({"name": "Cellar", "status": "paused"})).await;
    let list = app.get("/api/projects").send().await.expect_status(200).json();
    assert_eq!(list, json!({"projects": [other, made], "total": 2}), "newest first");
    let paused = app.get("/api/projects?status=paused&limit=1").send().await.expect_status(200).json();
    assert_eq!(paused, json!({"projects": [other], "total": 1}));
    let second = app.get("/api/projects?limit=1&offset=1").send().await.expect_status(200).json();
    assert_eq!(second, json!({"projects": [made], "total": 2}));

    let change = json!({"status": "completed", "description": null});
    let done = app.put(&path(&made)).json(&change).send().await.expect_status(200).json();
    assert_eq!(
        (&done["status"], &done["description"], &done["name"]),
        (&json!("completed"), &Value::Null, &made["name"])
    );
    assert_ne!(done["updated_at"], made["updated_at"]);
    // An unchanged update emits no event.
    app.clock.advance(Duration::from_secs(60));
    assert_eq!(app.put(&path(&made)).json(&change).send().await.expect_status(200).json(), done);
    app.delete(&path(&made)).send().await.expect_status(200);
    app.delete(&path(&made)).send().await.expect_error(404, "project_not_found");
    app.get(&path(&made)).send().await.expect_error(404, "project_not_found");
    app.put(&path(&made)).json(&json!({})).send().await.expect_error(404, "project_not_found");
    assert_eq!(app.get("/api/projects").send().await.expect_status(200).json()["total"], 1);
    app.run_workers().await;

    let (id, name) = (&made["id"], &made["name"]);
    let expected = [
        ("project.created", json!({"project_id": id, "name": name, "status": "active"})),
        ("project.created", json!({"project_id": other["id"], "name": "Cellar", "status": "paused"})),
        (
            "project.updated",
            json!({"project_id": id, "name": name, "status": "completed", "previous_status": "active"}),
        ),
        ("project.completed", json!({"project_id": id, "name": name})),
        ("project.deleted", json!({"project_id": id, "name": name})),
    ];
    assert_eq!(events(&app).await, expected.map(|(name, data)| (name.to_owned(), data)));
}

#[tokio::test]
async fn invalid_project_is_rejected() {
    let app = TestApp::with_owner().await;
    for (fields, bad) in [
        (json!({}), "name"),
        (json!({"name": ""}), "name"),
        (json!({"name": " \t "}), "name"),
        (json!({"name": "x".repeat(201)}), "name"),
        (json!({"name": "a\u{0}b"}), "name"),
        (json!({"name": "a", "description": "x".repeat(4_001)}), "description"),
        (json!({"name": "a", "status": "done"}), "status"),
    ] {
        let refused = app.post("/api/projects").json(&fields).send().await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), [bad], "{fields}");
    }
    let made = create(&app, json!({"name": "a"})).await;
    for fields in [json!({"name": "  "}), json!({"name": null}), json!({"status": "done"})] {
        app.put(&path(&made)).json(&fields).send().await.expect_status(400);
    }
    app.get("/api/projects?limit=0").send().await.expect_status(400);
    app.get("/api/projects?limit=201&offset=-1").send().await.expect_status(400);
    app.get("/api/projects?status=lost").send().await.expect_status(400);
    assert_eq!(events(&app).await.len(), 1);
}

#[tokio::test]
async fn conversations_belong_to_a_project_until_its_deletion() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    let garden = create(&app, json!({"name": "Garden"})).await;
    let cellar = create(&app, json!({"name": "Cellar"})).await;
    let converse =
        async |fields: Value| app.post("/api/chat/conversations").json(&fields).send().await.expect_status(201).json();
    let free = converse(json!({})).await;
    assert_eq!(free["project_id"], Value::Null);
    let mut named = Vec::new();
    for _ in 0..3 {
        named.push(converse(json!({"project_id": garden["id"]})).await);
    }
    assert!(named.iter().all(|conversation| conversation["project_id"] == garden["id"]));
    let unknown = json!({"project_id": "proj_unknown"});
    app.post("/api/chat/conversations").json(&unknown).send().await.expect_error(404, "project_not_found");

    let path_of = |project: &Value| format!("/api/chat/conversations?project_id={}", project["id"].as_str().unwrap());
    let listed = async |path: String| app.get(&path).send().await.expect_status(200).json();
    let found = listed(path_of(&garden)).await;
    assert_eq!((&found["total"], found["conversations"].as_array().map(Vec::len)), (&json!(3), Some(3)));
    assert_eq!(listed(format!("{}&agent_id=scout&limit=1", path_of(&garden))).await["total"], 3);
    assert_eq!(listed(path_of(&cellar)).await["total"], 0);
    app.get("/api/chat/conversations?project_id=proj_unknown").send().await.expect_error(404, "project_not_found");

    let at = |conversation: &Value| format!("/api/chat/conversations/{}", conversation["id"].as_str().unwrap());
    let change = async |conversation: &Value, fields: Value| {
        app.put(&at(conversation)).json(&fields).send().await.expect_status(200).json()["project_id"].clone()
    };
    assert_eq!(change(&named[0], json!({"project_id": cellar["id"]})).await, cellar["id"]);
    assert_eq!(change(&named[0], json!({"title": "Other"})).await, cellar["id"], "an omitted project is kept");
    assert_eq!(change(&named[1], json!({"project_id": null})).await, Value::Null);
    app.put(&at(&free)).json(&unknown).send().await.expect_error(404, "project_not_found");

    let before = app.get(&at(&named[2])).send().await.expect_status(200).json();
    app.delete(&path(&garden)).send().await.expect_status(200);
    // The project is hidden immediately; the references are removed later.
    let after = app.get(&at(&named[2])).send().await.expect_status(200).json();
    assert_eq!(after["project_id"], Value::Null);
    assert_eq!((&after["updated_at"], &after["title"]), (&before["updated_at"], &before["title"]));
    app.get(&path_of(&garden)).send().await.expect_error(404, "project_not_found");
    let gone = json!({"project_id": garden["id"]});
    app.put(&at(&free)).json(&gone).send().await.expect_error(404, "project_not_found");
    app.run_workers().await;
    let mut read = app.running().context().db.read().await.expect("a connection");
    let count = async |read: &mut agentd_store::Read, sql: &'static str| {
        read.fetch_one(sql, args![]).await.expect("a count").first::<u64>().expect("a number")
    };
    assert_eq!(count(&mut read, "SELECT COUNT(*) FROM conversations WHERE project_id IS NOT NULL").await, 1);
    assert_eq!(count(&mut read, "SELECT COUNT(*) FROM projects").await, 1);
}

#[tokio::test]
async fn usage_of_a_turn_is_counted_for_its_project() {
    let fixture = ChatFixture::saying(&["Yes."]).await;
    let app = &fixture.app;
    let garden = create(app, json!({"name": "Garden"})).await;
    let fields = json!({"agent_id": "scout", "project_id": garden["id"]});
    let conversation = app.post("/api/chat/conversations").json(&fields).send().await.expect_status(201).json();
    fixture.exchange(&json!({"content": "Roses?", "conversation_id": conversation["id"]})).await;
    let other = fixture.exchange(&json!({"content": "Wine?", "agent_id": "scout"})).await;
    assert!(!started(&other, "conversation_id").is_empty());
    let mut read = app.running().context().db.read().await.expect("a connection");
    let sql = "SELECT project_id, input_tokens FROM usage ORDER BY id";
    let rows = read.fetch_all(sql, args![]).await.expect("rows");
    let projects: Vec<Option<String>> = rows.iter().map(|row| row.get("project_id").expect("a project")).collect();
    assert_eq!(projects, [garden["id"].as_str().map(str::to_owned), None]);
}

#[tokio::test]
async fn jobs_belong_to_a_project_until_its_deletion() {
    let fixture = ChatFixture::saying(&["Yes."]).await;
    let app = &fixture.app;
    let garden = create(app, json!({"name": "Garden"})).await;
    let cellar = create(app, json!({"name": "Cellar"})).await;
    let (in_garden, unknown) = (json!({"project_id": garden["id"]}), json!({"project_id": "proj_unknown"}));
    let free = scheduler::create(app, &every(600)).await;
    let named = scheduler::create(app, &with(every(600), &in_garden)).await;
    let moved = scheduler::create(app, &with(every(600), &in_garden)).await;
    assert_eq!((&free["project_id"], &named["project_id"]), (&Value::Null, &garden["id"]));
    let refused = app.post("/api/scheduler/jobs").json(&with(every(600), &unknown)).send().await;
    refused.expect_error(404, "project_not_found");

    let path_of = |project: &Value| format!("/api/scheduler/jobs?project_id={}", project["id"].as_str().unwrap());
    let listed = async |path: String| app.get(&path).send().await.expect_status(200).json();
    assert_eq!(listed(path_of(&garden)).await["count"], 2);
    assert_eq!(listed(format!("{}&agent_id=scout&status=active&limit=1", path_of(&garden))).await["count"], 2);
    app.get("/api/scheduler/jobs?project_id=proj_unknown").send().await.expect_error(404, "project_not_found");

    let at = |job: &Value| format!("/api/scheduler/jobs/{}", job["id"].as_str().unwrap());
    let change = async |job: &Value, fields: Value| {
        app.put(&at(job)).json(&fields).send().await.expect_status(200).json()["project_id"].clone()
    };
    assert_eq!(change(&moved, json!({"project_id": cellar["id"]})).await, cellar["id"]);
    assert_eq!(change(&moved, json!({"name": "other"})).await, cellar["id"], "an omitted project is kept");
    assert_eq!(listed(path_of(&cellar)).await["jobs"][0]["id"], moved["id"]);
    assert_eq!(change(&moved, json!({"project_id": null})).await, Value::Null);
    app.put(&at(&free)).json(&unknown).send().await.expect_error(404, "project_not_found");

    // Usage is counted for the project of the job at the start of the run.
    app.clock.advance(Duration::from_secs(600));
    app.run_workers().await;
    let used = async || {
        let mut read = app.running().context().db.read().await.expect("a connection");
        let rows = read.fetch_all("SELECT project_id FROM usage ORDER BY id", args![]).await.expect("rows");
        let mut used: Vec<Option<String>> = rows.iter().map(|row| row.get("project_id").expect("a project")).collect();
        used.sort();
        used
    };
    let garden_id = garden["id"].as_str().map(str::to_owned);
    assert_eq!(used().await, [None, None, garden_id.clone()]);

    app.delete(&path(&garden)).send().await.expect_status(200);
    // The project is hidden immediately; the references are removed later.
    assert_eq!(app.get(&at(&named)).send().await.expect_status(200).json()["project_id"], Value::Null);
    app.get(&path_of(&garden)).send().await.expect_error(404, "project_not_found");
    app.clock.advance(Duration::from_secs(600));
    app.run_workers().await;
    assert_eq!(used().await, [None, None, None, None, None, garden_id]);
    let mut read = app.running().context().db.read().await.expect("a connection");
    let count = async |read: &mut agentd_store::Read, sql: &'static str| {
        read.fetch_one(sql, args![]).await.expect("a count").first::<u64>().expect("a number")
    };
    assert_eq!(count(&mut read, "SELECT COUNT(*) FROM jobs WHERE project_id IS NOT NULL").await, 0);
    assert_eq!(count(&mut read, "SELECT COUNT(*) FROM projects").await, 1);
}
