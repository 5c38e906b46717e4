//! Hooks: create, get, update, and delete.

use serde_json::{Value, json};

use super::receiver::Receiver;
use super::{HOOKS, SECRET, create_hook, deliveries, emit, emit_for, executions, queue_stats, queued, settle};
use crate::support::TestApp;

#[tokio::test]
async fn hook_is_created_updated_and_deleted() {
    let app = TestApp::with_owner().await;
    let wanted = json!({
        "name": " Sink ", "event_type": "task.completed", "hook_type": "http", "priority": 5, "tags": ["a", "a", "b"],
        "config": {"url": "http://127.0.0.1:9/in", "secret": SECRET, "headers": {"X-Own": "1"}, "queued": true},
        "filter_expr": {"field": "data.agent_id", "op": "eq", "value": "agent_1"}, "max_retries": 3,
    });
    let made = app.post(HOOKS).json(&wanted).send().await.expect_status(201).json();
    let config = json!({
        "url": "http://127.0.0.1:9/in", "secret": {"set": true}, "headers": {"X-Own": "1"}, "queued": true,
        "retry_delay_s": 10, "retry_multiplier": 2, "max_delay_s": 3600,
    });
    assert_eq!((&made["name"], &made["config"], &made["enabled"]), (&json!("Sink"), &config, &json!(true)));
    assert_eq!((&made["scope"], &made["priority"], &made["tags"]), (&json!("global"), &json!(5), &json!(["a", "b"])));
    assert_eq!((&made["max_retries"], &made["filter_expr"]), (&json!(3), &wanted["filter_expr"]));
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("hook_"));
    let path = format!("{HOOKS}/{id}");
    assert_eq!(app.get(&path).send().await.expect_status(200).json(), made);
    assert_eq!(app.get(HOOKS).send().await.expect_status(200).json(), json!({"hooks": [made], "dead_letters": {}}));

    // Missing fields are retained, and so is the secret if it is sent back as shown.
    let change = json!({"name": "Other", "config": {"queued": false, "secret": {"set": true}}, "filter_expr": null});
    let changed = app.put(&path).json(&change).send().await.expect_status(200).json();
    assert_eq!((&changed["name"], &changed["filter_expr"]), (&json!("Other"), &Value::Null));
    assert_eq!((&changed["config"]["queued"], &changed["config"]["url"]), (&json!(false), &config["url"]));
    assert_eq!(changed["config"]["secret"], json!({"set": true}));
    let cleared = app.put(&path).json(&json!({"config": {"secret": null}})).send().await.expect_status(200).json();
    assert_eq!(cleared["config"]["secret"], json!({"set": false}));
    let toggled = app.patch(&format!("{path}/toggle")).send().await.expect_status(200).json();
    assert_eq!(toggled["enabled"], false);
    let toggled = app.patch(&format!("{path}/toggle")).send().await.expect_status(200).json();
    assert_eq!(toggled["enabled"], true);
    let refused = app.put(&path).json(&json!({"hook_type": "python"})).send().await.expect_status(400);
    assert_eq!(refused.bad_fields(), ["hook_type"]);

    let deleted = app.delete(&path).send().await.expect_status(200).json();
    assert_eq!(deleted, json!({"success": true}));
    for path in [path.clone(), format!("{path}/executions"), format!("{path}/deliveries"), format!("{path}/analytics")]
    {
        app.get(&path).send().await.expect_error(404, "hook_not_found");
    }
    app.delete(&path).send().await.expect_error(404, "hook_not_found");
    app.patch(&format!("{path}/toggle")).send().await.expect_error(404, "hook_not_found");
    app.post(&format!("{path}/test")).send().await.expect_error(404, "hook_not_found");
    app.post(&format!("{path}/test-delivery")).send().await.expect_error(404, "hook_not_found");
    assert_eq!(app.get(HOOKS).send().await.expect_status(200).json(), json!({"hooks": [], "dead_letters": {}}));
}

