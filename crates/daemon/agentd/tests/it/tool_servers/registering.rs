//! Registrations of tool servers: lifecycle, secrets, and validation.

use serde_json::{Value, json};

use super::{SERVERS, fake, register, with};
use crate::skills::{app, app_without_sandbox, offered};
use crate::support::TestApp;

fn off(name: &str) -> Value {
    with(fake("well"), json!({"name": name, "enabled": false}))
}

#[tokio::test]
async fn registration_is_created_changed_and_deleted() {
    let mut app = TestApp::with_owner().await;
    let made = app.post(SERVERS).json(&off("My Server")).send().await.expect_status(201).json();
    assert_eq!((&made["tool_prefix"], &made["transport"]), (&json!("my-server"), &json!("stdio")));
    assert_eq!((&made["enabled"], &made["trusted"], &made["network"]), (&json!(false), &json!(false), &json!(false)));
    assert_eq!((&made["status"], &made["tools"]), (&json!("disabled"), &json!([])));
    assert_eq!((&made["url"], &made["headers"], &made["writable_paths"]), (&Value::Null, &Value::Null, &json!([])));
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("mcp_"));
    app.restart().await;
    let path = format!("{SERVERS}/{id}");
    assert_eq!(app.get(&path).send().await.expect_status(200).json(), made);

    let change = json!({"name": "Other", "trusted": true, "timeout_seconds": 5, "network": true});
    let changed = app.put(&path).json(&change).send().await.expect_status(200).json();
    assert_eq!((&changed["tool_prefix"], &changed["args"]), (&json!("other"), &made["args"]));
    assert_eq!((&changed["timeout_seconds"], &changed["network"]), (&json!(5), &json!(true)));
    let http = json!({"transport": "http", "url": "http://127.0.0.1:9/mcp"});
    let turned = app.put(&path).json(&http).send().await.expect_status(200).json();
    assert_eq!((&turned["command"], &turned["headers"]), (&Value::Null, &json!({})));

    let list = app.get(SERVERS).send().await.expect_status(200).json();
    assert_eq!((&list["total"], &list["servers"][0]), (&json!(1), &turned));
    let glance = app.get("/api/settings/skills").send().await.expect_status(200).json();
    assert_eq!(glance["servers"][0]["status"], "disabled");
    assert_eq!(app.delete(&path).send().await.expect_status(200).json(), json!({"deleted": true}));
    for request in
        [app.get(&path), app.delete(&path), app.put(&path).json(&json!({})), app.get(&format!("{path}/status"))]
    {
        request.send().await.expect_error(404, "tool_server_not_found");
    }
    for action in ["test", "discover", "connect", "disconnect"] {
        app.post(&format!("{path}/{action}")).send().await.expect_error(404, "tool_server_not_found");
    }
}

#[tokio::test]
async fn server_names_must_have_different_prefixes() {
    let app = TestApp::with_owner().await;
    register(&app, &off("Files")).await;
    let other = register(&app, &off("Other")).await;
    // The name has the same tool prefix.
    app.post(SERVERS).json(&off("files!")).send().await.expect_error(409, "name_taken");
    let change = json!({"name": "FILES"});
    app.put(&format!("{SERVERS}/{other}")).json(&change).send().await.expect_error(409, "name_taken");
}

#[tokio::test]
async fn all_bad_fields_of_a_registration_are_reported() {
    let app = TestApp::with_owner().await;
    let bad = with(
        off("a"),
        json!({"command": "./here", "args": ["x".repeat(9000)], "env": {"1A": "x"}, "writable_paths": ["relative"], "url": "http://a"}),
    );
    let refused = app.post(SERVERS).json(&bad).send().await.expect_error(400, "invalid_request").json();
    let fields: Vec<&str> =
        refused["fields"].as_array().unwrap().iter().map(|f| f["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["url", "env.1A", "command", "args[0]", "writable_paths[0]"]);
    app.post(SERVERS).json(&json!({"name": "a"})).send().await.expect_status(400);
    app.post(SERVERS).json(&json!({"name": "a", "transport": "http"})).send().await.expect_status(400);
    app.post(SERVERS).json(&json!({"name": "a", "transport": "carrier pigeon"})).send().await.expect_status(400);
}

#[tokio::test]
async fn unknown_fields_of_a_registration_are_rejected() {
    let app = TestApp::with_owner().await;
    let misspelt = with(off("a"), json!({"timeout_second": 5}));
    let refused = app.post(SERVERS).json(&misspelt).send().await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["timeout_second"]);
    assert!(refused.text().contains("timeout_seconds"), "{}", refused.text());
    let path = format!("{SERVERS}/{}", register(&app, &off("a")).await);
    for field in ["enable", "header"] {
        let refused = app.put(&path).json(&json!({field: {}})).send().await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), [field]);
    }
}

