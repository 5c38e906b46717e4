//! The delivery queue: signatures, retries, dead letters, leases, and circuit breakers.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::{StoreError, Tx, args};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::Engine as _;
use serde_json::{Value, json};

use super::receiver::{Answer, Receiver};
use super::{HOOKS, SECRET, create_hook, deliveries, emit, queue_stats, queued, settle};
use crate::support::TestApp;

fn hmac(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(HMAC_SHA256, key), text.as_bytes())
}

/// Returns the seconds until the next attempt of the only delivery of a hook.
async fn wait_seconds(app: &TestApp, hook: &str) -> f64 {
    let list = deliveries(app, hook).await;
    let next = Timestamp::parse(list["deliveries"][0]["next_attempt_at"].as_str().unwrap()).unwrap();
    next.since(app.clock.clock().now()).as_secs_f64()
}

#[tokio::test]
async fn delivery_is_signed_and_identifies_its_event() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let mut hook = queued(&receiver);
    hook["config"]["secret"] = json!(SECRET);
    hook["config"]["headers"] = json!({"X-Own": "yes", "Content-Type": "application/cloudevents+json"});
    let id = create_hook(&app, hook).await;
    emit(&app, "memory.stored", json!({"episode_id": "ep_1", "text": "Grüße"})).await;
    settle(&app).await;
    let received = receiver.received();
    assert_eq!(received.len(), 1);
    let got = &received[0];
    let event = got.event();
    assert_eq!(event.as_object().unwrap().keys().collect::<Vec<_>>(), ["data", "id", "timestamp", "type"]);
    assert_eq!((&event["type"], &event["data"]["text"]), (&json!("memory.stored"), &json!("Grüße")));
    assert_eq!(event["timestamp"], crate::support::START);
    assert!(event["id"].as_str().unwrap().starts_with("evt_"));
    let list = deliveries(&app, &id).await;
    let delivery = &list["deliveries"][0];
    assert_eq!((&delivery["status"], &delivery["attempt_count"]), (&json!("success"), &json!(1)));
    assert_eq!((&delivery["response_status"], &delivery["event_id"]), (&json!(204), &event["id"]));
    assert_eq!((got.header("x-own"), got.header("content-type")), ("yes", "application/cloudevents+json"));
    assert_eq!(got.header("x-svc-event"), "memory.stored");
    assert_eq!(
        (got.header("x-svc-delivery"), got.header("webhook-id")),
        (delivery["id"].as_str().unwrap(), delivery["id"].as_str().unwrap())
    );
    let seconds = Timestamp::parse(crate::support::START).unwrap().as_millis() / 1000;
    assert_eq!(
        (got.header("x-svc-timestamp"), got.header("webhook-timestamp")),
        (&*seconds.to_string(), &*seconds.to_string())
    );
    assert_eq!(got.header("x-svc-signature"), format!("sha256={}", hex::encode(hmac(SECRET.as_bytes(), &got.body))));
    let signed = format!("{}.{seconds}.{}", got.header("webhook-id"), got.body);
    let signature = base64::engine::general_purpose::STANDARD.encode(hmac(SECRET.as_bytes(), &signed));
    assert_eq!(got.header("webhook-signature"), format!("v1,{signature}"));
    assert_eq!(
        queue_stats(&app).await,
        json!({"pending": 0, "processing": 0, "success": 1, "failed": 0, "dead_letter": 0})
    );
    // Without a secret, requests are not signed.
    app.put(&format!("{HOOKS}/{id}")).json(&json!({"config": {"secret": null}})).send().await.expect_status(200);
    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    let bare = &receiver.received()[1];
    assert_eq!((bare.header("x-svc-signature"), bare.header("webhook-signature")), ("", ""));
}

