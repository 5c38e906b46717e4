//! Reauthentication: a page session needs a recent password for operations with effects beyond the session.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{log_in, text};
use crate::support::{Eventually, TestApp, TestPage, TestRequest};

const PASSPHRASE: &str = "a passphrase of some length";

/// Returns every guarded operation that changes something, with a request that is valid otherwise.
async fn guarded_operations(app: &TestApp) -> Vec<(Method, String, Value)> {
    let made = app.post("/api/auth/keys").json(&json!({"name": "rotated"})).send().await.expect_status(200).json();
    let rotate = format!("/api/auth/keys/{}/rotate", text(&made, "id"));
    let security = json!({"settings": {"security": {"approval_ttl_seconds": 60}}});
    let sandbox = json!({"settings": {"sandbox": {"timeout_seconds": 30}}});
    vec![
        (Method::POST, "/api/auth/keys".into(), json!({"name": "more"})),
        (Method::POST, rotate, json!({})),
        (Method::PUT, "/api/settings/security".into(), json!({"approval_ttl_seconds": 120})),
        (Method::POST, "/api/settings/security/reset".into(), json!({})),
        (Method::PUT, "/api/sandbox/config".into(), json!({"timeout_seconds": 40})),
        (Method::POST, "/api/settings/import?include_safety=true".into(), security),
        (Method::POST, "/api/settings/import?include_safety=true".into(), sandbox),
        (Method::POST, "/api/backups".into(), json!({"passphrase": PASSPHRASE})),
    ]
}

/// Returns the keys, security settings, and sandbox settings, which the guarded operations change.
async fn state(app: &TestApp) -> Vec<Value> {
    let mut state = Vec::new();
    for path in ["/api/auth/keys", "/api/settings/security", "/api/sandbox/config", "/api/backups/work"] {
        state.push(app.get(path).send().await.expect_status(200).json());
    }
    // Ignores values that are measured on each request, and the last use of keys.
    state[0]["keys"].as_array_mut().expect("keys").iter_mut().for_each(|key| key["last_used"] = Value::Null);
    state[2]["in_force"] = Value::Null;
    state
}

/// Waits until a backup other than `earlier` is done and returns its name.
async fn wait_for_backup(app: &TestApp, earlier: &str) -> String {
    let mut eventually = Eventually::new();
    loop {
        let work = app.get("/api/backups/work").send().await.json()["work"].clone();
        if work["state"] == "done" && work["name"] != earlier {
            return text(&work, "name");
        }
        eventually.retry_with(&work).await;
    }
}

#[tokio::test]
async fn page_session_needs_a_recent_password_for_lasting_changes() {
    let app = TestApp::with_owner().await;
    let page = TestPage::sign_in(&app).await;
    let guarded = guarded_operations(&app).await;
    let before = state(&app).await;
    for (method, path, body) in &guarded {
        let refused = page.request(&app, method.clone(), path).json(body).send().await;
        let refused = refused.expect_error(403, "reauthentication_required");
        assert!(refused.text().contains("/api/auth/reauthenticate"), "{}", refused.text());
    }
    assert_eq!(state(&app).await, before);
    let answer = page.reauthenticate(&app, "correct horse").await.expect_status(200).json();
    assert_eq!(answer, json!({"reauthenticated_until": "2026-01-05T09:10:00.000Z"}));
    for (method, path, body) in &guarded {
        let done = page.request(&app, method.clone(), path).json(body).send().await;
        assert!(done.status.is_success(), "{method} {path}: {}", done.text());
    }
    wait_for_backup(&app, "").await;
    // The confirmation is valid for exactly ten minutes.
    let security = || page.put(&app, "/api/settings/security").json(&json!({"approval_ttl_seconds": 90}));
    app.clock.advance(Duration::from_secs(599));
    security().send().await.expect_status(200);
    app.clock.advance(Duration::from_secs(1));
    security().send().await.expect_error(403, "reauthentication_required");
}

#[tokio::test]
async fn backup_with_secrets_is_downloaded_and_restored_with_a_recent_password() {
    let app = TestApp::with_owner().await;
    app.post("/api/backups").json(&json!({"passphrase": PASSPHRASE})).send().await.expect_status(202);
    let sealed = wait_for_backup(&app, "").await;
    app.clock.advance(Duration::from_secs(1));
    let page = TestPage::sign_in(&app).await;
    // A backup without secrets needs no confirmation.
    page.post(&app, "/api/backups").json(&json!({})).send().await.expect_status(202);
    let plain = wait_for_backup(&app, &sealed).await;
    let download = |name: &str| format!("/api/backups/{name}/download");
    page.get(&app, &download(&plain)).send().await.expect_status(200);
    page.get(&app, &download(&sealed)).send().await.expect_error(403, "reauthentication_required");
    let ticket = async || text(&page.post(&app, "/api/auth/ticket").send().await.expect_status(200).json(), "ticket");
    let by_ticket =
        async |name: &str| app.get(&format!("{}?ticket={}", download(name), ticket().await)).anonymous().send().await;
    by_ticket(&plain).await.expect_status(200);
    by_ticket(&sealed).await.expect_error(403, "reauthentication_required");
    let restore =
        |name: &str| page.post(&app, &format!("/api/backups/{name}/restore")).json(&json!({"confirm": "another name"}));
    for name in [&plain, &sealed] {
        restore(name).send().await.expect_error(403, "reauthentication_required");
    }
    page.reauthenticate(&app, "correct horse").await.expect_status(200);
    page.get(&app, &download(&sealed)).send().await.expect_status(200);
    by_ticket(&sealed).await.expect_status(200);
    restore(&sealed).send().await.expect_status(400);
}

