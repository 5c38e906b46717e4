//! What a server writes stays out of the log.

use std::io::Write;
use std::sync::Arc;

use agentd_base::Secret;
use agentd_mcp::{CallLimits, ConnectOptions};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tracing::Level;
use tracing::subscriber::DefaultGuard;

use crate::support::http::{HttpServer, accepted, event, events, status, whole};
use crate::support::script::{connect, connected};
use crate::support::{initialized, text_result};

/// It stands wherever a server can put anything.
const MARK: &str = "MARK-OF-THE-SERVER";

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

/// Keeps what this thread logs at `level` and above; tests run on one thread each.
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
        json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "error", "data": MARK } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": MARK, "progress": 1 } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": MARK, "reason": MARK } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": MARK } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "notifications": {}, "_meta": { "io.modelcontextprotocol/subscriptionId": MARK } } }),
        json!({ "jsonrpc": "2.0", "method": format!("notifications/{MARK}"), "params": { "x": MARK } }),
        json!({ "jsonrpc": "2.0", "id": MARK, "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1, "systemPrompt": MARK } }),
        json!({ "jsonrpc": "2.0", "id": MARK, "result": { "x": MARK } }),
        json!({ "jsonrpc": "2.0", "id": MARK, "error": { "code": 1, "message": MARK } }),
        json!({ "mark": MARK }),
        json!(MARK),
    ]
}

#[tokio::test]
async fn nothing_that_a_program_writes_is_logged() {
    let (log, _guard) = listen(Level::WARN);
    tracing::warn!("the log is listened to");
    let (refused, played) = connect(ConnectOptions::default(), async |mut server| {
        let request = server.expect("initialize").await;
        for message in noise() {
            server.send(&message).await;
        }
        server.refuse(&request, -32_000, MARK).await;
        while let Some(request) = server.next().await {
            server.answer(&request, json!({ "x": MARK })).await;
        }
    })
    .await;
    assert!(refused.is_err());
    played.await.expect("the script");

    let (connection, _played) = connected(async |mut server| {
        server.stderr.write_all(MARK.as_bytes()).await.expect("stderr");
        server.send_raw(format!("{MARK}\n{{\"{MARK}\n").as_bytes()).await;
        for message in noise() {
            server.send(&message).await;
        }
        let mut answers = 0;
        while let Some(request) = server.next().await {
            match (request["method"].as_str(), answers) {
                (Some("tools/call"), 0) => server.refuse(&request, -32_000, MARK).await,
                (Some("tools/call"), 1) => server.answer(&request, json!({ "x": MARK })).await,
                (Some("tools/call"), _) => server.answer(&request, text_result(MARK)).await,
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
    assert!(!text.contains(MARK), "{text}");
}

#[tokio::test]
async fn nothing_that_a_server_answers_over_http_is_logged_nor_what_it_is_told() {
    let (log, _guard) = listen(Level::WARN);
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let server = HttpServer::start(move |asked| {
        let noise: String = noise().iter().map(event).collect();
        let mut answer = match asked.what() {
            "server/discover" => whole(400, "text/plain", MARK),
            "initialize" => events(format!("{noise}{}", asked.result_event(initialized("2025-11-25")))),
            "tools/call" => match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
                0 => whole(500, "text/plain", MARK),
                1 => whole(200, "application/json", format!("{{{MARK}")),
                2 => whole(200, "text/html", MARK),
                3 => events(noise),
                4 => asked.result(json!({ "x": MARK })),
                _ => events(format!("{noise}{}", asked.result_event(text_result("ok")))),
            },
            "GET" => whole(500, "text/plain", MARK),
            "DELETE" => status(500),
            _ => accepted(),
        };
        answer.headers_mut().insert("mcp-session-id", MARK.parse().expect("a value"));
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
    assert!(!text.contains(MARK) && !text.contains("s3cret") && !text.contains("/mcp"), "{text}");
}
