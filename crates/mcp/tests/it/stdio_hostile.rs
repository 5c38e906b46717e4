//! Servers over stdio that lie, hang, flood or fall silent. Each test ends with a working
//! connection or with a clear reason, and none waits for real time.

use std::time::Duration;

use agentd_mcp::{CallLimits, CloseReason, ConnectOptions, Connection, McpError};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::support::script::{connected, connected_with, streams};
use crate::support::{text_result, tool};

async fn call(connection: &Connection) -> Result<String, McpError> {
    connection.call_tool("a", json!({}), CallLimits::default()).await.map(|output| output.text)
}

/// The connection still works: the script answers one more call with `ok`.
async fn still_works(connection: &Connection) {
    assert_eq!(call(connection).await.expect("an output"), "ok");
}

#[tokio::test(start_paused = true)]
async fn an_endless_line_fails_the_call_it_answers_and_nothing_else() {
    let options = ConnectOptions { max_message_bytes: 100_000, ..ConnectOptions::default() };
    let (connection, _played) = connected_with(options, async |mut server| {
        // The id comes first, last, or cannot be seen at all.
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
async fn an_overlong_answer_among_others_is_told_by_its_end() {
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
async fn answers_that_would_blow_up_in_memory_are_not_parsed() {
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

#[tokio::test]
async fn broken_answers_fail_at_once() {
    let (connection, _played) = connected(async |mut server| {
        for broken in [
            "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[}}",
            "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":",
            "{\"jsonrpc\":\"2.0\",\"id\":ID}",
            "{\"id\":ID,\"result\":{}}",
            "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":\"text\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":\"text\"}}",
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
async fn wrong_ids_and_second_answers_are_nobodys() {
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
        // As a string, as some servers write it.
        let id = request["id"].to_string();
        server.send(&json!({ "jsonrpc": "2.0", "id": id, "result": text_result("ok") })).await;
        server.wait_for_end().await;
    })
    .await;
    assert_eq!(call(&connection).await.expect("an output"), "first");
    still_works(&connection).await;
}

#[tokio::test]
async fn an_error_without_an_id_goes_to_the_only_one_who_waits() {
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
async fn what_the_server_asks_for_is_refused_properly() {
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

#[tokio::test(start_paused = true)]
async fn a_flood_of_notifications_only_slows_its_server_down() {
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
async fn a_flood_of_requests_whose_answers_nobody_reads_is_bounded() {
    let (connection, played) = connected(async |mut server| {
        for number in 0..5_000 {
            server.send(&json!({ "jsonrpc": "2.0", "id": number, "method": "ping" })).await;
        }
        // Then it reads, and finds fewer answers than it asked for.
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
async fn a_server_that_closes_its_output_but_lives_on_is_gone() {
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
async fn a_server_that_stops_reading_is_given_up() {
    let (connection, _played) = connected(async |server| {
        // Alive, and silent for ever.
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
async fn a_silent_server_costs_one_time_limit_a_call_and_closing_is_quick() {
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
async fn closing_wakes_those_who_wait() {
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
async fn endless_pages_and_tools_are_cut_short() {
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
async fn lists_that_are_none_are_told_from_empty_ones() {
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
async fn tools_that_want_more_than_a_call_are_an_error() {
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
async fn a_batch_of_answers_is_taken_apart() {
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

#[tokio::test]
async fn a_request_that_is_too_long_is_not_sent() {
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
async fn a_flood_on_the_error_output_is_read_and_forgotten() {
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
