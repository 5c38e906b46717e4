//! Behaviour of a regular connection: lists, calls, cancellation, changes.

use std::time::Duration;

use agentd_mcp::{CallLimits, ConnectOptions, McpError};
use serde_json::json;
use tokio::time::Instant;

use crate::support::script::{connected, connected_with};
use crate::support::{text_result, tool};

#[tokio::test]
async fn all_pages_are_read_and_invalid_tools_are_skipped() {
    let (connection, played) = connected(async |mut server| {
        let request = server.expect("tools/list").await;
        assert!(request["params"].get("cursor").is_none());
        let broken = json!({ "name": "broken", "inputSchema": { "type": "array" } });
        server
            .answer(&request, json!({ "tools": [tool("a"), broken, { "nameless": true }], "nextCursor": "p2" }))
            .await;
        let request = server.expect("tools/list").await;
        assert_eq!(request["params"]["cursor"], "p2");
        server.answer(&request, json!({ "tools": [tool("b")] })).await;
        server.wait_for_end().await;
    })
    .await;
    let list = connection.list_tools().await.expect("tools");
    let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(list.left_out[0].name, "broken");
    assert_eq!(list.left_out.len(), 2);
    assert_eq!(list.cut_short, None);
    connection.close().await;
    played.await.expect("the script");
}

#[tokio::test]
async fn server_without_tools_has_an_empty_list() {
    let (connection, _played) = crate::support::script::connect(ConnectOptions::default(), async |mut server| {
        let request = server.expect("initialize").await;
        let mut result = crate::support::initialized("2025-11-25");
        result["capabilities"] = json!({});
        server.answer(&request, result).await;
        server.expect("notifications/initialized").await;
        let request = server.expect("tools/list").await;
        server.refuse(&request, -32_601, "Method not found").await;
        server.wait_for_end().await;
    })
    .await;
    let connection = connection.expect("a connection");
    assert!(!connection.info().offers_tools);
    assert!(connection.list_tools().await.expect("a list").tools.is_empty());
}

#[tokio::test]
async fn tool_results_are_returned() {
    let (connection, _played) = connected(async |mut server| {
        let request = server.expect("tools/call").await;
        let result = json!({ "isError": true, "content": [{ "type": "text", "text": "no such file" }] });
        server.answer(&request, result).await;
        let request = server.expect("tools/call").await;
        let content = json!([{ "type": "hologram" }, { "type": "text", "text": "x".repeat(1_000) }]);
        server.answer(&request, json!({ "content": content, "structuredContent": { "n": [1, 2] } })).await;
        let request = server.expect("tools/call").await;
        server.refuse(&request, -32_602, "unknown tool").await;
        server.wait_for_end().await;
    })
    .await;
    let failed = connection.call_tool("a", json!({}), CallLimits::default()).await.expect("an output");
    assert!(failed.is_error && failed.text == "no such file");
    let limits = CallLimits { max_output_bytes: 100, ..CallLimits::default() };
    let long = connection.call_tool("a", json!({}), limits).await.expect("an output");
    assert_eq!(long.text.len(), 100);
    assert!(long.text_cut_from_bytes.is_some_and(|bytes| bytes > 1_000));
    assert_eq!(long.structured, Some(json!({ "n": [1, 2] })));
    let error = connection.call_tool("b", json!({}), CallLimits::default()).await.expect_err("a refusal");
    assert!(matches!(error, McpError::Refused { code: -32_602, message } if message == "unknown tool"));
    let error = connection.call_tool("b", json!([1]), CallLimits::default()).await.expect_err("not an object");
    assert!(matches!(error, McpError::InputNotObject));
}

#[tokio::test(start_paused = true)]
async fn call_exceeding_its_limit_is_cancelled_at_the_server() {
    let (connection, played) = connected(async |mut server| {
        let late = server.expect("tools/call").await;
        let messages = [server.next().await.expect("a message"), server.next().await.expect("a message")];
        let cancelled = messages.iter().find(|message| message["method"] == "notifications/cancelled");
        assert_eq!(cancelled.expect("the cancellation")["params"]["requestId"], late["id"]);
        server.answer(&late, text_result("late")).await;
        let request = messages.iter().find(|message| message["method"] == "tools/call");
        server.answer(request.expect("the next call"), text_result("in time")).await;
        server.wait_for_end().await;
    })
    .await;
    let limits = CallLimits { time: Duration::from_secs(3), ..CallLimits::default() };
    let start = Instant::now();
    let error = connection.call_tool("slow", json!({}), limits).await.expect_err("too late");
    assert!(matches!(error, McpError::Timeout { seconds: 3 }), "{error:?}");
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    let output = connection.call_tool("fast", json!({}), limits).await.expect("an output");
    assert_eq!(output.text, "in time");
    connection.close().await;
    played.await.expect("the script");
}

