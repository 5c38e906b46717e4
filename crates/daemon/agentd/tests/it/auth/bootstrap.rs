//! States of bootstrap mode and the transitions between them.

use std::time::Duration;

use agentd::config::{Config, ConfigSource};
use agentd::lifecycle::{Running, WorkerMode};
use agentd_base::{Entropy, MockClock, Timestamp};
use serde_json::{Value, json};

use super::{account, text};
use crate::support::TestApp;

async fn bootstrap_state(app: &TestApp) -> (Value, Value) {
    let bootstrap = app.get("/api/auth/bootstrap").anonymous().send().await.expect_status(200).json();
    // The public health endpoint caches its database result for a second.
    app.clock.advance(Duration::from_secs(2));
    let health = app.get("/api/health").anonymous().send().await.expect_status(200).json();
    (bootstrap["needs_setup"].clone(), health["bootstrap_mode"].clone())
}

fn first_key() -> Value {
    json!({"name": "first"})
}

#[tokio::test]
async fn new_daemon_allows_only_registration_and_the_first_key() {
    let app = TestApp::start().await;
    assert_eq!(bootstrap_state(&app).await, (json!(true), json!(true)));
    let refused = app.get("/api/auth/keys").send().await.expect_error(401, "bootstrap").json();
    assert!(text(&refused, "error").contains("/api/auth/register"), "{refused}");
    app.get("/api/auth/keys").bearer("svc_00").send().await.expect_error(401, "bootstrap");
    app.get("/api/nothing").send().await.expect_error(401, "bootstrap");
    app.post("/api/auth/ticket").send().await.expect_error(401, "bootstrap");
    app.post("/api/auth/login").json(&account()).send().await.expect_error(401, "wrong_credentials");
    let nothing = json!({"valid": false, "token_type": null});
    assert_eq!(app.post("/api/auth/validate").send().await.expect_status(200).json(), nothing);
    let registered = app.post("/api/auth/register").json(&account()).send().await.expect_status(201).json();
    assert_eq!(registered["token_type"], "session");
    assert_eq!(registered["username"], "owner");
    assert!(text(&registered, "user_id").starts_with("user_"));
    assert!(text(&registered, "message").contains("/api/auth/keys"));
}

#[tokio::test]
async fn session_is_rejected_before_the_first_key_exists() {
    let app = TestApp::start().await;
    let registered = app.post("/api/auth/register").json(&account()).send().await.expect_status(201).json();
    let session = text(&registered, "token");
    assert_eq!(bootstrap_state(&app).await, (json!(false), json!(true)));
    let refused = app.get("/api/auth/keys").bearer(&session).send().await.expect_error(401, "bootstrap").json();
    assert!(text(&refused, "error").contains("/api/auth/keys"), "{refused}");
    app.post("/api/auth/logout").bearer(&session).send().await.expect_error(401, "bootstrap");
    app.post("/api/auth/register").json(&account()).send().await.expect_error(409, "account_exists");
    app.post("/api/auth/register").bearer(&session).json(&account()).send().await.expect_error(409, "account_exists");
    let known = app.post("/api/auth/validate").bearer(&session).send().await.expect_status(200).json();
    assert_eq!(known, json!({"valid": true, "token_type": "session"}));
    // A session does not hinder the creation of the first key, which is public.
    app.post("/api/auth/keys").bearer(&session).json(&first_key()).send().await.expect_status(200);
    assert_eq!(bootstrap_state(&app).await, (json!(false), json!(false)));
    app.get("/api/auth/keys").bearer(&session).send().await.expect_status(200);
}

#[tokio::test]
async fn first_key_ends_bootstrap_mode() {
    let app = TestApp::start().await;
    app.post("/api/auth/register").json(&account()).send().await.expect_status(201);
    let made = app.post("/api/auth/keys").json(&first_key()).send().await.expect_status(200).json();
    let key = text(&made, "key");
    assert_eq!(key.len(), "svc_".len() + 64);
    let refused = app.post("/api/auth/keys").json(&first_key()).send().await.expect_error(401, "missing_credential");
    assert!(text(&refused.json(), "error").contains("Authorization header is missing"));
    app.post("/api/auth/register").json(&account()).send().await.expect_error(401, "missing_credential");
    app.post("/api/auth/register").bearer(&key).json(&account()).send().await.expect_error(409, "account_exists");
    let wrong = format!("svc_{}", "0".repeat(64));
    let refused = app.get("/api/auth/keys").bearer(&wrong).send().await.expect_error(401, "invalid_credential");
    assert!(text(&refused.json(), "error").contains("invalid or revoked"));
}

