//! Pairing codes: creation, expiry, and protection against guessing.

use std::time::Duration;

use agentd_store::args;
use futures_util::future::join_all;
use serde_json::json;

use super::{Socket, behind_proxy, claim, create_code, listed_device, pair, rejection_status, try_code};
use crate::support::{TestApp, TestResponse};

async fn count(app: &TestApp, table: &str) -> u64 {
    let mut read = app.running().context().db.read().await.expect("a connection");
    let row = read.fetch_one(format!("SELECT COUNT(*) FROM {table}"), args![]).await.expect("a row");
    row.first().expect("a number")
}

/// Returns a code that differs from the given one.
fn other_than(code: &str) -> String {
    format!("{:06}", (code.parse::<u32>().expect("digits") + 1) % 1_000_000)
}

#[tokio::test]
async fn code_pairs_one_device() {
    let app = TestApp::with_owner().await;
    let made = app.post("/api/auth/device/code").send().await.expect_status(201).json();
    let code = made["code"].as_str().expect("a code");
    assert!(code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_digit()), "{code}");
    assert_eq!((&made["expires_in"], &made["expires_at"]), (&json!(300), &json!("2026-01-05T09:05:00.000Z")));
    let device = json!({"code": code, "name": "Ada's laptop", "platform": "linux", "metadata": {"arch": "x86_64"}});
    let paired = app.post("/api/auth/device/pair").anonymous().json(&device).send().await.expect_status(201).json();
    let token = paired["device_token"].as_str().expect("a token");
    assert!(token.starts_with("dev_") && token.len() == 68, "{token}");
    try_code(&app, code).await.expect_error(401, "wrong_code");
    let shown = listed_device(&app, paired["device_id"].as_str().expect("an id")).await;
    assert_eq!((&shown["name"], &shown["metadata"]), (&json!("Ada's laptop"), &json!({"arch": "x86_64"})));
    assert_eq!((&shown["connected"], &shown["last_seen"], &shown["tools"]), (&json!(false), &json!(null), &json!([])));
    assert_eq!(shown["tool_prefix"], "device_Ada-s-laptop_");
}

#[tokio::test]
async fn devices_with_the_same_name_get_distinct_tool_prefixes() {
    let app = TestApp::with_owner().await;
    let (first, second) = (pair(&app, "laptop").await, pair(&app, "laptop").await);
    assert_eq!(listed_device(&app, &first.id).await["tool_prefix"], "device_laptop_");
    assert_eq!(listed_device(&app, &second.id).await["tool_prefix"], "device_laptop-2_");
}

#[tokio::test]
async fn code_expires_after_five_minutes() {
    let app = TestApp::with_owner().await;
    let (early, late) = (create_code(&app).await, create_code(&app).await);
    app.clock.advance(Duration::from_secs(299));
    try_code(&app, &early).await.expect_status(201);
    app.clock.advance(Duration::from_secs(1));
    try_code(&app, &late).await.expect_error(401, "wrong_code");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_several_concurrent_pairings_succeeds() {
    let app = TestApp::with_owner().await;
    let replica = app.replica().await;
    let code = create_code(&app).await;
    let sides = [Some(&app), replica.as_ref()];
    let tries = sides.into_iter().flatten().flat_map(|app| (0..8).map(|_| try_code(app, &code)).collect::<Vec<_>>());
    let answers: Vec<TestResponse> = join_all(tries).await;
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| [201, 401, 429].contains(status)), "{statuses:?}");
    assert_eq!(count(&app, "devices").await, 1);
}

#[tokio::test]
async fn pairing_is_blocked_for_a_minute_after_five_wrong_codes() {
    let app = TestApp::with_owner().await;
    let code = create_code(&app).await;
    for _ in 0..4 {
        try_code(&app, &other_than(&code)).await.expect_error(401, "wrong_code");
    }
    app.clock.advance(Duration::from_secs(20));
    // A malformed code counts as an attempt, too.
    try_code(&app, "not a code").await.expect_error(401, "wrong_code");
    for tried in [other_than(&code), code.clone()] {
        let refused = try_code(&app, &tried).await.expect_error(429, "too_many_attempts");
        assert_eq!(refused.header("retry-after"), Some("40"));
    }
    app.clock.advance(Duration::from_secs(39));
    try_code(&app, &code).await.expect_status(429);
    app.clock.advance(Duration::from_secs(1));
    try_code(&app, &code).await.expect_status(201);
}

