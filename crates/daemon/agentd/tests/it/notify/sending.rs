//! Queued notifications: transactional enqueueing, delivery, retries, and dead letters.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentd_automation::notify::{
    Delivered, DeliveryFailure, MessageFormat, Notification, NotifyError, Outgoing, Transport,
};
use agentd_base::Timestamp;
use agentd_store::{NewItem, StoreError, Tx};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::{enqueue, events, get_notification, mail, use_server};
use crate::support::TestApp;
use crate::support::smtp::{Behaviour, SmtpServer};

async fn total(app: &TestApp, status: &str) -> u64 {
    let path = format!("/api/notifications?status={status}");
    app.get(&path).send().await.expect_status(200).json()["total"].as_u64().unwrap()
}

#[tokio::test]
async fn message_is_enqueued_only_with_its_transaction() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    let notify = app.running().daemon.notify().clone();
    let rolled_back = async move |tx: &mut Tx| {
        notify.enqueue(tx, &mail("never")).await?;
        Err::<(), _>(NotifyError::NotFound)
    };
    app.running().context().db.write(rolled_back).await.unwrap_err();
    let id = enqueue(&app, mail("Grüße\r\nBcc: x@example.org").agent("ada")).await;
    assert_eq!(get_notification(&app, &id).await["status"], "pending");
    app.run_workers().await;
    let received = server.received();
    assert_eq!(received.len(), 1, "{received:?}");
    assert!(!received[0].text.contains("\r\nBcc:"), "{}", received[0].text);
    let sent = get_notification(&app, &id).await;
    assert_eq!((&sent["status"], &sent["attempt_count"], &sent["error"]), (&json!("sent"), &json!(1), &Value::Null));
    assert_eq!((&sent["platform"], &sent["channel"]), (&json!("email"), &json!("ada@example.net")));
    assert_eq!((&sent["subject"], &sent["body"]), (&json!("Grüße Bcc: x@example.org"), &json!("The *text*.")));
    assert_eq!(sent["reference"], received[0].header("Message-ID"));
    assert_eq!(received[0].header("Message-ID"), format!("<{id}@example.org>"));
    let expected = json!({
        "notification_id": id, "platform": "email", "channel": "ada@example.net", "format": "markdown",
        "subject": "Grüße Bcc: x@example.org", "attempts": 1, "reference": sent["reference"],
    });
    assert_eq!(events(&app, "channel.message.sent").await, [expected]);
    let list = app.get("/api/notifications").send().await.expect_status(200).json();
    assert_eq!((&list["total"], &list["notifications"][0]["id"]), (&json!(1), &json!(id)));
    assert!(list["notifications"][0].get("body").is_none());
    let found = async |query: &str| {
        app.get(&format!("/api/notifications?{query}")).send().await.expect_status(200).json()["total"].clone()
    };
    assert_eq!(found("platform=email").await, 1);
    assert_eq!((found("platform=push").await, found("platform=email&status=pending").await), (json!(0), json!(0)));
    assert_eq!(found("platform=email&status=sent&limit=1").await, 1);
    app.get("/api/notifications/ntf_unknown").send().await.expect_error(404, "not_found");
    let unknown = app.get("/api/notifications?platform=fax").send().await.expect_status(400);
    assert_eq!(unknown.bad_fields(), ["platform"]);
    app.get("/api/notifications?status=lost&limit=0").send().await.expect_status(400);
}

#[tokio::test]
async fn idempotency_key_is_used_once() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    let first = enqueue(&app, mail("one").idempotency_key("alert-1")).await;
    let again = enqueue(&app, mail("two").idempotency_key("alert-1")).await;
    let other = enqueue(&app, mail("three").idempotency_key("alert-2")).await;
    assert_eq!(first, again);
    assert_ne!(first, other);
    app.run_workers().await;
    assert_eq!(enqueue(&app, mail("four").idempotency_key("alert-1")).await, first);
    app.run_workers().await;
    let mut subjects: Vec<String> = server.received().iter().map(|mail| mail.header("Subject").to_owned()).collect();
    subjects.sort();
    assert_eq!(subjects, ["one", "three"]);
}

