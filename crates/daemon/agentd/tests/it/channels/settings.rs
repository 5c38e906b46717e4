//! `/api/channels/settings`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::chat_fixture::{create_agent, enable_platform};
use crate::support::{TestApp, TestResponse};

/// Platforms in the order of the keys in responses.
const PLATFORMS: [&str; 6] = ["discord", "google_chat", "slack", "teams", "telegram", "whatsapp"];

async fn put(app: &TestApp, change: Value) -> TestResponse {
    app.put("/api/channels/settings").json(&change).send().await
}

async fn get(app: &TestApp) -> Value {
    app.get("/api/channels/settings").send().await.expect_status(200).json()
}

#[tokio::test]
async fn platforms_are_disabled_and_require_pairing_by_default() {
    let app = TestApp::with_owner().await;
    let all = get(&app).await;
    assert_eq!(all.as_object().unwrap().keys().map(String::as_str).collect::<Vec<_>>(), PLATFORMS);
    for platform in PLATFORMS {
        let settings = &all[platform];
        assert_eq!(
            (&settings["enabled"], &settings["sender_policy"]),
            (&json!(false), &json!("pairing")),
            "{platform}"
        );
        assert_eq!((&settings["tools"], &settings["allowed_senders"]), (&json!([]), &json!([])), "{platform}");
    }
    assert_eq!(app.get("/api/settings").send().await.json()["channels"], all);
}

/// A target that cannot be used is rejected when it is stored, not when the last delivery attempt fails.
#[tokio::test]
async fn target_on_a_disabled_platform_is_rejected() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    let job = json!({"name": "n", "goal": "g", "schedule": {"type": "every", "interval": 600},
        "delivery": {"channel": "telegram:1"}});
    let hook = json!({"name": "h", "event_type": "task.failed", "hook_type": "builtin",
        "config": {"channel": "telegram:1", "template": "x"}});
    let proactive = json!({"delivery": "telegram:1"});
    for (method, path, body, field) in [
        (Method::POST, "/api/scheduler/jobs", &job, "delivery.channel"),
        (Method::POST, "/api/hooks", &hook, "config.channel"),
        (Method::PUT, "/api/settings/proactive", &proactive, "delivery"),
    ] {
        let refused = app.request(method, path).json(body).send().await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), [field], "{}", refused.text());
        assert!(refused.text().contains("PUT /api/channels/settings"), "{}", refused.text());
    }
    enable_platform(&app, "telegram").await;
    let job = app.post("/api/scheduler/jobs").json(&job).send().await.expect_status(201).json();
    let hook = app.post("/api/hooks").json(&hook).send().await.expect_status(201).json();
    app.put("/api/settings/proactive").json(&proactive).send().await.expect_status(200);

    // Existing targets remain valid and may be sent back unchanged.
    put(&app, json!({"telegram": {"enabled": false}})).await.expect_status(200);
    let path = |kind: &str, of: &Value| format!("/api/{kind}/{}", of["id"].as_str().expect("an id"));
    let other = json!({"name": "other", "delivery": {"channel": "telegram:1", "format": "text"}});
    app.put(&path("scheduler/jobs", &job)).json(&other).send().await.expect_status(200);
    app.put(&path("hooks", &hook)).json(&json!({"name": "other"})).send().await.expect_status(200);
    app.put(&path("hooks", &hook)).json(&json!({"config": {"template": "y"}})).send().await.expect_status(200);
    let moved = app.put(&path("hooks", &hook)).json(&json!({"config": {"channel": "telegram:2"}})).send().await;
    assert_eq!(moved.expect_error(400, "invalid_request").bad_fields(), ["config.channel"]);
    app.put("/api/settings/proactive").json(&proactive).send().await.expect_status(200);
    let moved = json!({"delivery": {"channel": "telegram:2"}});
    let moved = app.put(&path("scheduler/jobs", &job)).json(&moved).send().await;
    assert_eq!(moved.expect_error(400, "invalid_request").bad_fields(), ["delivery.channel"]);
}

