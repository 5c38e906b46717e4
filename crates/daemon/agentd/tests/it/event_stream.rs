//! The event stream: live events, resumption, limits, and its end with the credential.

use std::time::Duration;

use serde_json::json;

use crate::hooks::receiver::Receiver;
use crate::hooks::settle;
use crate::support::request::{EventStream, ServerEvent};
use crate::support::{Eventually, TestApp, TestPage, TestRequest};

const STREAM: &str = "/api/events/stream";

async fn create_project(app: &TestApp, name: &str) {
    app.post("/api/projects").json(&json!({"name": name})).send().await.expect_status(201);
}

/// Opens a stream and waits for `ready`; returns its id.
async fn open(request: TestRequest) -> (EventStream, String) {
    let mut stream = request.stream().await;
    let ready = stream.next().await.expect("the first event");
    assert_eq!((ready.event.as_str(), &ready.data), ("ready", &json!({})));
    let id = ready.id.expect("an event id");
    (stream, id)
}

/// Returns the next `project.created` event.
async fn next_project(stream: &mut EventStream) -> ServerEvent {
    loop {
        let event = stream.next().await.expect("another event");
        if event.event == "project.created" {
            return event;
        }
    }
}

fn name(event: &ServerEvent) -> &str {
    event.data["data"]["name"].as_str().expect("a name")
}

#[tokio::test]
async fn stored_events_are_streamed_in_order() {
    let app = TestApp::with_owner().await;
    let (mut stream, _) = open(app.get(STREAM)).await;
    let (mut second, _) = open(app.get(STREAM)).await;
    create_project(&app, "one").await;
    create_project(&app, "two").await;
    for stream in [&mut stream, &mut second] {
        let first = next_project(stream).await;
        assert_eq!((name(&first), &first.data["type"]), ("one", &json!("project.created")));
        assert!(first.data["id"].as_str().is_some_and(|id| id.starts_with("evt_")), "{}", first.data);
        assert!(first.data["timestamp"].is_string() && first.id.is_some());
        assert_eq!(name(&next_project(stream).await), "two");
    }
}

#[tokio::test]
async fn stream_resumes_after_the_last_event() {
    let mut app = TestApp::with_owner().await;
    let (mut stream, before) = open(app.get(STREAM)).await;
    create_project(&app, "seen").await;
    let seen = next_project(&mut stream).await.id.expect("an id");
    drop(stream);
    create_project(&app, "missed").await;
    // This also works across a restart of the daemon.
    app.restart().await;
    let (mut stream, at) = open(app.get(STREAM).header("last-event-id", &seen)).await;
    assert_eq!(at, seen);
    assert_eq!(name(&next_project(&mut stream).await), "missed");
    create_project(&app, "live").await;
    assert_eq!(name(&next_project(&mut stream).await), "live");
    // The id of `ready` can be used, too, and it can be sent in the query by pages that cannot set the header.
    if !before.ends_with(".0-0") {
        let (mut stream, _) = open(app.get(&format!("{STREAM}?last_event_id={before}"))).await;
        for expected in ["seen", "missed", "live"] {
            assert_eq!(name(&next_project(&mut stream).await), expected);
        }
    }
}

#[tokio::test]
async fn client_that_missed_purged_events_is_told_to_reload() {
    let app = TestApp::with_owner().await;
    let (mut stream, _) = open(app.get(STREAM)).await;
    create_project(&app, "old").await;
    let old = next_project(&mut stream).await.id.expect("an id");
    drop(stream);
    app.clock.advance(Duration::from_secs(8 * 86_400));
    app.run_workers().await;
    let (database, _) = old.rsplit_once('.').expect("a database and a position");
    for stale in [old.as_str(), "another.0-1", "nonsense", &format!("{database}.0-99999")] {
        let (mut stream, at) = open(app.get(STREAM).header("last-event-id", stale)).await;
        let reset = stream.next().await.expect("another event");
        assert_eq!((reset.event.as_str(), reset.id.as_deref()), ("reset", Some(at.as_str())), "{stale}");
        create_project(&app, stale).await;
        assert_eq!(name(&next_project(&mut stream).await), stale);
    }
}

