//! Stdio servers that send invalid data, hang or fall silent. Each test ends with a working connection or with a
//! specific error, and none waits for real time.

use std::time::Duration;

use agentd_mcp::{CallLimits, CloseReason, McpError};
use serde_json::{Value, json};

use crate::support::script::{call, connected, still_works};
use crate::support::text_result;

#[tokio::test]
async fn invalid_responses_fail_immediately() {
    let (connection, _played) = connected(async |mut server| {
        for broken in [
            "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[}}",
            "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":",
            "{\"jsonrpc\":\"2.0\",\"id\":ID}",
            "{\"id\":ID,\"result\":{}}",
            "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":\"text\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":5}}",
            "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}",
            "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"tools\":[]}}",
        ] {
            let request = server.expect("tools/call").await;
            server.send_raw(format!("{}\n", broken.replace("ID", &request["id"].to_string())).as_bytes()).await;
        }
        let request = server.expect("tools/call").await;
        server.answer(&request, text_result("ok")).await;
        server.wait_for_end().await;
    })
    .await;
    for _ in 0..8 {
        let error = call(&connection).await.expect_err("a broken answer");
        assert!(matches!(error, McpError::Malformed { .. }), "{error:?}");
    }
    still_works(&connection).await;
}

#[tokio::test]
async fn responses_with_unknown_or_used_ids_are_dropped() {
    let (connection, _played) = connected(async |mut server| {
        let request = server.expect("tools/call").await;
        let id = request["id"].as_i64().expect("a number");
        for wrong in [json!(id + 1), json!(id - 1), json!(-1), json!("abc"), json!(9e15), Value::Null] {
            server.send(&json!({ "jsonrpc": "2.0", "id": wrong, "result": text_result("wrong") })).await;
        }
        server.answer(&request, text_result("first")).await;
        server.answer(&request, text_result("second")).await;
        server.refuse(&request, -32_000, "third").await;
        let request = server.expect("tools/call").await;
        // As a string, as some servers send it.
        let id = request["id"].to_string();
        server.send(&json!({ "jsonrpc": "2.0", "id": id, "result": text_result("ok") })).await;
        server.wait_for_end().await;
    })
    .await;
    assert_eq!(call(&connection).await.expect("an output"), "first");
    still_works(&connection).await;
}

#[tokio::test]
async fn error_without_id_fails_the_only_pending_request() {
    let (connection, _played) = connected(async |mut server| {
        server.expect("tools/call").await;
        server.send(&json!({ "jsonrpc": "2.0", "error": { "code": -32_700, "message": "Parse error" } })).await;
        let request = server.expect("tools/call").await;
        server.answer(&request, text_result("ok")).await;
        server.wait_for_end().await;
    })
    .await;
    let error = call(&connection).await.expect_err("a refusal");
    assert!(matches!(error, McpError::Refused { code: -32_700, .. }), "{error:?}");
    still_works(&connection).await;
}

#[tokio::test]
async fn requests_of_the_server_are_refused() {
    let (connection, played) = connected(async |mut server| {
        let call = server.expect("tools/call").await;
        let asked = [
            ("sampling/createMessage", json!({ "messages": [], "maxTokens": 10 })),
            ("roots/list", json!({})),
            (
                "elicitation/create",
                json!({ "message": "Your password?", "requestedSchema": { "type": "object", "properties": {} } }),
            ),
            ("tools/list", json!({})),
            ("no/such/method", json!({ "x": [1] })),
        ];
        for (number, (method, params)) in asked.into_iter().enumerate() {
            let id = format!("server-{number}");
            server.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
            let reply = server.next().await.expect("a reply");
            assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(id), &json!(-32_601)), "{method}");
        }
        server.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" })).await;
        assert_eq!(server.next().await, Some(json!({ "jsonrpc": "2.0", "id": 0, "result": {} })));
        server.answer(&call, text_result("ok")).await;
        server.wait_for_end().await;
    })
    .await;
    still_works(&connection).await;
    connection.close().await;
    played.await.expect("the script");
}

#[tokio::test]
async fn closed_output_ends_the_connection() {
    let (connection, _played) = connected(async |mut server| {
        server.expect("tools/call").await;
        server.close_output().await;
        server.wait_for_end().await;
    })
    .await;
    let error = call(&connection).await.expect_err("no answer");
    assert!(matches!(error, McpError::Closed { reason: CloseReason::OutputClosed }), "{error:?}");
    assert_eq!(connection.closed().await, CloseReason::OutputClosed);
    let error = call(&connection).await.expect_err("no connection");
    assert!(matches!(error, McpError::Closed { reason: CloseReason::OutputClosed }), "{error:?}");
    connection.close().await;
    assert_eq!(connection.close_reason(), Some(CloseReason::OutputClosed), "the first reason stands");
}

