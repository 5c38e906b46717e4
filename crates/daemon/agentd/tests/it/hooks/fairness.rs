//! Fairness: hooks, receivers, and events do not block each other, and priorities are respected.

use std::time::Duration;

use agentd_base::Timestamp;
use serde_json::{Value, json};

use super::receiver::{Answer, Receiver};
use super::{HOOKS, create_hook, deliveries, emit, executions, only_execution, queued, settle};
use crate::scheduler::BackgroundWorkers;
use crate::support::TestApp;
use crate::webhooks::Sender;

/// Shorter than the time limit of a hanging receiver.
const MAX_DELAY: Duration = Duration::from_secs(8);

fn inline(receiver: &Receiver) -> Value {
    json!({"name": "now", "event_type": "memory.stored", "hook_type": "http", "config": {"url": receiver.url()}})
}

/// Returns nested arrays.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inside, _| json!([inside]))
}

#[tokio::test]
async fn unreadable_event_does_not_block_others() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    create_hook(&app, queued(&receiver)).await;
    emit(&app, "memory.stored", nested(200)).await;
    emit(&app, "memory.stored", json!({"n": 1})).await;
    settle(&app).await;
    let data: Vec<Value> = receiver.received().iter().map(|got| got.event()["data"].clone()).collect();
    assert_eq!(data.len(), 2);
    assert!(data.contains(&Value::Null) && data.contains(&json!({"n": 1})), "{data:?}");
    // Readable on its own, but too deeply nested within the event.
    let config = json!({"action": "store_memory", "template": "x"});
    let hook = json!({"name": "does", "event_type": "project.created", "hook_type": "builtin", "config": config});
    let id = create_hook(&app, hook).await;
    emit(&app, "project.created", nested(127)).await;
    settle(&app).await;
    let done = only_execution(&app, &id).await;
    assert_eq!(done["status"], "error", "{done}");
    assert!(done["error"].as_str().unwrap().contains("the event could not be parsed"), "{done}");
}

#[tokio::test]
async fn deeply_nested_webhook_body_is_treated_as_text() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let mut hook = queued(&receiver);
    hook["event_type"] = json!("webhook.received");
    create_hook(&app, hook).await;
    let sender = Sender::create(&app, json!({"name": "deep"})).await;
    for levels in [64, 127] {
        let body = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        sender.signed(&app, "application/json", body.as_bytes()).send().await.expect_status(202);
        settle(&app).await;
    }
    let formats: Vec<Value> =
        receiver.received().iter().map(|got| got.event()["data"]["body_format"].clone()).collect();
    assert_eq!(formats, ["json", "text"]);
}

#[tokio::test]
async fn hooks_of_higher_priority_run_first() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    for (queued, event_type) in [(false, "memory.stored"), (true, "project.created")] {
        for priority in [1, 3, 2] {
            let config = json!({
                "url": receiver.url(), "queued": queued, "headers": {"x-priority": priority.to_string()},
            });
            create_hook(
                &app,
                json!({
                    "name": "ranked", "event_type": event_type, "hook_type": "http", "priority": priority,
                    "config": config,
                }),
            )
            .await;
        }
    }
    for number in 0..20 {
        emit(&app, "memory.stored", json!({"n": number})).await;
        emit(&app, "project.created", json!({"n": number})).await;
    }
    settle(&app).await;
    let received = receiver.received();
    assert_eq!(received.len(), 120);
    for event_type in ["memory.stored", "project.created"] {
        for number in 0..20 {
            let order: Vec<&str> = received
                .iter()
                .filter(|got| got.header("x-svc-event") == event_type && got.event()["data"]["n"] == number)
                .map(|got| got.header("x-priority"))
                .collect();
            assert_eq!(order, ["3", "2", "1"], "{event_type} {number}");
        }
    }
}

#[tokio::test]
async fn disabled_or_failing_hook_does_not_block_lower_priorities() {
    let (app, away, receiver) = (TestApp::with_owner().await, Receiver::start().await, Receiver::start().await);
    away.always(Answer::Status(500));
    let mut first = queued(&away);
    first["priority"] = json!(9);
    let (off, _failing) = (create_hook(&app, first.clone()).await, create_hook(&app, first).await);
    create_hook(&app, queued(&receiver)).await;
    emit(&app, "memory.stored", json!({})).await;
    app.patch(&format!("{HOOKS}/{off}/toggle")).send().await.expect_status(200);
    settle(&app).await;
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test]
async fn hooks_of_one_slow_receiver_share_a_quarter_of_the_permits() {
    let (app, hangs, quick) = (TestApp::with_owner().await, Receiver::start().await, Receiver::start().await);
    hangs.always(Answer::Hang);
    for _ in 0..4 {
        create_hook(&app, inline(&hangs)).await;
        create_hook(&app, queued(&hangs)).await;
    }
    create_hook(&app, inline(&quick)).await;
    create_hook(&app, queued(&quick)).await;
    for number in 0..20 {
        emit(&app, "memory.stored", json!({"n": number})).await;
    }
    let workers = BackgroundWorkers::start(&app);
    let received = tokio::time::timeout(MAX_DELAY, quick.wait_for(40)).await;
    drop(workers);
    assert!(received.is_ok(), "{} of 40 arrived", quick.received().len());
    assert_eq!(hangs.received().len(), 32);
}

#[tokio::test]
async fn hanging_receivers_do_not_take_permits_from_others() {
    let (app, quick) = (TestApp::with_owner().await, Receiver::start().await);
    for _ in 0..4 {
        let hangs = Receiver::start().await;
        hangs.always(Answer::Hang);
        create_hook(&app, inline(&hangs)).await;
        create_hook(&app, queued(&hangs)).await;
    }
    for number in 0..16 {
        emit(&app, "memory.stored", json!({"n": number})).await;
    }
    let workers = BackgroundWorkers::start(&app);
    // All permits are in use until the receivers are known to be slow.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut hook = queued(&quick);
    hook["event_type"] = json!("project.created");
    create_hook(&app, hook.clone()).await;
    hook["config"]["queued"] = json!(false);
    let id = create_hook(&app, hook).await;
    emit(&app, "project.created", json!({})).await;
    let received = tokio::time::timeout(MAX_DELAY, quick.wait_for(2)).await;
    drop(workers);
    assert!(received.is_ok(), "{}", executions(&app, &id).await);
}

/// An open circuit does not extend the total retry time of a delivery much.
#[tokio::test]
async fn deliveries_are_dead_lettered_in_time_despite_an_open_circuit() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    receiver.always(Answer::Status(503));
    let mut hook = queued(&receiver);
    hook["max_retries"] = json!(3);
    hook["config"]["retry_delay_s"] = json!(1);
    let id = create_hook(&app, hook).await;
    for number in 0..5 {
        emit(&app, "memory.stored", json!({"n": number})).await;
    }
    settle(&app).await;
    for _ in 0..20 {
        app.clock.advance(Duration::from_secs(1));
        settle(&app).await;
        let list = deliveries(&app, &id).await;
        let now = app.clock.clock().now();
        for delivery in list["deliveries"].as_array().unwrap() {
            if let Some(next) = delivery["next_attempt_at"].as_str() {
                let next = Timestamp::parse(next).unwrap();
                assert!(next + Duration::from_millis(1) > now, "the next attempt is in the past: {delivery}");
            }
        }
    }
    assert_eq!(deliveries(&app, &id).await["stats"]["dead_letter"], 5);
}
