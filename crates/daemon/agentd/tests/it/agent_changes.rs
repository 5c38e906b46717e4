//! Updates of agents and the versions of their instructions.

use std::time::Duration;

use agentd_store::{Tx, args};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::TestApp;
use crate::support::chat_fixture::{ChatFixture, create_agent};

const SCOUT: &str = "/api/agents/scout";
const VERSIONS: &str = "/api/agents/scout/versions";

async fn with_scout() -> TestApp {
    let app = TestApp::with_owner().await;
    let scout = json!({"svc_name": "scout", "user_name": "Ada", "archetype": "coach", "custom_archetype": "You love maps.",
        "profile": {"model": "m-1", "instructions": "Be brief.", "colour": {"a": [1]}}, "answers": ["likes tea"]});
    app.post("/api/agents").json(&scout).send().await.expect_status(201);
    app
}

async fn patch(app: &TestApp, change: Value) -> Value {
    app.patch(SCOUT).json(&change).send().await.expect_status(200).json()
}

/// Number, text, source, and reason of each version, newest first.
async fn versions(app: &TestApp) -> Vec<(u64, String, String, Value)> {
    let list = app.get(VERSIONS).send().await.expect_status(200).json();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let version = |entry: &Value| {
        let number = entry["version"].as_u64().expect("a number");
        (number, text(&entry["instructions"]), text(&entry["source"]), entry["reason"].clone())
    };
    list["versions"].as_array().expect("versions").iter().map(version).collect()
}

#[tokio::test]
async fn instructions_changed_since_they_were_read_are_not_overwritten() {
    let app = with_scout().await;
    let change =
        |text: &str, expected: Value| json!({"profile": {"instructions": text}, "expected_instructions": expected});
    patch(&app, change("Be kind.", json!("Be brief."))).await;
    let stale = app.patch(SCOUT).json(&change("Be loud.", json!("Be brief."))).send().await;
    stale.expect_error(409, "instructions_changed");
    let kept = app.get(SCOUT).send().await.json();
    assert_eq!(kept["profile"]["instructions"], "Be kind.");
    assert_eq!(versions(&app).await.len(), 2);
    // Missing instructions count as empty; without `expected_instructions` nothing is compared.
    patch(&app, json!({"profile": {"instructions": null}})).await;
    assert_eq!(patch(&app, change("Be loud.", json!(""))).await["profile"]["instructions"], "Be loud.");
}

#[tokio::test]
async fn update_changes_only_the_fields_it_contains() {
    let app = with_scout().await;
    let before = app.get(SCOUT).send().await.json();
    app.clock.advance(Duration::from_secs(5));
    let change = json!({"user_name": " Grace ", "archetype": ["writer", "pirate"], "evolution_choice": "auto",
        "svc_name": "other", "id": "agent_x", "answers": [], "created_at": null, "nonsense": 1});
    let after = patch(&app, change).await;
    let mut expected = before.clone();
    expected["user_name"] = json!("Grace");
    expected["archetype"] = json!(["writer", "pirate"]);
    expected["evolution_choice"] = json!("auto");
    expected["updated_at"] = after["updated_at"].clone();
    assert_eq!(after, expected);
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str());
    assert_eq!(app.get(SCOUT).send().await.json(), after);
    let entry = app.get("/api/agents").send().await.json()["agents"][0].clone();
    assert_eq!((&entry["user_name"], &entry["archetype"]), (&after["user_name"], &after["archetype"]));

    // By id, with a single archetype as a string.
    let id = before["id"].as_str().expect("an id");
    let change = json!({"archetype": "coach", "custom_archetype": null});
    let answer = app.patch(&format!("/api/agents/{id}")).json(&change).send().await.expect_status(200).json();
    assert_eq!((&answer["archetype"], &answer["custom_archetype"]), (&json!(["coach"]), &Value::Null));
    assert_eq!(patch(&app, json!({"custom_archetype": "Hm."})).await["custom_archetype"], "Hm.");

    // Fields missing from `profile` are retained, too.
    let profile =
        patch(&app, json!({"profile": {"model": null, "colour": 2, "tools": ["shell"]}})).await["profile"].clone();
    assert_eq!(profile, json!({"instructions": "Be brief.", "colour": 2, "tools": ["shell"]}));
    app.patch("/api/agents/nobody").json(&json!({})).send().await.expect_error(404, "agent_not_found");
}