#[tokio::test]
async fn secret_is_not_stored_in_plain_text() {
    let app = TestApp::with_owner().await;
    let hook = json!({
        "name": "s", "event_type": "memory.stored", "hook_type": "http",
        "config": {"url": "http://127.0.0.1:9/", "secret": SECRET},
    });
    create_hook(&app, hook).await;
    let mut read = app.running().context().db.read().await.unwrap();
    for (table, columns) in [("hooks", "config"), ("secrets", "scope")] {
        let rows =
            read.fetch_all(format!("SELECT {columns} AS text FROM {table}"), agentd_store::args![]).await.unwrap();
        assert!(!rows.is_empty());
        assert!(rows.iter().all(|row| !row.get::<String>("text").unwrap().contains(SECRET)), "{table}");
    }
}

#[tokio::test]
async fn every_invalid_field_is_reported() {
    let app = TestApp::with_owner().await;
    let bad = json!({
        "name": " ", "event_type": "task.done", "hook_type": "http", "scope": "agent:nobody", "source_code": "x",
        "config": {"url": "ftp://x", "secret": "short", "headers": {"Host": "x"}},
        "filter_expr": {"all": [{"field": "data.x", "op": "like", "value": 1}]},
    });
    let mut fields = app.post(HOOKS).json(&bad).send().await.expect_status(400).bad_fields();
    fields.sort();
    let expected = [
        "config.headers.Host",
        "config.secret",
        "config.url",
        "event_type",
        "filter_expr.all[0].op",
        "name",
        "scope",
        "source_code",
    ];
    assert_eq!(fields, expected);
    let here = &app;
    let fields = |hook: Value| async move { here.post(HOOKS).json(&hook).send().await.expect_status(400).bad_fields() };
    let base = |kind: &str| json!({"name": "x", "event_type": "task.failed", "hook_type": kind});
    assert_eq!(fields(base("python")).await, ["source_code"]);
    assert_eq!(fields(base("builtin")).await, ["config.action"]);
    assert_eq!(fields(base("http")).await, ["config.url"]);
    assert_eq!(fields(base("perl")).await, ["hook_type"]);
    let mut templated = base("builtin");
    templated["config"] = json!({"channel": "slack:#x", "template": "{{secret.key}}"});
    assert_eq!(fields(templated.clone()).await, ["config.template"]);
    templated["config"] = json!({"channel": "slack:#x", "template": "{{data.a b}}"});
    assert_eq!(fields(templated.clone()).await, ["config.template"]);
    // Channels of unknown platforms.
    for channel in ["foo:b", "https://receiver.example/in"] {
        templated["config"] = json!({"channel": channel, "template": "x"});
        assert_eq!(fields(templated.clone()).await, ["config.channel"], "{channel}");
    }
    // The metadata address is never allowed.
    let mut metadata = base("http");
    metadata["config"] = json!({"url": "http://169.254.169.254/latest"});
    assert_eq!(fields(metadata).await, ["config.url"]);
    let mut wide = base("http");
    wide["max_retries"] = json!(0);
    assert_eq!(fields(wide).await, ["max_retries", "config.url"]);
    assert_eq!(app.get(HOOKS).send().await.expect_status(200).json()["hooks"], json!([]));
}

