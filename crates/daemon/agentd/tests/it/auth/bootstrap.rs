//! Every state of bootstrap, and every way in and out of it.

use std::time::Duration;

use agentd::config::{Config, ConfigSource};
use agentd::lifecycle::{Running, WorkerMode};
use agentd_base::{Entropy, MockClock, Timestamp};
use serde_json::{Value, json};

use super::{account, text};
use crate::support::TestApp;

async fn state(app: &TestApp) -> (Value, Value) {
    let bootstrap = app.get("/api/auth/bootstrap").anonymous().send().await.expect_status(200).json();
    // The public health answer is asked of the database at most once a second.
    app.clock.advance(Duration::from_secs(2));
    let health = app.get("/api/health").anonymous().send().await.expect_status(200).json();
    (bootstrap["needs_setup"].clone(), health["bootstrap_mode"].clone())
}

fn first_key() -> Value {
    json!({"name": "first"})
}

#[tokio::test]
async fn a_fresh_daemon_opens_its_doors_and_nothing_else() {
    let app = TestApp::start().await;
    assert_eq!(state(&app).await, (json!(true), json!(true)));
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
async fn a_session_opens_nothing_before_the_first_key() {
    let app = TestApp::start().await;
    let registered = app.post("/api/auth/register").json(&account()).send().await.expect_status(201).json();
    let session = text(&registered, "token");
    assert_eq!(state(&app).await, (json!(false), json!(true)));
    let refused = app.get("/api/auth/keys").bearer(&session).send().await.expect_error(401, "bootstrap").json();
    assert!(text(&refused, "error").contains("/api/auth/keys"), "{refused}");
    app.post("/api/auth/logout").bearer(&session).send().await.expect_error(401, "bootstrap");
    app.post("/api/auth/register").json(&account()).send().await.expect_error(409, "account_exists");
    app.post("/api/auth/register").bearer(&session).json(&account()).send().await.expect_error(409, "account_exists");
    let known = app.post("/api/auth/validate").bearer(&session).send().await.expect_status(200).json();
    assert_eq!(known, json!({"valid": true, "token_type": "session"}));
    // A session does not close the route that is open to everybody.
    app.post("/api/auth/keys").bearer(&session).json(&first_key()).send().await.expect_status(200);
    assert_eq!(state(&app).await, (json!(false), json!(false)));
    app.get("/api/auth/keys").bearer(&session).send().await.expect_status(200);
}

#[tokio::test]
async fn the_first_key_closes_the_doors() {
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
async fn a_first_key_asked_for_again_with_a_session_is_one_key() {
    let app = TestApp::start().await;
    let registered = app.post("/api/auth/register").json(&account()).send().await.expect_status(201).json();
    // The session is worth nothing before the first key, and something after it.
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
async fn a_daemon_used_with_keys_alone_has_no_open_registration() {
    let app = TestApp::start().await;
    let made = app.post("/api/auth/keys").json(&first_key()).send().await.expect_status(200).json();
    let key = text(&made, "key");
    assert_eq!(state(&app).await, (json!(true), json!(false)));
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
        assert_eq!(state(&app).await, (json!(false), json!(false)));
        app.post("/api/auth/keys").json(&first_key()).send().await.expect_error(401, "missing_credential");
        app.get("/api/auth/keys").bearer(&key).send().await.expect_error(401, "invalid_credential");
        let left = app.get("/api/auth/keys").bearer(&session).send().await.expect_status(200).json();
        assert_eq!(left, json!({"keys": []}));
        app.restart().await;
    }
    app.post("/api/auth/keys").bearer(&session).json(&first_key()).send().await.expect_status(200);
}

#[tokio::test]
async fn configuration_closes_the_doors() {
    let app = TestApp::start_with(|source| source.api_key_required = Some("true".to_owned())).await;
    for request in [app.post("/api/auth/register").json(&account()), app.post("/api/auth/keys").json(&first_key())] {
        let refused = request.send().await.expect_error(401, "bootstrap").json();
        assert!(text(&refused, "error").contains("agentd keys create"), "{refused}");
    }
    app.get("/api/auth/bootstrap").send().await.expect_status(200);
    app.post("/api/auth/validate").send().await.expect_status(200);
    // The owner on the machine itself is let in.
    let made = on_the_machine(&app, "/api/auth/keys", &json!({"name": "by hand"})).await;
    app.get("/api/auth/keys").bearer(&text(&made, "key")).send().await.expect_status(200);
    app.post("/api/auth/register").send().await.expect_error(401, "missing_credential");
    // And is still let in when keys exist.
    on_the_machine(&app, "/api/auth/keys", &json!({"name": "another"})).await;
}

async fn on_the_machine(app: &TestApp, path: &str, body: &Value) -> Value {
    let socket = app.data_dir().join("agentd.sock");
    let client = reqwest::Client::builder().no_proxy().unix_socket(socket).build().expect("a client");
    let answer = client.post(format!("http://localhost{path}")).json(body).send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 200, "{path}");
    answer.json().await.expect("JSON")
}

#[tokio::test]
async fn beyond_loopback_the_doors_close_after_15_minutes() {
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
async fn on_loopback_the_doors_stay_open() {
    let app = TestApp::start().await;
    app.clock.advance(Duration::from_secs(30 * 24 * 60 * 60));
    app.post("/api/auth/register").json(&account()).send().await.expect_status(201);
}

#[tokio::test]
async fn pages_of_others_cannot_set_a_daemon_up() {
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
async fn no_request_is_trusted_for_its_address() {
    let app = TestApp::with_owner().await;
    for (name, value) in [("x-forwarded-for", "127.0.0.1"), ("forwarded", "for=127.0.0.1"), ("x-real-ip", "127.0.0.1")]
    {
        app.get("/api/auth/keys").anonymous().header(name, value).send().await.expect_error(401, "missing_credential");
    }
}

#[tokio::test]
async fn a_key_from_a_file_is_the_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    let key = format!("svc_{}", "5a".repeat(32));
    std::fs::write(&file, format!("{key}\n")).expect("the file is written");
    let mut app = TestApp::start_with(|source| source.bootstrap_api_key_file = Some(file.clone())).await;
    assert_eq!(state(&app).await, (json!(true), json!(false)));
    app.post("/api/auth/keys").json(&first_key()).send().await.expect_error(401, "missing_credential");
    let keys = app.get("/api/auth/keys").bearer(&key).send().await.expect_status(200).json();
    assert_eq!(keys["keys"][0]["name"], "bootstrap");
    // The file has done its work: later starts do not need it, and it makes no second key.
    std::fs::write(&file, format!("svc_{}", "6b".repeat(32))).expect("the file is written");
    app.restart().await;
    let keys = app.get("/api/auth/keys").bearer(&key).send().await.expect_status(200).json();
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1));
    std::fs::remove_file(&file).expect("the file goes");
    app.restart().await;
}

#[tokio::test]
async fn a_weak_key_in_the_file_stops_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("key");
    let cases =
        [(Some("svc_0123"), "64 hexadecimal digits"), (Some(""), "64 hexadecimal digits"), (None, "cannot be read")];
    for (number, (content, part)) in cases.into_iter().enumerate() {
        match content {
            Some(content) => std::fs::write(&file, content).expect("the file is written"),
            None => std::fs::remove_file(&file).expect("the file goes"),
        }
        let source = ConfigSource {
            port: Some("0".to_owned()),
            data_dir: Some(folder.path().join(format!("data{number}"))),
            bootstrap_api_key_file: Some(file.clone()),
            ..ConfigSource::default()
        };
        let config = Config::from_source(source).expect("a valid configuration");
        let clock = MockClock::new(Timestamp::default());
        let refused = Running::start(config, clock.clock(), Entropy::seeded(1), WorkerMode::ByHand).await;
        let message = refused.expect_err("no start").to_string();
        assert!(message.contains("SVC_BOOTSTRAP_API_KEY_FILE") && message.contains(part), "{message}");
        assert!(!message.contains("0123"), "{message}");
    }
}