#[tokio::test]
async fn invalid_update_changes_nothing_and_reports_every_field() {
    let app = with_scout().await;
    let before = app.get(SCOUT).send().await.json();
    let bad = json!({"user_name": null, "archetype": [], "custom_archetype": 7, "evolution_choice": "maybe",
        "profile": {"instructions": "x".repeat(20_001), "tools": "all"}});
    let answer = app.patch(SCOUT).json(&bad).send().await.expect_error(400, "invalid_request");
    let mut fields = answer.bad_fields();
    fields.sort();
    assert_eq!(
        fields,
        ["archetype", "custom_archetype", "evolution_choice", "profile.instructions", "profile.tools", "user_name"]
    );
    let bad = json!({"user_name": " ", "archetype": [" "], "profile": {"blob": "x".repeat(40_000)}});
    let answer = app.patch(SCOUT).json(&bad).send().await.expect_error(400, "invalid_request");
    assert_eq!(answer.bad_fields(), ["user_name", "archetype", "profile"]);
    for body in [json!([]), json!(null), json!({"profile": null}), json!({"archetype": null})] {
        app.patch(SCOUT).json(&body).send().await.expect_error(400, "invalid_request");
    }
    assert_eq!(app.get(SCOUT).send().await.json(), before);
    assert_eq!(versions(&app).await.len(), 1);
}

#[tokio::test]
async fn concurrent_updates_are_all_applied() {
    let app = with_scout().await;
    let changes = [
        json!({"user_name": "Grace"}),
        json!({"archetype": "writer"}),
        json!({"custom_archetype": null}),
        json!({"evolution_choice": "off"}),
        json!({"profile": {"instructions": "Be kind."}}),
        json!({"profile": {"model": "m-2"}}),
        json!({"profile": {"colour": null}}),
    ];
    join_all(changes.into_iter().map(|change| patch(&app, change))).await;
    let after = app.get(SCOUT).send().await.json();
    let expected = json!({"user_name": "Grace", "archetype": ["writer"], "custom_archetype": null,
        "evolution_choice": "off", "profile": {"model": "m-2", "instructions": "Be kind."}});
    for (field, value) in expected.as_object().expect("fields") {
        assert_eq!(&after[field], value, "{field}");
    }
    let list = versions(&app).await;
    assert_eq!((list.len(), list[0].1.as_str()), (2, "Be kind."));
}

#[tokio::test]
async fn updated_agent_is_used_for_the_next_reply() {
    let fixture = ChatFixture::saying(&["ok"]).await;
    fixture.exchange(&json!({"content": "a"})).await;
    patch(&fixture.app, json!({"user_name": "Grace", "profile": {"instructions": "Use metres."}})).await;
    fixture.exchange(&json!({"content": "b"})).await;
    let system_prompt = |number: usize| fixture.vendor.requests()[number].body["messages"][0]["content"].to_string();
    assert!(system_prompt(0).contains("Ada") && !system_prompt(0).contains("Use metres."));
    assert!(system_prompt(1).contains("Grace") && system_prompt(1).contains("Use metres."));
}

