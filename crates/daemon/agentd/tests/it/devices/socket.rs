//! The device socket: one per device, closed with a reason, and its limits.

use std::sync::LazyLock;

use axum::body::{Body, to_bytes};
use futures_util::SinkExt;
use http::Request;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tower::ServiceExt;

use super::{Socket, listed_device, pair, rejection_status, wait_for_listed};
use crate::support::TestApp;

#[tokio::test]
async fn connected_device_is_listed_with_its_tools() {
    let app = TestApp::with_owner().await;
    let device = pair(&app, "laptop").await;
    let mut socket = Socket::open(&app, &device).await;
    socket.register(&["echo", "look"]).await;
    let listed = wait_for_listed(&app, &device.id, |device| device["tools"] != json!([])).await;
    assert_eq!((&listed["connected"], &listed["last_seen"]), (&json!(true), &json!("2026-01-05T09:00:00.000Z")));
    let names: Vec<&str> =
        listed["tools"].as_array().expect("tools").iter().filter_map(|t| t["name"].as_str()).collect();
    assert_eq!(names, ["device_laptop_echo", "device_laptop_look"]);
    let metrics = app.get("/api/metrics/prometheus").send().await.text();
    assert!(metrics.contains("svc_devices_connected 1"), "{metrics}");
    socket.register(&["look"]).await;
    wait_for_listed(&app, &device.id, |device| device["tools"].as_array().is_some_and(|tools| tools.len() == 1)).await;
    drop(socket);
    wait_for_listed(&app, &device.id, |device| device["connected"] == false && device["tools"] == json!([])).await;
}

#[tokio::test]
async fn new_connection_replaces_the_previous_one() {
    let app = TestApp::with_owner().await;
    let device = pair(&app, "laptop").await;
    let mut first = Socket::open(&app, &device).await;
    first.register(&["echo"]).await;
    wait_for_listed(&app, &device.id, |device| device["tools"] != json!([])).await;
    let mut second = Socket::open(&app, &device).await;
    assert_eq!(first.close_frame().await.code, CloseCode::Library(4001));
    assert_eq!(listed_device(&app, &device.id).await["tools"], json!([]));
    second.register(&["look"]).await;
    wait_for_listed(&app, &device.id, |device| device["tools"][0]["name"] == "device_laptop_look").await;
    // This also applies if the new connection reaches another daemon.
    if let Some(replica) = app.replica().await {
        let _third = Socket::open(&replica, &device).await;
        assert_eq!(second.close_frame().await.code, CloseCode::Library(4001));
        wait_for_listed(&app, &device.id, |device| device["connected"] == true && device["tools"] == json!([])).await;
    }
}

#[tokio::test]
async fn removed_device_is_disconnected_immediately() {
    let app = TestApp::with_owner().await;
    let device = pair(&app, "laptop").await;
    let mut socket = Socket::open(&app, &device).await;
    let path = format!("/api/devices/{}", device.id);
    let removed = app.delete(&path).send().await.expect_status(200).json();
    assert_eq!(removed, json!({"revoked": true}));
    let metrics = app.get("/api/metrics/prometheus").send().await.text();
    assert!(metrics.contains("svc_devices_connected 0"), "the socket is closed before the response");
    assert_eq!(socket.close_frame().await.code, CloseCode::Library(4003));
    assert_eq!(rejection_status(Socket::try_open(&app, &device.token).await), 401);
    app.delete(&path).send().await.expect_error(404, "not_found");
    if let Some(replica) = app.replica().await {
        let device = pair(&app, "laptop").await;
        let mut socket = Socket::open(&replica, &device).await;
        app.delete(&format!("/api/devices/{}", device.id)).send().await.expect_status(200);
        assert_eq!(socket.close_frame().await.code, CloseCode::Library(4003));
    }
}

#[tokio::test]
async fn malformed_frames_are_reported_until_the_limit() {
    let app = TestApp::with_owner().await;
    let device = pair(&app, "laptop").await;
    let mut socket = Socket::open(&app, &device).await;
    for text in ["{", "[]", r#"{"type": "dance", "id": "d"}"#, r#"{"type": "chat"}"#] {
        socket.send_text(text).await;
        let answer = socket.next().await;
        assert_eq!((&answer["type"], &answer["code"]), (&json!("error"), &json!("malformed_frame")), "{text}");
        assert_eq!(answer["id"].as_str(), text.contains("dance").then_some("d"));
    }
    // A valid frame in between resets the count.
    socket.register(&["echo"]).await;
    socket.0.send(Message::binary(vec![0; 16])).await.expect("the frame is sent");
    for _ in 0..4 {
        socket.send_text("no").await;
    }
    let closed = socket.close_frame().await;
    assert_eq!((closed.code, closed.reason.as_str()), (CloseCode::Policy, "too many malformed frames"));
    // The device can reconnect.
    Socket::open(&app, &device).await;
}

