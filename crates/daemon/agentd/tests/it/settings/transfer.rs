//! Export and import of all settings.

use serde_json::{Value, json};

use super::avatar::{GIF, upload};
use super::{get, put};
use crate::support::TestApp;

#[tokio::test]
async fn export_can_be_imported_elsewhere() {
    let app = TestApp::with_owner().await;
    put(&app, "profile", json!({"display_name": "Ada", "timezone": "Asia/Tokyo"})).await.expect_status(200);
    put(&app, "security", json!({"blocked_hosts": ["EVIL.example."]})).await.expect_status(200);
    put(&app, "agent", json!({"temperature": 1.5, "default_provider": "xai"})).await.expect_status(200);
    put(&app, "strategy", json!({"reflection": true, "max_parallel_tools": 2})).await.expect_status(200);
    let proactive = json!({"delivery": "email:ada@example.org", "quiet_hours": {"timezone": "Asia/Tokyo"}});
    put(&app, "proactive", proactive).await.expect_status(200);
    upload(&app, "file", GIF).await.expect_status(200);
    let export = app.get("/api/settings/export").send().await.expect_status(200);
    assert_eq!(export.header("content-disposition"), Some("attachment; filename=\"agentd-settings.json\""));
    let file = export.json();
    assert!(file["settings"]["profile"].get("avatar_url").is_none(), "the picture is not a setting");

    let other = TestApp::with_owner().await;
    let path = "/api/settings/import?include_safety=true";
    let imported = other.post(path).json(&file).send().await.expect_status(200).json();
    for category in ["agent", "strategy", "proactive", "email"] {
        assert_eq!(imported[category], get(&app, category).await, "{category}");
    }
    assert_eq!(imported["security"]["blocked_hosts"], json!(["evil.example"]));
    assert_eq!(imported["profile"]["timezone"], "Asia/Tokyo");
    // On the exporting daemon the picture stays unchanged.
    let avatar = get(&app, "profile").await["avatar_url"].clone();
    app.post("/api/settings/import").json(&file).send().await.expect_status(200);
    assert_eq!(get(&app, "profile").await["avatar_url"], avatar);
}

#[tokio::test]
async fn import_is_atomic() {
    let app = TestApp::with_owner().await;
    let before = app.get("/api/settings").send().await.json();
    let import =
        async |settings: Value| app.post("/api/settings/import").json(&json!({"settings": settings})).send().await;
    let refused = import(json!({"profile": {"display_name": "Ada"}, "agent": {"temperature": 9, "nope": 1}})).await;
    let mut fields = refused.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["settings.agent.nope", "settings.agent.temperature"]);
    let refused = import(json!({"profile": {"theme": "x"}, "weather": {}, "agent": 1})).await;
    let mut fields = refused.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["settings.agent", "settings.profile.theme", "settings.weather"]);
    app.post("/api/settings/import").json(&json!({"profile": {}})).send().await.expect_status(400);
    app.post("/api/settings/import").json(&json!({"settings": {}, "format": 2})).send().await.expect_status(400);
    app.post("/api/settings/import").json(&json!({})).send().await.expect_status(400);
    assert_eq!(app.get("/api/settings").send().await.json(), before);

    // Larger than the general body limit, so only its content is rejected.
    let large = json!({"settings": {"agent": {"instructions": "x".repeat(3 * 1024 * 1024)}}});
    let refused = app.post("/api/settings/import").json(&large).send().await.expect_status(400);
    assert_eq!(refused.bad_fields(), ["settings.agent.instructions"]);
}

/// Returns an import file with every setting that weakens the daemon.
fn hostile_file() -> Value {
    json!({"settings": {
        "interface": {"language": "de"},
        "sandbox": {"backend": "none", "network": true, "writable_paths": ["/srv"]},
        "security": {
            "allowed_hosts": ["169.254.169.254"], "approval_tools": [], "blocked_hosts": [],
            "private_hook_targets": true, "session_ttl_seconds": 31_536_000, "login_max_failures": 1000,
        },
        "browser": {"ssrf_allowlist": ["169.254.169.254"], "stream_quality": 50},
        "channels": {"telegram": {"sender_policy": "open", "tools": ["shell"], "groups": "always"}},
        "skills": {"mcp": [
            {"name": "files", "transport": "stdio", "command": "/bin/false", "args": [], "network": true,
                "writable_paths": ["/srv"], "enabled": false, "trusted": true, "timeout_seconds": 60},
        ]},
    }})
}

