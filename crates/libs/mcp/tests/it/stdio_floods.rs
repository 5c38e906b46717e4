//! Stdio servers that send too much: in one line, in one response, in a burst or endlessly.

use std::time::Duration;

use agentd_mcp::{CallLimits, ConnectOptions, Connection, McpError};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::script::{call, connected, connected_with, still_works, streams};
use crate::support::{text_result, tool};

#[tokio::test(start_paused = true)]
async fn overlong_line_fails_only_the_call_it_answers() {
    let options = ConnectOptions { max_message_bytes: 100_000, ..ConnectOptions::default() };
    let (connection, _played) = connected_with(options, async |mut server| {
        // The id comes first, last, or is not visible at all.
        for shape in 0..3 {
            let request = server.expect("tools/call").await;
            let id = &request["id"];
            let head = match shape {
                0 => format!(
                    "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\""
                ),
                _ => "{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"".to_owned(),
            };
            server.send_raw(head.as_bytes()).await;
            for _ in 0..1_000 {
                server.send_raw(&[b'x'; 64 * 1024]).await;
            }
            let tail =
                if shape == 1 { format!("\"}}]}},\"jsonrpc\":\"2.0\",\"id\":{id}}}\n") } else { "\n".to_owned() };
            server.send_raw(tail.as_bytes()).await;
        }
        let request = server.expect("tools/call").await;
        server.answer(&request, text_result("ok")).await;
        server.wait_for_end().await;
    })
    .await;
    for _ in 0..3 {
        let error = call(&connection).await.expect_err("too much");
        assert!(matches!(error, McpError::AnswerTooLarge { limit_bytes: 100_000 }), "{error:?}");
    }
    let limits = CallLimits { time: Duration::from_secs(600), ..CallLimits::default() };
    let output = connection.call_tool("a", json!({}), limits).await.expect("an output");
    assert_eq!(output.text, "ok");
}

#[tokio::test]
async fn overlong_response_is_identified_by_its_end() {
    let options = ConnectOptions { max_message_bytes: 10_000, ..ConnectOptions::default() };
    let (connection, _played) = connected_with(options, async |mut server| {
        let first = server.expect("tools/call").await;
        let second = server.expect("tools/call").await;
        let long = "x".repeat(20_000);
        let text = format!("{{\"result\":{},\"jsonrpc\":\"2.0\",\"id\":{}}}\n", text_result(&long), first["id"]);
        server.send_raw(text.as_bytes()).await;
        server.answer(&second, text_result("ok")).await;
        server.wait_for_end().await;
    })
    .await;
    let (first, second) = tokio::join!(call(&connection), call(&connection));
    assert!(matches!(first, Err(McpError::AnswerTooLarge { .. })), "{first:?}");
    assert_eq!(second.expect("an output"), "ok");
}

#[tokio::test]
async fn responses_with_too_many_values_are_not_parsed() {
    let (connection, _played) = connected(async |mut server| {
        for bomb in ["[".repeat(100_000), format!("[{}0]", "[],".repeat(400_000)), "{\"a\":".repeat(1_000)] {
            let request = server.expect("tools/call").await;
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{bomb}\n", request["id"]);
            server.send_raw(text.as_bytes()).await;
        }
        let request = server.expect("tools/call").await;
        server.answer(&request, text_result("ok")).await;
        server.wait_for_end().await;
    })
    .await;
    for _ in 0..3 {
        let error = call(&connection).await.expect_err("a bomb");
        assert!(matches!(error, McpError::AnswerTooLarge { .. }), "{error:?}");
    }
    still_works(&connection).await;
}

#[tokio::test(start_paused = true)]
async fn flood_of_notifications_slows_only_its_server() {
    let (connection, _played) = connected(async |mut server| {
        let request = server.expect("tools/call").await;
        let log = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": "x" } });
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": 0, "progress": 1 } });
        for _ in 0..3_000 {
            server.send(&log).await;
            server.send(&progress).await;
            server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/made_up", "params": [1] })).await;
        }
        server.answer(&request, text_result("ok")).await;
        server.wait_for_end().await;
    })
    .await;
    let start = tokio::time::Instant::now();
    let limits = CallLimits { time: Duration::from_secs(600), ..CallLimits::default() };
    let output = connection.call_tool("a", json!({}), limits).await.expect("an output");
    assert_eq!(output.text, "ok");
    assert!(start.elapsed() >= Duration::from_secs(30), "the flood came in without a pause: {:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn replies_to_a_flood_of_requests_are_bounded() {
    let (connection, played) = connected(async |mut server| {
        for number in 0..5_000 {
            server.send(&json!({ "jsonrpc": "2.0", "id": number, "method": "ping" })).await;
        }
        // The server then reads, and receives fewer replies than it sent requests.
        let mut answers = 0;
        loop {
            let message = server.next().await.expect("a message");
            match message["method"].as_str() {
                Some("tools/call") => break server.answer(&message, text_result("ok")).await,
                _ => answers += 1,
            }
        }
        assert!(answers < 5_000, "{answers} answers were held for a server that read none");
        server.wait_for_end().await;
    })
    .await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    let limits = CallLimits { time: Duration::from_secs(600), ..CallLimits::default() };
    let output = connection.call_tool("a", json!({}), limits).await.expect("an output");
    assert_eq!(output.text, "ok");
    connection.close().await;
    played.await.expect("the script");
}

#[tokio::test]
async fn endless_tool_lists_are_truncated() {
    let (connection, _played) = connected(async |mut server| {
        for page in 0.. {
            let Some(request) = server.next().await else { return };
            let tools: Vec<Value> = (0..20).map(|n| tool(&format!("t{page}-{n}"))).collect();
            server.answer(&request, json!({ "tools": tools, "nextCursor": page.to_string() })).await;
        }
    })
    .await;
    let list = connection.list_tools().await.expect("tools");
    assert_eq!(list.tools.len(), 512);
    assert!(list.cut_short.is_some_and(|reason| reason.contains("512")));
}

#[tokio::test]
async fn overlong_request_is_not_sent() {
    let options = ConnectOptions { max_message_bytes: 10_000, ..ConnectOptions::default() };
    let (connection, _played) = connected_with(options, async |mut server| {
        let request = server.expect("tools/call").await;
        assert_eq!(request["params"]["arguments"], json!({}));
        server.answer(&request, text_result("ok")).await;
        server.wait_for_end().await;
    })
    .await;
    let input = json!({ "text": "x".repeat(20_000) });
    let error = connection.call_tool("a", input, CallLimits::default()).await.expect_err("too long");
    assert!(matches!(error, McpError::RequestTooLarge { limit_bytes: 10_000 }), "{error:?}");
    still_works(&connection).await;
}

#[tokio::test(start_paused = true)]
async fn flood_of_error_output_is_drained() {
    let (streams, mut server) = streams(4_096);
    let played = tokio::spawn(async move {
        for number in 0..200_000 {
            server.stderr.write_all(format!("line {number}\n").as_bytes()).await.expect("stderr");
        }
        server.initialize("2025-11-25").await;
        server.wait_for_end().await;
    });
    let connection = Connection::over_stdio(streams, ConnectOptions::default()).await.expect("a connection");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let diagnosis = connection.diagnosis();
    assert!(diagnosis.len() <= 16 * 1024 && diagnosis.ends_with("line 199999"), "{} bytes", diagnosis.len());
    assert!(diagnosis.starts_with("line "), "it begins with a whole line");
    connection.close().await;
    played.await.expect("the script");
}
