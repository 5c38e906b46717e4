//! Creating, reading and deleting episodes.

use agentd_store::{StoreError, Tx, args};
use serde_json::{Value, json};

use super::{app, contents, remember, say, search, stats};
use crate::support::TestApp;

#[tokio::test]
async fn episode_is_returned_as_created() {
    let app = app().await;
    let made = remember(
        &app,
        &json!({
            "content": "  We chose Rust and Tokio for the crawler.  ", "summary": "A decision", "source": "task",
            "importance": 0.9, "valence": -0.25, "topics": ["crawler", "crawler", " rust "], "agent_id": "scout",
            "occurred_at": "2025-12-24T18:00:00Z",
        }),
    )
    .await;
    assert_eq!(made["content"], "We chose Rust and Tokio for the crawler.");
    assert_eq!((&made["importance"], &made["valence"]), (&json!(0.9), &json!(-0.25)));
    assert_eq!(made["topics"], json!(["crawler", "rust"]));
    assert_eq!((&made["source"], &made["summary"]), (&json!("task"), &json!("A decision")));
    assert_eq!(made["occurred_at"], "2025-12-24T18:00:00.000Z");
    assert_eq!((&made["access_count"], &made["superseded_by"]), (&json!(0), &Value::Null));
    let entities: Vec<_> =
        made["entities"].as_array().expect("entities").iter().map(|e| (&e["name"], &e["type"])).collect();
    assert!(entities.contains(&(&json!("Rust"), &json!("language"))), "{entities:?}");
    assert!(made["agent_id"].as_str().is_some_and(|id| id != "scout"), "responses contain the id");
    let path = format!("/api/memory/episodes/{}", made["id"].as_str().expect("an id"));
    assert_eq!(app.get(&path).send().await.expect_status(200).json(), made);
}

#[tokio::test]
async fn omitted_fields_are_computed_or_have_defaults() {
    let app = app().await;
    let decision =
        remember(&app, &json!({"content": "We decided to sign the contract with Siemens on 3 March 2026."})).await;
    let chatter = remember(&app, &json!({"content": "Haha, okay."})).await;
    assert_eq!((&decision["source"], &decision["agent_id"]), (&json!("manual"), &Value::Null));
    assert!(decision["importance"].as_f64() > chatter["importance"].as_f64(), "{decision} {chatter}");
    assert_eq!(decision["occurred_at"], decision["created_at"]);
}

#[tokio::test]
async fn invalid_episode_is_rejected_and_not_stored() {
    let app = app().await;
    for (body, field) in [
        (json!({}), "content"),
        (json!({"content": "  "}), "content"),
        (json!({"content": "x".repeat(50_001)}), "content"),
        (json!({"content": "x", "importance": 1.1}), "importance"),
        (json!({"content": "x", "importance": "high"}), "importance"),
        (json!({"content": "x", "valence": -1.5}), "valence"),
        (json!({"content": "x", "topics": ["t".repeat(101)]}), "topics[0]"),
        (json!({"content": "x", "occurred_at": "yesterday"}), "occurred_at"),
    ] {
        let answer = app.post("/api/memory/episodes").json(&body).send().await.expect_status(400).json();
        assert!(answer.to_string().contains(field), "{answer}");
    }
    let unknown = json!({"content": "x", "agent_id": "nobody"});
    app.post("/api/memory/episodes").json(&unknown).send().await.expect_status(404);
    app.put("/api/settings/memory").json(&json!({"enabled": false})).send().await.expect_status(200);
    let refused = app
        .post("/api/memory/episodes")
        .json(&json!({"content": "x"}))
        .send()
        .await
        .expect_error(503, "memory_disabled");
    assert!(refused.json()["error"].as_str().is_some_and(|error| error.contains("/api/settings/memory")));
    assert_eq!(stats(&app).await["total_episodes"], 0);
}

#[tokio::test]
async fn episodes_are_paged_and_filtered() {
    let app = app().await;
    for number in 0..5 {
        say(&app, &format!("Note {number}")).await;
    }
    remember(&app, &json!({"content": "Not of scout", "agent_id": "other"})).await;
    let list = |query: &'static str| {
        let request = app.get(&format!("/api/memory/episodes{query}"));
        async move { request.send().await.expect_status(200).json() }
    };
    let all = list("").await;
    assert_eq!((&all["total"], &all["limit"], &all["offset"]), (&json!(6), &json!(20), &json!(0)));
    assert_eq!(all["episodes"][0]["content"], "Not of scout");
    let page = list("?agent_id=scout&limit=2&offset=1").await;
    assert_eq!(page["total"], 5);
    let shown: Vec<_> = page["episodes"].as_array().expect("a list").iter().map(|e| e["content"].clone()).collect();
    assert_eq!(shown, ["Note 3", "Note 2"]);
    for bad in ["?limit=0", "?limit=101", "?offset=-1"] {
        app.get(&format!("/api/memory/episodes{bad}")).send().await.expect_status(400);
    }
    for unknown in ["?agent_id=nobody", "?cluster_id=nonsense"] {
        app.get(&format!("/api/memory/episodes{unknown}")).send().await.expect_status(404);
    }
}