#[tokio::test]
async fn ten_wrong_codes_from_any_address_invalidate_every_open_code() {
    let mut app = TestApp::start_with(behind_proxy).await;
    app.create_owner().await;
    let codes = [create_code(&app).await, create_code(&app).await];
    let wrong = (0..1_000_000u32).map(|code| format!("{code:06}")).find(|code| !codes.contains(code)).expect("a code");
    let from = async |address: &str, code: &str| {
        let request = app.post("/api/auth/device/pair").anonymous().header("x-forwarded-for", address);
        request.json(&claim(code, "laptop")).send().await.status.as_u16()
    };
    for (address, tries) in [("192.0.2.1", 4), ("192.0.2.2", 4), ("192.0.2.3", 1)] {
        for _ in 0..tries {
            assert_eq!(from(address, &wrong).await, 401);
        }
    }
    assert_eq!(from("192.0.2.4", &codes[0]).await, 201, "nine wrong codes do not invalidate the others");
    assert_eq!(from("192.0.2.3", &wrong).await, 401);
    assert_eq!(from("192.0.2.4", &codes[1]).await, 401);
    let fresh = create_code(&app).await;
    assert_eq!(from("192.0.2.4", &fresh).await, 201);
}

#[tokio::test]
async fn sixth_code_invalidates_the_oldest() {
    let app = TestApp::with_owner().await;
    let mut codes = Vec::new();
    for _ in 0..6 {
        codes.push(create_code(&app).await);
        app.clock.advance(Duration::from_secs(1));
    }
    try_code(&app, &codes[0]).await.expect_status(401);
    try_code(&app, &codes[1]).await.expect_status(201);
    try_code(&app, &codes[5]).await.expect_status(201);
}

#[tokio::test]
async fn repeated_request_creates_no_second_device() {
    let app = TestApp::with_owner().await;
    let code = create_code(&app).await;
    let send = async |body| {
        let request = app.post("/api/auth/device/pair").anonymous().header("idempotency-key", "once");
        request.json(&body).send().await
    };
    let first = send(claim(&code, "laptop")).await.expect_status(201).json();
    let again = send(claim(&code, "laptop")).await.expect_error(409, "already_done");
    let id = first["device_id"].as_str().expect("an id");
    assert!(again.text().contains(id) && !again.text().contains("dev_token"), "{}", again.text());
    send(claim(&code, "tablet")).await.expect_error(409, "idempotency_key_reused");
    assert_eq!(count(&app, "devices").await, 1);

    let code = || app.post("/api/auth/device/code").header("idempotency-key", "code").send();
    let made = code().await.expect_status(201).json();
    let again = code().await.expect_error(409, "already_done");
    assert!(!again.text().contains(made["code"].as_str().expect("a code")));
    assert_eq!(count(&app, "device_pairing_codes").await, 1);
}

#[tokio::test]
async fn every_invalid_field_is_reported() {
    let app = TestApp::with_owner().await;
    let code = create_code(&app).await;
    let send = async |body| app.post("/api/auth/device/pair").anonymous().json(&body).send().await.expect_status(400);
    assert_eq!(send(json!({"name": "", "metadata": []})).await.bad_fields(), ["code", "platform", "metadata", "name"]);
    let blank = json!({"code": code, "name": " ", "platform": "a\nb", "metadata": {"x": "y".repeat(5000)}});
    assert_eq!(send(blank).await.bad_fields(), ["name", "platform", "metadata"]);
    // Invalid requests do not count as attempts.
    try_code(&app, &code).await.expect_status(201);
}

#[tokio::test]
async fn device_tokens_and_api_keys_are_not_interchangeable() {
    let app = TestApp::with_owner().await;
    let device = pair(&app, "laptop").await;
    let key = app.key.clone().expect("a key");
    for path in ["/api/devices", "/api/agents"] {
        app.get(path).bearer(&device.token).send().await.expect_error(401, "invalid_credential");
        app.get(&format!("{path}?token={}", device.token)).anonymous().send().await.expect_status(401);
    }
    assert_eq!(rejection_status(Socket::try_open(&app, &key).await), 401);
    assert_eq!(rejection_status(Socket::try_open(&app, "").await), 401);
    assert_eq!(rejection_status(Socket::try_open(&app, &format!("dev_{}", "0".repeat(64))).await), 401);
    // The owner's key does not open the socket, alone or with a token.
    app.get("/api/devices/ws").send().await.expect_error(401, "missing_credential");
    let plain = app.get(&format!("/api/devices/ws?token={}", device.token)).send().await;
    plain.expect_error(400, "not_a_websocket");
}

#[tokio::test]
async fn expired_codes_and_failures_are_purged() {
    let app = TestApp::with_owner().await;
    let code = create_code(&app).await;
    try_code(&app, &other_than(&code)).await.expect_status(401);
    app.run_workers().await;
    assert_eq!((count(&app, "device_pairing_codes").await, count(&app, "device_pairing_failures").await), (1, 1));
    app.clock.advance(Duration::from_secs(60));
    app.run_workers().await;
    assert_eq!((count(&app, "device_pairing_codes").await, count(&app, "device_pairing_failures").await), (1, 0));
    app.clock.advance(Duration::from_secs(240));
    app.run_workers().await;
    assert_eq!(count(&app, "device_pairing_codes").await, 0);
}