#[tokio::test]
async fn private_targets_can_be_disabled() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create_hook(&app, queued(&receiver)).await;
    let channel = json!({
        "name": "tells", "event_type": "memory.stored", "hook_type": "builtin",
        "config": {"channel": format!("webhook:{}", receiver.url()), "template": "x"},
    });
    create_hook(&app, channel.clone()).await;
    app.put("/api/settings/security").json(&json!({"private_hook_targets": false})).send().await.expect_status(200);
    let refused = app.post(HOOKS).json(&queued(&receiver)).send().await.expect_status(400);
    assert!(refused.text().contains("security.private_hook_targets is off"), "{}", refused.text());
    assert_eq!(refused.bad_fields(), ["config.url"]);
    let refused = app.post(HOOKS).json(&channel).send().await.expect_status(400);
    assert_eq!(refused.bad_fields(), ["config.channel"]);
    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    let failed = deliveries(&app, &id).await;
    assert_eq!(failed["stats"]["failed"], 1, "{failed}");
    assert!(failed["deliveries"][0]["error"].as_str().unwrap().contains("security.allowed_hosts"), "{failed}");
    assert_eq!(receiver.received().len(), 0);
    let notes = app.get("/api/notifications").send().await.expect_status(200).json();
    assert_eq!((&notes["total"], &notes["notifications"][0]["status"]), (&json!(1), &json!("pending")), "{notes}");
    // The pending notification is delivered when private targets are allowed again.
    app.put("/api/settings/security").json(&json!({"private_hook_targets": true})).send().await.expect_status(200);
    app.clock.advance(std::time::Duration::from_secs(3600));
    settle(&app).await;
    assert_eq!(receiver.received().iter().filter(|got| got.header("x-svc-event") == "notification").count(), 1);
}

#[tokio::test]
async fn repeated_request_has_no_second_effect() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let create = || app.post(HOOKS).header("idempotency-key", "h-1").json(&queued(&receiver));
    let first = create().send().await.expect_status(201);
    let again = create().send().await.expect_status(201);
    assert_eq!((first.json(), again.header("idempotency-replayed")), (again.json(), Some("true")));
    let id = first.json()["id"].as_str().unwrap().to_owned();
    let test = || app.post(&format!("{HOOKS}/{id}/test-delivery")).header("idempotency-key", "t-1");
    assert_eq!(test().send().await.expect_status(202).json(), test().send().await.expect_status(202).json());
    let run = || app.post(&format!("{HOOKS}/{id}/test")).header("idempotency-key", "t-2");
    assert_eq!(run().send().await.expect_status(200).json(), run().send().await.expect_status(200).json());
    settle(&app).await;
    assert_eq!(receiver.received().len(), 2);
}

#[tokio::test]
async fn bundled_hooks_can_be_installed() {
    let app = TestApp::with_owner().await;
    let list = app.get("/api/hooks/bundled").send().await.expect_status(200).json();
    assert_eq!(list["total"], list["hooks"].as_array().unwrap().len());
    let install = |id: &str| app.post(&format!("/api/hooks/bundled/{id}/install"));
    let refused = install("task-failed-notice").send().await.expect_status(400);
    assert_eq!(refused.bad_fields(), ["config.channel"]);
    let body = json!({"config": {"channel": "email:ada@example.net"}, "name": "Mine"});
    let made = install("task-failed-notice").json(&body).send().await.expect_status(201).json();
    assert_eq!((&made["name"], &made["event_type"]), (&json!("Mine"), &json!("task.failed")));
    assert_eq!(
        (&made["config"]["channel"], &made["bundled_id"]),
        (&body["config"]["channel"], &json!("task-failed-notice"))
    );
    // A bundled hook without required configuration needs no body.
    install("webhook-digest").send().await.expect_status(201);
    install("no-such").send().await.expect_error(404, "hook_not_found");
    let list = app.get("/api/hooks/bundled").send().await.expect_status(200).json();
    let installed: Vec<&Value> =
        list["hooks"].as_array().unwrap().iter().filter(|hook| hook["installed"] == 1).collect();
    assert_eq!(installed.len(), 2);
}

#[tokio::test]
async fn event_types_are_listed_by_category() {
    let app = TestApp::with_owner().await;
    let types = app.get("/api/hooks/event-types").send().await.expect_status(200).json();
    assert_eq!(types["event_types"]["memory"], json!(["memory.stored", "memory.consolidated", "memory.recalled"]));
    assert_eq!(types["event_types"]["scheduler"], json!(["scheduler.started", "scheduler.stopped", "scheduler.tick"]));
    assert!(types["details"].as_array().unwrap().iter().all(|known| known["fires"].as_str().unwrap().len() > 10));
}