#[tokio::test]
async fn repeated_first_key_request_with_a_session_creates_one_key() {
    let app = TestApp::start().await;
    let registered = app.post("/api/auth/register").json(&account()).send().await.expect_status(201).json();
    // The session is rejected before the first key exists and accepted afterwards.
    let session = text(&registered, "token");
    let make =
        || app.post("/api/auth/keys").bearer(&session).header("idempotency-key", "first").json(&first_key()).send();
    let made = make().await.expect_status(200).json();
    let again = make().await.expect_error(409, "already_done").json();
    assert!(text(&again, "error").contains(&text(&made, "id")), "{again}");
    let listed = app.get("/api/auth/keys").bearer(&session).send().await.expect_status(200).json();
    assert_eq!(listed["keys"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn registration_requires_a_key_once_a_key_exists() {
    let app = TestApp::start().await;
    let made = app.post("/api/auth/keys").json(&first_key()).send().await.expect_status(200).json();
    let key = text(&made, "key");
    assert_eq!(bootstrap_state(&app).await, (json!(true), json!(false)));
    app.post("/api/auth/register").json(&account()).send().await.expect_error(401, "missing_credential");
    let reader = app.post("/api/auth/keys").bearer(&key).json(&json!({"name": "reader", "scope": "read"})).send().await;
    let reader = text(&reader.expect_status(200).json(), "key");
    app.post("/api/auth/register")
        .bearer(&reader)
        .json(&account())
        .send()
        .await
        .expect_error(403, "insufficient_scope");
    app.post("/api/auth/register").bearer(&key).json(&account()).send().await.expect_status(201);
    app.post("/api/auth/register").bearer(&key).json(&account()).send().await.expect_error(409, "account_exists");
}

#[tokio::test]
async fn revoking_the_last_key_does_not_reopen_bootstrap() {
    let mut app = TestApp::start().await;
    let registered = app.post("/api/auth/register").json(&account()).send().await.expect_status(201).json();
    let session = text(&registered, "token");
    let made = app.post("/api/auth/keys").json(&first_key()).send().await.expect_status(200).json();
    let (id, key) = (text(&made, "id"), text(&made, "key"));
    let revoked = app.delete(&format!("/api/auth/keys/{id}")).bearer(&key).send().await.expect_status(200).json();
    assert_eq!(revoked, json!({"revoked": true}));
    for _ in 0..2 {
        assert_eq!(bootstrap_state(&app).await, (json!(false), json!(false)));
        app.post("/api/auth/keys").json(&first_key()).send().await.expect_error(401, "missing_credential");
        app.get("/api/auth/keys").bearer(&key).send().await.expect_error(401, "invalid_credential");
        let left = app.get("/api/auth/keys").bearer(&session).send().await.expect_status(200).json();
        assert_eq!(left, json!({"keys": []}));
        app.restart().await;
    }
    app.post("/api/auth/keys").bearer(&session).json(&first_key()).send().await.expect_status(200);
}

#[tokio::test]
async fn required_api_key_disables_bootstrap_over_http() {
    let app = TestApp::start_with(|source| source.api_key_required = Some("true".to_owned())).await;
    for request in [app.post("/api/auth/register").json(&account()), app.post("/api/auth/keys").json(&first_key())] {
        let refused = request.send().await.expect_error(401, "bootstrap").json();
        assert!(text(&refused, "error").contains("agentd keys create"), "{refused}");
    }
    app.get("/api/auth/bootstrap").send().await.expect_status(200);
    app.post("/api/auth/validate").send().await.expect_status(200);
    // A client of the Unix socket is accepted.
    let made = post_to_socket(&app, "/api/auth/keys", &json!({"name": "by hand"})).await;
    app.get("/api/auth/keys").bearer(&text(&made, "key")).send().await.expect_status(200);
    app.post("/api/auth/register").send().await.expect_error(401, "missing_credential");
    // It is still accepted when keys exist.
    post_to_socket(&app, "/api/auth/keys", &json!({"name": "another"})).await;
}

async fn post_to_socket(app: &TestApp, path: &str, body: &Value) -> Value {
    let socket = app.data_dir().join("agentd.sock");
    let client = reqwest::Client::builder().no_proxy().unix_socket(socket).build().expect("a client");
    let answer = client.post(format!("http://localhost{path}")).json(body).send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 200, "{path}");
    answer.json().await.expect("JSON")
}

#[tokio::test]
async fn bootstrap_beyond_loopback_ends_after_15_minutes() {
    let mut app = TestApp::start_with(|source| source.host = Some("0.0.0.0".into())).await;
    app.clock.advance(Duration::from_secs(15 * 60 - 1));
    app.post("/api/auth/register").json(&account()).send().await.expect_status(201);
    app.clock.advance(Duration::from_secs(1));
    let refused = app.post("/api/auth/keys").json(&first_key()).send().await.expect_error(401, "bootstrap").json();
    assert!(text(&refused, "error").contains("restart"), "{refused}");
    app.restart().await;
    app.post("/api/auth/keys").json(&first_key()).send().await.expect_status(200);
}

#[tokio::test]
async fn bootstrap_on_loopback_does_not_expire() {
    let app = TestApp::start().await;
    app.clock.advance(Duration::from_secs(30 * 24 * 60 * 60));
    app.post("/api/auth/register").json(&account()).send().await.expect_status(201);
}

#[tokio::test]
async fn foreign_origin_cannot_bootstrap_the_daemon() {
    let app = TestApp::start_with(|source| source.cors_origins = Some("https://ui.example".into())).await;
    for origin in ["https://evil.example", "null", "http://localhost:1"] {
        for path in ["/api/auth/register", "/api/auth/keys"] {
            let refused = app.post(path).header("origin", origin).json(&account()).send().await;
            refused.expect_error(401, "foreign_origin");
        }
    }
    app.post("/api/auth/register")
        .header("origin", "https://ui.example")
        .json(&account())
        .send()
        .await
        .expect_status(201);
    let own = app.url("");
    app.post("/api/auth/keys").header("origin", &own).json(&first_key()).send().await.expect_status(200);
}

#[tokio::test]
async fn forwarding_headers_grant_no_access() {
    let app = TestApp::with_owner().await;
    for (name, value) in [("x-forwarded-for", "127.0.0.1"), ("forwarded", "for=127.0.0.1"), ("x-real-ip", "127.0.0.1")]
    {
        app.get("/api/auth/keys").anonymous().header(name, value).send().await.expect_error(401, "missing_credential");
    }
}

#[tokio::test]
async fn key_from_a_file_becomes_the_first_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    let key = format!("svc_{}", "5a".repeat(32));
    std::fs::write(&file, format!("{key}\n")).expect("the file is written");
    let mut app = TestApp::start_with(|source| source.bootstrap_api_key_file = Some(file.clone())).await;
    assert_eq!(bootstrap_state(&app).await, (json!(true), json!(false)));
    app.post("/api/auth/keys").json(&first_key()).send().await.expect_error(401, "missing_credential");
    let keys = app.get("/api/auth/keys").bearer(&key).send().await.expect_status(200).json();
    assert_eq!(keys["keys"][0]["name"], "bootstrap");
    // Later starts ignore the file: no second key is created from it.
    std::fs::write(&file, format!("svc_{}", "6b".repeat(32))).expect("the file is written");
    app.restart().await;
    let keys = app.get("/api/auth/keys").bearer(&key).send().await.expect_status(200).json();
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1));
    std::fs::remove_file(&file).expect("the file is removed");
    app.restart().await;
}

#[tokio::test]
async fn weak_key_in_the_file_prevents_startup() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    let cases =
        [(Some("svc_0123"), "64 hexadecimal digits"), (Some(""), "64 hexadecimal digits"), (None, "cannot be read")];
    for (number, (content, part)) in cases.into_iter().enumerate() {
        match content {
            Some(content) => std::fs::write(&file, content).expect("the file is written"),
            None => std::fs::remove_file(&file).expect("the file is removed"),
        }
        let source = ConfigSource {
            port: Some("0".to_owned()),
            data_dir: Some(folder.path().join(format!("data{number}"))),
            bootstrap_api_key_file: Some(file.clone()),
            ..ConfigSource::default()
        };
        let config = Config::from_source(source).expect("a valid configuration");
        let clock = MockClock::new(Timestamp::default());
        let refused = Running::start(config, clock.clock(), Entropy::seeded(1), WorkerMode::Manual).await;
        let message = refused.expect_err("startup fails").to_string();
        assert!(message.contains("SVC_BOOTSTRAP_API_KEY_FILE") && message.contains(part), "{message}");
        assert!(!message.contains("0123"), "{message}");
    }
}
