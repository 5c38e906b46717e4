//! `Idempotency-Key` in edge cases: races, large bodies, and interrupted bodies.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::chat_fixture::ChatFixture;
use crate::support::{Eventually, TestApp};

async fn wait_until(condition: impl Fn() -> bool) {
    let mut eventually = Eventually::new();
    while !condition() {
        eventually.retry().await;
    }
}

/// The client disconnects before the response starts, and repeats the request while the first transaction is open.
#[tokio::test]
async fn concurrent_repeat_follows_the_first_reply() {
    let fixture = ChatFixture::saying(&["a", "b"]).await;
    let send = || fixture.send(&json!({"content": "hello"})).header("idempotency-key", "race").send();
    let write_lock = fixture.app.hold_writes("sessions").await;
    let first = tokio::spawn(send());
    // The turn holds its permit while the transaction waits.
    wait_until(|| fixture.app.running().daemon.running_turns() == 1).await;
    first.abort();
    let again = loop {
        let mut again = tokio::spawn(send());
        tokio::select! {
            // The daemon may not have noticed yet that the first client disconnected.
            answer = &mut again => drop(answer.expect("an answer").expect_error(409, "still_under_way")),
            () = wait_until(|| fixture.app.running().daemon.running_turns() == 2) => break again,
        }
    };
    write_lock.release().await;
    let answer = again.await.expect("an answer").expect_status(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{}", answer.text());
    assert!(answer.text().contains("event: start") && answer.text().contains("event: done"), "{}", answer.text());
    let conversations = fixture.app.get("/api/chat/conversations").send().await.expect_status(200).json();
    assert_eq!(conversations["total"], 1);
    assert!(answer.text().contains(conversations["conversations"][0]["id"].as_str().expect("an id")));
    assert_eq!(send().await.expect_status(200).text(), answer.text());
    assert_eq!(fixture.vendor.requests().len(), 1, "the rejected turn calls no model");
}

#[tokio::test]
async fn different_query_is_a_different_request() {
    let app = TestApp::with_owner().await;
    let retry = |query: &str| {
        let path = format!("/api/hooks/deliveries/dead-letters/retry{query}");
        app.post(&path).header("idempotency-key", "again").send()
    };
    let first = retry("").await.expect_status(200);
    assert_eq!(retry("").await.expect_status(200).header("idempotency-replayed"), Some("true"));
    assert_eq!(retry("").await.json(), first.json());
    retry("?hook_id=hook_00000000000000000000000000").await.expect_error(409, "idempotency_key_reused");
}

#[tokio::test]
async fn idempotency_key_does_not_reduce_the_body_limit() {
    let app = TestApp::with_owner().await;
    let keyed = |path: &str| app.post(path).header("idempotency-key", "large");
    let padded = |bytes: usize| format!("{{\"settings\": {{}}}}{}", " ".repeat(bytes));
    keyed("/api/settings/import").raw_json(padded(11 << 20)).send().await.expect_status(200);
    keyed("/api/agents").raw_json(padded(3 << 20)).send().await.expect_error(413, "body_too_large");
}

#[tokio::test]
async fn interrupted_body_is_not_reported_as_too_large() {
    let app = TestApp::with_owner().await;
    let mut socket = tokio::net::TcpStream::connect(app.address).await.expect("a connection");
    let head = format!(
        "POST /api/agents HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nIdempotency-Key: broken\r\n\
         Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n",
        app.key.as_deref().expect("a key")
    );
    socket.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("an answer, then the end");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("\"body_unreadable\""), "{answer}");
}
