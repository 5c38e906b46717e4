//! Accounts: registration, login, throttling of failed logins, and sessions.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::{account, log_in, text};
use crate::support::{TestApp, TestResponse};

async fn attempt(app: &TestApp, username: &str, password: &str) -> TestResponse {
    let body = json!({"username": username, "password": password});
    app.post("/api/auth/login").anonymous().json(&body).send().await
}

/// Attempts a login with the forwarding header of a trusted proxy.
async fn attempt_from(app: &TestApp, address: &str, password: &str) -> TestResponse {
    let body = json!({"username": "owner", "password": password});
    app.post("/api/auth/login").anonymous().header("x-forwarded-for", address).json(&body).send().await
}

async fn behind_a_proxy() -> TestApp {
    let mut app = TestApp::start_with(|source| source.trusted_proxies = Some("127.0.0.1".into())).await;
    app.create_owner().await;
    app
}

#[tokio::test]
async fn login_creates_a_session() {
    let app = TestApp::with_owner().await;
    let answer = attempt(&app, "owner", "correct horse").await.expect_status(200).json();
    assert_eq!((&answer["token_type"], &answer["expires_in"]), (&json!("session"), &json!(86_400)));
    assert_eq!(answer["user"]["username"], "owner");
    assert!(text(&answer["user"], "id").starts_with("user_"));
    let session = text(&answer, "token");
    assert_eq!(session.len(), "sess_".len() + 64);
    app.get("/api/auth/keys").bearer(&session).send().await.expect_status(200);
    let validated = app.post("/api/auth/validate").bearer(&session).send().await.expect_status(200).json();
    assert_eq!(validated, json!({"valid": true, "token_type": "session"}));
}

#[tokio::test]
async fn repeated_login_creates_one_session() {
    let app = TestApp::with_owner().await;
    let send = async |key: &str, password: &str| {
        let body = json!({"username": "owner", "password": password});
        app.post("/api/auth/login").anonymous().header("idempotency-key", key).json(&body).send().await
    };
    let first = send("one", "correct horse").await.expect_status(200).json();
    let again = send("one", "correct horse").await.expect_error(409, "already_done");
    assert!(again.text().contains("already created session login_"), "{}", again.text());
    assert!(!again.text().contains(&text(&first, "token")));
    // Without the password, the repeated request reveals nothing.
    send("one", "wrong horse").await.expect_error(401, "wrong_credentials");
    send("two", "correct horse").await.expect_status(200);
    send("", "correct horse").await.expect_error(400, "invalid_idempotency_key");
    // A 409 response does not count as a failed login.
    for _ in 0..30 {
        send("one", "correct horse").await.expect_error(409, "already_done");
    }
    send("three", "correct horse").await.expect_status(200);
    let mut read = app.running().context().db.read().await.expect("a connection");
    let sessions = read.fetch_one("SELECT COUNT(*) FROM user_sessions", agentd_store::args![]).await.expect("a count");
    // One session from the registration and three from the logins.
    assert_eq!(sessions.first::<u64>().expect("a number"), 4);
}

#[tokio::test]
async fn invalid_account_reports_every_field() {
    let app = TestApp::start().await;
    let register = |body: Value| app.post("/api/auth/register").json(&body).send();
    let refused = register(json!({"username": "ab", "password": "1234567"})).await.expect_status(400);
    assert_eq!(sorted_bad_fields(&refused), ["password", "username"]);
    assert_eq!(sorted_bad_fields(&register(json!({})).await.expect_status(400)), ["password", "username"]);
    for username in [json!(" owner"), json!("own\ner"), json!("x".repeat(65)), json!(7), Value::Null] {
        let refused = register(json!({"username": username, "password": "12345678"})).await.expect_status(400);
        assert_eq!(refused.bad_fields(), ["username"], "{username}");
    }
    let long = json!({"username": "owner", "password": "x".repeat(1025)});
    assert_eq!(register(long).await.expect_status(400).bad_fields(), ["password"]);
    let bootstrap = app.get("/api/auth/bootstrap").send().await.json();
    assert_eq!(bootstrap["needs_setup"], true);
    // Lengths are counted in characters, not bytes.
    register(json!({"username": "žofie", "password": "žluťoučký"})).await.expect_status(201);
    attempt(&app, "žofie", "žluťoučký").await.expect_status(200);
}

fn sorted_bad_fields(refused: &TestResponse) -> Vec<String> {
    let mut fields = refused.bad_fields();
    fields.sort();
    fields
}

