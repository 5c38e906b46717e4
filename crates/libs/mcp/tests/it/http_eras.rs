//! Streamable HTTP with servers of both protocol generations, with and without sessions and streams.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentd_base::Secret;
use agentd_mcp::{CallLimits, CloseReason, ConnectOptions, Connection, Lifecycle, McpError};
use serde_json::json;

use crate::support::http::{
    Answer, HttpServer, ReceivedRequest, accepted, client, event, events, full_response, json_answer, status, stream,
};
use crate::support::{discovered, initialized, text_result, tool};

/// Server of the older protocol without sessions, which responds with JSON.
fn plain(request: &ReceivedRequest) -> Answer {
    match request.method_name() {
        "initialize" => request.result(initialized("2025-06-18")),
        "tools/list" => request.result(json!({ "tools": [tool("a")] })),
        "tools/call" => request.result(text_result("done")),
        "ping" => request.result(json!({})),
        "server/discover" => json_answer(&json!({
            "jsonrpc": "2.0", "id": request.message["id"], "error": { "code": -32_601, "message": "Method not found" },
        })),
        "GET" | "DELETE" => status(405),
        _ => accepted(),
    }
}

#[tokio::test]
async fn server_without_sessions_responds_with_json() {
    let server = HttpServer::start(|request| plain(&request)).await;
    let connection = server.connect().await.expect("a connection");
    assert_eq!(connection.info().protocol_version, "2025-06-18");
    assert_eq!(connection.list_tools().await.expect("tools").tools[0].name, "a");
    let output = connection.call_tool("a", json!({}), CallLimits::default()).await.expect("an output");
    assert_eq!(output.text, "done");
    connection.ping(Duration::from_secs(30)).await.expect("a response to the ping");
    connection.close().await;
    assert_eq!(connection.closed().await, CloseReason::Requested);
    let requests = server.requests();
    let call = requests.iter().find(|request| request.method_name() == "tools/call").expect("the call");
    assert_eq!(call.header("mcp-protocol-version"), Some("2025-06-18"));
    assert_eq!(call.header("accept"), Some("application/json, text/event-stream"));
}

#[tokio::test]
async fn server_with_sessions_and_streams() {
    let (changes, open) = tokio::sync::oneshot::channel();
    let changes = parking_lot::Mutex::new(Some(changes));
    let server = HttpServer::start(move |request| {
        let mut answer = match request.method_name() {
            "GET" => {
                let (sender, answer) = stream();
                if let Some(changes) = changes.lock().take() {
                    changes.send(sender).expect("the test");
                }
                answer
            }
            "DELETE" => status(200),
            "server/discover" => full_response(400, "text/plain", "Bad Request: no valid session ID provided"),
            "initialize" => events(request.result_event(initialized("2025-11-25"))),
            "tools/call" => {
                let log = event(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } }));
                events(format!(": hello\n\n{log}{}", request.result_event(text_result("done"))))
            }
            _ => plain(&request),
        };
        answer.headers_mut().insert("mcp-session-id", "session-1".parse().expect("a value"));
        answer
    })
    .await;
    let headers = [("Authorization".to_owned(), Secret::new("Bearer s3cret".to_owned()))];
    let connection = server.connect_with(ConnectOptions::default(), &headers).await.expect("a connection");
    let mut tools_changes = connection.tools_changes();
    let output = connection.call_tool("a", json!({}), CallLimits::default()).await.expect("an output");
    assert_eq!(output.text, "done");
    let open = open.await.expect("the stream of the server's own messages");
    open.send(event(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }))).expect("the stream");
    tools_changes.changed().await.expect("a change");
    connection.close().await;
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.header("authorization") == Some("Bearer s3cret")));
    let after_handshake = requests.iter().skip_while(|request| request.method_name() != "notifications/initialized");
    assert!(after_handshake.clone().count() >= 4);
    assert!(after_handshake.clone().all(|request| request.header("mcp-session-id") == Some("session-1")));
    assert_eq!(requests.last().map(|request| request.method_name().to_owned()).as_deref(), Some("DELETE"));
}

