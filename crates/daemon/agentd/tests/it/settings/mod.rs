//! `/api/settings`: categories, partial changes, and reset.

pub mod avatar;
mod secrets;
mod transfer;

use agentd_store::{StoreError, Tx, args};
use serde_json::{Value, json};

use crate::support::chat_fixture::enable_platform;
use crate::support::{TestApp, TestResponse};

const CATEGORIES: [&str; 9] =
    ["profile", "interface", "security", "agent", "strategy", "proactive", "email", "browser", "backup"];

fn path(category: &str) -> String {
    format!("/api/settings/{category}")
}

async fn put(app: &TestApp, category: &str, change: Value) -> TestResponse {
    app.put(&path(category)).json(&change).send().await
}

async fn get(app: &TestApp, category: &str) -> Value {
    app.get(&path(category)).send().await.expect_status(200).json()
}

#[tokio::test]
async fn every_category_has_defaults_and_is_part_of_all_settings() {
    let app = TestApp::with_owner().await;
    let all = app.get("/api/settings").send().await.expect_status(200).json();
    for category in CATEGORIES {
        assert_eq!(all[category], get(&app, category).await, "{category}");
    }
    let security = &all["security"];
    assert_eq!(security["session_ttl_seconds"], 86_400);
    assert_eq!(security["private_hook_targets"], true);
    assert_eq!(all["agent"]["daily_token_limit"], Value::Null);
    assert_eq!(all["profile"]["timezone"], "UTC");
    for path in ["/api/settings/strategy", "/api/settings/proactive", "/api/settings/email"] {
        app.get(path).send().await.expect_status(200);
    }
    let strategy =
        json!({"planning": "auto", "reflection": false, "max_parallel_tools": 8, "compaction_threshold": 0.8});
    assert_eq!(all["strategy"], strategy);
    let proactive = json!({
        "enabled": false, "quiet_hours": {"start": "22:00", "end": "08:00", "timezone": null},
        "max_per_day": 3, "delivery": null, "push_approvals": true, "push_alerts": true,
    });
    assert_eq!(all["proactive"], proactive);
    let email = json!({
        "enabled": false, "smtp_host": null, "smtp_port": 587, "tls": "starttls", "username": null,
        "password": null, "from_address": null,
    });
    assert_eq!(all["email"], email);
}

#[tokio::test]
async fn nested_object_is_updated_field_by_field() {
    let app = TestApp::with_owner().await;
    enable_platform(&app, "slack").await;
    let change = json!({"quiet_hours": {"start": "21:30", "timezone": "europe/berlin"}, "delivery": "slack:#general"});
    let changed = put(&app, "proactive", change).await.expect_status(200).json();
    assert_eq!(changed["quiet_hours"], json!({"start": "21:30", "end": "08:00", "timezone": "Europe/Berlin"}));
    let changed = put(&app, "proactive", json!({"quiet_hours": {"timezone": null}})).await.expect_status(200).json();
    assert_eq!(changed["quiet_hours"], json!({"start": "21:30", "end": "08:00", "timezone": null}));
    let refused = put(&app, "proactive", json!({"quiet_hours": {"start": "9:00", "begin": "x", "end": "25:00"}})).await;
    let mut fields = refused.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["quiet_hours.begin", "quiet_hours.end", "quiet_hours.start"]);
}

#[tokio::test]
async fn change_returns_the_whole_category_and_survives_a_restart() {
    let mut app = TestApp::with_owner().await;
    let changed = put(&app, "profile", json!({"display_name": "Ada", "timezone": "europe/berlin"})).await;
    let expected = json!({
        "display_name": "Ada", "email": "", "avatar_url": null, "timezone": "Europe/Berlin", "theme": "system",
    });
    assert_eq!(changed.expect_status(200).json(), expected);
    put(&app, "profile", json!({})).await.expect_status(200);
    app.restart().await;
    assert_eq!(get(&app, "profile").await, expected);
}