#[tokio::test]
async fn stream_can_be_filtered_by_type() {
    let app = TestApp::with_owner().await;
    let (mut stream, _) = open(app.get(&format!("{STREAM}?types=project.deleted,alert"))).await;
    create_project(&app, "one").await;
    let list = app.get("/api/projects").send().await.json();
    let id = list["projects"][0]["id"].as_str().expect("an id").to_owned();
    app.delete(&format!("/api/projects/{id}")).send().await.expect_status(200);
    assert_eq!(stream.next().await.expect("another event").event, "project.deleted");
    let refused = app.get(&format!("{STREAM}?types=project,tsak")).send().await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["types"]);
}

#[tokio::test]
async fn stream_ends_with_its_credential_and_with_the_daemon() {
    let mut app = TestApp::with_owner().await;
    let made = app.post("/api/auth/keys").json(&json!({"name": "page", "scope": "read"})).send().await.json();
    let (key, id) = (made["key"].as_str().expect("a key"), made["id"].as_str().expect("an id"));
    let (mut revoked, _) = open(app.get(STREAM).bearer(key)).await;
    let signed_in = TestPage::sign_in(&app).await;
    let (mut page, _) = open(signed_in.get(&app, STREAM)).await;
    let ticket = app.post("/api/auth/ticket").send().await.json()["ticket"].as_str().expect("a ticket").to_owned();
    let (mut kept, _) = open(app.get(&format!("{STREAM}?ticket={ticket}")).anonymous()).await;
    app.delete(&format!("/api/auth/keys/{id}")).send().await.expect_status(200);
    signed_in.post(&app, "/api/auth/logout").send().await.expect_status(200);
    assert_eq!((revoked.next().await, page.next().await), (None, None));
    create_project(&app, "one").await;
    assert_eq!(name(&next_project(&mut kept).await), "one");
    app.stop().await;
    assert_eq!(kept.next().await, None);
}

#[tokio::test]
async fn streams_are_limited_and_slow_clients_are_disconnected() {
    let app = TestApp::with_owner().await;
    let mut streams = Vec::new();
    for _ in 0..64 {
        streams.push(open(app.get(STREAM)).await.0);
    }
    let refused = app.get(STREAM).send().await.expect_error(429, "too_many_streams");
    assert!(refused.header("retry-after").is_some());
    let mut slow = streams.pop().expect("a stream");
    streams.clear();
    // Publishes more events than the buffer holds before the client reads any.
    let context = app.running().context();
    for _ in 0..3_000 {
        context.feed.publish("turn.tool_use", context.clock.now(), || json!({}));
    }
    while slow.next().await.is_some() {}
    // All permits are released.
    let mut eventually = Eventually::new();
    while context.feed.has_subscribers() {
        eventually.retry().await;
    }
    open(app.get(STREAM)).await;
}

#[tokio::test]
async fn events_stored_by_another_daemon_are_streamed() {
    let app = TestApp::with_owner().await;
    let Some(replica) = app.replica().await else { return };
    let (mut stream, _) = open(replica.get(STREAM)).await;
    create_project(&app, "one").await;
    let seen = next_project(&mut stream).await;
    assert_eq!(name(&seen), "one");
    create_project(&replica, "two").await;
    let (mut here, _) = open(app.get(STREAM).header("last-event-id", &seen.id.expect("an id"))).await;
    assert_eq!(name(&next_project(&mut here).await), "two");
}

#[tokio::test]
async fn delivery_attempts_are_streamed() {
    let app = TestApp::with_owner().await;
    let (mut stream, _) = open(app.get(&format!("{STREAM}?types=delivery"))).await;
    let receiver = Receiver::start().await;
    let hook = json!({"name": "sink", "event_type": "project.created", "hook_type": "http",
        "config": {"url": format!("http://{}/", receiver.address), "queued": true}});
    app.post("/api/hooks").json(&hook).send().await.expect_status(201);
    create_project(&app, "one").await;
    settle(&app).await;
    let event = stream.next().await.expect("an event");
    assert_eq!((event.event.as_str(), &event.data["data"], event.id), ("delivery.changed", &json!({}), None));
}