#[tokio::test]
async fn deleted_episode_leaves_no_trace() {
    let app = app().await;
    let kept = say(&app, "Ada Lovelace uses PostgreSQL at Siemens in Munich.").await;
    let before = (stats(&app).await, graph(&app).await);
    let gone = say(&app, "Bob Miller prefers Django and lives in Paris; Ada Lovelace uses PostgreSQL.").await;
    assert_ne!((stats(&app).await, graph(&app).await), before);
    app.delete(&format!("/api/memory/episodes/{gone}")).send().await.expect_status(200);
    assert_eq!((stats(&app).await, graph(&app).await), before);
    for mode in ["keyword", "semantic", "hybrid"] {
        let answer = search(&app, &format!("Django+Paris&mode={mode}")).await;
        assert!(contents(&answer).iter().all(|content| !content.contains("Django")), "{answer}");
    }
    for method in ["get", "delete"] {
        let path = format!("/api/memory/episodes/{gone}");
        let request = if method == "get" { app.get(&path) } else { app.delete(&path) };
        request.send().await.expect_status(404);
    }
    app.get(&format!("/api/memory/episodes/{kept}")).send().await.expect_status(200);
}

async fn graph(app: &TestApp) -> Value {
    app.get("/api/memory/graph").send().await.expect_status(200).json()
}

#[tokio::test]
async fn graph_is_complete_without_a_limit() {
    const ENTITIES: i64 = 2_500;
    let app = app().await;
    assert_eq!(
        graph(&app).await,
        json!({"entities": [], "relationships": [], "total_entities": 0, "total_relationships": 0})
    );
    let fill = async |tx: &mut Tx| {
        for number in 1..=ENTITIES {
            let name = format!("Entity {number}");
            let sql = "INSERT INTO entities (number, id, entity_type, entity_key, name, mentions) VALUES ($1, $2, 'tool', $3, $3, $1)";
            tx.execute(sql, args![number, format!("ent_{number:05}"), name]).await?;
            // All entities relate to one, so that the relations of one source exceed a page.
            if number > 1 {
                for relation_type in ["uses", "co_occurs"] {
                    let sql = "INSERT INTO entity_relations (source, target, relation_type, weight, episodes) VALUES (1, $1, $2, 1500, 1)";
                    tx.execute(sql, args![number, relation_type]).await?;
                }
            }
        }
        Ok::<_, StoreError>(())
    };
    app.running().context().db.write(fill).await.expect("a graph");
    let whole = graph(&app).await;
    let named = |list: &str, name: &str| -> Vec<String> {
        let list = whole[list].as_array().expect("a list");
        list.iter().map(|entry| entry[name].as_str().expect("a text").to_owned()).collect()
    };
    let ids: Vec<String> = (1..=ENTITIES).map(|number| format!("ent_{number:05}")).collect();
    assert!(named("entities", "id") == ids, "each once, oldest first");
    let targets: Vec<String> = ids[1..].iter().flat_map(|id| [id.clone(), id.clone()]).collect();
    assert!(named("relationships", "target") == targets, "each once, in the order of their entities");
    assert_eq!(
        whole["relationships"][0],
        json!({"source": "ent_00001", "target": "ent_00002", "type": "co_occurs", "weight": 1.5})
    );
    let relations = 2 * (ENTITIES - 1);
    assert_eq!((&whole["total_entities"], &whole["total_relationships"]), (&json!(ENTITIES), &json!(relations)));
    let few = app.get("/api/memory/graph?limit=2").send().await.expect_status(200).json();
    assert_eq!((&few["entities"][0]["id"], few["entities"].as_array().map(Vec::len)), (&json!("ent_02500"), Some(2)));
    for limit in ["0", "10001"] {
        let refused = app.get(&format!("/api/memory/graph?limit={limit}")).send().await.expect_status(400);
        assert_eq!(refused.bad_fields(), ["limit"]);
    }
}

#[tokio::test]
async fn clearing_deletes_everything() {
    let app = app().await;
    for content in ["Rust and Tokio", "Python in Berlin", "Nothing else"] {
        say(&app, content).await;
    }
    let cleared = app.delete("/api/settings/memory/data").send().await.expect_status(200).json();
    assert_eq!(cleared, json!({"cleared": 3}));
    let stats = stats(&app).await;
    assert_eq!(
        (&stats["total_episodes"], &stats["total_entities"], &stats["total_relations"]),
        (&json!(0), &json!(0), &json!(0))
    );
    assert_eq!(stats["source_distribution"], json!({}));
    assert_eq!(graph(&app).await["entities"], json!([]));
    assert_eq!(search(&app, "Rust").await["total"], 0);
    say(&app, "Rust again").await;
    assert_eq!(contents(&search(&app, "Rust&mode=keyword").await), ["Rust again"]);
    assert_eq!(app.delete("/api/settings/memory/data").send().await.expect_status(200).json(), json!({"cleared": 1}));
}