#[tokio::test]
async fn other_credentials_need_no_confirmation() {
    let app = TestApp::with_owner().await;
    let token = log_in(&app).await;
    for (method, path, body) in guarded_operations(&app).await {
        let done = app.request(method.clone(), &path).bearer(&token).json(&body).send().await;
        assert!(done.status.is_success(), "{method} {path}: {}", done.text());
    }
    wait_for_backup(&app, "").await;
    let body = json!({"password": "correct horse"});
    let reauthenticate = || app.post("/api/auth/reauthenticate").json(&body);
    for request in [reauthenticate(), reauthenticate().bearer(&token)] {
        request.send().await.expect_error(409, "not_page_session");
    }
    reauthenticate().anonymous().send().await.expect_error(401, "missing_credential");
}

#[tokio::test]
async fn settings_without_safety_need_no_confirmation() {
    let app = TestApp::with_owner().await;
    let page = TestPage::sign_in(&app).await;
    page.put(&app, "/api/settings/interface").json(&json!({"language": "de"})).send().await.expect_status(200);
    page.post(&app, "/api/settings/reset").send().await.expect_status(200);
    // An import leaves safety settings unchanged by default.
    let file = json!({"settings": {"interface": {"language": "de"}, "security": {"approval_ttl_seconds": 60}}});
    page.post(&app, "/api/settings/import").json(&file).send().await.expect_status(200);
    page.get(&app, "/api/settings/security").send().await.expect_status(200);
}

#[tokio::test]
async fn confirmation_belongs_to_one_session() {
    let app = TestApp::with_owner().await;
    let (page, other) = (TestPage::sign_in(&app).await, TestPage::sign_in(&app).await);
    let change = |page: &TestPage| -> TestRequest {
        page.put(&app, "/api/settings/security").json(&json!({"approval_ttl_seconds": 90}))
    };
    page.reauthenticate(&app, "correct horse").await.expect_status(200);
    change(&page).send().await.expect_status(200);
    change(&other).send().await.expect_error(403, "reauthentication_required");
    // Logging in again does not carry the confirmation over.
    let login = app.post("/api/auth/login").anonymous().header("cookie", &page.cookie).json(&TestPage::account());
    let next = TestPage::of(&login.send().await.expect_status(200));
    change(&next).send().await.expect_error(403, "reauthentication_required");
}

#[tokio::test]
async fn confirmation_is_valid_after_a_restart_and_on_every_replica() {
    let mut app = TestApp::with_owner().await;
    let page = TestPage::sign_in(&app).await;
    let change = |app: &TestApp| page.put(app, "/api/settings/security").json(&json!({"approval_ttl_seconds": 90}));
    if let Some(replica) = app.replica().await {
        change(&app).send().await.expect_error(403, "reauthentication_required");
        page.reauthenticate(&replica, "correct horse").await.expect_status(200);
        change(&app).send().await.expect_status(200);
        replica.running();
        return;
    }
    page.reauthenticate(&app, "correct horse").await.expect_status(200);
    app.restart().await;
    change(&app).send().await.expect_status(200);
}

#[tokio::test]
async fn wrong_passwords_of_a_page_session_count_as_failed_logins() {
    let app = TestApp::with_owner().await;
    let page = TestPage::sign_in(&app).await;
    for _ in 0..5 {
        let refused = page.reauthenticate(&app, "wrong horse").await.expect_error(401, "wrong_password");
        // The session itself is still valid.
        assert!(refused.cookies().is_empty());
    }
    let refused = page.reauthenticate(&app, "correct horse").await.expect_error(429, "too_many_attempts");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let login = app.post("/api/auth/login").anonymous().json(&super::account()).send().await;
    login.expect_error(429, "too_many_attempts");
    page.put(&app, "/api/settings/security")
        .json(&json!({"approval_ttl_seconds": 90}))
        .send()
        .await
        .expect_error(403, "reauthentication_required");
    app.clock.advance(Duration::from_secs(1));
    page.reauthenticate(&app, "correct horse").await.expect_status(200);
}
