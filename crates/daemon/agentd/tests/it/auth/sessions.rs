//! Login sessions of the owner: list, use, and end.

use std::time::Duration;

use agentd_base::Secret;
use agentd_store::{StoreError, Tx, args};
use agentd_web::{Authenticate, Credential};
use serde_json::{Value, json};

use super::{account, create_key, log_in, replica, text};
use crate::support::TestApp;

const SESSIONS: &str = "/api/auth/sessions";

async fn log_in_as(app: &TestApp, user_agent: &str, forwarded_for: &str) -> String {
    let request = app.post("/api/auth/login").anonymous().header("user-agent", user_agent);
    let answer = request.header("x-forwarded-for", forwarded_for).json(&account()).send().await.expect_status(200);
    text(&answer.json(), "token")
}

/// Lists the open sessions as seen by `token`.
async fn list(app: &TestApp, token: &str) -> Vec<Value> {
    let answer = app.get(SESSIONS).bearer(token).send().await.expect_status(200);
    assert!(!answer.text().contains("sess_"), "{}", answer.text());
    let sessions = answer.json()["sessions"].as_array().cloned().expect("a list");
    assert_eq!(answer.json()["total"], sessions.len());
    sessions
}

/// Returns the id of the session that belongs to `token`.
async fn own_id(app: &TestApp, token: &str) -> String {
    let sessions = list(app, token).await;
    let own: Vec<&Value> = sessions.iter().filter(|session| session["current"] == true).collect();
    assert_eq!(own.len(), 1, "{sessions:?}");
    text(own[0], "id")
}

#[tokio::test]
async fn sessions_are_listed_with_address_user_agent_and_times() {
    let mut app = TestApp::start_with(|source| source.trusted_proxies = Some("127.0.0.1".into())).await;
    app.create_owner().await;
    app.clock.advance(Duration::from_secs(60));
    let token = log_in_as(&app, &format!("Mozilla/5.0\t(X11){}", "x".repeat(500)), "2001:db8::7, 198.51.100.7").await;
    let sessions = list(&app, &token).await;
    assert_eq!(sessions.len(), 2, "the other session is the registration's");
    let session = &sessions[0];
    assert!(text(session, "id").starts_with("login_"));
    assert_eq!(session["created_at"], "2026-01-05T09:01:00.000Z");
    assert_eq!(session["expires_at"], "2026-01-06T09:01:00.000Z");
    assert_eq!((&session["address"], &session["current"]), (&json!("198.51.100.7"), &json!(true)));
    let user_agent = text(session, "user_agent");
    assert!(user_agent.starts_with("Mozilla/5.0(X11)x") && user_agent.chars().count() == 256, "{user_agent}");
    assert_eq!(sessions[1]["current"], false);
    // A key sees the same sessions, none of them current; a read key may list but not end them.
    let (_, reader) = create_key(&app, json!({"name": "reader", "scope": "read"})).await;
    let seen = list(&app, &reader).await;
    assert!(seen.len() == 2 && seen.iter().all(|session| session["current"] == false), "{seen:?}");
    for path in [SESSIONS.to_owned(), format!("{SESSIONS}/{}", text(session, "id"))] {
        app.delete(&path).bearer(&reader).send().await.expect_error(403, "insufficient_scope");
    }
    app.clock.advance(Duration::from_secs(86_400));
    assert_eq!(list(&app, app.key.as_deref().expect("a key")).await.len(), 0);
}

#[tokio::test]
async fn last_use_of_a_session_is_recorded_once_a_minute() {
    let app = TestApp::with_owner().await;
    let token = log_in(&app).await;
    let last_used = async || {
        app.run_workers().await;
        let sessions = list(&app, app.key.as_deref().expect("a key")).await;
        sessions[0]["last_used_at"].clone()
    };
    let use_session = async || app.get("/api/agents").bearer(&token).send().await.expect_status(200);
    assert_eq!(last_used().await, Value::Null);
    use_session().await;
    assert_eq!(last_used().await, "2026-01-05T09:00:00.000Z");
    app.clock.advance(Duration::from_secs(59));
    use_session().await;
    assert_eq!(last_used().await, "2026-01-05T09:00:00.000Z");
    app.clock.advance(Duration::from_secs(1));
    use_session().await;
    assert_eq!(last_used().await, "2026-01-05T09:01:00.000Z");
}