#[tokio::test]
async fn notification_body_size_is_limited() {
    let app = TestApp::with_owner().await;
    let notify = app.running().daemon.notify().clone();
    let large = Notification::new("slack:#x".parse().unwrap(), "s", "x".repeat(256 * 1024 + 1));
    let work = async move |tx: &mut Tx| {
        // Rejected before anything was written, so the transaction of the caller continues.
        assert!(matches!(notify.enqueue(tx, &large).await, Err(NotifyError::BodyTooLarge { .. })));
        notify.enqueue(tx, &Notification { body: "short".to_owned(), ..large.clone() }).await
    };
    app.running().context().db.write(work).await.unwrap();
    assert_eq!(total(&app, "pending").await, 1);
}

#[tokio::test]
async fn temporary_failure_is_retried_with_the_same_message_id() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    server.then([Behaviour::Recipient("450 4.2.0 greylisted"), Behaviour::DropAfterData]);
    let id = enqueue(&app, mail("again")).await;
    app.run_workers().await;
    let waiting = get_notification(&app, &id).await;
    assert_eq!((&waiting["status"], &waiting["attempt_count"]), (&json!("pending"), &json!(1)));
    assert!(waiting["error"].as_str().unwrap().contains("450 4.2.0 greylisted"), "{waiting}");
    let next = Timestamp::parse(waiting["next_attempt_at"].as_str().unwrap()).unwrap();
    let delay = next.since(app.clock.clock().now());
    assert!((24..=36).contains(&delay.as_secs()), "30 s with 20 % jitter: {delay:?}");
    app.run_workers().await;
    assert_eq!(server.sessions(), 1, "no attempt before the due time");
    app.clock.advance(Duration::from_secs(36));
    app.run_workers().await;
    let waiting = get_notification(&app, &id).await;
    assert_eq!((&waiting["status"], &waiting["attempt_count"]), (&json!("pending"), &json!(2)), "{waiting}");
    app.clock.advance(Duration::from_secs(72));
    app.run_workers().await;
    assert_eq!(get_notification(&app, &id).await["status"], "sent");
    // The second attempt was received without confirmation; the third has the same id.
    let received = server.received();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].header("Message-ID"), received[1].header("Message-ID"));
    assert_eq!(events(&app, "channel.message.sent").await[0]["attempts"], 3);
    assert_eq!(events(&app, "channel.message.failed").await, [] as [Value; 0]);
}

#[tokio::test]
async fn permanent_rejection_is_dead_lettered_immediately() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    server.then([Behaviour::Recipient("550 5.1.1 no such user")]);
    let id = enqueue(&app, mail("gone")).await;
    app.run_workers().await;
    let dead = get_notification(&app, &id).await;
    assert_eq!((&dead["status"], &dead["next_attempt_at"]), (&json!("dead_letter"), &Value::Null));
    let failed = events(&app, "channel.message.failed").await;
    assert_eq!((failed.len(), &failed[0]["error"]), (1, &dead["error"]));
    // The owner retries the message after fixing the cause.
    let path = format!("/api/notifications/{id}/retry");
    let retry = async || app.post(&path).header("idempotency-key", "once").send().await.expect_status(200).json();
    let retried = retry().await;
    assert_eq!((&retried["status"], &retried["attempt_count"]), (&json!("pending"), &json!(0)));
    assert_eq!(retry().await, retried);
    app.post(&path).send().await.expect_error(409, "not_dead_letter");
    app.run_workers().await;
    assert_eq!(get_notification(&app, &id).await["status"], "sent");
    app.post(&path).send().await.expect_error(409, "not_dead_letter");
    app.post("/api/notifications/ntf_unknown/retry").send().await.expect_error(404, "not_found");
}