async fn strict_daemon() -> TestApp {
    let app = TestApp::with_owner().await;
    let security = json!({"approval_tools": ["shell"], "blocked_hosts": ["evil.example"],
        "private_hook_targets": false});
    put(&app, "security", security).await.expect_status(200);
    app
}

#[tokio::test]
async fn import_keeps_safety_settings_and_lists_them() {
    let app = strict_daemon().await;
    let before = app.get("/api/settings").send().await.json();
    let imported = app.post("/api/settings/import").json(&hostile_file()).send().await.expect_status(200).json();
    assert_eq!(imported["weakened"], json!([]));
    for category in ["security", "sandbox"] {
        assert_eq!(imported[category], before[category], "{category}");
    }
    assert_eq!(
        (&imported["browser"]["ssrf_allowlist"], &imported["browser"]["stream_quality"]),
        (&json!([]), &json!(50))
    );
    let telegram = &imported["channels"]["telegram"];
    assert_eq!((&telegram["sender_policy"], &telegram["tools"]), (&json!("pairing"), &json!([])));
    assert_eq!((&telegram["groups"], &imported["interface"]["language"]), (&json!("always"), &json!("de")));
    let server = &imported["skills"]["mcp"][0];
    assert_eq!(
        (&server["trusted"], &server["network"], &server["writable_paths"]),
        (&json!(false), &json!(false), &json!([]))
    );
    let mut unchanged: Vec<&str> = imported["safety_unchanged"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["setting"].as_str().unwrap())
        .collect();
    unchanged.sort_unstable();
    let expected = [
        "browser.ssrf_allowlist",
        "channels.telegram.sender_policy",
        "channels.telegram.tools",
        "sandbox.backend",
        "sandbox.network",
        "sandbox.writable_paths",
        "security.allowed_hosts",
        "security.approval_tools",
        "security.blocked_hosts",
        "security.login_max_failures",
        "security.private_hook_targets",
        "security.session_ttl_seconds",
        "skills.mcp.files.network",
        "skills.mcp.files.trusted",
        "skills.mcp.files.writable_paths",
    ];
    assert_eq!(unchanged, expected);
    assert!(imported["safety_unchanged"].as_array().unwrap().iter().all(|entry| entry["weaker"] == true));
}

#[tokio::test]
async fn import_with_safety_applies_and_lists_weakened_settings() {
    let app = strict_daemon().await;
    let path = "/api/settings/import?include_safety=true";
    let imported = app.post(path).json(&hostile_file()).send().await.expect_status(200).json();
    assert_eq!(imported["safety_unchanged"], json!([]));
    assert_eq!(
        (&imported["sandbox"]["backend"], &imported["security"]["approval_tools"]),
        (&json!("none"), &json!([]))
    );
    assert_eq!(imported["skills"]["mcp"][0]["trusted"], true);
    let weakened = imported["weakened"].as_array().unwrap();
    assert_eq!(weakened.len(), 15, "{weakened:?}");
    let backend = weakened.iter().find(|entry| entry["setting"] == "sandbox.backend").unwrap();
    assert_eq!((&backend["before"], &backend["after"]), (&json!("auto"), &json!("none")));
    assert!(backend["message"].as_str().unwrap().starts_with("sandbox.backend: auto → none. "), "{backend}");

    // Restoring the stricter settings weakens nothing, and a repeat changes nothing.
    let stronger = json!({"settings": {"sandbox": {"backend": "auto", "network": false, "writable_paths": []}}});
    for _ in 0..2 {
        let imported = app.post(path).json(&stronger).send().await.expect_status(200).json();
        assert_eq!((&imported["weakened"], &imported["safety_unchanged"]), (&json!([]), &json!([])));
        assert_eq!(imported["sandbox"]["backend"], "auto");
    }
}

#[tokio::test]
async fn include_safety_is_query_only_and_safety_settings_are_always_validated() {
    let app = strict_daemon().await;
    let before = app.get("/api/settings").send().await.json();
    let mut file = hostile_file();
    file["include_safety"] = json!(true);
    app.post("/api/settings/import").json(&file).send().await.expect_error(400, "invalid_request");
    app.post("/api/settings/import?include_safety=maybe").json(&hostile_file()).send().await.expect_status(400);
    let invalid = json!({"settings": {"security": {"allowed_hosts": ["http://x"]}, "sandbox": {"backend": "paper"}}});
    let refused = app.post("/api/settings/import").json(&invalid).send().await.expect_error(400, "invalid_request");
    let fields = refused.bad_fields();
    for field in ["settings.security.allowed_hosts[0]", "settings.sandbox.backend"] {
        assert!(fields.contains(&field.to_owned()), "{field} in {fields:?}");
    }
    assert_eq!(app.get("/api/settings").send().await.json(), before);
}