#[tokio::test]
async fn ended_session_is_rejected_by_every_process() {
    let app = TestApp::with_owner().await;
    let other = replica(&app).await;
    let (ended_token, own_token) = (log_in(&app).await, log_in(&app).await);
    let is_accepted =
        async || other.authenticate(Some(Credential::Token(Secret::new(ended_token.clone())))).await.is_ok();
    assert!(is_accepted().await);
    let ticket = app.post("/api/auth/ticket").bearer(&ended_token).send().await.expect_status(200).json();
    let mut stream = app.get("/api/events/stream").bearer(&ended_token).stream().await;
    assert!(stream.next().await.is_some());
    let path = format!("{SESSIONS}/{}", own_id(&app, &ended_token).await);
    let ended = app.delete(&path).bearer(&own_token).send().await.expect_status(200).json();
    assert_eq!(ended, json!({"ended": 1}));
    assert!(!is_accepted().await);
    app.get("/api/agents").bearer(&ended_token).send().await.expect_error(401, "invalid_credential");
    let ticket = Credential::Ticket(Secret::new(text(&ticket, "ticket")));
    assert!(other.authenticate(Some(ticket)).await.is_err());
    while stream.next().await.is_some() {}
    app.get("/api/agents").bearer(&own_token).send().await.expect_status(200);
    app.delete(&path).bearer(&own_token).send().await.expect_error(404, "not_found");
    app.delete(&format!("{SESSIONS}/login_unknown")).send().await.expect_error(404, "not_found");
    // A session can end itself.
    let own = format!("{SESSIONS}/{}", own_id(&app, &own_token).await);
    app.delete(&own).bearer(&own_token).send().await.expect_status(200);
    app.get("/api/agents").bearer(&own_token).send().await.expect_error(401, "invalid_credential");
}

#[tokio::test]
async fn all_other_sessions_can_be_ended() {
    let app = TestApp::with_owner().await;
    let (first, second, own_token) = (log_in(&app).await, log_in(&app).await, log_in(&app).await);
    let ended = app.delete(SESSIONS).bearer(&own_token).send().await.expect_status(200).json();
    assert_eq!(ended, json!({"ended": 3}), "including the session of the registration");
    for token in [&first, &second] {
        app.get("/api/agents").bearer(token).send().await.expect_error(401, "invalid_credential");
    }
    assert_eq!(list(&app, &own_token).await.len(), 1);
    // A key has no current session, so all sessions end.
    let ended = app.delete(SESSIONS).send().await.expect_status(200).json();
    assert_eq!(ended, json!({"ended": 1}));
    app.get("/api/agents").bearer(&own_token).send().await.expect_error(401, "invalid_credential");
    app.get("/api/agents").send().await.expect_status(200);
}

#[tokio::test]
async fn session_without_recorded_details_shows_null_fields() {
    let app = TestApp::with_owner().await;
    let db = &app.running().context().db;
    let clear_details = async move |tx: &mut Tx| {
        let sql = "UPDATE user_sessions SET user_agent = NULL, address = NULL, last_used_at = NULL";
        tx.execute(sql, args![]).await
    };
    let changed: Result<u64, StoreError> = db.write(clear_details).await;
    assert_eq!(changed.expect("the update succeeds"), 1);
    let session = list(&app, app.key.as_deref().expect("a key")).await.remove(0);
    for field in ["user_agent", "address", "last_used_at"] {
        assert_eq!(session[field], Value::Null, "{field}");
    }
}