#[tokio::test]
async fn registration_can_be_read_changed_and_written_back() {
    let app = TestApp::with_owner().await;
    let http = json!({"name": "b", "transport": "http", "url": "https://one.example/mcp", "enabled": false,
                      "headers": {"authorization": "Bearer very-secret"}});
    for fields in [with(off("a"), json!({"env": {"TOKEN": "very-secret"}})), http] {
        let path = format!("{SERVERS}/{}", register(&app, &fields).await);
        let mut read = app.get(&path).send().await.expect_status(200).json();
        read["timeout_seconds"] = json!(7);
        let mut changed = app.put(&path).json(&read).send().await.expect_status(200).json();
        changed["updated_at"] = read["updated_at"].clone();
        assert_eq!(changed, read);
        read["id"] = json!("mcp_other");
        let refused = app.put(&path).json(&read).send().await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), ["id"]);
    }
}

#[tokio::test]
async fn server_cannot_access_the_data_directory() {
    let app = TestApp::with_owner().await;
    let data = app.data_dir();
    let inside = data.join("inside");
    std::fs::create_dir(&inside).unwrap();
    let greedy = with(off("a"), json!({"readable_paths": [data, "/usr"], "writable_paths": [inside, data.parent()]}));
    let refused = app.post(SERVERS).json(&greedy).send().await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["readable_paths[0]", "writable_paths[0]", "writable_paths[1]"]);
    let path = format!("{SERVERS}/{}", register(&app, &off("a")).await);
    let refused = app.put(&path).json(&json!({"readable_paths": [inside]})).send().await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["readable_paths[0]"]);
}