#[tokio::test(start_paused = true)]
async fn server_that_stops_reading_is_disconnected() {
    let (connection, _played) = connected(async |server| {
        // Running, and silent forever.
        let _server = server;
        std::future::pending::<()>().await;
    })
    .await;
    let input = json!({ "text": "x".repeat(1_000_000) });
    let limits = CallLimits { time: Duration::from_secs(600), ..CallLimits::default() };
    let error = connection.call_tool("a", input, limits).await.expect_err("no answer");
    assert!(matches!(error, McpError::Closed { reason: CloseReason::NotReading }), "{error:?}");
    assert_eq!(connection.closed().await, CloseReason::NotReading);
}

#[tokio::test(start_paused = true)]
async fn silent_server_times_out_and_closes_quickly() {
    let (connection, _played) = connected(async |server| {
        let _server = server;
        std::future::pending::<()>().await;
    })
    .await;
    let limits = CallLimits { time: Duration::from_secs(2), ..CallLimits::default() };
    for _ in 0..200 {
        let error = connection.call_tool("a", json!({}), limits).await.expect_err("no answer");
        assert!(matches!(error, McpError::Timeout { .. }), "{error:?}");
    }
    assert!(matches!(connection.ping(Duration::from_secs(1)).await, Err(McpError::Timeout { seconds: 1 })));
    assert!(matches!(connection.list_tools().await, Err(McpError::Timeout { seconds: 30 })));
    let start = tokio::time::Instant::now();
    connection.close().await;
    assert!(start.elapsed() <= Duration::from_secs(10), "{:?}", start.elapsed());
}

#[tokio::test]
async fn closing_fails_pending_calls() {
    let (arrived, has_arrived) = tokio::sync::oneshot::channel();
    let (connection, _played) = connected(async move |mut server| {
        server.expect("tools/call").await;
        arrived.send(()).expect("the test");
        server.wait_for_end().await;
    })
    .await;
    let (result, ()) = tokio::join!(call(&connection), async {
        has_arrived.await.expect("the call");
        connection.close().await;
    });
    assert!(matches!(result, Err(McpError::Closed { reason: CloseReason::Requested })), "{result:?}");
}

#[tokio::test]
async fn invalid_lists_are_distinguished_from_empty_ones() {
    let (connection, _played) = connected(async |mut server| {
        for result in [json!({}), json!({ "tools": 7 }), text_result("tools"), json!([])] {
            let request = server.expect("tools/list").await;
            server.answer(&request, result).await;
        }
        let request = server.expect("tools/list").await;
        server.answer(&request, json!({ "tools": [{ "name": "a" }, 3, null] })).await;
        server.wait_for_end().await;
    })
    .await;
    for _ in 0..4 {
        let error = connection.list_tools().await.expect_err("no list");
        assert!(matches!(error, McpError::Malformed { .. }), "{error:?}");
    }
    let list = connection.list_tools().await.expect("a list");
    assert_eq!((list.tools.len(), list.left_out.len()), (0, 3));
}

#[tokio::test]
async fn tools_that_require_elicitation_are_an_error() {
    let (connection, _played) = connected(async |mut server| {
        let request = server.expect("tools/call").await;
        let wanted = json!({ "q": { "method": "elicitation/create", "params": { "mode": "form", "message": "?",
            "requestedSchema": { "type": "object", "properties": {} } } } });
        server
            .answer(&request, json!({ "resultType": "input_required", "inputRequests": wanted, "requestState": "s" }))
            .await;
        let request = server.expect("tools/call").await;
        server
            .answer(
                &request,
                json!({ "resultType": "task", "taskId": "t", "status": "working",
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 1000 }),
            )
            .await;
        server.wait_for_end().await;
    })
    .await;
    let error = call(&connection).await.expect_err("no output");
    assert!(matches!(error, McpError::InputRequired), "{error:?}");
    let error = call(&connection).await.expect_err("no output");
    assert!(matches!(error, McpError::Malformed { .. }), "{error:?}");
}

#[tokio::test]
async fn batch_of_responses_is_split() {
    let (connection, _played) = connected(async |mut server| {
        let first = server.expect("tools/call").await;
        let second = server.expect("tools/call").await;
        let answer =
            |request: &Value, text| json!({ "jsonrpc": "2.0", "id": request["id"], "result": text_result(text) });
        server.send(&json!([answer(&second, "2"), { "not": "a message" }, answer(&first, "1")])).await;
        server.wait_for_end().await;
    })
    .await;
    let (first, second) = tokio::join!(call(&connection), call(&connection));
    assert_eq!((first.expect("an output").as_str(), second.expect("an output").as_str()), ("1", "2"));
}