#[tokio::test]
async fn hook_receives_matching_events_after_its_creation() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let agent = json!({"svc_name": "scout", "user_name": "Ada", "archetype": "assistant"});
    let agent = app.post("/api/agents").json(&agent).send().await.expect_status(201).json();
    let agent = agent["id"].as_str().unwrap();
    emit(&app, "memory.stored", json!({"n": "too early"})).await;
    let all = create_hook(&app, queued(&receiver)).await;
    let mut scoped = queued(&receiver);
    (scoped["scope"], scoped["name"]) = (json!("agent:scout"), json!("scoped"));
    let scoped = create_hook(&app, scoped).await;
    let mut filtered = queued(&receiver);
    filtered["filter_expr"] = json!({"field": "data.importance", "op": "gt", "value": 0.5});
    let filtered = create_hook(&app, filtered).await;
    emit_for(&app, "memory.stored", json!({"importance": 0.2}), Some(agent)).await;
    emit_for(&app, "memory.stored", json!({"importance": 0.9}), Some("agent_other")).await;
    emit(&app, "memory.recalled", json!({"importance": 0.9})).await;
    settle(&app).await;
    for (id, count) in [(&all, 2), (&scoped, 1), (&filtered, 1)] {
        assert_eq!(deliveries(&app, id).await["stats"]["success"], count, "{id}");
    }
    // Events while the hook is disabled are skipped; later ones are delivered.
    app.patch(&format!("{HOOKS}/{all}/toggle")).send().await.expect_status(200);
    emit(&app, "memory.stored", json!({"n": "off"})).await;
    app.patch(&format!("{HOOKS}/{all}/toggle")).send().await.expect_status(200);
    emit(&app, "memory.stored", json!({"n": "on"})).await;
    settle(&app).await;
    let received = deliveries(&app, &all).await;
    assert_eq!(received["total"], 3, "{received}");
    // Hooks of an agent are deleted with it.
    app.delete("/api/agents/scout").send().await.expect_status(200);
    app.get(&format!("{HOOKS}/{scoped}")).send().await.expect_error(404, "hook_not_found");
    settle(&app).await;
    let mut read = app.running().context().db.read().await.unwrap();
    let left =
        read.fetch_one("SELECT COUNT(*) AS n FROM hook_deliveries WHERE hook_id = $1", agentd_store::args![&scoped]);
    assert_eq!(left.await.unwrap().get::<u64>("n").unwrap(), 0);
}

#[tokio::test]
async fn deleting_a_hook_dead_letters_its_pending_deliveries() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create_hook(&app, queued(&receiver)).await;
    let mut inline = queued(&receiver);
    inline["config"] = json!({"url": receiver.url()});
    let inline = create_hook(&app, inline).await;
    // Disables the hook, so that a delivery is pending.
    app.patch(&format!("{HOOKS}/{id}/toggle")).send().await.expect_status(200);
    app.post(&format!("{HOOKS}/{id}/test-delivery")).send().await.expect_status(202);
    settle(&app).await;
    assert_eq!(queue_stats(&app).await["pending"], 1);
    assert_eq!(executions(&app, &inline).await["total"], 0);
    app.delete(&format!("{HOOKS}/{id}")).send().await.expect_status(200);
    let dead = app.get("/api/hooks/deliveries/dead-letters").send().await.expect_status(200).json();
    assert_eq!((&dead["total"], &dead["deliveries"][0]["error"]), (&json!(1), &json!("the hook was deleted")));
    let retried = app.post("/api/hooks/deliveries/dead-letters/retry").send().await.expect_status(200).json();
    assert_eq!(retried, json!({"retried": 0}));
    app.clock.advance(std::time::Duration::from_secs(31 * 24 * 3600));
    settle(&app).await;
    assert_eq!(queue_stats(&app).await["dead_letter"], 0);
    assert_eq!(receiver.received().len(), 0);
}

