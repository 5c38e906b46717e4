//! Authentication, storage, and deduplication of requests.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Sender, ci, events, metric};
use crate::support::TestApp;

const JSON: &str = "application/json";

#[tokio::test]
async fn signed_request_creates_a_delivery_and_an_event() {
    let app = TestApp::with_owner().await;
    let ci = Sender::create(&app, ci()).await;
    let body = json!({"ref": "main", "commits": [{"id": 1}], "text": "a\u{0}b"});
    let request = ci
        .signed(&app, "application/json; charset=utf-8", body.to_string().as_bytes())
        .header("x-github-event", "push")
        .header("authorization", "Basic c2VjcmV0")
        .header("cookie", "a=b")
        .header("x-api-key", "k");
    let id = request.send().await.expect_status(202).json()["delivery_id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("wdl_"));
    let delivery = ci.delivery(&app, &id).await;
    assert_eq!((&delivery["status"], &delivery["is_replay"]), (&json!("received"), &json!(false)));
    assert_eq!((&delivery["body_format"], &delivery["body"]), (&json!("json"), &body));
    assert_eq!(delivery["headers"]["x-github-event"], "push");
    assert_eq!(delivery["completed_at"], delivery["created_at"]);
    let shown = delivery.to_string().to_ascii_lowercase();
    for credential in ["authorization", "cookie", "x-api-key", "signature", "c2vjcmv0"] {
        assert!(!shown.contains(credential), "{credential} in {shown}");
    }
    let expected = json!({
        "webhook_id": ci.id, "webhook_name": "ci", "delivery_id": id, "is_replay": false, "headers": delivery["headers"],
        "body": body, "body_format": "json", "is_body_omitted": false,
    });
    assert_eq!(events(&app).await, [expected]);
    let list = ci.deliveries(&app, "").await;
    assert_eq!((&list["total"], &list["deliveries"][0]["id"]), (&json!(1), &json!(id)));
    assert!(list["deliveries"][0].get("body").is_none());
    assert_eq!(metric(&app, r#"svc_webhook_requests_total{outcome="accepted"}"#).await, 1.0);
}

#[tokio::test]
async fn request_without_a_valid_signature_is_rejected() {
    let app = TestApp::with_owner().await;
    let ci = Sender::create(&app, ci()).await;
    let body = br#"{"a": 1}"#;
    let right = ci.signature(body);
    let hex = right.strip_prefix("sha256=").unwrap();
    for wrong in [
        "".to_owned(),
        "sha256=".to_owned(),
        hex.to_owned(),
        right[..right.len() - 1].to_owned(),
        format!("{right}00"),
        format!("sha256={}", hex.to_uppercase()),
        format!("SHA256={hex}"),
        format!("sha1={}", &hex[..40]),
        format!("sha512={hex}{hex}"),
        format!("sha256={}", "g".repeat(64)),
        format!("sha256={}", "0".repeat(64)),
        format!("sha256={}", "0".repeat(100_000 / 16)),
        format!("{right},{right}"),
        ci.signature(b"{}"),
    ] {
        let refused = ci.bare(&app, JSON, body).header("x-svc-signature", &wrong).send().await;
        refused.expect_error(401, "invalid_signature");
    }
    ci.bare(&app, JSON, body).send().await.expect_error(401, "missing_signature");
    // The API key of the owner does not replace the signature.
    let with_key = app.post(&format!("{}/receive", ci.path())).body(JSON, body.to_vec()).send().await;
    with_key.expect_error(401, "missing_signature");
    let stranger = Sender { id: "whk_unknown".to_owned(), secret: ci.secret.clone() };
    stranger.signed(&app, JSON, body).send().await.expect_error(404, "webhook_not_found");
    assert_eq!(ci.deliveries(&app, "").await["total"], 0);
    assert_eq!(events(&app).await, [] as [Value; 0]);
    assert_eq!(metric(&app, r#"svc_webhook_requests_total{outcome="unsigned"}"#).await, 16.0);
    ci.bare(&app, JSON, body).header("x-svc-signature", &right).send().await.expect_status(202);
}

#[tokio::test]
async fn standard_webhooks_signatures_are_accepted_within_five_minutes() {
    let app = TestApp::with_owner().await;
    let ci = Sender::create(&app, ci()).await;
    let body = b"{}";
    let now = app.clock.clock().now().to_jiff().as_second();
    let request = |id: &str, time: i64, signature: &str| {
        ci.bare(&app, JSON, body)
            .header("webhook-id", id)
            .header("webhook-timestamp", &time.to_string())
            .header("webhook-signature", signature)
            .send()
    };
    let first = request("msg_1", now, &ci.standard_signature("msg_1", now, body)).await.expect_status(202).json();
    let old = now - 300;
    request("msg_2", old, &ci.standard_signature("msg_2", old, body)).await.expect_status(202);
    for time in [now - 301, now + 301, 0] {
        request("msg_3", time, &ci.standard_signature("msg_3", time, body)).await.expect_error(401, "stale_signature");
    }
    request("msg_3", now, &ci.standard_signature("msg_4", now, body)).await.expect_error(401, "invalid_signature");
    request("msg_3", now, "v1,AAAA").await.expect_error(401, "invalid_signature");
    request("msg_3", now, "").await.expect_error(401, "invalid_signature");
    // A replayed request returns the same delivery, and is rejected later.
    let captured = ci.standard_signature("msg_1", now, body);
    assert_eq!(request("msg_1", now, &captured).await.expect_status(202).json(), first);
    app.clock.advance(Duration::from_secs(301));
    request("msg_1", now, &captured).await.expect_error(401, "stale_signature");
    assert_eq!(events(&app).await.len(), 2);
    // If both signatures are present, both must be valid.
    let time = now + 301;
    let both = ci
        .bare(&app, JSON, body)
        .header("webhook-id", "msg_5")
        .header("webhook-timestamp", &time.to_string())
        .header("webhook-signature", &ci.standard_signature("msg_5", time, body))
        .header("x-svc-signature", &ci.signature(b"other"));
    both.send().await.expect_error(401, "invalid_signature");
}

#[tokio::test]
async fn missing_or_invalid_standard_webhooks_header_is_named() {
    let app = TestApp::with_owner().await;
    let ci = Sender::create(&app, ci()).await;
    let now = app.clock.clock().now().to_jiff().as_second().to_string();
    for (headers, expected) in [
        (vec![("webhook-timestamp", &*now)], "`webhook-id` is missing"),
        (vec![("webhook-id", "msg_1")], "`webhook-timestamp` is missing"),
        (vec![("webhook-id", "msg_1"), ("webhook-timestamp", "abc")], "`webhook-timestamp` is not valid"),
    ] {
        let mut request = ci.bare(&app, JSON, b"{}").header("webhook-signature", "v1,AAAA");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let refused = request.send().await.expect_error(401, "invalid_signature").json();
        assert!(refused["error"].as_str().unwrap().contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn same_message_within_a_day_is_one_delivery() {
    let app = TestApp::with_owner().await;
    let (ci, other) = (Sender::create(&app, ci()).await, Sender::create(&app, ci()).await);
    let send = async |sender: &Sender, header: &str, id: &str| {
        let answer = sender.signed(&app, JSON, b"{}").header(header, id).send().await.expect_status(202);
        answer.json()["delivery_id"].clone()
    };
    for header in ["webhook-id", "x-svc-delivery", "x-github-delivery", "x-gitlab-event-uuid", "idempotency-key"] {
        let first = send(&ci, header, header).await;
        assert_eq!(send(&ci, header, header).await, first, "{header}");
        assert_ne!(send(&other, header, header).await, first, "message ids are unique per webhook");
        assert_ne!(send(&ci, header, "another").await, first, "{header}");
        app.clock.advance(Duration::from_secs(24 * 3600 - 1));
        assert_eq!(send(&ci, header, header).await, first, "{header}");
        app.clock.advance(Duration::from_secs(1));
        assert_ne!(send(&ci, header, header).await, first, "a repeat after one day is a new delivery");
        app.clock.advance(Duration::from_secs(25 * 3600));
    }
    assert_eq!(events(&app).await.len(), 5 * 4);
    // Requests without a message id are never duplicates.
    let bodies = [ci.send(&app, &json!({})).await, ci.send(&app, &json!({})).await];
    assert_ne!(bodies[0], bodies[1]);
    for (header, id) in [("webhook-id", "x".repeat(256)), ("x-svc-delivery", " ".to_owned())] {
        let refused = ci.signed(&app, JSON, b"{}").header(header, &id).send().await;
        assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), [header]);
    }
    app.run_workers().await;
    assert_eq!(metric(&app, r#"svc_webhook_requests_total{outcome="repeated"}"#).await, 10.0);
}

#[tokio::test]
async fn idempotency_key_is_bound_to_one_body() {
    let app = TestApp::with_owner().await;
    let ci = Sender::create(&app, ci()).await;
    let send =
        |header: &'static str, body: &'static str| ci.signed(&app, JSON, body.as_bytes()).header(header, "one").send();
    let first = send("idempotency-key", "{}").await.expect_status(202).json();
    send("idempotency-key", r#"{"a": 1}"#).await.expect_error(409, "idempotency_key_reused");
    assert_eq!(send("idempotency-key", "{}").await.expect_status(202).json(), first);
    // Equal ids in different headers are different messages.
    let other = send("x-github-delivery", r#"{"a": 1}"#).await.expect_status(202).json();
    assert_ne!(other, first);
    let shown = ci.delivery(&app, other["delivery_id"].as_str().unwrap()).await;
    assert_eq!((&shown["message_id"], &shown["body"]), (&json!("one"), &json!({"a": 1})));
    assert_eq!(events(&app).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_duplicates_create_one_delivery() {
    let app = TestApp::with_owner().await;
    let ci = Sender::create(&app, ci()).await;
    let replica = app.replica().await;
    let sends = (0..16).map(|number| {
        let to = replica.as_ref().filter(|_| number % 2 == 1).unwrap_or(&app);
        let request = ci.signed(to, JSON, b"{}").header("webhook-id", "msg_1");
        async move { request.send().await.expect_status(202).json()["delivery_id"].as_str().unwrap().to_owned() }
    });
    let mut ids = futures_util::future::join_all(sends).await;
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(ci.deliveries(&app, "").await["total"], 1);
    assert_eq!(events(&app).await.len(), 1);
}

#[tokio::test]
async fn body_can_have_any_format() {
    let app = TestApp::with_owner().await;
    let ci = Sender::create(&app, ci()).await;
    for (content_type, body, format, shown) in [
        (JSON, b"".as_slice(), "text", json!("")),
        (JSON, b"{\"a\":", "text", json!("{\"a\":")),
        (JSON, b"\"x\"", "json", json!("x")),
        ("text/plain", b"{\"a\": 1}", "json", json!({"a": 1})),
        ("text/plain; charset=utf-8", "gr\u{fc}\u{df}e\0".as_bytes(), "text", json!("gr\u{fc}\u{df}e\u{0}")),
        ("application/x-www-form-urlencoded", b"a=1&b=2", "text", json!("a=1&b=2")),
        ("image/png", b"\x89PNG\0\xff", "base64", json!("iVBORwD/")),
        ("nonsense", b"\xff\xfe", "base64", json!("//4=")),
    ] {
        let answer = ci.signed(&app, content_type, body).send().await.expect_status(202).json();
        let delivery = ci.delivery(&app, answer["delivery_id"].as_str().unwrap()).await;
        assert_eq!((&delivery["body_format"], &delivery["body"]), (&json!(format), &shown), "{content_type}");
        assert_eq!(delivery["body_bytes"], body.len());
    }
    assert_eq!(events(&app).await.len(), 8);
}

#[tokio::test]
async fn body_size_is_limited() {
    let app = TestApp::with_owner().await;
    let ci = Sender::create(&app, ci()).await;
    let largest = vec![b'x'; 2 * 1024 * 1024];
    let answer = ci.signed(&app, "text/plain", &largest).send().await.expect_status(202).json();
    let delivery = ci.delivery(&app, answer["delivery_id"].as_str().unwrap()).await;
    assert_eq!(delivery["body"].as_str().map(str::len), Some(largest.len()));
    // Large bodies are omitted from the event.
    let event = &events(&app).await[0];
    assert_eq!((&event["body"], &event["is_body_omitted"]), (&Value::Null, &json!(true)));
    let too_large = vec![b'x'; 3 * 1024 * 1024];
    ci.signed(&app, "text/plain", &too_large).send().await.expect_error(413, "body_too_large");
    // The limit also applies without a content length.
    let pieces: Vec<_> = too_large.chunks(64 * 1024).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
    let pieces = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
    let request = app.post(&format!("{}/receive", ci.path())).anonymous().body("text/plain", pieces);
    let refused = request.header("x-svc-signature", &ci.signature(&too_large)).send().await;
    refused.expect_error(413, "body_too_large");
    assert_eq!(events(&app).await.len(), 1);
}

#[tokio::test]
async fn disabled_webhook_accepts_nothing() {
    let app = TestApp::with_owner().await;
    let ci = Sender::create(&app, json!({"name": "ci", "enabled": false})).await;
    ci.signed(&app, JSON, b"{}").send().await.expect_error(409, "webhook_disabled");
    // Unsigned requests do not reveal the state.
    ci.bare(&app, JSON, b"{}").send().await.expect_error(401, "missing_signature");
    app.put(&ci.path()).json(&json!({"enabled": true})).send().await.expect_status(200);
    ci.signed(&app, JSON, b"{}").send().await.expect_status(202);
}

#[tokio::test]
async fn delivery_is_replayed_unchanged() {
    let app = TestApp::with_owner().await;
    let (ci, other) = (Sender::create(&app, ci()).await, Sender::create(&app, ci()).await);
    let body = b"\xff raw";
    let request = ci.signed(&app, "application/octet-stream", body).header("webhook-id", "msg_1");
    let first = request.send().await.expect_status(202).json()["delivery_id"].as_str().unwrap().to_owned();
    let path = format!("{}/deliveries/{first}/replay", ci.path());
    let replay = || app.post(&path).header("idempotency-key", "once").send();
    let again = replay().await.expect_status(202).json()["delivery_id"].as_str().unwrap().to_owned();
    assert_ne!(again, first);
    assert_eq!(replay().await.expect_status(202).json()["delivery_id"], again, "one replay");
    let (original, replayed) = (ci.delivery(&app, &first).await, ci.delivery(&app, &again).await);
    assert_eq!((&replayed["is_replay"], &replayed["replay_of"]), (&json!(true), &json!(first)));
    for field in ["headers", "body", "body_format", "message_id", "body_bytes"] {
        assert_eq!(replayed[field], original[field], "{field}");
    }
    assert_ne!(replayed["event_id"], original["event_id"]);
    let published = events(&app).await;
    assert_eq!(
        (published.len(), &published[1]["is_replay"], &published[1]["body"]),
        (2, &json!(true), &published[0]["body"])
    );
    let list = ci.deliveries(&app, "?limit=1").await;
    assert_eq!((&list["total"], &list["deliveries"][0]["id"]), (&json!(2), &json!(again)), "newest first");
    assert_eq!(ci.deliveries(&app, "?status=pending").await["total"], 0);
    assert_eq!(ci.deliveries(&app, "?status=received&offset=1").await["deliveries"][0]["id"], first);
    app.get(&format!("{}/deliveries?status=lost", ci.path())).send().await.expect_status(400);
    app.get(&format!("{}/deliveries?limit=201", ci.path())).send().await.expect_status(400);
    for path in [format!("{}/deliveries/{first}", other.path()), format!("{}/deliveries/wdl_unknown", ci.path())] {
        app.get(&path).send().await.expect_error(404, "delivery_not_found");
        app.post(&format!("{path}/replay")).send().await.expect_error(404, "delivery_not_found");
    }
    app.put(&ci.path()).json(&json!({"enabled": false})).send().await.expect_status(200);
    app.post(&path).send().await.expect_error(409, "webhook_disabled");
}
