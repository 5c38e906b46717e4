//! The key file and the secrets encrypted with it.

use std::os::unix::fs::PermissionsExt;

use agentd_store::{StoreError, Tx, args};
use serde_json::{Value, json};

use super::{get, put};
use crate::support::TestApp;

#[tokio::test]
async fn mail_password_is_write_only() {
    let mut app = TestApp::with_owner().await;
    let email = json!({
        "enabled": true, "smtp_host": "Mail.Example.ORG", "from_address": "a@example.org", "username": "a",
        "password": "mail-password-1",
    });
    let set = put(&app, "email", email).await.expect_status(200);
    assert!(!set.text().contains("mail-password-1"), "{}", set.text());
    assert_eq!(
        (&set.json()["password"], &set.json()["smtp_host"]),
        (&json!({"set": true}), &json!("mail.example.org"))
    );
    let kept =
        put(&app, "email", json!({"password": {"set": true}, "tls": "implicit"})).await.expect_status(200).json();
    assert_eq!((&kept["password"], &kept["tls"]), (&json!({"set": true}), &json!("implicit")));
    app.post("/api/settings/reset").send().await.expect_status(200);
    app.restart().await;
    assert_eq!(get(&app, "email").await, kept, "the general reset keeps email settings");
    let export = app.get("/api/settings/export").send().await.expect_status(200);
    assert!(!export.text().contains("password"), "{}", export.text());
    let other = TestApp::with_owner().await;
    let imported = other.post("/api/settings/import").json(&export.json()).send().await.expect_status(200).json();
    assert_eq!((&imported["email"]["username"], &imported["email"]["password"]), (&json!("a"), &Value::Null));
    let cleared = put(&app, "email", json!({"password": null})).await.expect_status(200).json();
    assert_eq!(cleared["password"], Value::Null);
    // Enabling requires a server and a sender address.
    put(&app, "email", json!({"enabled": false, "smtp_host": null})).await.expect_status(200);
    let refused = put(&app, "email", json!({"enabled": true, "from_address": null})).await;
    let mut fields = refused.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["from_address", "smtp_host"]);
}

#[tokio::test]
async fn key_file_must_be_private_and_match_the_database() {
    let mut app = TestApp::with_owner().await;
    let file = app.data_dir().join("secret.key");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = json!({"api_key": "sk-kept-under-the-key-file"});
    app.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let original_key = std::fs::read_to_string(&file).unwrap();
    app.stop().await;

    std::fs::write(&file, "ab".repeat(32)).unwrap();
    let refused = app.try_start().await.unwrap_err();
    assert!(refused.contains("does not match") && refused.contains("SVC_SECRET_KEY_FILE"), "{refused}");
    std::fs::remove_file(&file).unwrap();
    let refused = app.try_start().await.unwrap_err();
    assert!(refused.contains("is missing"), "{refused}");
    assert!(!file.exists(), "no new key file is created");
    std::fs::write(&file, &original_key).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = app.try_start().await.unwrap_err();
    assert!(refused.contains("chmod 600") && !refused.contains(original_key.trim()), "{refused}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    app.try_start().await.unwrap();
    let providers = app.get("/api/providers").send().await.expect_status(200);
    assert!(providers.text().contains(r#"{"set":true}"#), "{}", providers.text());
}

/// A backup without secrets has no information about them, so the restored daemon must not show them as set.
#[tokio::test]
async fn missing_secret_is_not_shown_as_set() {
    let mut app = TestApp::with_owner().await;
    put(&app, "email", json!({"password": "hidden-one", "username": "a"})).await.expect_status(200);
    let headers = json!({"name": "docs", "transport": "http", "url": "https://mcp.example/", "enabled": false,
        "headers": {"authorization": "Bearer hidden-two"}});
    let servers = "/api/settings/skills/mcp";
    let made = app.post(servers).json(&headers).send().await.expect_status(201).json();
    assert_eq!(made["headers"], json!({"authorization": {"set": true}}));
    let hook = json!({"name": "h", "event_type": "memory.stored", "hook_type": "http",
        "config": {"url": "http://127.0.0.1:9/", "secret": "0123456789abcdef0123456789abcdef"}});
    let hook = app.post("/api/hooks").json(&hook).send().await.expect_status(201).json();
    assert_eq!(hook["config"]["secret"], json!({"set": true}));
    let delete_secrets = async |tx: &mut Tx| tx.execute("DELETE FROM secrets", args![]).await;
    let deleted: Result<u64, StoreError> = app.running().context().db.write(delete_secrets).await;
    assert_eq!(deleted.expect("delete the secrets"), 3);
    app.restart().await;

    assert_eq!(get(&app, "email").await["password"], Value::Null);
    assert_eq!(app.get("/api/settings").send().await.json()["email"]["password"], Value::Null);
    let changed = put(&app, "email", json!({"username": "b"})).await.expect_status(200).json();
    assert_eq!(changed["password"], Value::Null);
    let server = format!("{servers}/{}", made["id"].as_str().expect("an id"));
    assert_eq!(app.get(&server).send().await.json()["headers"], json!({"authorization": {"set": false}}));
    let hook = format!("/api/hooks/{}", hook["id"].as_str().expect("an id"));
    assert_eq!(app.get(&hook).send().await.json()["config"]["secret"], json!({"set": false}));
    let refused = put(&app, "email", json!({"password": {"set": false}})).await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["password"]);
}