#[tokio::test]
async fn statistics_are_exact() {
    let app = app().await;
    for (importance, valence, source) in [(0.0, -1.0, "a"), (0.1, 0.5, "a"), (0.55, 0.0, "b"), (1.0, 0.5, "manual")] {
        let body =
            json!({"content": "PostgreSQL in Berlin", "importance": importance, "valence": valence, "source": source});
        remember(&app, &body).await;
    }
    let stats = stats(&app).await;
    assert_eq!(stats["total_episodes"], 4);
    assert_eq!((&stats["avg_importance"], &stats["avg_valence"]), (&json!(0.4125), &json!(0.0)));
    assert_eq!(stats["importance_distribution"], json!([1, 1, 0, 0, 0, 1, 0, 0, 0, 1]));
    assert_eq!(stats["source_distribution"], json!({"a": 2, "b": 1, "manual": 1}));
    assert_eq!(stats["entity_type_distribution"], json!({"tool": 1, "place": 1}));
    assert_eq!(stats["total_entities"], 2);
    let nothing = json!({"total_recalls": 0, "used_count": 0, "ignored_count": 0, "usage_rate": 0.0});
    assert_eq!(stats["recall_feedback"], nothing);
    let graph = graph(&app).await;
    let tool =
        graph["entities"].as_array().expect("a list").iter().find(|e| e["name"] == "PostgreSQL").expect("the entity");
    assert_eq!(tool["mentions"], 4);
}

#[tokio::test]
async fn deleting_an_agent_deletes_its_memory() {
    let app = app().await;
    let id = say(&app, "Scout saw a comet over Lisbon").await;
    remember(&app, &json!({"content": "Other saw a comet too", "agent_id": "other"})).await;
    app.delete("/api/agents/scout").send().await.expect_status(200);
    let found = search(&app, "comet").await;
    assert_eq!((contents(&found), &found["total"]), (vec!["Other saw a comet too"], &json!(1)));
    app.get(&format!("/api/memory/episodes/{id}")).send().await.expect_status(404);
    app.run_workers().await;
    let stats = stats(&app).await;
    assert_eq!(stats["total_episodes"], 1);
    assert_eq!(stats["entity_type_distribution"].get("place"), None, "Lisbon is gone: {stats}");
}

#[tokio::test]
async fn export_contains_everything() {
    let app = app().await;
    let empty = app.get("/api/settings/memory/export").send().await.expect_status(200);
    assert_eq!((&empty.json()["episodes"], &empty.json()["total"]), (&json!([]), &json!(0)));
    for number in 0..450 {
        say(&app, &format!("Note {number}")).await;
    }
    let export = app.get("/api/settings/memory/export").send().await.expect_status(200);
    assert!(export.header("content-disposition").is_some_and(|value| value.contains("agentd-memory.json")));
    let export = export.json();
    assert_eq!(export["total"], 450);
    let contents: Vec<_> =
        export["episodes"].as_array().expect("a list").iter().map(|e| e["content"].clone()).collect();
    let wanted: Vec<_> = (0..450).map(|number| json!(format!("Note {number}"))).collect();
    assert_eq!(contents, wanted);
}

#[tokio::test]
async fn idempotent_request_stores_one_episode() {
    let app = app().await;
    let body = json!({"content": "Only once"});
    let send = || app.post("/api/memory/episodes").header("Idempotency-Key", "k1").json(&body).send();
    let first = send().await.expect_status(201).json();
    assert_eq!(send().await.expect_status(201).json(), first);
    assert_eq!(stats(&app).await["total_episodes"], 1);
}

#[tokio::test]
async fn entities_are_ordered_by_mentions() {
    let app = app().await;
    let content = "Docker, Docker, Docker: Rust and Rust, then Berlin. Ada Lovelace uses PostgreSQL at Siemens.";
    let made = remember(&app, &json!({"content": content})).await;
    let path = format!("/api/memory/episodes/{}", made["id"].as_str().expect("an id"));
    let read = app.get(&path).send().await.expect_status(200).json();
    assert_eq!(made["entities"], read["entities"]);
    assert_eq!((&made["entities"][0]["name"], &made["entities"][1]["name"]), (&json!("Docker"), &json!("Rust")));
}

#[tokio::test]
async fn company_with_and_without_legal_form_is_one_entity() {
    let app = app().await;
    for content in ["Ada works at Microsoft.", "Ada works at Microsoft Corp.", "A letter from Microsoft, Inc. came."] {
        remember(&app, &json!({"content": content})).await;
    }
    let graph = app.get("/api/memory/graph").send().await.expect_status(200).json();
    let firms: Vec<_> =
        graph["entities"].as_array().expect("entities").iter().filter(|e| e["type"] == "organization").collect();
    assert_eq!((firms.len(), &firms[0]["name"], &firms[0]["mentions"]), (1, &json!("Microsoft"), &json!(3)), "{graph}");
}