#[tokio::test]
async fn repeated_registration_names_the_created_account() {
    let app = TestApp::start().await;
    let register = || app.post("/api/auth/register").header("idempotency-key", "once").json(&account()).send();
    let made = register().await.expect_status(201).json();
    let refused = register().await.expect_error(409, "already_done");
    assert!(refused.text().contains(&text(&made, "user_id")));
    assert!(!refused.text().contains(&text(&made, "token")));
}

#[tokio::test]
async fn wrong_user_and_wrong_password_are_indistinguishable() {
    let app = TestApp::with_owner().await;
    let shape = |answer: TestResponse| {
        let names: BTreeSet<String> = answer.headers.keys().map(|name| name.as_str().to_owned()).collect();
        (answer.status, names, answer.json())
    };
    let wrong_password = shape(attempt(&app, "owner", "wrong horse").await.expect_error(401, "wrong_credentials"));
    for (username, password) in [("nobody", "correct horse"), ("Owner", "correct horse"), ("", ""), ("owner", "")] {
        assert_eq!(shape(attempt(&app, username, password).await), wrong_password, "{username}");
    }
    // This also applies while logins are throttled.
    for _ in 0..5 {
        attempt(&app, "owner", "x").await;
        attempt(&app, "nobody", "x").await;
    }
    let closed = shape(attempt(&app, "owner", "x").await.expect_status(429));
    assert_eq!(shape(attempt(&app, "nobody", "x").await), closed);
}