#[tokio::test]
async fn read_key_does_not_see_the_target_of_a_hook() {
    let app = TestApp::with_owner().await;
    let key = app.post("/api/auth/keys").json(&json!({"name": "reader", "scope": "read"})).send().await;
    let reader = key.expect_status(200).json()["key"].as_str().expect("a key").to_owned();
    let http = json!({"name": "sink", "event_type": "memory.stored", "hook_type": "http",
        "config": {"url": "https://receiver.example/T0/hidden?token=hidden", "headers": {"authorization": "Bearer hidden"}}});
    let builtin = json!({"name": "says", "event_type": "memory.stored", "hook_type": "builtin",
        "config": {"channel": "webhook:https://receiver.example/T0/hidden", "template": "New"}});
    let (http, builtin) = (create_hook(&app, http).await, create_hook(&app, builtin).await);
    let seen = app.get(&format!("{HOOKS}/{http}")).bearer(&reader).send().await.expect_status(200).json();
    assert_eq!(seen["config"]["url"], "https://receiver.example");
    assert_eq!(seen["config"]["headers"], json!({"authorization": "[hidden]"}));
    let seen = app.get(&format!("{HOOKS}/{builtin}")).bearer(&reader).send().await.expect_status(200).json();
    assert_eq!(seen["config"]["channel"], "webhook:https://receiver.example");
    let list = app.get(HOOKS).bearer(&reader).send().await.expect_status(200);
    assert!(!list.text().contains("/hidden") && !list.text().contains("Bearer"), "{}", list.text());
    let whole = app.get(&format!("{HOOKS}/{http}")).send().await.expect_status(200).json();
    assert_eq!(whole["config"]["headers"], json!({"authorization": {"set": true}}));
}

/// Triggers the hook and returns the `Authorization` header that the receiver gets.
async fn authorization(app: &TestApp, receiver: &Receiver) -> String {
    emit(app, "memory.stored", json!({})).await;
    settle(app).await;
    receiver.received().last().expect("a request").header("authorization").to_owned()
}

#[tokio::test]
async fn credential_headers_are_stored_as_secrets() {
    let (app, receiver, other) = (TestApp::with_owner().await, Receiver::start().await, Receiver::start().await);
    let mut hook = queued(&receiver);
    hook["config"]["headers"] = json!({"Authorization": "Bearer hidden", "X-Own": "1"});
    let made = app.post(HOOKS).json(&hook).send().await.expect_status(201).json();
    let shown = json!({"Authorization": {"set": true}, "X-Own": "1"});
    assert_eq!(made["config"]["headers"], shown);
    let path = format!("{HOOKS}/{}", made["id"].as_str().unwrap());
    assert_eq!(authorization(&app, &receiver).await, "Bearer hidden");
    let mut read = app.running().context().db.read().await.unwrap();
    let rows = read.fetch_all("SELECT config FROM hooks", agentd_store::args![]).await.unwrap();
    assert!(rows.iter().all(|row| !row.get::<String>("config").unwrap().contains("hidden")));
    drop(read);
    // Sent back as shown, the header is retained, but not for another host.
    let change = |config: Value| app.put(&path).json(&json!({"config": config})).send();
    let retained = change(json!({"headers": shown})).await.expect_status(200).json();
    assert_eq!(retained["config"]["headers"], shown);
    assert_eq!(authorization(&app, &receiver).await, "Bearer hidden");
    for moved in [json!({"url": other.url()}), json!({"url": other.url(), "headers": shown})] {
        assert_eq!(change(moved).await.expect_status(400).bad_fields(), ["config.headers.Authorization"]);
    }
    let moved = json!({"url": other.url(), "headers": {"authorization": "Bearer new"}});
    change(moved).await.expect_status(200);
    assert_eq!(authorization(&app, &other).await, "Bearer new");
    // A header without a stored value cannot be retained; null clears a header.
    let unknown = change(json!({"headers": {"Cookie": {"set": true}}})).await.expect_status(400);
    assert_eq!(unknown.bad_fields(), ["config.headers.Cookie"]);
    let cleared = change(json!({"headers": {"authorization": null}})).await.expect_status(200).json();
    assert_eq!(cleared["config"]["headers"], json!({}));
    assert_eq!(authorization(&app, &other).await, "");
}