#[tokio::test]
async fn failed_delivery_is_retried_and_dead_lettered_after_max_retries() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let mut hook = queued(&receiver);
    hook["max_retries"] = json!(3);
    let id = create_hook(&app, hook).await;
    receiver.always(Answer::Status(500));
    emit(&app, "memory.stored", json!({})).await;
    for (attempt, least, most) in [(1, 8.0, 12.0), (2, 16.0, 24.0)] {
        settle(&app).await;
        let list = deliveries(&app, &id).await;
        let delivery = &list["deliveries"][0];
        assert_eq!((&delivery["status"], &delivery["attempt_count"]), (&json!("failed"), &json!(attempt)), "{list}");
        assert_eq!(delivery["response_status"], 500);
        let wait = wait_seconds(&app, &id).await;
        assert!((least..=most).contains(&wait), "{wait}");
        // No attempt before the scheduled time.
        app.clock.advance(Duration::from_secs_f64(wait - 0.5));
        settle(&app).await;
        assert_eq!(receiver.received().len(), attempt);
        app.clock.advance(Duration::from_secs(1));
    }
    settle(&app).await;
    let list = deliveries(&app, &id).await;
    let dead = &list["deliveries"][0];
    let path = format!("{HOOKS}/{id}/deliveries/{}", dead["id"].as_str().unwrap());
    let one = app.get(&path).send().await.expect_status(200).json();
    assert_eq!((&one["status"], &one["payload"]), (&dead["status"], &receiver.received()[0].event()));
    app.get(&format!("{HOOKS}/{id}/deliveries/dlv_unknown")).send().await.expect_error(404, "delivery_not_found");
    assert_eq!(
        (&dead["status"], &dead["attempt_count"], &dead["next_attempt_at"]),
        (&json!("dead_letter"), &json!(3), &Value::Null)
    );
    assert_eq!(list["stats"]["dead_letter"], 1);
    app.clock.advance(Duration::from_secs(3600));
    settle(&app).await;
    assert_eq!(receiver.received().len(), 3);
    // All attempts have the id of the delivery.
    let ids: Vec<String> = receiver.received().iter().map(|got| got.header("webhook-id").to_owned()).collect();
    assert!(ids.iter().all(|id| dead["id"] == id.as_str()));

    receiver.always(Answer::Status(200));
    let retry = format!("{HOOKS}/{id}/deliveries/{}/retry", dead["id"].as_str().unwrap());
    let retried = app.post(&retry).send().await.expect_status(200).json();
    assert_eq!((&retried["status"], &retried["attempt_count"]), (&json!("pending"), &json!(0)));
    app.post(&retry).send().await.expect_error(409, "delivery_not_failed");
    settle(&app).await;
    assert_eq!(deliveries(&app, &id).await["stats"]["success"], 1);
    app.post(&retry).send().await.expect_error(409, "delivery_not_failed");
    app.post(&format!("{HOOKS}/{id}/deliveries/dlv_unknown/retry"))
        .send()
        .await
        .expect_error(404, "delivery_not_found");
    let filtered = app.get(&format!("{HOOKS}/{id}/deliveries?status=failed")).send().await.expect_status(200).json();
    assert_eq!((&filtered["total"], &filtered["stats"]["success"]), (&json!(0), &json!(1)));
    app.get(&format!("{HOOKS}/{id}/deliveries?status=lost&limit=0")).send().await.expect_status(400);
}

