//! Logs of replies: access and retention.

use agentd_store::{StoreError, Tx, args};
use agentd_testing_llm::{Gate, Reply, Script};
use serde_json::json;

use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, read_tokens, started};

#[tokio::test]
async fn deleted_session_is_hidden_before_it_is_purged() {
    let fixture = ChatFixture::saying(&["se", "cret"]).await;
    let exchange = async || {
        let events = fixture.exchange(&json!({"content": "hello"})).await;
        let session = started(&events, "session_id");
        fixture.follow(&session).send().await.expect_status(200);
        (started(&events, "conversation_id"), session)
    };
    let assert_not_found = async |session: &str| {
        fixture.follow(session).send().await.expect_error(404, "session_not_found");
        let cancel = format!("/api/chat/sessions/{session}/cancel");
        fixture.app.post(&cancel).send().await.expect_error(404, "session_not_found");
    };
    let (conversation, session) = exchange().await;
    fixture.app.delete(&format!("/api/chat/conversations/{conversation}")).send().await.expect_status(200);
    assert_not_found(&session).await;

    let (conversation, session) = exchange().await;
    let truncate = async |keep: u64| {
        let body = json!({"conversation_id": conversation, "keep_last": keep});
        fixture.app.post("/api/chat/messages/truncate").json(&body).send().await.expect_status(200);
    };
    truncate(1).await;
    fixture.follow(&session).send().await.expect_status(200);
    truncate(0).await;
    assert_not_found(&session).await;

    let welcome = || fixture.app.post("/api/chat/welcome").header("idempotency-key", "w").json(&json!({})).send();
    welcome().await.expect_status(200);
    let (_, session) = exchange().await;
    fixture.app.delete("/api/agents/scout").send().await.expect_status(200);
    assert_not_found(&session).await;
    welcome().await.expect_error(404, "session_not_found");
    fixture.app.run_workers().await;
}

#[tokio::test]
async fn repeat_does_not_return_a_deleted_reply() {
    let fixture = ChatFixture::saying(&["se", "cret"]).await;
    let send = || fixture.send(&json!({"content": "hello"})).header("idempotency-key", "k").send();
    assert_eq!(send().await.expect_status(200).header("idempotency-replayed"), None);
    assert_eq!(send().await.expect_status(200).header("idempotency-replayed"), Some("true"));
    let all = fixture.app.get("/api/chat/conversations").send().await.json();
    let id = all["conversations"][0]["id"].as_str().expect("an id");
    fixture.app.delete(&format!("/api/chat/conversations/{id}")).send().await.expect_status(200);
    send().await.expect_error(404, "session_not_found");
    fixture.app.run_workers().await;
}

#[tokio::test]
async fn last_event_id_beyond_the_log_is_rejected() {
    let fixture = ChatFixture::saying(&["a", "b"]).await;
    let events = fixture.exchange(&json!({"content": "hello"})).await;
    let session = started(&events, "session_id");
    let last: u64 = events.last().and_then(|event| event.id.as_deref()).expect("a number").parse().expect("a number");
    let after = |seen: String| fixture.follow(&session).header("last-event-id", &seen).send();
    assert_eq!(after(last.to_string()).await.expect_status(200).text(), "");
    for beyond in [(last + 1).to_string(), "9999999".to_owned(), i64::MAX.to_string()] {
        let refused = after(beyond).await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), ["Last-Event-ID"]);
    }
    let path = format!("/api/chat/sessions/{session}/stream?last_event_id={}", last + 1);
    fixture.app.get(&path).send().await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn stream_ends_when_its_credential_is_revoked() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b"], TEST_USAGE).gated(&gate))).await;
    let make = async |name: &str| {
        let made =
            fixture.app.post("/api/auth/keys").json(&json!({"name": name})).send().await.expect_status(200).json();
        let text = |field: &str| made[field].as_str().expect("a text").to_owned();
        (text("id"), text("key"))
    };
    let ((first, first_key), (second, second_key)) = (make("first").await, make("second").await);
    let mut own = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(1);
    let session = started(&read_tokens(&mut own, 1).await, "session_id");

    let mut by_key = fixture.follow(&session).bearer(&first_key).stream().await;
    read_tokens(&mut by_key, 1).await;
    let ticket = fixture.app.post("/api/auth/ticket").bearer(&second_key).send().await.expect_status(200).json();
    let path = format!("/api/chat/sessions/{session}/stream?ticket={}", ticket["ticket"].as_str().expect("a ticket"));
    let mut by_ticket = fixture.app.get(&path).anonymous().stream().await;
    read_tokens(&mut by_ticket, 1).await;
    let login = json!({"username": "owner", "password": "correct horse"});
    let token = fixture.app.post("/api/auth/login").json(&login).send().await.expect_status(200).json();
    let token = token["token"].as_str().expect("a token");
    let mut by_session = fixture.follow(&session).bearer(token).stream().await;
    read_tokens(&mut by_session, 1).await;

    fixture.app.delete(&format!("/api/auth/keys/{first}")).send().await.expect_status(200);
    assert_eq!(by_key.next().await, None, "nothing comes after the revocation");
    fixture.app.delete(&format!("/api/auth/keys/{second}")).send().await.expect_status(200);
    assert_eq!(by_ticket.next().await, None, "nothing comes after the revocation");
    fixture.app.post("/api/auth/logout").bearer(token).send().await.expect_status(200);
    assert_eq!(by_session.next().await, None, "nothing comes after the logout");

    gate.open();
    let rest = own.collect().await;
    assert_eq!(rest.last().map(|event| event.event.as_str()), Some("done"), "the stream of the owner continues");
}

#[tokio::test]
async fn deleted_session_ends_its_stream_with_an_error() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b"], TEST_USAGE).gated(&gate))).await;
    let Some(replica) = fixture.app.replica().await else { return };
    let mut own = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(1);
    let session = started(&read_tokens(&mut own, 1).await, "session_id");
    let mut elsewhere = replica.get(&format!("/api/chat/sessions/{session}/stream")).stream().await;
    read_tokens(&mut elsewhere, 1).await;
    // Simulates a restore.
    let delete_sessions = async |tx: &mut Tx| {
        tx.execute("DELETE FROM session_events", args![]).await?;
        tx.execute("DELETE FROM sessions", args![]).await
    };
    fixture.app.running().context().db.write::<_, StoreError, _>(delete_sessions).await.expect("delete the sessions");
    let last = elsewhere.collect().await.pop().expect("an end");
    assert_eq!((last.event.as_str(), last.data["code"].as_str()), ("error", Some("internal")));
    gate.open();
    own.collect().await;
}