/// A transport of the test.
#[derive(Default)]
struct Pigeon(Mutex<Vec<Outgoing>>);

impl Transport for Pigeon {
    fn platform(&self) -> &'static str {
        "pigeon"
    }

    fn deliver<'a>(&'a self, message: &'a Outgoing) -> BoxFuture<'a, Result<Delivered, DeliveryFailure>> {
        Box::pin(async move {
            self.0.lock().unwrap().push(message.clone());
            Ok(Delivered { reference: Some("coop-7".to_owned()) })
        })
    }
}

#[tokio::test]
async fn disabled_or_unknown_platform_is_dead_lettered() {
    let mut app = TestApp::with_owner().await;
    let off = enqueue(&app, mail("off").max_attempts(2)).await;
    let unknown = Notification::new("pigeon:roof".parse().unwrap(), "unknown", "coo");
    let unknown = enqueue(&app, unknown.format(MessageFormat::Text).max_attempts(3)).await;
    for _ in 0..4 {
        app.run_workers().await;
        app.clock.advance(Duration::from_secs(3 * 3600));
    }
    let (off, dead) = (get_notification(&app, &off).await, get_notification(&app, &unknown).await);
    assert_eq!((&off["status"], &off["attempt_count"]), (&json!("dead_letter"), &json!(2)));
    assert!(off["error"].as_str().unwrap().contains("email is disabled; set enabled"), "{off}");
    assert_eq!((&dead["status"], &dead["attempt_count"]), (&json!("dead_letter"), &json!(3)));
    let reason = dead["error"].as_str().unwrap();
    let ways = "discord, email, google_chat, push, slack, teams, telegram, webhook, whatsapp";
    assert_eq!(reason, format!("cannot send to `pigeon`: the platform is not available; available are {ways}"));
    assert_eq!(total(&app, "dead_letter").await, 2);
    assert_eq!(events(&app, "channel.message.failed").await.len(), 2);

    let pigeon = Arc::new(Pigeon::default());
    app.transports.push(pigeon.clone());
    app.restart().await;
    app.post(&format!("/api/notifications/{unknown}/retry")).send().await.expect_status(200);
    app.run_workers().await;
    let sent = get_notification(&app, &unknown).await;
    assert_eq!((&sent["status"], &sent["reference"]), (&json!("sent"), &json!("coop-7")));
    let flown = pigeon.0.lock().unwrap();
    assert_eq!((flown.len(), flown[0].channel.as_str(), flown[0].body.as_str()), (1, "roof", "coo"));
}

#[derive(Clone, Default)]
struct Hooked(Arc<Mutex<Vec<(HeaderMap, Value)>>>);

/// Responds with 503 and Retry-After, then 200, then 410.
async fn hook(State(hooked): State<Hooked>, headers: HeaderMap, body: axum::Json<Value>) -> impl IntoResponse {
    let mut all = hooked.0.lock().unwrap();
    all.push((headers, body.0));
    match all.len() {
        1 => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "120")]).into_response(),
        2 => StatusCode::OK.into_response(),
        _ => StatusCode::GONE.into_response(),
    }
}