#[tokio::test]
async fn server_of_the_newer_protocol() {
    let server = HttpServer::start(|request| match request.method_name() {
        "server/discover" => request.result(discovered()),
        "subscriptions/listen" => {
            let acknowledged = event(&json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                "params": { "_meta": { "io.modelcontextprotocol/subscriptionId": request.message["id"] },
                            "notifications": { "toolsListChanged": true } },
            }));
            let (sender, answer) = stream();
            sender.send(acknowledged).expect("a receiver");
            // Keeps the stream open.
            std::mem::forget(sender);
            answer
        }
        "initialize" => panic!("a server of the newer era was asked for the older handshake"),
        _ => plain(&request),
    })
    .await;
    let connection = server.connect().await.expect("a connection");
    assert_eq!(connection.info().protocol_version, "2026-07-28");
    assert_eq!(connection.info().name, "scripted");
    let output = connection.call_tool("a", json!({}), CallLimits::default()).await.expect("an output");
    assert_eq!(output.text, "done");
    connection.ping(Duration::from_secs(30)).await.expect("a response to the ping");
    connection.close().await;
    let requests = server.requests();
    let call = requests.iter().find(|request| request.method_name() == "tools/call").expect("the call");
    assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!((call.header("mcp-method"), call.header("mcp-name")), (Some("tools/call"), Some("a")));
}

#[tokio::test]
async fn older_servers_are_detected_by_any_refusal() {
    type Refusal = fn(&ReceivedRequest) -> Answer;
    let refusals: [Refusal; 8] = [
        |_| status(400),
        |_| full_response(404, "text/html", "<h1>Not Found</h1>"),
        |_| full_response(422, "application/json", "{\"detail\":[]}"),
        |_| full_response(500, "text/plain", "Internal Server Error"),
        |_| full_response(200, "text/html", "<h1>Welcome</h1>"),
        |_| accepted(),
        |_| {
            json_answer(
                &json!({ "jsonrpc": "2.0", "id": "server-error", "error": { "code": -32_600, "message": "Bad" } }),
            )
        },
        |_| {
            full_response(
                400,
                "application/json",
                json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32_000, "message": "Bad" } }).to_string(),
            )
        },
    ];
    for (number, refusal) in refusals.into_iter().enumerate() {
        let server = HttpServer::start(move |request| match request.method_name() {
            "server/discover" => refusal(&request),
            _ => plain(&request),
        })
        .await;
        let connection = server.connect().await.unwrap_or_else(|error| panic!("refusal {number}: {error:?}"));
        assert_eq!(connection.info().protocol_version, "2025-06-18");
        connection.close().await;
    }
}

#[tokio::test]
async fn initialize_lifecycle_uses_only_the_older_handshake() {
    let server = HttpServer::start(|request| {
        assert_ne!(request.method_name(), "server/discover");
        plain(&request)
    })
    .await;
    let options = ConnectOptions { lifecycle: Lifecycle::Initialize, ..ConnectOptions::default() };
    // In a separate task, as in the daemon.
    let url = server.url();
    let connecting = tokio::spawn(async move { Connection::over_http(url, &[], client(), options).await });
    let connection = connecting.await.expect("a task").expect("a connection");
    connection.close().await;
}

#[tokio::test]
async fn expired_session_is_reopened_and_the_call_repeated() {
    assert_lost_session_is_reopened(|| status(404)).await;
}

/// As the official server library rejects an unknown session after a restart.
#[tokio::test]
async fn unknown_session_is_reopened() {
    assert_lost_session_is_reopened(|| {
        let error = json!({ "code": -32_000, "message": "Bad Request: No valid session ID provided" });
        full_response(400, "application/json", json!({ "jsonrpc": "2.0", "error": error, "id": null }).to_string())
    })
    .await;
}

