//! API keys: create, list, use, rotate, and revoke.

use std::time::Duration;

use agentd_base::Secret;
use agentd_web::{Authenticate, Credential};
use serde_json::{Value, json};

use super::{create_key, log_in, replica, text};
use crate::support::TestApp;

#[tokio::test]
async fn keys_are_listed_newest_first_without_their_secrets() {
    let app = TestApp::with_owner().await;
    app.clock.advance(Duration::from_secs(1));
    let (second, _) = create_key(&app, json!({"name": "second", "description": "for the cron job"})).await;
    app.clock.advance(Duration::from_secs(1));
    let (third, key) = create_key(&app, json!({"name": "third", "scope": "read"})).await;
    let answer = app.get("/api/auth/keys").send().await.expect_status(200);
    assert!(!answer.text().contains("svc_"));
    assert!(!answer.text().contains(&key[4..]));
    let keys = answer.json()["keys"].as_array().cloned().unwrap_or_default();
    let ids: Vec<&str> = keys.iter().filter_map(|key| key["id"].as_str()).collect();
    assert_eq!(ids[..2], [third.as_str(), second.as_str()]);
    assert_eq!(ids.len(), 3);
    assert_eq!(keys[0]["scope"], "read");
    assert_eq!((&keys[1]["scope"], &keys[1]["description"]), (&json!("full"), &json!("for the cron job")));
    assert_eq!(keys[1]["created_at"], "2026-01-05T09:00:01.000Z");
    assert!(keys[1]["last_used"].is_null());
}

