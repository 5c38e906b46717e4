//! `Idempotency-Key` where it is hard: in the race.

use std::time::Duration;

use serde_json::json;

use crate::support::talk::Talk;

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(5)).await;
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
    // The model is called while the transaction waits.
    until(|| talk.vendor.requests().len() == 1).await;
    first.abort();
    let again = loop {
        let mut again = tokio::spawn(send());
        tokio::select! {
            // The daemon has not seen yet that the first client is gone.
            answer = &mut again => drop(answer.expect("an answer").expect_error(409, "still_under_way")),
            () = until(|| talk.vendor.requests().len() == 2) => break again,
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
}
