//! Push devices: subscriptions and delivery of messages.

use std::time::Duration;

use agentd_automation::notify::{MessageFormat, Notification, PushDetails};
use agentd_base::{Clock, Secret};
use agentd_store::{StoreError, Tx, args};
use serde_json::{Value, json};

use super::{enqueue, events, get_notification};
use crate::support::push_service::{Answer, PushService, subscribe};
use crate::support::{Eventually, MailLimits, TestApp, TestProcess};

const SUBSCRIPTIONS: &str = "/api/notifications/push/subscriptions";

async fn devices(app: &TestApp) -> Vec<Value> {
    let list = app.get(SUBSCRIPTIONS).send().await.expect_status(200).json();
    let devices = list["subscriptions"].as_array().expect("a list").clone();
    assert_eq!(list["total"], devices.len());
    devices
}

async fn public_key(app: &TestApp) -> Value {
    app.get("/api/notifications/push/key").send().await.expect_status(200).json()["public_key"].clone()
}

fn to_all(subject: &str) -> Notification {
    Notification::new("push:".parse().unwrap(), subject, "The *text*.")
}

/// Returns the messages to single devices, newest first.
async fn copies(app: &TestApp) -> Vec<Value> {
    let list = app.get("/api/notifications").send().await.expect_status(200).json();
    let all = list["notifications"].as_array().expect("a list").clone();
    all.into_iter().filter(|one| one["platform"] == "push" && one["channel"] != "").collect()
}

#[tokio::test]
async fn push_device_is_subscribed_listed_and_removed() {
    let mut app = TestApp::with_owner().await;
    let key = public_key(&app).await;
    assert_eq!(key.as_str().map(str::len), Some(87), "65 bytes in base64url");
    let service = PushService::start().await;
    let device = service.subscribe(&app, "phone").await;
    let found = devices(&app).await;
    assert_eq!((found.len(), &found[0]["id"]), (1, &json!(device.id)));
    assert_eq!(found[0]["endpoint_sha256"], hex::encode(agentd_base::sha256(device.endpoint.as_bytes())));
    assert!(device.endpoint.starts_with(found[0]["service"].as_str().unwrap()));
    for secret in ["/push/phone".to_owned(), device.browser.auth(), device.browser.p256dh()] {
        assert!(!found[0].to_string().contains(&secret), "{}", found[0]);
    }
    // Subscribing the same endpoint again updates the keys of the device.
    let (browser, subscription) = service.browser("phone");
    let again = subscribe(&app, &subscription).await.expect_status(201).json();
    assert_eq!(again["id"], json!(device.id));
    assert_eq!(devices(&app).await.len(), 1);
    app.restart().await;
    assert_eq!(public_key(&app).await, key, "browsers depend on the key");
    let path = format!("{SUBSCRIPTIONS}/{}", device.id);
    app.post(&format!("{path}/test")).send().await.expect_status(200);
    let device = crate::support::push_service::Device { browser, ..device };
    let message = service.messages(&app, &device).await.remove(0);
    assert_eq!(message.content["title"], "Push notifications work");
    assert_eq!((message.ttl, message.urgency.as_str()), (60, "normal"));
    assert!(devices(&app).await[0]["last_success_at"].is_string());
    app.delete(&path).send().await.expect_status(200);
    app.delete(&path).send().await.expect_error(404, "not_found");
    app.post(&format!("{path}/test")).send().await.expect_error(404, "not_found");
    assert_eq!(devices(&app).await, [] as [Value; 0]);
}

#[tokio::test]
async fn invalid_subscription_is_rejected_and_changes_nothing() {
    let app = TestApp::with_owner().await;
    let service = PushService::start().await;
    let (_, good) = service.browser("phone");
    // Local addresses need permission of the owner, and other addresses need HTTPS.
    let refused = subscribe(&app, &good).await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["endpoint"]);
    for endpoint in ["http://push.example/a", "https://10.0.0.1/a", "https://169.254.169.254/", "ftp://x/", "x", ""] {
        let bad = json!({"endpoint": endpoint, "keys": good["keys"]});
        assert_eq!(subscribe(&app, &bad).await.expect_error(400, "invalid_request").bad_fields(), ["endpoint"]);
    }
    let keys = json!({"p256dh": "AAAA", "auth": "not base64!"});
    let bad = json!({"endpoint": "https://push.example/a", "keys": keys});
    let mut fields = subscribe(&app, &bad).await.expect_error(400, "invalid_request").bad_fields();
    fields.sort();
    assert_eq!(fields, ["keys.auth", "keys.p256dh"]);
    for bad in [json!({}), json!([]), json!({"endpoint": 1, "keys": good["keys"]}), json!({"endpoint": "https://x/"})] {
        subscribe(&app, &bad).await.expect_status(400);
    }
    assert_eq!(devices(&app).await, [] as [Value; 0]);
    let mut fine = good.clone();
    fine["endpoint"] = json!("https://push.example/a");
    subscribe(&app, &fine).await.expect_status(201);
}

