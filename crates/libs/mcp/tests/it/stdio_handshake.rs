//! Handshakes over stdio with servers of both protocol generations, and with programs that are not servers.

use std::time::Duration;

use agentd_base::DomainError;
use agentd_mcp::{CloseReason, ConnectError, ConnectOptions, Connection, Lifecycle, McpError, StdioStreams};
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::support::script::{Script, connect};
use crate::support::{discovered, initialized, text_result, tool};

async fn refused<F>(options: ConnectOptions, script: impl FnOnce(Script) -> F) -> ConnectError
where
    F: Future<Output = ()> + Send + 'static,
{
    let (connection, played) = connect(options, script).await;
    let error = connection.expect_err("no connection");
    played.await.expect("the script");
    error
}

#[tokio::test]
async fn servers_of_all_older_versions_connect() {
    for version in ["2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let (connection, played) = connect(ConnectOptions::default(), async move |mut server: Script| {
            let request = server.expect("initialize").await;
            assert_eq!(request["params"]["protocolVersion"], "2025-11-25");
            assert_eq!(request["params"]["capabilities"], json!({}));
            assert_eq!(request["params"]["clientInfo"]["name"], "agentd");
            server.answer(&request, initialized(version)).await;
            server.expect("notifications/initialized").await;
            let request = server.expect("tools/list").await;
            server.answer(&request, json!({ "tools": [tool("a")] })).await;
            let request = server.expect("tools/call").await;
            assert_eq!(request["params"]["name"], "a");
            assert_eq!(request["params"]["arguments"], json!({ "n": 1 }));
            server.answer(&request, text_result("done")).await;
            let request = server.expect("ping").await;
            server.answer(&request, json!({})).await;
            server.wait_for_end().await;
        })
        .await;
        let connection = connection.expect("a connection");
        assert_eq!(connection.info().protocol_version, version);
        assert_eq!((connection.info().name.as_str(), connection.info().version.as_str()), ("scripted", "1.2.3"));
        assert!(connection.info().offers_tools && connection.info().announces_tool_changes);
        let tools = connection.list_tools().await.expect("tools").tools;
        assert_eq!(tools[0].name, "a");
        let output = connection.call_tool("a", json!({ "n": 1 }), Default::default()).await.expect("an output");
        assert_eq!(output.text, "done");
        connection.ping(Duration::from_secs(10)).await.expect("a response to the ping");
        connection.close().await;
        connection.close().await;
        assert_eq!(connection.closed().await, CloseReason::Requested);
        played.await.expect("the script");
    }
}

#[tokio::test]
async fn newer_server_is_detected_after_it_refused_the_older_handshake() {
    let (subscribed, has_subscribed) = tokio::sync::oneshot::channel();
    let (connection, played) = connect(ConnectOptions::default(), async move |mut server: Script| {
        let request = server.expect("initialize").await;
        server.refuse(&request, -32_022, "Unsupported protocol version").await;
        let request = server.expect("server/discover").await;
        assert_eq!(request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        server.answer(&request, discovered()).await;
        let listen = server.expect("subscriptions/listen").await;
        let acknowledged = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "_meta": { "io.modelcontextprotocol/subscriptionId": listen["id"] },
            "notifications": { "toolsListChanged": true },
        } });
        server.send(&acknowledged).await;
        subscribed.send(()).expect("the test");
        let request = server.expect("tools/call").await;
        assert_eq!(request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        let mut result = text_result("done");
        result["resultType"] = json!("complete");
        server.answer(&request, result).await;
        let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {
            "_meta": { "io.modelcontextprotocol/subscriptionId": listen["id"] },
        } });
        server.send(&changed).await;
        // The newer protocol has no ping: any response proves that the server is alive, even an error.
        let request = server.expect("tools/list").await;
        server.refuse(&request, -32_603, "not now").await;
        server.wait_for_end().await;
    })
    .await;
    let connection = connection.expect("a connection");
    assert_eq!(connection.info().protocol_version, "2026-07-28");
    assert_eq!(connection.info().name, "scripted");
    let mut changes = connection.tools_changes();
    has_subscribed.await.expect("a subscription");
    let output = connection.call_tool("a", json!({}), Default::default()).await.expect("an output");
    assert_eq!(output.text, "done");
    changes.changed().await.expect("a change");
    connection.ping(Duration::from_secs(10)).await.expect("a response to the ping");
    connection.close().await;
    played.await.expect("the script");
}

#[tokio::test]
async fn discover_lifecycle_uses_only_the_newer_handshake() {
    let options = ConnectOptions { lifecycle: Lifecycle::Discover, ..ConnectOptions::default() };
    let error = refused(options, async |mut server: Script| {
        let request = server.expect("server/discover").await;
        server.refuse(&request, -32_601, "Method not found").await;
        assert!(server.next().await.is_none());
    })
    .await;
    assert!(matches!(error.error(), McpError::HandshakeRefused { message } if message == "Method not found"));
}

#[tokio::test]
async fn initialize_lifecycle_uses_only_the_older_handshake() {
    let options = ConnectOptions { lifecycle: Lifecycle::Initialize, ..ConnectOptions::default() };
    let error = refused(options, async |mut server: Script| {
        let request = server.expect("initialize").await;
        server.refuse(&request, -32_000, "no\nlicence\u{1b}[31m").await;
        assert!(server.next().await.is_none());
    })
    .await;
    assert!(matches!(error.error(), McpError::HandshakeRefused { message } if message == "no licence [31m"));
}