#[tokio::test]
async fn other_errors_do_not_reopen_the_session() {
    let server = HttpServer::start(|request| {
        let mut answer = match request.method_name() {
            "tools/call" => {
                let error = json!({ "code": -32_602, "message": "no such tool" });
                full_response(
                    400,
                    "application/json",
                    json!({ "jsonrpc": "2.0", "error": error, "id": null }).to_string(),
                )
            }
            _ => plain(&request),
        };
        answer.headers_mut().insert("mcp-session-id", "session-1".parse().expect("a value"));
        answer
    })
    .await;
    let connection = server.connect().await.expect("a connection");
    let error = connection.call_tool("a", json!({}), CallLimits::default()).await.expect_err("no output");
    assert!(matches!(error, McpError::Refused { code: -32_602, .. }), "{error:?}");
    assert_eq!(server.requests().iter().filter(|request| request.method_name() == "initialize").count(), 1);
    connection.close().await;
}

async fn assert_lost_session_is_reopened(refuse: impl Fn() -> Answer + Send + Sync + 'static) {
    let sessions = AtomicUsize::new(0);
    let server = HttpServer::start(move |request| {
        let current = format!("session-{}", sessions.load(Ordering::SeqCst));
        match request.method_name() {
            "initialize" => {
                let session = sessions.fetch_add(1, Ordering::SeqCst) + 1;
                let mut answer = plain(&request);
                answer.headers_mut().insert("mcp-session-id", format!("session-{session}").parse().expect("a value"));
                answer
            }
            "tools/call" if request.header("mcp-session-id") == Some("session-1") => {
                assert_eq!(current, "session-1");
                refuse()
            }
            _ => plain(&request),
        }
    })
    .await;
    let connection = server.connect().await.expect("a connection");
    let output = connection.call_tool("a", json!({}), CallLimits::default()).await.expect("an output");
    assert_eq!(output.text, "done");
    let call = server.requests().into_iter().rfind(|request| request.method_name() == "tools/call").expect("the call");
    assert_eq!(call.header("mcp-session-id"), Some("session-2"));
    connection.close().await;
}

#[tokio::test]
async fn dropped_call_is_cancelled_at_the_server() {
    let (arrived, has_arrived) = tokio::sync::oneshot::channel();
    let (cancelled, was_cancelled) = tokio::sync::oneshot::channel();
    let (arrived, cancelled) = (parking_lot::Mutex::new(Some(arrived)), parking_lot::Mutex::new(Some(cancelled)));
    let held = parking_lot::Mutex::new(Vec::new());
    let server = HttpServer::start(move |request| match request.method_name() {
        "tools/call" => {
            let (sender, answer) = stream();
            held.lock().push(sender);
            arrived.lock().take().expect("one call").send(request.message["id"].clone()).expect("the test");
            answer
        }
        "notifications/cancelled" => {
            let id = request.message["params"]["requestId"].clone();
            cancelled.lock().take().expect("one cancellation").send(id).expect("the test");
            accepted()
        }
        _ => plain(&request),
    })
    .await;
    let connection = server.connect().await.expect("a connection");
    let id = tokio::select! {
        result = connection.call_tool("slow", json!({}), CallLimits::default()) => panic!("{result:?}"),
        id = has_arrived => id.expect("the call"),
    };
    assert_eq!(was_cancelled.await.expect("the cancellation"), id);
    connection.close().await;
}

#[tokio::test]
async fn slow_calls_do_not_block_others() {
    let held = parking_lot::Mutex::new(Vec::new());
    let server = HttpServer::start(move |request| match request.message["params"]["name"].as_str() {
        Some("slow") => {
            let (sender, answer) = stream();
            held.lock().push(sender);
            answer
        }
        _ => plain(&request),
    })
    .await;
    let connection = server.connect().await.expect("a connection");
    let slow = connection.call_tool("slow", json!({}), CallLimits::default());
    let fast = async {
        for _ in 0..20 {
            connection.call_tool("fast", json!({}), CallLimits::default()).await.expect("an output");
        }
        connection.ping(Duration::from_secs(30)).await.expect("a response to the ping");
    };
    tokio::select! {
        result = slow => panic!("{result:?}"),
        () = fast => {}
    }
    connection.close().await;
}