#[tokio::test]
async fn imported_tool_server_with_another_command_loses_its_permissions() {
    let app = TestApp::with_owner().await;
    let server = json!({"name": "files", "transport": "stdio", "command": "/bin/true", "args": [], "network": true,
        "readable_paths": ["/srv"], "trusted": true, "enabled": false});
    app.post("/api/settings/skills/mcp").json(&server).send().await.expect_status(201);
    let export = app.get("/api/settings/export").send().await.expect_status(200).json();
    let imported = app.post("/api/settings/import").json(&export).send().await.expect_status(200).json();
    assert_eq!(imported["safety_unchanged"], json!([]), "an unchanged command keeps its permissions");
    assert_eq!(imported["skills"]["mcp"][0]["network"], true);

    let mut other = export.clone();
    other["settings"]["skills"]["mcp"][0]["command"] = json!("/bin/false");
    let imported = app.post("/api/settings/import").json(&other).send().await.expect_status(200).json();
    let server = &imported["skills"]["mcp"][0];
    assert_eq!(
        (&server["command"], &server["network"], &server["readable_paths"], &server["trusted"]),
        (&json!("/bin/false"), &json!(false), &json!([]), &json!(false))
    );
}

#[tokio::test]
async fn skills_are_exported_and_imported() {
    let app = TestApp::with_owner().await;
    app.post("/api/settings/skills/builtin/http_fetch/toggle").send().await.expect_status(200);
    let tool = json!({"name": "weather", "description": "Tells the weather.", "kind": "http",
        "request": {"method": "GET", "url": "https://weather.example/", "secret_headers": {"x-key": "hidden-one"}}});
    app.post("/api/settings/skills/custom").json(&tool).send().await.expect_status(201);
    let server = json!({"name": "docs", "transport": "http", "url": "https://mcp.example/", "enabled": false,
        "headers": {"authorization": "Bearer hidden-two"}});
    app.post("/api/settings/skills/mcp").json(&server).send().await.expect_status(201);
    let export = app.get("/api/settings/export").send().await.expect_status(200);
    assert!(!export.text().contains("hidden"), "{}", export.text());
    let skills = export.json()["settings"]["skills"].clone();
    assert_eq!(skills["builtin_off"], json!(["http_fetch"]));
    assert_eq!(app.get("/api/settings").send().await.json()["skills"], skills);

    let other = TestApp::with_owner().await;
    for _ in 0..2 {
        let imported = other.post("/api/settings/import").json(&export.json()).send().await.expect_status(200).json();
        assert_eq!(imported["skills"], skills);
    }
    let tools = other.get("/api/settings/skills/custom").send().await.json();
    assert_eq!(
        (&tools["total"], &tools["tools"][0]["request"]["secret_headers"]),
        (&json!(1), &json!({"x-key": {"set": false}}))
    );
    let servers = other.get("/api/settings/skills/mcp").send().await.json();
    assert_eq!(
        (&servers["total"], &servers["servers"][0]["headers"]["authorization"]),
        (&json!(1), &json!({"set": false}))
    );
    // On the exporting daemon the secret values exist and are kept.
    app.post("/api/settings/import").json(&export.json()).send().await.expect_status(200);
    let servers = app.get("/api/settings/skills/mcp").send().await.json();
    assert_eq!(servers["servers"][0]["headers"]["authorization"], json!({"set": true}));
    let tools = app.get("/api/settings/skills/custom").send().await.json();
    assert_eq!(tools["tools"][0]["request"]["secret_headers"], json!({"x-key": {"set": true}}));

    let bad = json!({"settings": {"skills": {"mcp": [{"name": "x"}], "nope": 1}, "agent": {"temperature": 9}}});
    let refused = app.post("/api/settings/import").json(&bad).send().await.expect_error(400, "invalid_request");
    let fields = refused.bad_fields();
    for field in ["settings.agent.temperature", "settings.skills.nope", "settings.skills.mcp[0].transport"] {
        assert!(fields.contains(&field.to_owned()), "{field} in {fields:?}");
    }
}
