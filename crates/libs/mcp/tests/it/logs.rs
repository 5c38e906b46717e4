//! Server output must not appear in the log.

use std::io::Write;
use std::sync::Arc;

use agentd_base::Secret;
use agentd_mcp::{CallLimits, ConnectOptions};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tracing::Level;
use tracing::subscriber::DefaultGuard;

use crate::support::http::{HttpServer, accepted, event, events, full_response, status};
use crate::support::script::{connect, connected};
use crate::support::{initialized, text_result};

/// Marker text placed in every field that a server controls.
const MARKER: &str = "MARK-OF-THE-SERVER";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Captures the log of this thread at `level` and above; each test runs on its own thread.
fn listen(level: Level) -> (Log, DefaultGuard) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(move || writer.clone()).finish();
    (log, tracing::subscriber::set_default(subscriber))
}

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }
}

fn noise() -> Vec<Value> {
    vec![
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "error", "data": MARKER } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": MARKER, "progress": 1 } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": MARKER, "reason": MARKER } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": MARKER } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "notifications": {}, "_meta": { "io.modelcontextprotocol/subscriptionId": MARKER } } }),
        json!({ "jsonrpc": "2.0", "method": format!("notifications/{MARKER}"), "params": { "x": MARKER } }),
        json!({ "jsonrpc": "2.0", "id": MARKER, "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1, "systemPrompt": MARKER } }),
        json!({ "jsonrpc": "2.0", "id": MARKER, "result": { "x": MARKER } }),
        json!({ "jsonrpc": "2.0", "id": MARKER, "error": { "code": 1, "message": MARKER } }),
        json!({ "mark": MARKER }),
        json!(MARKER),
    ]
}

#[tokio::test]
async fn program_output_is_not_logged() {
    let (log, _guard) = listen(Level::WARN);
    tracing::warn!("the log is listened to");
    let (refused, played) = connect(ConnectOptions::default(), async |mut server| {
        let request = server.expect("initialize").await;
        for message in noise() {
            server.send(&message).await;
        }
        server.refuse(&request, -32_000, MARKER).await;
        while let Some(request) = server.next().await {
            server.answer(&request, json!({ "x": MARKER })).await;
        }
    })
    .await;
    assert!(refused.is_err());
    played.await.expect("the script");

    let (connection, _played) = connected(async |mut server| {
        server.stderr.write_all(MARKER.as_bytes()).await.expect("stderr");
        server.send_raw(format!("{MARKER}\n{{\"{MARKER}\n").as_bytes()).await;
        for message in noise() {
            server.send(&message).await;
        }
        let mut answers = 0;
        while let Some(request) = server.next().await {
            match (request["method"].as_str(), answers) {
                (Some("tools/call"), 0) => server.refuse(&request, -32_000, MARKER).await,
                (Some("tools/call"), 1) => server.answer(&request, json!({ "x": MARKER })).await,
                (Some("tools/call"), _) => server.answer(&request, text_result(MARKER)).await,
                _ => continue,
            }
            answers += 1;
        }
    })
    .await;
    for _ in 0..3 {
        let _ = connection.call_tool("a", json!({ "x": 1 }), CallLimits::default()).await;
    }
    connection.close().await;
    let text = log.text();
    assert!(text.contains("the log is listened to"));
    assert!(!text.contains(MARKER), "{text}");
}

#[tokio::test]
async fn http_responses_and_requests_are_not_logged() {
    let (log, _guard) = listen(Level::WARN);
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let server = HttpServer::start(move |asked| {
        let noise: String = noise().iter().map(event).collect();
        let mut answer = match asked.method_name() {
            "server/discover" => full_response(400, "text/plain", MARKER),
            "initialize" => events(format!("{noise}{}", asked.result_event(initialized("2025-11-25")))),
            "tools/call" => match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => full_response(500, "text/plain", MARKER),
                1 => full_response(200, "application/json", format!("{{{MARKER}")),
                2 => full_response(200, "text/html", MARKER),
                3 => events(noise),
                4 => asked.result(json!({ "x": MARKER })),
                _ => events(format!("{noise}{}", asked.result_event(text_result("ok")))),
            },
            "GET" => full_response(500, "text/plain", MARKER),
            "DELETE" => status(500),
            _ => accepted(),
        };
        answer.headers_mut().insert("mcp-session-id", MARKER.parse().expect("a value"));
        answer
    })
    .await;
    let headers = [("Authorization".to_owned(), Secret::new("Bearer s3cret".to_owned()))];
    let connection = server.connect_with(ConnectOptions::default(), &headers).await.expect("a connection");
    for _ in 0..5 {
        connection.call_tool("a", json!({}), CallLimits::default()).await.expect_err("no output");
    }
    connection.call_tool("a", json!({}), CallLimits::default()).await.expect("an output");
    connection.close().await;
    let text = log.text();
    assert!(!text.contains(MARKER) && !text.contains("s3cret") && !text.contains("/mcp"), "{text}");
}