#[tokio::test]
async fn dropped_call_is_cancelled_at_the_server() {
    let (arrived, has_arrived) = tokio::sync::oneshot::channel();
    let (cancelled_sender, was_cancelled) = tokio::sync::oneshot::channel();
    let (connection, played) = connected(async move |mut server| {
        let request = server.expect("tools/call").await;
        arrived.send(()).expect("the test");
        let cancelled = server.expect("notifications/cancelled").await;
        assert_eq!(cancelled["params"]["requestId"], request["id"]);
        cancelled_sender.send(()).expect("the test");
        server.wait_for_end().await;
    })
    .await;
    tokio::select! {
        result = connection.call_tool("slow", json!({}), CallLimits::default()) => panic!("{result:?}"),
        _ = has_arrived => {}
    }
    was_cancelled.await.expect("the cancellation");
    connection.close().await;
    played.await.expect("the script");
}

#[tokio::test]
async fn responses_are_accepted_in_any_order() {
    let (connection, _played) = connected(async |mut server| {
        let mut requests = Vec::new();
        for _ in 0..8 {
            requests.push(server.expect("tools/call").await);
        }
        for request in requests.iter().rev() {
            let name = request["params"]["name"].as_str().expect("a name").to_owned();
            server.answer(request, text_result(&name)).await;
        }
        server.wait_for_end().await;
    })
    .await;
    let names: Vec<String> = (0..8).map(|n| format!("tool{n}")).collect();
    let calls = names.iter().map(|name| connection.call_tool(name, json!({}), CallLimits::default()));
    let outputs = futures_util::future::join_all(calls).await;
    for (name, output) in names.iter().zip(outputs) {
        assert_eq!(&output.expect("an output").text, name);
    }
}

/// The daemon uses one connection from many tasks on many threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_is_shared_by_tasks() {
    let connecting = tokio::spawn(connected(async |mut server| {
        while let Some(request) = server.next().await {
            match request["method"].as_str() {
                Some("tools/call") => server.answer(&request, request["params"]["arguments"].clone()).await,
                Some("tools/list") => server.answer(&request, json!({ "tools": [] })).await,
                _ => {}
            }
        }
    }));
    let (connection, played) = connecting.await.expect("a task");
    let connection = std::sync::Arc::new(connection);
    let tasks: Vec<_> = (0..50)
        .map(|number| {
            let connection = std::sync::Arc::clone(&connection);
            tokio::spawn(async move {
                let output = connection.call_tool("a", text_result(&number.to_string()), CallLimits::default()).await;
                assert_eq!(output.expect("an output").text, number.to_string());
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
    let other = std::sync::Arc::clone(&connection);
    tokio::spawn(async move { other.list_tools().await.map(drop) }).await.expect("a task").expect("a list");
    tokio::spawn(async move { connection.close().await }).await.expect("a task");
    played.await.expect("the script");
}

#[tokio::test]
async fn requests_in_flight_are_bounded() {
    let options = ConnectOptions { max_requests_in_flight: 2, ..ConnectOptions::default() };
    let (connection, _played) = connected_with(options, async |mut server| {
        let first = server.expect("tools/call").await;
        let second = server.expect("tools/call").await;
        server.expect("notifications/cancelled").await;
        server.answer(&first, text_result("1")).await;
        let _given_up = second;
        let third = server.expect("tools/call").await;
        server.answer(&third, text_result("3")).await;
        server.wait_for_end().await;
    })
    .await;
    let call = |name: &'static str| connection.call_tool(name, json!({}), CallLimits::default());
    let mut first = Box::pin(call("1"));
    let mut second = Box::pin(call("2"));
    assert!(futures_util::poll!(&mut first).is_pending());
    assert!(futures_util::poll!(&mut second).is_pending());
    assert!(matches!(call("3").await, Err(McpError::Busy { limit: 2 })));
    drop(second);
    assert_eq!(first.await.expect("an output").text, "1");
    assert_eq!(call("3").await.expect("an output").text, "3");
}

#[tokio::test(start_paused = true)]
async fn bursts_of_tool_changes_are_merged() {
    let (connection, _played) = connected(async |mut server| {
        let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        for _ in 0..100 {
            server.send(&changed).await;
        }
        let request = server.expect("ping").await;
        server.answer(&request, json!({})).await;
        server.expect("ping").await;
        server.send(&changed).await;
        server.wait_for_end().await;
    })
    .await;
    let mut changes = connection.tools_changes();
    connection.ping(Duration::from_secs(5)).await.expect("a response to the ping");
    let start = Instant::now();
    changes.changed().await.expect("a change");
    assert_eq!(start.elapsed(), Duration::ZERO);
    let ping = connection.ping(Duration::from_secs(5));
    let (_, change) = tokio::join!(ping, async {
        changes.changed().await.expect("another change");
        start.elapsed()
    });
    assert!(change >= Duration::from_secs(1), "{change:?}");
    let third = tokio::time::timeout(Duration::from_secs(60), changes.changed()).await;
    assert!(third.is_err(), "there was no third change");
}