#[tokio::test]
async fn dead_letters_can_be_retried_and_purged_in_bulk() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let mut hook = queued(&receiver);
    hook["max_retries"] = json!(1);
    let (one, two) = (create_hook(&app, hook.clone()).await, create_hook(&app, hook).await);
    receiver.always(Answer::Status(503));
    for number in 0..3 {
        emit(&app, "memory.stored", json!({"n": number})).await;
    }
    settle(&app).await;
    let dead = |query: &str| app.get(&format!("/api/hooks/deliveries/dead-letters{query}"));
    assert_eq!(dead("").send().await.expect_status(200).json()["total"], 6);
    let counts = async || app.get(HOOKS).send().await.expect_status(200).json()["dead_letters"].clone();
    assert_eq!(counts().await, json!({&one: 3, &two: 3}));
    assert_eq!(dead(&format!("?hook_id={one}&limit=2")).send().await.expect_status(200).json()["total"], 3);
    receiver.always(Answer::Status(200));
    let retry = format!("/api/hooks/deliveries/dead-letters/retry?hook_id={one}");
    assert_eq!(app.post(&retry).send().await.expect_status(200).json(), json!({"retried": 3}));
    settle(&app).await;
    assert_eq!(deliveries(&app, &one).await["stats"]["success"], 3);
    let purge = || app.delete("/api/hooks/deliveries/dead-letters");
    assert_eq!(counts().await, json!({&two: 3}));
    assert_eq!(purge().send().await.expect_status(200).json(), json!({"deleted": 3}));
    assert_eq!(counts().await, json!({}));
    assert_eq!(purge().send().await.expect_status(200).json(), json!({"deleted": 0}));
    assert_eq!(deliveries(&app, &two).await["total"], 0);
}

#[tokio::test]
async fn retry_after_header_is_respected() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create_hook(&app, queued(&receiver)).await;
    receiver.then([Answer::With(429, "retry-after", "120".to_owned())]);
    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    assert!((wait_seconds(&app, &id).await - 120.0).abs() < 0.01);
    receiver.then([Answer::With(503, "retry-after", "Mon, 05 Jan 2026 09:30:00 GMT".to_owned())]);
    app.clock.advance(Duration::from_secs(121));
    settle(&app).await;
    assert!((wait_seconds(&app, &id).await - (1800.0 - 121.0)).abs() < 0.01);
    app.clock.advance(Duration::from_secs(1800));
    settle(&app).await;
    assert_eq!(deliveries(&app, &id).await["stats"]["success"], 1);
}

#[tokio::test]
async fn receiver_that_is_gone_disables_its_hook() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create_hook(&app, queued(&receiver)).await;
    receiver.always(Answer::Status(410));
    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    let hook = app.get(&format!("{HOOKS}/{id}")).send().await.expect_status(200).json();
    assert_eq!(hook["enabled"], false);
    assert!(hook["disabled_reason"].as_str().unwrap().contains("410"), "{hook}");
    assert_eq!(deliveries(&app, &id).await["stats"]["dead_letter"], 1);
    assert_eq!(receiver.received().len(), 1);
    let back = app.patch(&format!("{HOOKS}/{id}/toggle")).send().await.expect_status(200).json();
    assert_eq!((&back["enabled"], &back["disabled_reason"]), (&json!(true), &Value::Null));
}

#[tokio::test]
async fn disabled_hook_retains_its_deliveries() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create_hook(&app, queued(&receiver)).await;
    receiver.then([Answer::Status(500)]);
    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    app.patch(&format!("{HOOKS}/{id}/toggle")).send().await.expect_status(200);
    let test = app.post(&format!("{HOOKS}/{id}/test-delivery")).send().await.expect_status(202).json();
    assert_eq!((&test["status"], &test["event_type"]), (&json!("pending"), &json!("test.notification")));
    app.clock.advance(Duration::from_secs(3600));
    settle(&app).await;
    assert_eq!(receiver.received().len(), 1);
    app.patch(&format!("{HOOKS}/{id}/toggle")).send().await.expect_status(200);
    settle(&app).await;
    assert_eq!(deliveries(&app, &id).await["stats"]["success"], 2);
    let test = receiver.received().into_iter().find(|got| got.header("x-svc-event") == "test.notification").unwrap();
    assert_eq!(test.event()["data"]["hook_id"], id.as_str());
}

/// Simulates a daemon that was killed while sending.
async fn simulate_killed_sender(app: &TestApp, hook: &str) {
    let (hook, now) = (hook.to_owned(), app.clock.clock().now());
    let leave = async move |tx: &mut Tx| {
        tx.execute(
            "UPDATE hook_deliveries SET status = 'processing', owner = 'gone', fence = fence + 1, due_at = $2 WHERE hook_id = $1",
            args![hook.as_str(), now + Duration::from_secs(15)],
        )
        .await
    };
    app.running().context().db.write::<_, StoreError, _>(leave).await.unwrap();
}