#[tokio::test]
async fn every_change_of_the_instructions_creates_a_version() {
    let app = with_scout().await;
    app.clock.advance(Duration::from_secs(1));
    patch(&app, json!({"profile": {"instructions": "Be kind."}})).await;
    patch(&app, json!({"profile": {"instructions": "Be kind."}, "user_name": "Grace"})).await;
    patch(&app, json!({"profile": {"instructions": null}})).await;
    let entry = |version: u64, text: &str, source: &str| (version, text.to_owned(), source.to_owned(), Value::Null);
    let known = [entry(3, "", "owner"), entry(2, "Be kind.", "owner"), entry(1, "Be brief.", "created")];
    assert_eq!(versions(&app).await, known);

    let restored = app.post(&format!("{VERSIONS}/1/restore")).send().await.expect_status(200).json();
    assert_eq!(restored["profile"]["instructions"], "Be brief.");
    assert_eq!((&restored["profile"]["model"], &restored["user_name"]), (&json!("m-1"), &json!("Grace")));
    let list = versions(&app).await;
    assert_eq!((list.len(), &list[0].2, &list[0].3), (4, &"restore".to_owned(), &json!("Version 1 was restored.")));
    // Restoring the current version creates no further one.
    let again = app.post(&format!("{VERSIONS}/1/restore")).send().await.expect_status(200).json();
    assert_eq!((again, versions(&app).await.len()), (restored, 4));
    let empty = app.post(&format!("{VERSIONS}/3/restore")).send().await.expect_status(200).json();
    assert!(empty["profile"].get("instructions").is_none());

    // A repeated request with the same key is answered from the record, despite the change in between.
    let once = || app.post(&format!("{VERSIONS}/2/restore")).header("idempotency-key", "once").send();
    let first = once().await.expect_status(200).json();
    patch(&app, json!({"profile": {"instructions": null}})).await;
    let repeated = once().await.expect_status(200);
    assert_eq!((repeated.header("idempotency-replayed"), repeated.json()), (Some("true"), first));
    assert_eq!(versions(&app).await[0].1, "");

    let page = app.get(&format!("{VERSIONS}?limit=2&offset=1")).send().await.expect_status(200).json();
    let numbers: Vec<u64> =
        page["versions"].as_array().expect("versions").iter().filter_map(|entry| entry["version"].as_u64()).collect();
    assert_eq!((numbers, &page["total"]), (vec![6, 5], &json!(7)));
    for query in ["limit=0", "limit=201", "offset=-1"] {
        app.get(&format!("{VERSIONS}?{query}")).send().await.expect_error(400, "invalid_request");
    }
    for number in ["8", "0", "4294967295"] {
        let restore = app.post(&format!("{VERSIONS}/{number}/restore")).send().await;
        restore.expect_error(404, "version_not_found");
    }
    app.post(&format!("{VERSIONS}/first/restore")).send().await.expect_error(400, "invalid_path");
    app.get("/api/agents/nobody/versions").send().await.expect_error(404, "agent_not_found");
    app.post("/api/agents/nobody/versions/1/restore").send().await.expect_error(404, "agent_not_found");
}

#[tokio::test]
async fn newest_200_versions_are_retained() {
    let app = TestApp::with_owner().await;
    let id = create_agent(&app, "scout").await["id"].as_str().expect("an id").to_owned();
    // Simulates many earlier changes.
    let agent = id.clone();
    let fill = async move |tx: &mut Tx| {
        for version in 2..=199_i64 {
            tx.execute(
                "INSERT INTO agent_versions (agent_id, version, instructions, source, created_at) \
                 VALUES ($1, $2, $3, 'owner', $2)",
                args![&agent, version, format!("v{version}")],
            )
            .await?;
        }
        Ok::<_, agentd_store::StoreError>(())
    };
    app.running().context().db.write(fill).await.expect("written");
    for number in 200..=203 {
        patch(&app, json!({"profile": {"instructions": format!("v{number}")}})).await;
    }
    let list = app.get(&format!("{VERSIONS}?limit=200")).send().await.expect_status(200).json();
    let entries = list["versions"].as_array().expect("versions");
    assert_eq!((entries.len(), &list["total"]), (200, &json!(200)));
    assert_eq!((&entries[0]["version"], &entries[199]["version"]), (&json!(203), &json!(4)));
    app.post(&format!("{VERSIONS}/3/restore")).send().await.expect_error(404, "version_not_found");
    let restored = app.post(&format!("{VERSIONS}/4/restore")).send().await.expect_status(200).json();
    assert_eq!(restored["profile"]["instructions"], "v4");

    app.delete(SCOUT).send().await.expect_status(200);
    app.get(VERSIONS).send().await.expect_error(404, "agent_not_found");
    app.run_workers().await;
    let mut read = app.running().context().db.read().await.expect("a connection");
    let left = read.fetch_one("SELECT COUNT(*) FROM agent_versions", args![]).await.expect("a count");
    assert_eq!(left.first::<u64>().expect("a number"), 0);
}
