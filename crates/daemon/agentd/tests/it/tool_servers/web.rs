//! Tool servers over HTTP.

use std::time::Duration;

use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use serde_json::{Value, json};

use super::{SERVERS, act, register, status, wait_for_status};
use crate::skills::{RecordedRequest, Server, app, call};
use crate::support::TestProcess;

/// A server of an earlier protocol version that answers each request separately.
fn answer(received: &RecordedRequest) -> Response {
    if received.headers.get("authorization").map(String::as_str) != Some("Bearer very-secret") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if received.method != "POST" {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let request: Value = serde_json::from_str(&received.body).unwrap_or_default();
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "web", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "shout", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "HELLO"}]}),
        "ping" => json!({}),
        method if method.starts_with("notifications/") => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            return axum::Json(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).into_response();
        }
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}

#[tokio::test]
async fn http_server_is_called_and_monitored() {
    let app = app().await;
    let server = Server::start(answer).await;
    let fields = json!({"name": "web", "transport": "http", "url": server.url("/mcp"), "headers": {"Authorization": "Bearer wrong"}});
    let id = register(&app, &fields).await;
    let found = act(&app, &id, "test").await;
    assert_eq!((&found["ok"], &found["code"]), (&json!(false), &json!("tool_server_unauthorized")));
    let change = json!({"headers": {"authorization": "Bearer very-secret"}});
    app.put(&format!("{SERVERS}/{id}")).json(&change).send().await.expect_status(200);
    assert_eq!(act(&app, &id, "connect").await["status"], "connected");
    assert_eq!(call(&app, "web_shout", json!({})).await.unwrap(), json!({"text": "HELLO"}));
    let state = status(&app, &id).await;
    assert_eq!((&state["process_id"], &state["sandbox"]), (&Value::Null, &Value::Null));
    // Without a connection the server is pinged at intervals.
    let pings = || server.requests().iter().filter(|received| received.body.contains("\"ping\"")).count();
    app.run_workers().await;
    // Connecting a connected server pings it immediately.
    let before = pings();
    app.clock.advance(Duration::from_secs(61));
    app.run_workers().await;
    wait_for_status(&app, &id, "asked", |_| pings() == before + 1).await;
}

#[tokio::test]
async fn link_local_addresses_are_not_reached() {
    let app = app().await;
    for (name, url) in [("a", "http://169.254.169.254/mcp"), ("b", "http://[fe80::1]/mcp")] {
        let id = register(&app, &json!({"name": name, "transport": "http", "url": url, "enabled": false})).await;
        let found = act(&app, &id, "test").await;
        assert_eq!(found["ok"], false, "{found}");
    }
}

#[tokio::test]
async fn redirecting_server_is_logged_with_its_id() {
    let process = TestProcess::with_owner().await;
    let server = Server::start(|_| Redirect::temporary("/elsewhere").into_response()).await;
    let fields = json!({"name": "moved", "transport": "http", "url": server.url("/mcp")});
    let registered = process.post(SERVERS).json(&fields).send().await.expect_status(201).json();
    let id = registered["id"].as_str().expect("an id");
    let answer = process.post(&format!("{SERVERS}/{id}/connect")).send().await;
    answer.expect_error(502, "tool_server_redirects");
    let log = process.log();
    let about: Vec<&str> = log.lines().filter(|line| line.contains("tool server unavailable")).collect();
    let has_details = |line: &&str| line.contains(id) && line.contains("tool_server_redirects");
    assert!(!about.is_empty() && about.iter().all(has_details), "{about:?}");
    assert!(!log.contains("worker quit"), "library messages are not logged");
}