#[tokio::test]
async fn invalid_key_request_reports_every_field() {
    let app = TestApp::with_owner().await;
    let create = |body: Value| app.post("/api/auth/keys").json(&body).send();
    let refused = create(json!({"name": "", "description": 7, "scope": "admin"})).await.expect_status(400);
    let mut fields = refused.bad_fields();
    fields.sort();
    assert_eq!(fields, ["description", "name", "scope"]);
    for body in [
        json!({}),
        json!({"name": "  "}),
        json!({"name": "x".repeat(101)}),
        json!({"name": "a\nb"}),
        json!({"name": null}),
    ] {
        assert_eq!(create(body).await.expect_status(400).bad_fields(), ["name"]);
    }
    let keys = app.get("/api/auth/keys").send().await.json();
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn key_is_accepted_in_either_header() {
    let app = TestApp::with_owner().await;
    let key = app.key.clone().expect("a key");
    app.get("/api/auth/keys").anonymous().header("x-api-key", &key).send().await.expect_status(200);
    app.get("/api/auth/keys")
        .anonymous()
        .header("authorization", &format!("bearer {key}"))
        .send()
        .await
        .expect_status(200);
    for wrong in [&*key, &format!("Token {key}"), "Basic b3duZXI6eA==", "Bearer ", "Bearer"] {
        let refused = app.get("/api/auth/keys").anonymous().header("authorization", wrong).send().await;
        let refused = refused.expect_error(401, "missing_credential").text();
        assert!(refused.contains("must read `Bearer <API key or session token>`"), "{wrong}: {refused}");
    }
    app.get("/api/auth/keys")
        .anonymous()
        .header("x-api-key", "svc_")
        .send()
        .await
        .expect_error(401, "invalid_credential");
    // A key in the query string is not accepted.
    app.get(&format!("/api/auth/keys?token={key}&api_key={key}&ticket={key}"))
        .anonymous()
        .send()
        .await
        .expect_status(401);
    for wrong in [&key[..key.len() - 1], &format!("{key}0"), &key.to_uppercase(), &"svc_".repeat(1000)] {
        app.get("/api/auth/keys").bearer(wrong).send().await.expect_error(401, "invalid_credential");
    }
}

#[tokio::test]
async fn read_key_can_read_but_not_change() {
    let app = TestApp::with_owner().await;
    let (id, reader) = create_key(&app, json!({"name": "reader", "scope": "read"})).await;
    app.get("/api/auth/keys").bearer(&reader).send().await.expect_status(200);
    let head = reqwest::Client::new().head(app.url("/api/auth/keys")).bearer_auth(&reader).send().await;
    assert_eq!(head.expect("an answer").status().as_u16(), 200);
    let own = format!("/api/auth/keys/{id}");
    let rotate = format!("{own}/rotate");
    let requests = [
        app.post("/api/auth/keys").json(&json!({"name": "more"})),
        app.post("/api/auth/register").json(&super::account()),
        app.post(&rotate),
        app.delete(&own),
    ];
    for request in requests {
        request.bearer(&reader).send().await.expect_error(403, "insufficient_scope");
    }
    let validated = app.post("/api/auth/validate").bearer(&reader).send().await.expect_status(200).json();
    assert_eq!(validated, json!({"valid": true, "token_type": "api_key"}));
    let logged_out = app.post("/api/auth/logout").bearer(&reader).send().await.expect_status(200).json();
    assert_eq!(logged_out, json!({"success": false}));
    app.post("/api/auth/ticket").bearer(&reader).send().await.expect_status(200);
    app.get("/api/auth/keys").bearer(&reader).send().await.expect_status(200);
}

#[tokio::test]
async fn rotation_replaces_the_key_immediately() {
    let app = TestApp::with_owner().await;
    let other = replica(&app).await;
    let (id, old) = create_key(&app, json!({"name": "rotated", "scope": "read"})).await;
    let before = app.get("/api/auth/keys").bearer(&old).send().await.expect_status(200).json();
    let is_accepted =
        async |key: &str| other.authenticate(Some(Credential::Token(Secret::new(key.to_owned())))).await.is_ok();
    assert!(is_accepted(&old).await);
    app.clock.advance(Duration::from_secs(5));
    let rotated = app.post(&format!("/api/auth/keys/{id}/rotate")).send().await.expect_status(200).json();
    let new = text(&rotated, "key");
    assert_eq!((text(&rotated, "id"), text(&rotated, "name")), (id.clone(), "rotated".to_owned()));
    assert_eq!(rotated["created_at"], before["keys"][0]["created_at"]);
    assert_ne!(new, old);
    assert!(!is_accepted(&old).await && is_accepted(&new).await);
    app.get("/api/auth/keys").bearer(&old).send().await.expect_error(401, "invalid_credential");
    app.get("/api/auth/keys").bearer(&new).send().await.expect_status(200);
    // The scope is retained.
    app.delete(&format!("/api/auth/keys/{id}")).bearer(&new).send().await.expect_error(403, "insufficient_scope");
    app.post("/api/auth/keys/key_unknown/rotate").send().await.expect_error(404, "not_found");
}

#[tokio::test]
async fn revocation_is_immediate_and_permanent() {
    let app = TestApp::with_owner().await;
    let other = replica(&app).await;
    let (id, key) = create_key(&app, json!({"name": "doomed"})).await;
    app.get("/api/auth/keys").bearer(&key).send().await.expect_status(200);
    let is_accepted = async || other.authenticate(Some(Credential::Token(Secret::new(key.clone())))).await.is_ok();
    assert!(is_accepted().await);
    let path = format!("/api/auth/keys/{id}");
    assert_eq!(app.delete(&path).send().await.expect_status(200).json(), json!({"revoked": true}));
    assert!(!is_accepted().await);
    app.get("/api/auth/keys").bearer(&key).send().await.expect_error(401, "invalid_credential");
    let validated = app.post("/api/auth/validate").bearer(&key).send().await.expect_status(200).json();
    assert_eq!(validated, json!({"valid": false, "token_type": null}));
    app.delete(&path).send().await.expect_error(404, "not_found");
    app.post(&format!("{path}/rotate")).send().await.expect_error(404, "not_found");
    for unknown in ["key_unknown", "..%2f..%2fkeys", "%F0%9F%94%91", &"k".repeat(5000)] {
        app.delete(&format!("/api/auth/keys/{unknown}")).send().await.expect_error(404, "not_found");
    }
    app.delete("/api/auth/keys/%00").send().await.expect_status(400);
    let keys = app.get("/api/auth/keys").send().await.json();
    assert!(!keys.to_string().contains(&id));
}

#[tokio::test]
async fn last_use_of_a_key_is_recorded_once_a_minute() {
    let app = TestApp::with_owner().await;
    let (_, key) = create_key(&app, json!({"name": "used"})).await;
    let last_used = async || {
        app.run_workers().await;
        let keys = app.get("/api/auth/keys").send().await.expect_status(200).json();
        let found = keys["keys"].as_array().and_then(|keys| keys.iter().find(|key| key["name"] == "used").cloned());
        found.expect("the key")["last_used"].clone()
    };
    let use_key = async || app.get("/api/auth/keys").bearer(&key).send().await.expect_status(200);
    assert_eq!(last_used().await, Value::Null);
    use_key().await;
    assert_eq!(last_used().await, "2026-01-05T09:00:00.000Z");
    app.clock.advance(Duration::from_secs(59));
    use_key().await;
    assert_eq!(last_used().await, "2026-01-05T09:00:00.000Z");
    app.clock.advance(Duration::from_secs(1));
    use_key().await;
    assert_eq!(last_used().await, "2026-01-05T09:01:00.000Z");
    // Applies even if the cache was cleared in between.
    create_key(&app, json!({"name": "more"})).await;
    app.clock.advance(Duration::from_secs(61));
    use_key().await;
    app.clock.advance(Duration::from_secs(10));
    assert_eq!(last_used().await, "2026-01-05T09:02:01.000Z");
}

#[tokio::test]
async fn repeated_request_creates_one_key() {
    let app = TestApp::with_owner().await;
    let create =
        |name: &str| app.post("/api/auth/keys").header("idempotency-key", "once").json(&json!({"name": name})).send();
    let made = create("one").await.expect_status(200).json();
    let refused = create("one").await.expect_error(409, "already_done");
    assert!(refused.text().contains(&text(&made, "id")));
    assert!(!refused.text().contains(&text(&made, "key")));
    create("two").await.expect_error(409, "idempotency_key_reused");
    let keys = app.get("/api/auth/keys").send().await.json();
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(2));
    let rotate = format!("/api/auth/keys/{}/rotate", text(&made, "id"));
    let rotated = app.post(&rotate).header("idempotency-key", "turn").send().await.expect_status(200).json();
    app.post(&rotate).header("idempotency-key", "turn").send().await.expect_error(409, "already_done");
    app.get("/api/auth/keys").bearer(&text(&rotated, "key")).send().await.expect_status(200);
}

#[tokio::test]
async fn session_has_the_permissions_of_a_full_key() {
    let app = TestApp::with_owner().await;
    let session = log_in(&app).await;
    let made = app.post("/api/auth/keys").bearer(&session).json(&json!({"name": "by session"})).send().await;
    let id = text(&made.expect_status(200).json(), "id");
    app.delete(&format!("/api/auth/keys/{id}")).bearer(&session).send().await.expect_status(200);
}