#[tokio::test]
async fn endpoint_and_keys_of_a_device_are_never_shown_in_plain_text() {
    let app = TestApp::with_owner().await;
    let service = PushService::start().await;
    let device = service.subscribe(&app, "phone").await;
    service.then([Answer::Status(500), Answer::Status(403)]);
    let id = enqueue(&app, to_all("x")).await;
    app.run_workers().await;
    let test = format!("{SUBSCRIPTIONS}/{}/test", device.id);
    let refused = app.post(&test).send().await.expect_error(502, "push_refused");
    let mut dump = Vec::new();
    app.running().context().db.dump(&mut dump, &[]).await.expect("a dump");
    let mut exposed_text = String::from_utf8(dump).expect("text") + &refused.json().to_string();
    for path in [SUBSCRIPTIONS, "/api/notifications", &format!("/api/notifications/{id}")] {
        exposed_text += &app.get(path).send().await.expect_status(200).json().to_string();
    }
    assert!(exposed_text.contains(&device.id), "the dump contains the device");
    for secret in ["/push/phone".to_owned(), device.browser.auth(), device.browser.p256dh()] {
        assert!(!exposed_text.contains(&secret), "{secret}");
    }
}

#[tokio::test]
async fn number_of_devices_is_limited() {
    let app = TestApp::with_owner().await;
    let service = PushService::start().await;
    for number in 0..50 {
        service.subscribe(&app, &format!("device-{number}")).await;
    }
    let (_, one_more) = service.browser("one-more");
    subscribe(&app, &one_more).await.expect_error(409, "too_many_devices");
    let (_, known) = service.browser("device-7");
    subscribe(&app, &known).await.expect_status(201);
    assert_eq!(devices(&app).await.len(), 50);
}

#[tokio::test]
async fn broadcast_sends_one_message_per_device() {
    let app = TestApp::with_owner().await;
    let service = PushService::start().await;
    let (phone, laptop) = (service.subscribe(&app, "phone").await, service.subscribe(&app, "laptop").await);
    let details = PushDetails { url: "/scheduler".to_owned(), tag: "news".to_owned(), ..PushDetails::default() };
    let message = to_all("News \"today\"").agent("ada").details(serde_json::to_value(details).unwrap());
    let id = enqueue(&app, message).await;
    app.run_workers().await;
    assert_eq!(get_notification(&app, &id).await["status"], "sent");
    for device in [&phone, &laptop] {
        let messages = service.messages(&app, device).await;
        let expected = json!({"title": "News \"today\"", "body": "The *text*.", "url": "/scheduler", "tag": "news"});
        assert_eq!((messages.len(), &messages[0].content), (1, &expected));
        assert_eq!((messages[0].ttl, messages[0].urgency.as_str()), (86_400, "normal"));
    }
    let copies = copies(&app).await;
    assert_eq!(copies.iter().map(|copy| copy["status"].clone()).collect::<Vec<_>>(), ["sent", "sent"]);
    assert_eq!(events(&app, "channel.message.sent").await.len(), 3);
    // To a single device; HTML bodies are omitted on lock screens.
    let target = format!("push:{}", phone.id).parse().unwrap();
    enqueue(&app, Notification::new(target, "", "<p>x</p>").format(MessageFormat::Html)).await;
    app.run_workers().await;
    let last = service.messages(&app, &phone).await.pop().unwrap();
    assert_eq!(
        (&last.content["title"], &last.content["body"], &last.content["url"]),
        (&json!("agentd"), &json!(""), &json!("/"))
    );
    assert_eq!(service.count(), 3);
}

#[tokio::test]
async fn message_without_a_device_is_dead_lettered() {
    let app = TestApp::with_owner().await;
    let without_device = enqueue(&app, to_all("x")).await;
    let unknown = enqueue(&app, Notification::new("push:push_unknown".parse().unwrap(), "x", "y")).await;
    app.run_workers().await;
    for (id, why) in [(without_device, "no push device is registered"), (unknown, "the push device was removed")] {
        let dead = get_notification(&app, &id).await;
        assert_eq!(dead["status"], "dead_letter");
        assert!(dead["error"].as_str().unwrap().contains(why), "{dead}");
    }
}

