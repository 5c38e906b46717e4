//! `Idempotency-Key` where it is hard: in the race, with large bodies, with bodies that break off.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::talk::Talk;
use crate::support::{Eventually, TestApp};

async fn until(is_so: impl Fn() -> bool) {
    let mut eventually = Eventually::new();
    while !is_so() {
        eventually.look_again().await;
    }
}

/// The client goes away before it has the head of its stream and asks again while the transaction
/// of its first request is still under way.
#[tokio::test]
async fn a_repeat_in_the_race_shows_the_first_reply() {
    let talk = Talk::saying(&["a", "b"]).await;
    let send = || talk.send(&json!({"content": "hello"})).header("idempotency-key", "race").send();
    let held = talk.app.hold_writes("sessions").await;
    let first = tokio::spawn(send());
    // The turn has its place while the transaction waits.
    until(|| talk.app.running().daemon.running_turns() == 1).await;
    first.abort();
    let again = loop {
        let mut again = tokio::spawn(send());
        tokio::select! {
            // The daemon has not seen yet that the first client is gone.
            answer = &mut again => drop(answer.expect("an answer").expect_error(409, "still_under_way")),
            () = until(|| talk.app.running().daemon.running_turns() == 2) => break again,
        }
    };
    held.release().await;
    let answer = again.await.expect("an answer").expect_status(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{}", answer.text());
    assert!(answer.text().contains("event: start") && answer.text().contains("event: done"), "{}", answer.text());
    let conversations = talk.app.get("/api/chat/conversations").send().await.expect_status(200).json();
    assert_eq!(conversations["total"], 1);
    assert!(answer.text().contains(conversations["conversations"][0]["id"].as_str().expect("an id")));
    assert_eq!(send().await.expect_status(200).text(), answer.text());
    assert_eq!(talk.vendor.requests().len(), 1, "a turn that is refused asks no model");
}

#[tokio::test]
async fn another_query_is_another_request() {
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
async fn a_key_takes_nothing_from_the_limit_of_a_route() {
    let app = TestApp::with_owner().await;
    let keyed = |path: &str| app.post(path).header("idempotency-key", "large");
    let padded = |bytes: usize| format!("{{\"settings\": {{}}}}{}", " ".repeat(bytes));
    keyed("/api/settings/import").raw_json(padded(11 << 20)).send().await.expect_status(200);
    keyed("/api/agents").raw_json(padded(3 << 20)).send().await.expect_error(413, "body_too_large");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_not_called_too_large() {
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
