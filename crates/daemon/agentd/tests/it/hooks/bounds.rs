//! Limits of the queue: backpressure, and isolation of receivers from each other.

use std::time::Duration;

use serde_json::json;

use super::receiver::{Answer, Receiver};
use super::{HOOKS, SECRET, create_hook, deliveries, emit, queued, settle};
use crate::support::TestApp;

/// Returns the value of a metric without labels.
async fn metric(app: &TestApp, name: &str) -> String {
    let metrics = app.get("/api/metrics/prometheus").send().await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).to_owned()
}

#[tokio::test]
async fn one_slow_receiver_uses_a_quarter_of_the_permits() {
    let app = TestApp::with_owner().await;
    let (slow, quick) = (Receiver::start().await, Receiver::start().await);
    slow.always(Answer::Hang);
    create_hook(&app, queued(&slow)).await;
    create_hook(&app, queued(&quick)).await;
    for number in 0..100 {
        emit(&app, "memory.stored", json!({"n": number})).await;
    }
    let working = async {
        loop {
            settle(&app).await;
        }
    };
    tokio::select! {
        () = working => {}
        _ = quick.wait_for(100) => {}
    }
    slow.wait_for(16).await;
    assert_eq!(slow.received().len(), 16);
}

#[tokio::test]
async fn events_stay_in_the_outbox_while_the_queue_is_full() {
    let (mut app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    app.hook_waiting_limit = Some(6);
    app.restart().await;
    let id = create_hook(&app, queued(&receiver)).await;
    receiver.always(Answer::Status(503));
    // Few enough failures for the circuit to stay closed.
    for number in 0..10 {
        emit(&app, "memory.stored", json!({"n": number})).await;
    }
    settle(&app).await;
    let stats = deliveries(&app, &id).await["stats"].clone();
    assert_eq!((&stats["failed"], &stats["pending"], &stats["dead_letter"]), (&json!(6), &json!(0), &json!(0)));
    assert_eq!(metric(&app, "svc_hook_reader_paused").await, "1");
    receiver.always(Answer::Status(200));
    for _ in 0..10 {
        app.clock.advance(Duration::from_secs(60));
        settle(&app).await;
    }
    assert_eq!(deliveries(&app, &id).await["stats"]["success"], 10);
    assert_eq!(metric(&app, "svc_hook_reader_paused").await, "0");
}

#[tokio::test]
async fn dead_receiver_does_not_block_others() {
    let (mut app, dead, good) = (TestApp::with_owner().await, Receiver::start().await, Receiver::start().await);
    app.hook_waiting_limit = Some(20);
    app.restart().await;
    let (held, live) = (create_hook(&app, queued(&dead)).await, create_hook(&app, queued(&good)).await);
    dead.always(Answer::Status(503));
    for number in 0..60 {
        emit(&app, "memory.stored", json!({"n": number})).await;
        settle(&app).await;
    }
    // The working receiver has all events, although the other one has reached its limit.
    assert_eq!(deliveries(&app, &live).await["stats"]["success"], 60);
    let list = app.get(&format!("{HOOKS}/{held}/deliveries?status=dead_letter&limit=1")).send().await;
    let list = list.expect_status(200).json();
    let count_of = |state: &str| list["stats"][state].as_u64().unwrap();
    let waiting = count_of("pending") + count_of("failed");
    assert!((20..=22).contains(&waiting), "{}", list["stats"]);
    assert_eq!(waiting + count_of("dead_letter"), 60);
    let reason = list["deliveries"][0]["error"].as_str().unwrap();
    assert!(reason.contains("the hook is stalled"), "{reason}");
    assert_eq!(metric(&app, "svc_hooks_behind").await, "1");
    assert_eq!(metric(&app, "svc_hook_reader_paused").await, "0");
    // When the receiver is back, every delivery can be retried.
    dead.always(Answer::Status(200));
    for _ in 0..10 {
        app.clock.advance(Duration::from_secs(3600));
        settle(&app).await;
    }
    app.post("/api/hooks/deliveries/dead-letters/retry").send().await.expect_status(200);
    settle(&app).await;
    assert_eq!(deliveries(&app, &held).await["stats"]["success"], 60);
    let ids: std::collections::BTreeSet<_> =
        dead.received().iter().map(|got| got.header("webhook-id").to_owned()).collect();
    assert_eq!(ids.len(), 60);
}

#[tokio::test]
async fn requests_that_create_events_are_rejected_while_the_backlog_is_full() {
    let (mut app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    (app.hook_waiting_limit, app.event_backlog_limit) = (Some(5), Some(40));
    app.restart().await;
    let hook = json!({"name": "sink", "event_type": "project.created", "hook_type": "http",
        "config": {"url": receiver.url(), "queued": true}});
    let id = create_hook(&app, hook).await;
    receiver.always(Answer::Status(503));
    let mut made = 0;
    let refused = loop {
        let answer = app.post("/api/projects").json(&json!({"name": format!("Project {made}")})).send().await;
        if answer.status.as_u16() == 503 {
            break answer;
        }
        answer.expect_status(201);
        made += 1;
        assert!(made <= 60, "no limit");
        settle(&app).await;
    };
    // The deliveries of the receiver, plus the events in the outbox.
    assert_eq!(made, 5 + 40);
    assert!(refused.header("retry-after").is_some());
    refused.expect_error(503, "event_backlog");
    assert_eq!(metric(&app, "svc_events_unread").await, "40");
    // Requests that help to reduce the backlog are allowed.
    app.get("/api/projects").send().await.expect_status(200);
    app.put(&format!("{HOOKS}/{id}")).json(&json!({"name": "renamed"})).send().await.expect_status(200);
    receiver.always(Answer::Status(200));
    for _ in 0..20 {
        app.clock.advance(Duration::from_secs(60));
        settle(&app).await;
    }
    assert_eq!(deliveries(&app, &id).await["stats"]["success"], made);
    app.post("/api/projects").json(&json!({"name": "One more"})).send().await.expect_status(201);
}

#[tokio::test]
async fn replicas_share_deliveries() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let Some(replica) = app.replica().await else { return };
    let mut hook = queued(&receiver);
    hook["config"]["secret"] = json!(SECRET);
    let id = create_hook(&app, hook).await;
    for number in 0..200 {
        emit(if number % 2 == 0 { &app } else { &replica }, "memory.stored", json!({"n": number})).await;
    }
    while deliveries(&replica, &id).await["stats"]["success"] != 200 {
        tokio::join!(app.run_workers(), replica.run_workers());
    }
    let received = receiver.received();
    assert_eq!(received.len(), 200, "each delivery is sent once");
    assert!(received.iter().all(|got| !got.header("x-svc-signature").is_empty()));
}