#[tokio::test]
async fn delivery_of_a_killed_daemon_is_sent_after_its_lease() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create_hook(&app, queued(&receiver)).await;
    let path = format!("{HOOKS}/{id}/toggle");
    app.post(&format!("{HOOKS}/{id}/test-delivery")).send().await.expect_status(202);
    simulate_killed_sender(&app, &id).await;
    settle(&app).await;
    assert_eq!((receiver.received().len(), &queue_stats(&app).await["processing"]), (0, &json!(1)));
    // While the hook is disabled nothing is claimed, but the expired lease is released.
    app.patch(&path).send().await.expect_status(200);
    app.clock.advance(Duration::from_secs(16));
    settle(&app).await;
    assert_eq!((receiver.received().len(), &queue_stats(&app).await["pending"]), (0, &json!(1)));
    simulate_killed_sender(&app, &id).await;
    app.patch(&path).send().await.expect_status(200);
    app.clock.advance(Duration::from_secs(16));
    settle(&app).await;
    let list = deliveries(&app, &id).await;
    assert_eq!((receiver.received().len(), &list["stats"]["success"]), (1, &json!(1)));
    // An attempt with an unknown result is not counted.
    assert_eq!(list["deliveries"][0]["attempt_count"], 1);
}

#[tokio::test]
async fn delivery_in_progress_completes_although_its_hook_is_deleted() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let pause = Duration::from_secs(1);
    for (count, answer, status, response, error) in [
        (1, Answer::Late(pause), "success", 200, Value::Null),
        (2, Answer::LateFailure(pause), "dead_letter", 500, json!("the hook was deleted")),
    ] {
        let id = create_hook(&app, queued(&receiver)).await;
        receiver.then([answer]);
        let sent = app.post(&format!("{HOOKS}/{id}/test-delivery")).send().await.expect_status(202).json();
        let delivery = format!("{HOOKS}/{id}/deliveries/{}", sent["id"].as_str().unwrap());
        let working = async {
            loop {
                settle(&app).await;
            }
        };
        tokio::select! {
            () = working => {}
            _ = receiver.wait_for(count) => {}
        }
        app.delete(&format!("{HOOKS}/{id}")).send().await.expect_status(200);
        while queue_stats(&app).await["processing"] != 0 {
            settle(&app).await;
        }
        app.clock.advance(Duration::from_secs(3600));
        settle(&app).await;
        let completed = app.get(&delivery).send().await.expect_status(200).json();
        assert_eq!((&completed["status"], &completed["attempt_count"]), (&json!(status), &json!(1)), "{completed}");
        assert_eq!((&completed["response_status"], &completed["error"]), (&json!(response), &error), "{completed}");
        app.post(&format!("{delivery}/retry")).send().await.expect_error(409, "hook_deleted");
    }
    assert_eq!(receiver.received().len(), 2);
    let global = app.get("/api/hooks/analytics/global").send().await.expect_status(200).json();
    assert_eq!((&global["total_deliveries"], &global["success_rate"]), (&json!(2), &json!(0.5)));
}

#[tokio::test]
async fn unfinished_delivery_of_a_deleted_hook_is_dead_lettered_after_its_lease() {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let id = create_hook(&app, queued(&receiver)).await;
    app.post(&format!("{HOOKS}/{id}/test-delivery")).send().await.expect_status(202);
    simulate_killed_sender(&app, &id).await;
    app.delete(&format!("{HOOKS}/{id}")).send().await.expect_status(200);
    settle(&app).await;
    assert_eq!(queue_stats(&app).await["processing"], 1);
    app.clock.advance(Duration::from_secs(90));
    settle(&app).await;
    let dead = app.get("/api/hooks/deliveries/dead-letters").send().await.expect_status(200).json();
    assert_eq!((&dead["total"], &dead["deliveries"][0]["attempt_count"]), (&json!(1), &json!(0)), "{dead}");
    assert_eq!(dead["deliveries"][0]["error"], "the hook was deleted");
    assert_eq!(receiver.received().len(), 0);
}