#[tokio::test]
async fn login_delay_doubles_after_five_failures() {
    let app = TestApp::with_owner().await;
    for _ in 0..4 {
        attempt(&app, "owner", "wrong").await.expect_error(401, "wrong_credentials");
        app.clock.advance(Duration::from_secs(60));
    }
    for wait in [1, 2, 4] {
        attempt(&app, "owner", "wrong").await.expect_error(401, "wrong_credentials");
        // The password is not checked, and early attempts do not extend the delay.
        for _ in 0..3 {
            let refused = attempt(&app, "owner", "correct horse").await.expect_error(429, "too_many_attempts");
            assert_eq!(refused.header("retry-after"), Some(wait.to_string().as_str()));
        }
        attempt(&app, "somebody", "wrong").await.expect_error(401, "wrong_credentials");
        app.clock.advance(Duration::from_millis(wait * 1000 - 1));
        attempt(&app, "owner", "correct horse").await.expect_error(429, "too_many_attempts");
        app.clock.advance(Duration::from_millis(1));
    }
    attempt(&app, "owner", "correct horse").await.expect_status(200);
    // A successful login resets the count.
    for _ in 0..5 {
        attempt(&app, "owner", "wrong").await.expect_error(401, "wrong_credentials");
    }
    let refused = attempt(&app, "owner", "correct horse").await.expect_error(429, "too_many_attempts");
    assert_eq!(refused.header("retry-after"), Some("1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_guesses_are_counted_individually() {
    let app = TestApp::with_owner().await;
    let guesses = (0..16).map(|number| {
        let body = json!({"username": "owner", "password": format!("guess {number}")});
        app.post("/api/auth/login").anonymous().json(&body).send()
    });
    let answers = futures_util::future::join_all(guesses).await;
    let count = |status: u16| answers.iter().filter(|answer| answer.status.as_u16() == status).count();
    assert_eq!((count(401), count(429)), (5, 11));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_logins_with_the_right_password_all_succeed() {
    let app = TestApp::with_owner().await;
    for _ in 0..4 {
        attempt(&app, "owner", "wrong").await.expect_status(401);
    }
    let logins = (0..16).map(|_| app.post("/api/auth/login").anonymous().json(&account()).send());
    for answer in futures_util::future::join_all(logins).await {
        answer.expect_status(200);
    }
}

#[tokio::test]
async fn failures_are_counted_by_address_and_cannot_lock_out_the_owner() {
    let app = behind_a_proxy().await;
    for _ in 0..5 {
        attempt_from(&app, "198.51.100.1", "wrong").await.expect_status(401);
    }
    attempt_from(&app, "198.51.100.1", "correct horse").await.expect_status(429);
    // An address that the client itself prepends is ignored.
    attempt_from(&app, "203.0.113.9, 198.51.100.1", "correct horse").await.expect_status(429);
    attempt_from(&app, "198.51.100.2", "wrong").await.expect_status(401);
    attempt_from(&app, "198.51.100.3", "correct horse").await.expect_status(200);
    // A success from another address does not reset the count.
    attempt_from(&app, "198.51.100.1", "correct horse").await.expect_status(429);
}

#[tokio::test]
async fn forwarded_address_of_an_untrusted_client_is_ignored() {
    let app = TestApp::with_owner().await;
    for last in 1..=5 {
        attempt_from(&app, &format!("198.51.100.{last}"), "wrong").await.expect_status(401);
    }
    attempt_from(&app, "198.51.100.6", "correct horse").await.expect_status(429);
}

#[tokio::test]
async fn logout_ends_the_session_immediately() {
    let app = TestApp::with_owner().await;
    let (first, second) = (log_in(&app).await, log_in(&app).await);
    app.get("/api/auth/keys").bearer(&first).send().await.expect_status(200);
    let answer = app.post("/api/auth/logout").bearer(&first).send().await.expect_status(200).json();
    assert_eq!(answer, json!({"success": true}));
    let refused = app.get("/api/auth/keys").bearer(&first).send().await.expect_error(401, "invalid_credential").json();
    assert!(text(&refused, "error").contains("log in again"));
    app.post("/api/auth/logout").bearer(&first).send().await.expect_status(401);
    app.get("/api/auth/keys").bearer(&second).send().await.expect_status(200);
    let answer = app.post("/api/auth/logout").send().await.expect_status(200).json();
    assert_eq!(answer, json!({"success": false}));
    app.get("/api/auth/keys").send().await.expect_status(200);
}

#[tokio::test]
async fn session_expires_after_its_lifetime() {
    let mut app = TestApp::with_owner().await;
    let session = log_in(&app).await;
    app.clock.advance(Duration::from_secs(86_399));
    app.get("/api/auth/keys").bearer(&session).send().await.expect_status(200);
    app.clock.advance(Duration::from_secs(1));
    app.get("/api/auth/keys").bearer(&session).send().await.expect_error(401, "invalid_credential");
    let validated = app.post("/api/auth/validate").bearer(&session).send().await.expect_status(200).json();
    assert_eq!(validated["valid"], false);
    app.run_workers().await;
    app.restart().await;
    app.get("/api/auth/keys").bearer(&session).send().await.expect_error(401, "invalid_credential");
}

#[tokio::test]
async fn session_remains_valid_after_a_restart() {
    let mut app = TestApp::with_owner().await;
    let session = log_in(&app).await;
    app.restart().await;
    app.get("/api/auth/keys").bearer(&session).send().await.expect_status(200);
}

#[tokio::test]
async fn old_failures_and_sessions_are_purged() {
    let app = TestApp::with_owner().await;
    log_in(&app).await;
    attempt(&app, "nobody", "wrong").await.expect_status(401);
    app.post("/api/auth/ticket").send().await.expect_status(200);
    let rows = async || {
        let mut read = app.running().context().db.read().await.expect("a connection");
        let mut counts = Vec::new();
        for table in ["user_sessions", "login_failures", "auth_tickets"] {
            let row = read.fetch_one(format!("SELECT COUNT(*) AS n FROM {table}"), agentd_store::args![]).await;
            counts.push(row.and_then(|row| row.get::<i64>("n")).expect("a count"));
        }
        counts
    };
    app.run_workers().await;
    assert_eq!(rows().await, [2, 1, 1]);
    app.clock.advance(Duration::from_secs(900));
    app.run_workers().await;
    assert_eq!(rows().await, [2, 0, 0]);
    app.clock.advance(Duration::from_secs(86_400));
    app.run_workers().await;
    assert_eq!(rows().await, [0, 0, 0]);
}

#[tokio::test]
async fn security_settings_take_effect_immediately() {
    let app = TestApp::with_owner().await;
    let set = |change: Value| app.put("/api/settings/security").json(&change).send();
    set(json!({"session_ttl_seconds": 60})).await.expect_status(200);
    let answer = attempt(&app, "owner", "correct horse").await.expect_status(200).json();
    assert_eq!(answer["expires_in"], 60);
    app.clock.advance(Duration::from_secs(60));
    let session = text(&answer, "token");
    app.get("/api/auth/keys").bearer(&session).send().await.expect_error(401, "invalid_credential");
    set(json!({"login_max_failures": 2, "login_window_seconds": 10})).await.expect_status(200);
    for _ in 0..2 {
        attempt(&app, "owner", "wrong").await.expect_status(401);
    }
    let refused = attempt(&app, "owner", "correct horse").await.expect_status(429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    app.clock.advance(Duration::from_secs(1));
    attempt(&app, "owner", "wrong").await.expect_status(401);
    let refused = attempt(&app, "owner", "wrong").await.expect_status(429);
    assert_eq!(refused.header("retry-after"), Some("2"));
    // A failure older than the window no longer counts.
    app.clock.advance(Duration::from_secs(10));
    for _ in 0..2 {
        attempt(&app, "owner", "wrong").await.expect_status(401);
    }
    attempt(&app, "owner", "correct horse").await.expect_status(429);
    set(json!({"login_max_failures": 3})).await.expect_status(200);
    attempt(&app, "owner", "correct horse").await.expect_status(200);
}
