//! Every operation of the document has an expectation of who may call it, and was seen
//! to succeed.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::document::{Operation, operations};
use crate::support::{TestApp, record};

/// Operations that need no credential. Everything else must refuse without one.
const PUBLIC: &[&str] = &[
    "get_api_health",
    "get_api_index",
    "get_bootstrap",
    "get_docs",
    "get_health",
    "get_health_live",
    "get_health_ready",
    "get_metrics",
    "get_openapi",
    "get_page",
    "login",
    "pair_device",
    "receive_channel_webhook",
    "receive_webhook",
    "validate",
    "verify_channel_webhook",
];

/// Operations that are open until the first key exists.
const UNTIL_FIRST_KEY: &[&str] =
    &["create_key", "register", "setup_account", "setup_agent", "setup_complete", "setup_provider", "setup_status"];

/// Operations that change nothing that is worth protecting from a `read` key although they POST.
const ANY_SCOPE: &[&str] = &["create_ticket", "logout"];

/// Operations with a credential of their own kind, which no other one stands for.
const OWN_CREDENTIAL: &[&str] = &["connect_device"];

/// Operations that only read, what is not for a `read` key.
const FULL_SCOPE: &[&str] = &[
    "download_backup",
    "get_backup_work",
    "get_browser_auth_state",
    "list_backups",
    "list_browser_auth_states",
    "list_browser_cookies",
];

fn path_with_ids(operation: &Operation) -> String {
    let mut path = String::new();
    for part in operation.path.split('/').skip(1) {
        path.push('/');
        path.push_str(if part.starts_with('{') { "unknown" } else { part });
    }
    if operation.id == "stream_events" {
        // Refused for its query, once it is let in; it would go on for ever.
        path.push_str("?types=none");
    }
    path
}

fn method(operation: &Operation) -> reqwest::Method {
    operation.method.to_uppercase().parse().expect("a method")
}

#[test]
fn access_of_every_operation_is_as_expected() {
    for operation in operations() {
        let expected = match operation.id.as_str() {
            id if PUBLIC.contains(&id) => "public",
            id if UNTIL_FIRST_KEY.contains(&id) => "until_first_key",
            _ => "required",
        };
        assert_eq!(operation.access(), expected, "{} {}", operation.method, operation.path);
    }
    let known: BTreeSet<&str> = operations().iter().map(|operation| operation.id.as_str()).collect();
    for id in PUBLIC.iter().chain(UNTIL_FIRST_KEY).chain(ANY_SCOPE).chain(OWN_CREDENTIAL).chain(FULL_SCOPE) {
        assert!(known.contains(id), "{id} is no operation any more; take it off the list");
    }
}

/// Without a credential, with a wrong one, and in bootstrap with a session: 401, always with a
/// sentence; with a read key: 403 for whatever changes something.
#[tokio::test]
async fn every_protected_operation_refuses_strangers() {
    let bootstrap = TestApp::start().await;
    let account = serde_json::json!({"username": "owner", "password": "correct horse"});
    let registered = bootstrap.post("/api/auth/register").json(&account).send().await.expect_status(201).json();
    let session = registered["token"].as_str().expect("a token").to_owned();
    let app = TestApp::with_owner().await;
    let read = serde_json::json!({"name": "reader", "scope": "read"});
    let reader = app.post("/api/auth/keys").json(&read).send().await.expect_status(200).json();
    let reader = reader["key"].as_str().expect("a key").to_owned();

    for operation in operations() {
        let path = path_with_ids(operation);
        let request = |app: &TestApp| app.request(method(operation), &path).anonymous();
        if operation.access() == "public" {
            let answer = request(&app).send().await;
            assert_ne!(answer.status.as_u16(), 401, "{} is public", operation.id);
            continue;
        }
        if OWN_CREDENTIAL.contains(&operation.id.as_str()) {
            let owner = app.key.clone().expect("a key");
            for credential in ["svc_0123", "sess_0123", &reader, &owner] {
                let refused = request(&app).bearer(credential).send().await.expect_status(401);
                assert_says_why(&refused.json(), operation);
            }
            request(&bootstrap).bearer(&session).send().await.expect_status(401);
            continue;
        }
        let without = request(&app).send().await.expect_status(401);
        assert_says_why(&without.json(), operation);
        let wrong = request(&app).bearer("svc_0123").send().await.expect_status(401);
        assert_says_why(&wrong.json(), operation);
        assert_ne!(without.json()["error"], wrong.json()["error"], "{}", operation.id);
        request(&app).bearer("sess_0123").send().await.expect_status(401);
        let forged = request(&app).header("x-forwarded-for", "127.0.0.1").header("forwarded", "for=127.0.0.1");
        forged.send().await.expect_status(401);

        // One that is open would make the first key, and end what is tested here.
        if operation.access() == "required" {
            request(&bootstrap).bearer(&session).send().await.expect_status(401);
            request(&bootstrap).send().await.expect_status(401);
        }
        let with_reader = request(&app).bearer(&reader).send().await;
        let id = operation.id.as_str();
        let changes = operation.method != "get" && !ANY_SCOPE.contains(&id);
        if changes || FULL_SCOPE.contains(&id) {
            with_reader.expect_error(403, "insufficient_scope");
        } else {
            assert!(![401, 403].contains(&with_reader.status.as_u16()), "{} may be read", operation.id);
        }
    }
}

fn assert_says_why(body: &Value, operation: &Operation) {
    let sentence = body["error"].as_str().unwrap_or_default();
    assert!(sentence.len() > 20, "{}: `{sentence}` says too little", operation.id);
}

/// Every operation was answered with success somewhere in these tests. One test cannot know what the
/// others do, so this reads what a whole run has recorded: `make test` runs it after all others.
#[test]
#[ignore = "needs the record of a whole run; `make test` gives it one"]
fn every_operation_was_answered_with_success() {
    let answered = record::read();
    let mut missing = Vec::new();
    for operation in operations() {
        let statuses = answered.get(&operation.id).cloned().unwrap_or_default();
        if !statuses.iter().any(|status| *status == 101 || (200..300).contains(status)) {
            missing.push(format!("{} {}: answered with {statuses:?}", operation.method, operation.path));
        }
    }
    assert!(missing.is_empty(), "operations that no test has seen succeed: {missing:#?}");
}