#[tokio::test]
async fn registration_secrets_are_write_only_and_bound_to_their_destination() {
    let app = TestApp::with_owner().await;
    let id =
        register(&app, &with(off("a"), json!({"env": {"TOKEN": "very-secret-1", "PLAIN": "very-secret-2"}}))).await;
    let path = format!("{SERVERS}/{id}");
    let shown = app.get(&path).send().await.expect_status(200);
    assert!(!shown.text().contains("very-secret"));
    assert_eq!(shown.json()["env"], json!({"TOKEN": {"set": true}, "PLAIN": {"set": true}}));
    // The shown value is kept when sent back; null clears it.
    let change = json!({"env": {"TOKEN": {"set": true}, "PLAIN": null}});
    let changed = app.put(&path).json(&change).send().await.expect_status(200).json();
    assert_eq!(changed["env"], json!({"TOKEN": {"set": true}}));
    app.put(&path).json(&json!({"env": {"NEW": {"set": true}}})).send().await.expect_status(400);
    // A change of the destination requires the secret again.
    for change in [json!({"command": "/usr/bin/env"}), json!({"args": ["-c", "print"]})] {
        let refused = app.put(&path).json(&change).send().await.expect_error(400, "invalid_request").json();
        assert_eq!(refused["fields"][0]["field"], "env.TOKEN");
    }
    let moved = json!({"command": "/usr/bin/env", "env": {"TOKEN": null}});
    app.put(&path).json(&moved).send().await.expect_status(200);
    let http = json!({"name": "b", "transport": "http", "url": "https://one.example/mcp", "enabled": false,
                      "headers": {"Authorization": "Bearer very-secret-3"}});
    let made = app.post(SERVERS).json(&http).send().await.expect_status(201);
    assert!(!made.text().contains("very-secret"));
    assert_eq!(made.json()["headers"], json!({"authorization": {"set": true}}));
    let path = format!("{SERVERS}/{}", made.json()["id"].as_str().unwrap());
    let away = json!({"url": "https://two.example/mcp"});
    app.put(&path).json(&away).send().await.expect_error(400, "invalid_request");
    let export = app.get("/api/settings/export").send().await.expect_status(200);
    assert!(!export.text().contains("very-secret"));
    // The secrets of a deleted server are removed.
    app.delete(&path).send().await.expect_status(200);
    let mut read = app.running().context().db.read().await.unwrap();
    let sql = "SELECT COUNT(*) FROM secrets WHERE scope LIKE 'tool_servers.%' AND name LIKE 'header.%'";
    let left: u64 = read.fetch_one(sql, agentd_store::args![]).await.unwrap().first().unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn repeated_registration_with_a_key_is_executed_once() {
    let app = TestApp::with_owner().await;
    let send = || app.post(SERVERS).header("Idempotency-Key", "once").json(&off("a")).send();
    let first = send().await.expect_status(201).json();
    assert_eq!(send().await.expect_status(201).json(), first);
    assert_eq!(app.get(SERVERS).send().await.json()["total"], 1);
}

#[tokio::test]
async fn disabled_server_offers_no_tools_and_is_not_connected() {
    let app = app_without_sandbox().await;
    let id = register(&app, &off("fake")).await;
    app.post(&format!("{SERVERS}/{id}/connect")).send().await.expect_error(409, "tool_server_disabled");
    // It can still be tested and discovered.
    let found = super::act(&app, &id, "test").await;
    assert_eq!((&found["ok"], &found["server"]["name"]), (&json!(true), &json!("fake")));
    assert_eq!(found["tools"][0]["name"], "fake_peek");
    assert_eq!(super::act(&app, &id, "discover").await["total"], 9);
    assert!(!offered(&app).await.iter().any(|name| name.starts_with("fake_")));
    let on = app.put(&format!("{SERVERS}/{id}")).json(&json!({"enabled": true})).send().await.expect_status(200);
    assert_eq!(on.json()["tools"][0]["name"], "fake_peek");
    assert!(offered(&app).await.contains(&"fake_echo".to_owned()));
    assert_eq!(super::processes(&[&app.data_dir().display().to_string(), "fake_server"]), Vec::<u32>::new());
}

#[tokio::test]
async fn server_requires_a_sandbox_and_accesses_only_allowed_paths() {
    let app = app().await;
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().canonicalize().unwrap().join("outside");
    std::fs::write(&outside, "of the owner").unwrap();
    let state = app.get("/api/sandbox/config").send().await.expect_status(200).json();
    if state["in_force"]["tier"].is_null() {
        let id = register(&app, &with(fake("well"), json!({"enabled": false}))).await;
        let found = super::act(&app, &id, "test").await;
        assert_eq!((&found["ok"], &found["code"]), (&json!(false), &json!("sandbox_unavailable")));
        eprintln!("SKIPPED: this machine offers no sandbox");
        return;
    }
    let id = super::connected(&app, &fake("well")).await;
    let key = app.data_dir().canonicalize().unwrap().join("secret.key");
    let word = format!("{}:{}", key.display(), outside.display());
    let found = crate::skills::call(&app, "fake_where", json!({"word": word})).await.unwrap();
    let home = app.data_dir().canonicalize().unwrap().join("tool-servers").join(&id);
    assert_eq!((&found["home"], &found["directory"]), (&json!(home), &json!(home)));
    for path in [&key, &outside] {
        assert_ne!(found[path.to_str().unwrap()].as_str().unwrap().len(), 16, "{found}");
        assert!(found[path.to_str().unwrap()].as_str().unwrap().ends_with("Error"), "{found}");
    }
    let state = super::status(&app, &id).await;
    assert!(["bubblewrap", "landlock"].contains(&state["sandbox"].as_str().unwrap()), "{state}");
    // A newly allowed path is readable after the restart of the process.
    let readable = json!({"readable_paths": [super::fake_folder(), folder.path()]});
    app.put(&format!("{SERVERS}/{id}")).json(&readable).send().await.expect_status(200);
    super::act(&app, &id, "connect").await;
    let found = crate::skills::call(&app, "fake_where", json!({"word": outside})).await.unwrap();
    assert_eq!(found[outside.to_str().unwrap()], "of the owner");
    // The data directory is never accessible, even through a symbolic link.
    let link = folder.path().join("link");
    let readable = json!({"readable_paths": [super::fake_folder(), link], "enabled": false});
    app.put(&format!("{SERVERS}/{id}")).json(&readable).send().await.expect_status(200);
    std::fs::create_dir_all(app.data_dir().join("agents")).unwrap();
    std::os::unix::fs::symlink(app.data_dir().join("agents"), &link).unwrap();
    app.put(&format!("{SERVERS}/{id}")).json(&json!({"enabled": true})).send().await.expect_status(200);
    app.post(&format!("{SERVERS}/{id}/connect")).send().await.expect_error(503, "sandbox_path_refused");
    app.delete(&format!("{SERVERS}/{id}")).send().await.expect_status(200);
    assert!(!home.exists());
}