#[tokio::test]
async fn webhook_notification_is_json_with_a_stable_id() {
    let hooked = Hooked::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/in/secret-token", axum::routing::post(hook)).with_state(hooked.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let app = TestApp::with_owner().await;
    let target = || format!("webhook:{origin}/in/secret-token").parse().unwrap();
    let json_body = Notification::new(target(), "figures", r#"{"cpu": 97}"#).format(MessageFormat::Json);
    let id = enqueue(&app, json_body).await;
    app.run_workers().await;
    let waiting = get_notification(&app, &id).await;
    assert_eq!((&waiting["status"], &waiting["channel"]), (&json!("pending"), &json!(origin)));
    assert!(!waiting.to_string().contains("secret-token"), "{waiting}");
    app.clock.advance(Duration::from_secs(119));
    app.run_workers().await;
    assert_eq!(hooked.0.lock().unwrap().len(), 1, "no attempt before Retry-After");
    app.clock.advance(Duration::from_secs(2));
    app.run_workers().await;
    assert_eq!(get_notification(&app, &id).await["status"], "sent");
    {
        let all = hooked.0.lock().unwrap();
        let (headers, body) = &all[1];
        assert_eq!(&all[0].1, body, "both attempts have the same body");
        assert_eq!((&body["id"], &body["type"]), (&json!(id), &json!("notification")));
        assert_eq!(body["data"], json!({"subject": "figures", "body": {"cpu": 97}, "format": "json"}));
        assert_eq!(headers["x-svc-delivery"], id.as_str());
        assert_eq!(headers["x-svc-event"], "notification");
        assert_eq!(headers["content-type"], "application/json");
    }
    let gone = enqueue(&app, Notification::new(target(), "more", "text")).await;
    app.run_workers().await;
    assert_eq!(get_notification(&app, &gone).await["status"], "dead_letter");
    assert!(!events(&app, "channel.message.failed").await[0].to_string().contains("secret-token"));
    // A blocked address is reported.
    let refused = "webhook:http://169.254.169.254/latest".parse().unwrap();
    let refused = enqueue(&app, Notification::new(refused, "x", "y").max_attempts(1)).await;
    app.run_workers().await;
    let refused = get_notification(&app, &refused).await;
    assert_eq!(refused["status"], "dead_letter");
    assert!(refused["error"].as_str().unwrap().contains("security.allowed_hosts"), "{refused}");
}

#[tokio::test]
async fn concurrent_messages_are_each_sent_once() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    let mut ids = Vec::new();
    for number in 0..24 {
        ids.push(format!("<{}@example.org>", enqueue(&app, mail(&format!("m{number}"))).await));
    }
    match app.replica().await {
        Some(mut replica) => {
            tokio::join!(app.run_workers(), replica.run_workers());
            app.run_workers().await;
            replica.stop().await;
        }
        None => app.run_workers().await,
    }
    let mut received: Vec<String> = server.received().iter().map(|mail| mail.header("Message-ID").to_owned()).collect();
    received.sort();
    ids.sort();
    assert_eq!(received, ids);
    assert_eq!(total(&app, "sent").await, 24);
}

#[tokio::test]
async fn completed_messages_are_deleted_after_thirty_days() {
    let server = SmtpServer::plain().await;
    let app = TestApp::with_owner().await;
    use_server(&app, &server, json!({})).await;
    let id = enqueue(&app, mail("old").idempotency_key("k")).await;
    app.run_workers().await;
    app.clock.advance(Duration::from_secs(29 * 24 * 3600));
    app.run_workers().await;
    get_notification(&app, &id).await;
    app.clock.advance(Duration::from_secs(2 * 24 * 3600));
    app.run_workers().await;
    app.get(&format!("/api/notifications/{id}")).send().await.expect_error(404, "not_found");
    assert_ne!(enqueue(&app, mail("new").idempotency_key("k")).await, id);
}

/// A restored backup may contain invalid items; each queue tries them once.
#[tokio::test]
async fn unreadable_queue_item_is_dead_lettered() {
    let app = TestApp::with_owner().await;
    let db = app.running().context().db.clone();
    let queues = ["notify", "channels", "webhooks", "evolution"];
    let enqueue = async move |tx: &mut Tx| {
        for queue in queues {
            let (payload, run_at) = (json!({"nothing": "of it"}), tx.clock().now());
            let queue = queue.to_owned();
            tx.enqueue(NewItem { queue, dedup_key: None, payload, run_at, max_attempts: 9 }).await?;
        }
        Ok::<_, StoreError>(())
    };
    db.write(enqueue).await.unwrap();
    app.run_workers().await;
    for queue in queues {
        let stats = db.read().await.unwrap().queue_stats(queue).await.unwrap();
        assert_eq!((stats.pending, stats.leased, stats.dead_letter), (0, 0, 1), "{queue}");
    }
}