#[tokio::test]
async fn first_refusal_is_reported_if_both_handshakes_fail() {
    let error = refused(ConnectOptions::default(), async |mut server: Script| {
        let request = server.expect("initialize").await;
        server.refuse(&request, -32_000, "the licence has expired").await;
        let request = server.expect("server/discover").await;
        server.refuse(&request, -32_601, "Method not found").await;
    })
    .await;
    assert_eq!(error.to_string(), "the tool server rejected the handshake: the licence has expired");
    assert_eq!(error.code(), "tool_server_refused_handshake");
}

#[tokio::test]
async fn unknown_version_is_rejected() {
    let error = refused(ConnectOptions::default(), async |mut server: Script| {
        let request = server.expect("initialize").await;
        server.answer(&request, initialized("9999-12-31")).await;
        server.wait_for_end().await;
    })
    .await;
    assert!(matches!(error.error(), McpError::UnsupportedVersion { offered } if offered == "9999-12-31"));
}

#[tokio::test]
async fn diagnosis_contains_error_output_after_failed_handshake() {
    for words_after in ["", "{\"jsonrpc\":"] {
        let error = refused(ConnectOptions::default(), async move |mut server: Script| {
            server.expect("initialize").await;
            server.stderr.write_all(b"Traceback:\n  the module `x` is missing\n").await.expect("stderr");
            server.send_raw(words_after.as_bytes()).await;
        })
        .await;
        let is_expected = matches!(error.error(), McpError::EndedInHandshake { reason: CloseReason::OutputClosed });
        assert!(is_expected, "{error:?}");
        assert_eq!(error.diagnosis(), "Traceback:\n  the module `x` is missing");
        assert!(!error.to_string().contains("module"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn silent_or_invalid_server_times_out() {
    let options = || ConnectOptions { handshake_limit: Duration::from_secs(5), ..ConnectOptions::default() };
    let error = refused(options(), async |mut server: Script| server.wait_for_end().await).await;
    assert!(matches!(error.error(), McpError::HandshakeTimeout { seconds: 5 }), "{error:?}");
    let error = refused(options(), async |mut server: Script| {
        for _ in 0..20_000 {
            server.send_raw(b"nonsense\n{\"jsonrpc\":\"2.0\",\"id\":77,\"result\":{}}\n").await;
        }
    })
    .await;
    assert!(matches!(error.error(), McpError::HandshakeTimeout { seconds: 5 }), "{error:?}");
}

#[tokio::test]
async fn invalid_handshake_response_is_reported() {
    for result in [json!({ "tools": [] }), json!({}), json!({ "protocolVersion": 7 }), json!("hello")] {
        let error = refused(ConnectOptions::default(), async move |mut server: Script| {
            let request = server.expect("initialize").await;
            server.answer(&request, result).await;
            server.wait_for_end().await;
        })
        .await;
        assert!(matches!(error.error(), McpError::NotMcp { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn invalid_json_in_the_handshake_fails_immediately() {
    let error = refused(ConnectOptions::default(), async |mut server: Script| {
        let request = server.expect("initialize").await;
        server
            .send_raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{,}}}}\n", request["id"]).as_bytes())
            .await;
        server.wait_for_end().await;
    })
    .await;
    assert!(matches!(error.error(), McpError::NotMcp { .. } | McpError::Malformed { .. }), "{error:?}");
}

#[tokio::test]
async fn logs_and_requests_before_the_response_are_ignored() {
    let (connection, played) = connect(ConnectOptions::default(), async |mut server: Script| {
        let request = server.expect("initialize").await;
        server.send_raw(b"[INFO] starting\r\n\n\xff\xfe broken utf-8\n[1,2]\n{\"level\":30,\"msg\":\"pino\"}\n").await;
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } })).await;
        server.send(&json!({ "jsonrpc": "2.0", "id": "early", "method": "ping" })).await;
        assert_eq!(server.next().await, Some(json!({ "jsonrpc": "2.0", "id": "early", "result": {} })));
        server.answer(&request, initialized("2025-06-18")).await;
        server.expect("notifications/initialized").await;
        server.wait_for_end().await;
    })
    .await;
    let connection = connection.expect("a connection");
    assert!(connection.diagnosis().starts_with("[INFO] starting\n"), "{}", connection.diagnosis());
    drop(connection);
    played.await.expect("dropping the connection closes the program's input");
}

#[tokio::test]
async fn excessive_server_info_is_truncated() {
    let (connection, _played) = connect(ConnectOptions::default(), async |mut server: Script| {
        let request = server.expect("initialize").await;
        let mut result = initialized("2025-11-25");
        result["instructions"] = json!("i".repeat(1_000_000));
        result["serverInfo"]["name"] = json!("n".repeat(100_000));
        result["capabilities"]["experimental"] = json!({ "x": { "y": "z".repeat(1_000_000) } });
        server.answer(&request, result).await;
        server.wait_for_end().await;
    })
    .await;
    let connection = connection.expect("a connection");
    assert_eq!(connection.info().instructions.as_ref().map(String::len), Some(16 * 1024));
    assert_eq!(connection.info().name.len(), 200);
}

#[tokio::test]
async fn exited_program_is_an_error() {
    let (stdout, _) = tokio::io::duplex(16);
    let (stdin, _) = tokio::io::duplex(16);
    let streams = StdioStreams { stdout, stdin, stderr: None::<tokio::io::Empty> };
    let error = Connection::over_stdio(streams, ConnectOptions::default()).await.expect_err("no connection");
    assert!(matches!(error.error(), McpError::EndedInHandshake { .. }), "{error:?}");
}
