//! What holds when too much comes or waits: bounded, and no receiver in another one's way.

use std::time::Duration;

use serde_json::json;

use super::receiver::{Answer, Receiver};
use super::{HOOKS, SECRET, deliveries, emit, make, queued, settle};
use crate::support::TestApp;

/// What the metrics say of one figure without labels.
async fn figure(app: &TestApp, name: &str) -> String {
    let metrics = app.get("/api/metrics/prometheus").send().await.text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).to_owned()
}

#[tokio::test]
async fn one_slow_receiver_holds_a_quarter_of_the_permits() {
    let app = TestApp::with_owner().await;
    let (slow, quick) = (Receiver::start().await, Receiver::start().await);
    slow.always(Answer::Hang);
    make(&app, queued(&slow)).await;
    make(&app, queued(&quick)).await;
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
async fn when_too_much_waits_events_stay_where_they_are() {
    let (mut app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    app.hook_waiting_limit = Some(6);
    app.restart().await;
    let id = make(&app, queued(&receiver)).await;
    receiver.always(Answer::Status(503));
    // So few failures that the receiver is still asked.
    for number in 0..10 {
        emit(&app, "memory.stored", json!({"n": number})).await;
    }
    settle(&app).await;
    let stats = deliveries(&app, &id).await["stats"].clone();
    assert_eq!((&stats["failed"], &stats["pending"], &stats["dead_letter"]), (&json!(6), &json!(0), &json!(0)));
    assert_eq!(figure(&app, "svc_hook_reader_paused").await, "1");
    receiver.always(Answer::Status(200));
    for _ in 0..10 {
        app.clock.advance(Duration::from_secs(60));
        settle(&app).await;
    }
    assert_eq!(deliveries(&app, &id).await["stats"]["success"], 10);
    assert_eq!(figure(&app, "svc_hook_reader_paused").await, "0");
}

#[tokio::test]
async fn a_dead_receiver_does_not_hold_up_the_others() {
    let (mut app, dead, good) = (TestApp::with_owner().await, Receiver::start().await, Receiver::start().await);
    app.hook_waiting_limit = Some(20);
    app.restart().await;
    let (held, live) = (make(&app, queued(&dead)).await, make(&app, queued(&good)).await);
    dead.always(Answer::Status(503));
    for number in 0..60 {
        emit(&app, "memory.stored", json!({"n": number})).await;
        settle(&app).await;
    }
    // The good one has everything, although the limit waits for the other.
    assert_eq!(deliveries(&app, &live).await["stats"]["success"], 60);
    let list = app.get(&format!("{HOOKS}/{held}/deliveries?status=dead_letter&limit=1")).send().await;
    let list = list.expect_status(200).json();
    let of = |state: &str| list["stats"][state].as_u64().unwrap();
    let waiting = of("pending") + of("failed");
    assert!((20..=22).contains(&waiting), "{}", list["stats"]);
    assert_eq!(waiting + of("dead_letter"), 60);
    let reason = list["deliveries"][0]["error"].as_str().unwrap();
    assert!(reason.contains("too much waits for this hook"), "{reason}");
    assert_eq!(figure(&app, "svc_hooks_behind").await, "1");
    assert_eq!(figure(&app, "svc_hook_reader_paused").await, "0");
    // It is back: nothing was lost.
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
async fn while_too_many_events_wait_requests_that_add_to_them_are_refused() {
    let (mut app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    (app.hook_waiting_limit, app.event_backlog_limit) = (Some(5), Some(40));
    app.restart().await;
    let hook = json!({"name": "sink", "event_type": "project.created", "hook_type": "http",
        "config": {"url": receiver.url(), "queued": true}});
    let id = make(&app, hook).await;
    receiver.always(Answer::Status(503));
    let mut made = 0;
    let refused = loop {
        let answer = app.post("/api/projects").json(&json!({"name": format!("Project {made}")})).send().await;
        if answer.status.as_u16() == 503 {
            break answer;
        }
        answer.expect_status(201);
        made += 1;
        assert!(made <= 60, "no bound");
        settle(&app).await;
    };
    // What waits for the receiver, and what waits in the outbox.
    assert_eq!(made, 5 + 40);
    assert!(refused.header("retry-after").is_some());
    refused.expect_error(503, "event_backlog");
    assert_eq!(figure(&app, "svc_events_unread").await, "40");
    // Whatever helps is allowed.
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
async fn replicas_share_the_work() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let Some(replica) = app.replica().await else { return };
    let mut hook = queued(&receiver);
    hook["config"]["secret"] = json!(SECRET);
    let id = make(&app, hook).await;
    for number in 0..200 {
        emit(if number % 2 == 0 { &app } else { &replica }, "memory.stored", json!({"n": number})).await;
    }
    while deliveries(&replica, &id).await["stats"]["success"] != 200 {
        tokio::join!(app.run_workers(), replica.run_workers());
    }
    let received = receiver.received();
    assert_eq!(received.len(), 200, "each once");
    assert!(received.iter().all(|got| !got.header("x-svc-signature").is_empty()));
}