#[tokio::test]
async fn device_with_lost_keys_reports_an_error_and_can_subscribe_again() {
    let app = TestApp::with_owner().await;
    let service = PushService::start().await;
    let (key, device) = (public_key(&app).await, service.subscribe(&app, "phone").await);
    let delete_keys = async |tx: &mut Tx| {
        let deleted = tx.execute("DELETE FROM secrets WHERE scope LIKE $1", args!["push%"]).await?;
        Ok::<_, StoreError>(deleted)
    };
    // State after a restore without secrets: the signing key is lost as well.
    assert_eq!(app.running().context().db.write(delete_keys).await.expect("a change"), 2);
    let id = enqueue(&app, to_all("x")).await;
    app.run_workers().await;
    assert_eq!(
        (&get_notification(&app, &id).await["status"], &copies(&app).await[0]["status"]),
        (&json!("sent"), &json!("dead_letter"))
    );
    let error = devices(&app).await[0]["last_error"].as_str().unwrap().to_owned();
    assert!(error.contains("disable and enable push notifications"), "{error}");
    let test = format!("{SUBSCRIPTIONS}/{}/test", device.id);
    app.post(&test).send().await.expect_error(502, "push_refused");
    let again = service.subscribe(&app, "phone").await;
    assert_eq!(again.id, device.id);
    assert_ne!(public_key(&app).await, key);
    app.post(&test).send().await.expect_status(200);
    assert_eq!(service.messages(&app, &again).await.len(), 1);
}

#[tokio::test]
async fn device_removed_by_the_push_service_is_deleted() {
    let app = TestApp::with_owner().await;
    let service = PushService::start().await;
    for (number, status) in [404, 410].into_iter().enumerate() {
        service.subscribe(&app, "phone").await;
        service.then([Answer::Status(status)]);
        enqueue(&app, to_all("x")).await;
        app.run_workers().await;
        assert_eq!(devices(&app).await, [] as [Value; 0], "{status}");
        let copy = copies(&app).await.remove(0);
        assert_eq!((&copy["status"], &copy["attempt_count"]), (&json!("dead_letter"), &json!(1)));
        assert!(copy["error"].as_str().unwrap().contains("was removed"), "{copy}");
        assert_eq!(service.count(), number + 1);
    }
    // A test message detects it as well.
    let device = service.subscribe(&app, "phone").await;
    service.then([Answer::Status(410)]);
    app.post(&format!("{SUBSCRIPTIONS}/{}/test", device.id)).send().await.expect_error(502, "push_refused");
    assert_eq!(devices(&app).await, [] as [Value; 0]);
}

#[tokio::test]
async fn temporary_refusal_is_retried_and_permanent_is_not() {
    let app = TestApp::with_owner().await;
    let service = PushService::start().await;
    let device = service.subscribe(&app, "phone").await;
    service.then([Answer::After(429, 120), Answer::Status(503)]);
    enqueue(&app, to_all("x")).await;
    app.run_workers().await;
    assert_eq!(service.count(), 1);
    let error = devices(&app).await[0]["last_error"].as_str().unwrap().to_owned();
    assert!(error.contains("429"), "{error}");
    app.clock.advance(Duration::from_secs(119));
    app.run_workers().await;
    assert_eq!(service.count(), 1, "no attempt before Retry-After");
    app.clock.advance(Duration::from_secs(1));
    app.run_workers().await;
    assert_eq!((service.count(), &copies(&app).await[0]["status"]), (2, &json!("pending")));
    app.clock.advance(Duration::from_secs(120));
    app.run_workers().await;
    assert_eq!((service.count(), &copies(&app).await[0]["status"]), (3, &json!("sent")));
    assert_eq!(devices(&app).await[0]["last_error"], Value::Null);
    // Every attempt sends the same message, so a device shows it once.
    let messages = service.messages(&app, &device).await;
    assert!(
        messages.iter().all(|message| (&message.content, &message.topic) == (&messages[0].content, &messages[0].topic))
    );
    for status in [400, 403, 413, 302] {
        let before = service.count();
        service.then([Answer::Status(status)]);
        enqueue(&app, to_all("y")).await;
        app.run_workers().await;
        app.clock.advance(Duration::from_secs(3_600));
        app.run_workers().await;
        assert_eq!(
            (service.count(), &copies(&app).await[0]["status"]),
            (before + 1, &json!("dead_letter")),
            "{status}"
        );
    }
    assert_eq!(devices(&app).await.len(), 1, "the device is kept");
}