#[tokio::test]
async fn null_clears_only_nullable_fields() {
    let app = TestApp::with_owner().await;
    let limits = json!({"daily_token_limit": 10, "total_token_limit": 20, "default_model": "m", "temperature": 0.5});
    put(&app, "agent", limits).await.expect_status(200);
    let cleared = put(&app, "agent", json!({"daily_token_limit": null, "default_model": null})).await.json();
    assert_eq!((&cleared["daily_token_limit"], &cleared["default_model"]), (&Value::Null, &Value::Null));
    assert_eq!((&cleared["total_token_limit"], &cleared["temperature"]), (&json!(20), &json!(0.5)));
    put(&app, "agent", json!({"max_tool_rounds": null})).await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn invalid_values_are_rejected_by_field_and_change_nothing() {
    let app = TestApp::with_owner().await;
    let long = "x".repeat(25_000);
    let table = [
        (
            "profile",
            "display_name",
            vec![json!(1), json!(null), json!("x".repeat(101)), json!("a\nb"), json!("a\u{0}b")],
        ),
        ("profile", "email", vec![json!("nobody"), json!("a@b"), json!("a@b.c\r\nBcc: x@y.z"), json!(true)]),
        ("profile", "timezone", vec![json!(""), json!("Mars/Base"), json!("../../etc/passwd"), json!(null), json!(2)]),
        ("profile", "theme", vec![json!("blue"), json!(null), json!(["dark"])]),
        ("profile", "avatar_url", vec![json!("javascript:alert(1)"), json!("/etc/passwd"), json!(""), json!(7)]),
        ("interface", "language", vec![json!("klingon"), json!("xx"), json!("de_DE"), json!(null)]),
        ("interface", "date_format", vec![json!("YYYY"), json!(null)]),
        ("interface", "show_token_usage", vec![json!("yes"), json!(1), json!(null)]),
        ("interface", "default_agent", vec![json!("../x"), json!("Has Space"), json!("ÄGENT"), json!("")]),
        ("security", "session_ttl_seconds", vec![json!(0), json!(-1), json!(1.5), json!("60"), json!(u64::MAX)]),
        ("security", "login_max_failures", vec![json!(0), json!(100_000)]),
        ("security", "login_window_seconds", vec![json!(1), json!(null)]),
        (
            "security",
            "approval_tools",
            vec![json!("shell"), json!(["a b"]), json!([""]), json!(["*x"]), json!(["a.b"]), json!(["x".repeat(65)])],
        ),
        ("security", "allowed_hosts", vec![json!(["http://x"]), json!(["a b"]), json!(["10.0.0.0/99"]), json!({})]),
        ("security", "blocked_hosts", vec![json!(["*"]), json!([null])]),
        ("security", "private_hook_targets", vec![json!(null), json!("true")]),
        ("security", "approval_ttl_seconds", vec![json!(0), json!(1e12)]),
        ("agent", "default_provider", vec![json!("skynet"), json!(""), json!(1)]),
        ("agent", "default_model", vec![json!(""), json!("has space"), json!("x".repeat(201))]),
        ("agent", "temperature", vec![json!(-0.1), json!(2.1), json!("hot")]),
        ("agent", "max_output_tokens", vec![json!(0), json!(-1), json!(1.5)]),
        ("agent", "max_tool_rounds", vec![json!(0), json!(9999)]),
        ("agent", "request_timeout_seconds", vec![json!(0), json!(100_000)]),
        ("agent", "instructions", vec![json!(null), json!(long)]),
        ("agent", "daily_token_limit", vec![json!(-1), json!(1.5), json!("10")]),
        ("agent", "total_token_limit", vec![json!(-1), json!(u64::MAX)]),
        ("strategy", "planning", vec![json!("sometimes"), json!(null), json!(1)]),
        ("strategy", "reflection", vec![json!("yes"), json!(null)]),
        ("strategy", "max_parallel_tools", vec![json!(0), json!(33), json!(1.5), json!(null)]),
        ("strategy", "compaction_threshold", vec![json!(0.2), json!(0.96), json!("half"), json!(null)]),
        ("proactive", "enabled", vec![json!(null), json!(1)]),
        ("proactive", "quiet_hours", vec![json!(null), json!("22:00-08:00"), json!([])]),
        ("proactive", "max_per_day", vec![json!(-1), json!(101), json!(null)]),
        ("proactive", "delivery", vec![json!("slack"), json!("slak:#x"), json!("email:nobody"), json!("slack: x")]),
        ("email", "enabled", vec![json!("on"), json!(null)]),
        (
            "email",
            "smtp_host",
            vec![json!(""), json!("a b"), json!("mail.example.org:25"), json!("smtp://x"), json!(1)],
        ),
        ("email", "smtp_port", vec![json!(0), json!(65536), json!("25"), json!(null)]),
        ("email", "tls", vec![json!("ssl"), json!(null), json!(true)]),
        ("email", "username", vec![json!(""), json!("a\nb"), json!(7)]),
        ("email", "password", vec![json!(""), json!(7), json!({"set": "yes"}), json!("x".repeat(9000))]),
        ("email", "from_address", vec![json!("nobody"), json!("a@b.c\r\nBcc: x@y.z"), json!("")]),
        (
            "agent",
            "local_model",
            vec![json!("../x.gguf"), json!("/etc/x.gguf"), json!("x.bin"), json!(".gguf"), json!("")],
        ),
    ];
    let before = app.get("/api/settings").send().await.json();
    for (category, field, values) in table {
        for value in values {
            let shown = value.to_string().chars().take(40).collect::<String>();
            let refused = put(&app, category, json!({field: value})).await.expect_error(400, "invalid_request");
            let named = refused
                .bad_fields()
                .iter()
                .any(|bad| bad == field || ["[", "."].iter().any(|next| bad.starts_with(&format!("{field}{next}"))));
            assert!(named, "{category}.{field} = {shown}: {}", refused.text());
        }
    }
    assert_eq!(app.get("/api/settings").send().await.json(), before);
}

#[tokio::test]
async fn all_bad_fields_are_reported_and_unknown_fields_list_known_ones() {
    let app = TestApp::with_owner().await;
    let change = json!({"theme": "blue", "timezone": "Mars", "display_nmae": "x", "email": "a@b.co"});
    let refused = put(&app, "profile", change).await.expect_error(400, "invalid_request");
    let mut fields = refused.bad_fields();
    fields.sort();
    assert_eq!(fields, ["display_nmae", "theme", "timezone"]);
    assert!(refused.text().contains("display_name"), "{}", refused.text());
    assert_eq!(get(&app, "profile").await["email"], "");
    for body in ["[]", "null", "\"x\"", "1"] {
        app.put("/api/settings/agent").raw_json(body).send().await.expect_status(400);
    }
}

#[tokio::test]
async fn concurrent_changes_of_different_fields_are_all_applied() {
    let app = TestApp::with_owner().await;
    std::fs::create_dir_all(app.data_dir().join("models")).expect("a folder");
    std::fs::write(app.data_dir().join("models/m.gguf"), b"").expect("a file");
    let changes = [
        json!({"temperature": 1.0}),
        json!({"max_tool_rounds": 7}),
        json!({"instructions": "Be brief."}),
        json!({"daily_token_limit": 5}),
        json!({"request_timeout_seconds": 9}),
        json!({"default_model": "m"}),
        json!({"local_model": "m.gguf"}),
        json!({"max_output_tokens": 3}),
    ];
    let requests = changes.iter().map(|change| put(&app, "agent", change.clone()));
    for answer in futures_util::future::join_all(requests).await {
        answer.expect_status(200);
    }
    let agent = get(&app, "agent").await;
    for change in changes {
        for (field, value) in change.as_object().unwrap() {
            assert_eq!(&agent[field], value, "{field}");
        }
    }
}

#[tokio::test]
async fn resets_affect_only_their_own_group() {
    let app = TestApp::with_owner().await;
    let before = app.get("/api/settings").send().await.json();
    put(&app, "profile", json!({"display_name": "Ada"})).await.expect_status(200);
    put(&app, "interface", json!({"language": "de"})).await.expect_status(200);
    put(&app, "security", json!({"login_max_failures": 9})).await.expect_status(200);
    put(&app, "agent", json!({"instructions": "x"})).await.expect_status(200);
    put(&app, "strategy", json!({"planning": "always", "compaction_threshold": 0.5})).await.expect_status(200);
    put(&app, "proactive", json!({"enabled": true, "quiet_hours": {"end": "09:00"}})).await.expect_status(200);
    put(&app, "email", json!({"username": "kept"})).await.expect_status(200);

    let after = app.post("/api/settings/reset").send().await.expect_status(200).json();
    assert_eq!((&after["agent"], &after["interface"]), (&before["agent"], &before["interface"]));
    assert_eq!((&after["strategy"], &after["proactive"]), (&before["strategy"], &before["proactive"]));
    assert_eq!(after["email"]["username"], "kept");
    assert_eq!(
        (&after["profile"]["display_name"], &after["security"]["login_max_failures"]),
        (&json!("Ada"), &json!(9))
    );
    let security = app.post("/api/settings/security/reset").send().await.expect_status(200).json();
    assert_eq!(security, before["security"]);
    assert_eq!(get(&app, "profile").await["display_name"], "Ada");
}

/// Changes a row directly in the database, as disk corruption or another program would.
async fn store_raw(app: &TestApp, category: &'static str, value: &'static str) {
    let db = &app.running().context().db;
    let work = async move |tx: &mut Tx| {
        tx.execute("DELETE FROM settings WHERE section = $1", args![category]).await?;
        let sql = "INSERT INTO settings (section, value, updated_at) VALUES ($1, $2, 0)";
        tx.execute(sql, args![category, value]).await
    };
    let written: Result<u64, StoreError> = db.write(work).await;
    written.expect("write the row");
}

#[tokio::test]
async fn referenced_agent_model_and_paths_must_exist() {
    let app = TestApp::with_owner().await;
    let refused = put(&app, "agent", json!({"local_model": "missing.gguf"})).await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["local_model"]);
    let refused = put(&app, "interface", json!({"default_agent": "nosuchagent"})).await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["default_agent"]);
    // A setting that references a deleted agent is cleared when the agent is deleted.
    for name in ["scout", "other"] {
        let agent = json!({"svc_name": name, "user_name": "Ada", "archetype": "assistant"});
        app.post("/api/agents").json(&agent).send().await.expect_status(201);
    }
    put(&app, "interface", json!({"default_agent": "scout"})).await.expect_status(200);
    app.delete("/api/agents/other").send().await.expect_status(200);
    assert_eq!(get(&app, "interface").await["default_agent"], "scout");
    app.delete("/api/agents/scout").send().await.expect_status(200);
    assert_eq!(get(&app, "interface").await["default_agent"], Value::Null);
    // An existing reference to a missing agent does not prevent saving it unchanged.
    store_raw(&app, "interface", r#"{"default_agent": "gone"}"#).await;
    put(&app, "interface", json!({"default_agent": "gone", "show_token_usage": false})).await.expect_status(200);
    for path in ["/", "/proc", "/sys/kernel"] {
        let refused = app.put("/api/sandbox/config").json(&json!({"writable_paths": [path]})).send().await;
        assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["writable_paths[0]"], "{path}");
    }
}