/// Returns a receiver whose circuit is open after repeated failures, and its hook.
async fn open_circuit() -> (TestApp, Receiver, String) {
    let (app, receiver) = (TestApp::with_owner().await, Receiver::start().await);
    let mut hook = queued(&receiver);
    hook["max_retries"] = json!(100);
    let id = create_hook(&app, hook).await;
    receiver.always(Answer::Status(503));
    for number in 0..10 {
        emit(&app, "memory.stored", json!({"n": number})).await;
    }
    settle(&app).await;
    (app, receiver, id)
}

#[tokio::test]
async fn unavailable_receiver_is_not_contacted_while_its_circuit_is_open() {
    let (app, receiver, id) = open_circuit().await;
    assert_eq!(receiver.received().len(), 10);
    // While the circuit is open, new deliveries wait without counting an attempt.
    emit(&app, "memory.stored", json!({"n": 10})).await;
    app.clock.advance(Duration::from_secs(5));
    settle(&app).await;
    assert_eq!(receiver.received().len(), 10);
    let metrics = app.get("/api/metrics/prometheus").send().await.text();
    assert!(metrics.contains("svc_hook_open_circuits 1"), "{metrics}");
    // One probe is sent; the receiver is still unavailable.
    app.clock.advance(Duration::from_secs(8));
    settle(&app).await;
    assert_eq!(receiver.received().len(), 11);
    app.clock.advance(Duration::from_secs(10));
    settle(&app).await;
    assert_eq!(receiver.received().len(), 11, "the delay grows");
    receiver.always(Answer::Status(200));
    app.clock.advance(Duration::from_secs(3600));
    settle(&app).await;
    assert_eq!(deliveries(&app, &id).await["stats"]["success"], 11);
    // A manual retry is sent immediately.
    receiver.always(Answer::Status(503));
    for number in 0..11 {
        emit(&app, "memory.stored", json!({"n": number})).await;
    }
    settle(&app).await;
    let list = app.get(&format!("{HOOKS}/{id}/deliveries?status=failed")).send().await.expect_status(200).json();
    receiver.always(Answer::Status(200));
    let failed = list["deliveries"][0]["id"].as_str().unwrap();
    app.post(&format!("{HOOKS}/{id}/deliveries/{failed}/retry")).send().await.expect_status(200);
    settle(&app).await;
    assert!(deliveries(&app, &id).await["stats"]["success"].as_u64().unwrap() >= 12);
}

#[tokio::test]
async fn manual_retry_precedes_waiting_deliveries() {
    let (app, receiver, id) = open_circuit().await;
    // One delivery is overdue while the circuit is open, and would be the next probe.
    emit(&app, "memory.stored", json!({"n": 10})).await;
    app.clock.advance(Duration::from_secs(5));
    settle(&app).await;
    assert_eq!(receiver.received().len(), 10);
    let list = app.get(&format!("{HOOKS}/{id}/deliveries?status=failed")).send().await.expect_status(200).json();
    let failed = list["deliveries"][0]["id"].as_str().unwrap();
    app.post(&format!("{HOOKS}/{id}/deliveries/{failed}/retry")).send().await.expect_status(200);
    settle(&app).await;
    let test = app.post(&format!("{HOOKS}/{id}/test-delivery")).send().await.expect_status(202).json();
    settle(&app).await;
    let received = receiver.received();
    let probes: Vec<&str> = received[10..].iter().map(|received| received.header("x-svc-delivery")).collect();
    assert_eq!(probes, [failed, test["id"].as_str().unwrap()]);
}