/// Four messages are sent concurrently. Without a limit, devices of a hanging service would block all permits.
#[tokio::test]
async fn hanging_push_service_does_not_block_other_devices() {
    let mut app = TestApp::with_owner().await;
    app.restart_with_mail(MailLimits { roots: Vec::new(), time_limit: Some(Duration::from_secs(1)) }).await;
    let service = PushService::start().await;
    for number in 0..8 {
        service.subscribe(&app, &format!("device-{number}")).await;
    }
    service.then(std::iter::repeat_n(Answer::Hang, 4));
    enqueue(&app, to_all("x")).await;
    app.run_workers().await;
    assert_eq!(service.count(), 4);
    let found = devices(&app).await;
    let is_skipped =
        |device: &&Value| device["last_error"].as_str().is_some_and(|error| error.contains("is suspended"));
    assert_eq!(found.iter().filter(is_skipped).count(), 4, "{found:?}");
    app.clock.advance(Duration::from_secs(60));
    app.run_workers().await;
    assert_eq!(service.count(), 12);
    assert!(copies(&app).await.iter().all(|copy| copy["status"] == "sent"));
}

#[tokio::test]
async fn expired_message_is_not_sent() {
    let app = TestApp::with_owner().await;
    let service = PushService::start().await;
    service.subscribe(&app, "phone").await;
    service.then([Answer::Status(500)]);
    let expires_at = Some(app.clock.clock().now() + Duration::from_secs(20));
    let details = PushDetails { expires_at, is_urgent: true, ..PushDetails::default() };
    enqueue(&app, to_all("x").details(serde_json::to_value(details).unwrap())).await;
    app.run_workers().await;
    assert_eq!(service.count(), 1);
    app.clock.advance(Duration::from_secs(60));
    app.run_workers().await;
    let copy = copies(&app).await.remove(0);
    assert_eq!((service.count(), &copy["status"]), (1, &json!("dead_letter")));
    assert!(copy["error"].as_str().unwrap().contains("expired before it was sent"), "{copy}");
}

/// The daemon is killed while it sends to one of several devices. Every device receives its message, and only the
/// unconfirmed one may be sent twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_loses_no_push_message_and_repeats_only_the_unconfirmed_one() {
    let service = PushService::start().await;
    let start_on_data_of = async |process: &TestProcess| {
        let (data_dir, url) = (process.data_dir(), process.database_url().map(|url| Secret::new(url.to_owned())));
        TestApp::start_with(move |source| (source.data_dir, source.database_url) = (Some(data_dir), url)).await
    };
    let mut process = TestProcess::stopped().await;
    let mut before = start_on_data_of(&process).await;
    before.create_owner().await;
    let mut wanted = Vec::new();
    for name in ["a", "b", "c"] {
        wanted.push(service.subscribe(&before, name).await);
    }
    let id = enqueue(&before, to_all("x")).await;
    process.key = before.key.clone().expect("a key");
    before.stop().await;
    service.then([Answer::Hang]);
    process.spawn().await;
    service.wait_for(3).await;
    let mut eventually = Eventually::new();
    loop {
        let sent = process.get("/api/notifications?status=sent").send().await.expect_status(200).json();
        // The broadcast and two of its three messages.
        if sent["total"] == 3 {
            break;
        }
        eventually.retry().await;
    }
    process.kill();
    let log = process.log();
    for device in &wanted {
        assert!(!log.contains(&device.endpoint) && !log.contains(&device.browser.auth()), "{log}");
    }
    let mut after = start_on_data_of(&process).await;
    after.key = Some(process.key.clone());
    after.clock.set(Clock::system().now() + Duration::from_secs(3_600));
    after.run_workers().await;
    assert_eq!(get_notification(&after, &id).await["status"], "sent");
    let copies = copies(&after).await;
    assert_eq!(copies.len(), 3);
    assert!(copies.iter().all(|copy| copy["status"] == "sent"), "{copies:?}");
    let mut counts = Vec::new();
    for device in &wanted {
        counts.push(service.messages(&after, device).await.len());
    }
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, 2]);
    after.stop().await;
}