#[tokio::test]
async fn update_changes_only_the_fields_it_contains() {
    let mut app = TestApp::with_owner().await;
    let change = json!({
        "discord": {"enabled": true, "agent_id": "ada", "public_key": "AB".repeat(32), "bot_token": "discord-token-1"},
        "slack": {"signing_secret": "slack-secret-1", "tools": ["http_fetch", "device_*"]},
    });
    let answer = put(&app, change).await.expect_status(200);
    assert!(!answer.text().contains("token-1") && !answer.text().contains("secret-1"), "{}", answer.text());
    let first = answer.json();
    assert_eq!(first["discord"]["public_key"], "ab".repeat(32));
    assert_eq!(first["discord"]["bot_token"], json!({"set": true}));
    assert_eq!(first["slack"]["signing_secret"], json!({"set": true}));
    assert_eq!(first["slack"]["bot_token"], Value::Null);
    let second =
        json!({"discord": {"sender_policy": "allowlist", "allowed_senders": ["123"], "bot_token": {"set": true}}});
    let second = put(&app, second).await.expect_status(200).json();
    assert_eq!((&second["discord"]["enabled"], &second["discord"]["agent_id"]), (&json!(true), &json!("ada")));
    assert_eq!(second["discord"]["bot_token"], json!({"set": true}));
    assert_eq!(second["slack"], first["slack"]);
    let cleared = put(&app, json!({"discord": {"bot_token": null, "agent_id": null}})).await.expect_status(200).json();
    assert_eq!((&cleared["discord"]["bot_token"], &cleared["discord"]["agent_id"]), (&Value::Null, &Value::Null));
    assert_eq!(cleared["discord"]["sender_policy"], "allowlist");
    app.restart().await;
    assert_eq!(get(&app).await, cleared);
}

#[tokio::test]
async fn unknown_names_and_invalid_values_are_rejected() {
    let app = TestApp::with_owner().await;
    let before = get(&app).await;
    let refused = put(&app, json!({"irc": {"enabled": true}})).await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["irc"]);
    assert!(refused.text().contains(&PLATFORMS.join(", ")), "{}", refused.text());
    let refused = put(&app, json!({"slack": {"bot_tokne": "x", "enabled": true}})).await;
    let refused = refused.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["slack.bot_tokne"]);
    assert!(refused.text().contains("signing_secret") && !refused.text().contains("public_key"), "{}", refused.text());
    let nonsense = json!({
        "discord": {"public_key": "z".repeat(64), "application_id": "a b", "agent_id": "No Name", "enabled": "yes"},
        "slack": {"api_base_url": "ftp://x", "sender_policy": "everyone", "allowed_senders": ["a b"], "tools": ["a b", "*x"]},
        "telegram": 1,
        "whatsapp": {"phone_number_id": "x", "app_secret": 7},
        "teams": {"tenant_id": "a/b", "app_password": ""},
        "google_chat": {"audience": "a b"},
    });
    let refused = put(&app, nonsense).await.expect_error(400, "invalid_request");
    let mut fields = refused.bad_fields();
    fields.sort();
    let expected = [
        "discord.agent_id",
        "discord.application_id",
        "discord.enabled",
        "discord.public_key",
        "google_chat.audience",
        "slack.allowed_senders[0]",
        "slack.api_base_url",
        "slack.sender_policy",
        "slack.tools[0]",
        "slack.tools[1]",
        "teams.app_password",
        "teams.tenant_id",
        "telegram",
        "whatsapp.app_secret",
        "whatsapp.phone_number_id",
    ];
    assert_eq!(fields, expected, "{}", refused.text());
    assert_eq!(get(&app).await, before);
}

#[tokio::test]
async fn reset_keeps_channels_and_export_omits_secrets() {
    let app = TestApp::with_owner().await;
    let change = json!({"telegram": {"enabled": true, "bot_token": "telegram-token-1", "tools": ["http_fetch"]}});
    put(&app, change).await.expect_status(200);
    app.post("/api/settings/reset").send().await.expect_status(200);
    app.post("/api/settings/security/reset").send().await.expect_status(200);
    assert_eq!(get(&app).await["telegram"]["bot_token"], json!({"set": true}));
    let export = app.get("/api/settings/export").send().await.expect_status(200);
    assert!(!export.text().contains("telegram-token-1") && !export.text().contains("bot_token"), "{}", export.text());

    let other = TestApp::with_owner().await;
    put(&other, json!({"telegram": {"bot_token": "another-token"}})).await.expect_status(200);
    let path = "/api/settings/import?include_safety=true";
    let imported = other.post(path).json(&export.json()).send().await.expect_status(200).json();
    assert_eq!(imported["channels"]["telegram"]["tools"], json!(["http_fetch"]));
    assert_eq!(imported["channels"]["telegram"]["bot_token"], json!({"set": true}), "secrets are not imported");
    assert_eq!(imported["channels"]["slack"]["bot_token"], Value::Null);
}