#[tokio::test]
async fn oversized_frame_closes_the_connection() {
    let app = TestApp::with_owner().await;
    let device = pair(&app, "laptop").await;
    let mut socket = Socket::open(&app, &device).await;
    // The daemon may close the connection while the frame is sent.
    let _ = socket.0.send(Message::text("x".repeat((1 << 20) + 1))).await;
    assert_eq!(socket.close_frame().await.code, CloseCode::Size);
}

#[tokio::test]
async fn protocol_violations_close_the_connection_with_specific_codes() {
    let app = TestApp::with_owner().await;
    let device = pair(&app, "laptop").await;
    let unmasked: &[u8] = &[0x81, 0x02, b'h', b'i'];
    let no_utf8: &[u8] = &[0x81, 0x81, 0, 0, 0, 0, 0xff];
    for (bytes, code) in [(unmasked, CloseCode::Protocol), (no_utf8, CloseCode::Invalid)] {
        let mut socket = Socket::open(&app, &device).await;
        socket.0.get_mut().write_all(bytes).await.expect("sent");
        assert_eq!(socket.close_frame().await.code, code);
    }
}

#[tokio::test]
async fn invalid_tools_are_rejected_as_a_whole() {
    let app = TestApp::with_owner().await;
    let device = pair(&app, "laptop").await;
    let mut socket = Socket::open(&app, &device).await;
    socket.register(&["echo"]).await;
    let schema = json!({"type": "object"});
    let tool =
        |name: &str, schema: &serde_json::Value| json!({"name": name, "description": "", "input_schema": schema});
    let bad = [
        (vec![tool("a b", &schema)], "`a b`"),
        (vec![tool(&"x".repeat(33), &schema)], "not a valid tool name"),
        (vec![tool("a", &schema), tool("a", &schema)], "twice"),
        (vec![tool("good", &schema), tool("bad", &json!({"type": "string"}))], "`bad`"),
    ];
    for (tools, part) in bad {
        socket.send(&json!({"type": "register_tools", "id": "r", "tools": tools})).await;
        let answer = socket.next().await;
        assert_eq!((&answer["code"], &answer["id"]), (&json!("invalid_tools"), &json!("r")));
        assert!(answer["message"].as_str().is_some_and(|message| message.contains(part)), "{answer}");
    }
    assert_eq!(listed_device(&app, &device.id).await["tools"][0]["name"], "device_laptop_echo");
    let many = json!({"type": "register_tools", "tools": vec![tool("a", &schema); 65]});
    socket.send(&many).await;
    // The fifth invalid frame in a row.
    assert_eq!(socket.close_frame().await.code, CloseCode::Policy);
}

#[tokio::test]
async fn flood_of_frames_slows_only_its_own_connection() {
    let app = TestApp::with_owner().await;
    let (flooding, calm) = (pair(&app, "flooding").await, pair(&app, "calm").await);
    let mut flood = Socket::open(&app, &flooding).await;
    let mut other = Socket::open(&app, &calm).await;
    let unknown_result = json!({"type": "tool_result", "id": "unknown call", "output": "x".repeat(1000)});
    for _ in 0..400 {
        flood.send(&unknown_result).await;
    }
    flood.send(&json!({"type": "chat", "id": "last", "agent_id": "unknown", "content": "hello"})).await;
    // Before the flood has been read.
    other.register(&["echo"]).await;
    wait_for_listed(&app, &calm.id, |device| device["tools"] != json!([])).await;
    let last = flood.next().await;
    assert_eq!((&last["id"], &last["type"]), (&json!("last"), &json!("error")));
}

#[tokio::test]
async fn restore_closes_sockets_and_devices_can_reconnect() {
    let app = TestApp::with_owner().await;
    let device = pair(&app, "laptop").await;
    let router = LazyLock::force(&app.running().daemon.local_router).clone();
    let post = |path: &str, body: Body| {
        let request = Request::post(path).header("host", "localhost").body(body).expect("a request");
        router.clone().oneshot(request)
    };
    let backup = post("/local/backup", Body::empty()).await.expect("an answer");
    let archive = to_bytes(backup.into_body(), usize::MAX).await.expect("the archive");
    let mut socket = Socket::open(&app, &device).await;
    let (closed, restored) = tokio::join!(socket.close_frame(), post("/local/restore", Body::from(archive)));
    assert_eq!((closed.code, restored.expect("an answer").status().as_u16()), (CloseCode::Restart, 200));
    // The device was paired before the backup and remains paired.
    Socket::open(&app, &device).await;
}

#[tokio::test]
async fn shutdown_is_announced_to_devices() {
    let mut app = TestApp::with_owner().await;
    let device = pair(&app, "laptop").await;
    let mut socket = Socket::open(&app, &device).await;
    let (closed, ()) = tokio::join!(socket.close_frame(), app.stop());
    assert_eq!((closed.code, closed.reason.as_str()), (CloseCode::Away, "the daemon is shutting down"));
    app.try_start().await.expect("the daemon restarts");
    assert_eq!(listed_device(&app, &device.id).await["connected"], false);
    Socket::open(&app, &device).await;
}
