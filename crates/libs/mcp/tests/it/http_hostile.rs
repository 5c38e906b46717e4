//! HTTP servers that refuse, send invalid data, flood or disappear.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use agentd_base::{DomainError, Secret};
use agentd_mcp::{CallLimits, CloseReason, ConnectOptions, Connection, McpError};
use agentd_net::{GuardedClient, NetError, NetPolicy, PolicyHandle, Trust};
use serde_json::{Value, json};
use url::Url;

use crate::support::http::{
    Answer, HttpServer, ReceivedRequest, accepted, broken_events, client, event, events, full_response, json_answer,
    status, stream,
};
use crate::support::{initialized, text_result};

fn plain(request: &ReceivedRequest) -> Answer {
    match request.method_name() {
        "initialize" => request.result(initialized("2025-06-18")),
        "tools/call" => request.result(text_result("ok")),
        "server/discover" => status(400),
        "GET" | "DELETE" => status(405),
        _ => accepted(),
    }
}

/// Connects to a server that responds to the first call with `answer` and to later ones correctly.
async fn call_twice(
    answer: impl Fn(&ReceivedRequest) -> Answer + Send + Sync + 'static,
    options: ConnectOptions,
) -> McpError {
    let first = AtomicBool::new(true);
    let server = HttpServer::start(move |request| match request.method_name() {
        "tools/call" if first.swap(false, Ordering::SeqCst) => answer(&request),
        _ => plain(&request),
    })
    .await;
    let connection = server.connect_with(options, &[]).await.expect("a connection");
    let error = call(&connection).await.expect_err("no output");
    assert_eq!(call(&connection).await.expect("an output"), "ok", "after {error:?}");
    connection.close().await;
    error
}

async fn call(connection: &Connection) -> Result<String, McpError> {
    connection.call_tool("a", json!({}), CallLimits::default()).await.map(|output| output.text)
}

#[tokio::test]
async fn handshake_refusals_name_the_remedy() {
    type Expected = fn(&McpError) -> bool;
    let cases: [(u16, &str, Expected); 8] = [
        (401, "headers", |error| matches!(error, McpError::Unauthorized { status: 401 })),
        (403, "headers", |error| matches!(error, McpError::Unauthorized { status: 403 })),
        (404, "/mcp", |error| matches!(error, McpError::NoEndpoint { status: 404 })),
        (405, "/mcp", |error| matches!(error, McpError::NoEndpoint { status: 405 })),
        (301, "redirect", |error| matches!(error, McpError::Redirect { status: 301 })),
        (307, "redirect", |error| matches!(error, McpError::Redirect { status: 307 })),
        (429, "429", |error| matches!(error, McpError::HttpStatus { status: 429 })),
        (500, "500", |error| matches!(error, McpError::HttpStatus { status: 500 })),
    ];
    for (code, word, expected) in cases {
        let server = HttpServer::start(move |_| status(code)).await;
        let error = server.connect().await.expect_err("no connection");
        assert!(expected(error.error()), "{code}: {error:?}");
        assert!(error.to_string().contains(word), "{code}: {error}");
    }
}

#[tokio::test]
async fn other_web_servers_are_detected() {
    type Page = fn(&ReceivedRequest) -> Answer;
    let pages: [Page; 5] = [
        |_| full_response(200, "text/html", "<h1>Welcome</h1>"),
        |_| full_response(200, "application/json", "{\"hello\":\"world\"}"),
        |_| full_response(200, "application/json", "not json"),
        |_| events("data: hello\n\n"),
        |_| accepted(),
    ];
    for (number, page) in pages.into_iter().enumerate() {
        let server = HttpServer::start(move |request| page(&request)).await;
        let options = ConnectOptions { handshake_limit: Duration::from_secs(20), ..ConnectOptions::default() };
        let error = server.connect_with(options, &[]).await.expect_err("no connection");
        assert!(matches!(error.error(), McpError::NotMcp { .. }), "page {number}: {error:?}");
    }
}

#[tokio::test]
async fn unusable_responses_fail_one_call_with_a_reason() {
    let small = || ConnectOptions { max_message_bytes: 50_000, ..ConnectOptions::default() };
    let is_too_large = |error: &McpError| matches!(error, McpError::AnswerTooLarge { limit_bytes: 50_000 });
    let is_malformed = |error: &McpError| matches!(error, McpError::Malformed { .. });

    let error = call_twice(|request| request.result(text_result(&"x".repeat(100_000))), small()).await;
    assert!(is_too_large(&error), "{error:?}");
    let error = call_twice(|request| events(request.result_event(text_result(&"x".repeat(100_000)))), small()).await;
    assert!(is_too_large(&error), "{error:?}");
    let bomb = |request: &ReceivedRequest| {
        full_response(
            200,
            "application/json",
            format!("{{\"id\":{},\"result\":{}", request.message["id"], "[".repeat(40_000)),
        )
    };
    let error = call_twice(bomb, small()).await;
    assert!(is_too_large(&error), "{error:?}");

    type Broken = fn(&ReceivedRequest) -> Answer;
    let broken: [Broken; 8] = [
        |_| full_response(200, "application/json", "{\"jsonrpc\":"),
        |_| full_response(200, "application/json", ""),
        |_| full_response(200, "text/html", "<h1>Oops</h1>"),
        |_| events(""),
        |_| events("data: {\"jsonrpc\":\n\n"),
        |_| {
            events(event(
                &json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": 1 } }),
            ))
        },
        |request| {
            json_answer(
                &json!({ "jsonrpc": "2.0", "id": request.message["id"].as_i64().unwrap_or(0) + 1, "result": {} }),
            )
        },
        |request| request.result(json!({ "tools": [] })),
    ];
    for (number, broken) in broken.into_iter().enumerate() {
        let error = call_twice(broken, small()).await;
        assert!(is_malformed(&error), "{number}: {error:?}");
    }
    let error = call_twice(|_| status(503), small()).await;
    assert!(matches!(error, McpError::HttpStatus { status: 503 }), "{error:?}");
    let error = call_twice(|_| status(401), small()).await;
    assert!(matches!(error, McpError::Unauthorized { status: 401 }), "{error:?}");
    let refusal = |request: &ReceivedRequest| {
        let error = json!({ "code": -32_602, "message": "bad\r\ninput" });
        full_response(
            400,
            "application/json",
            json!({ "jsonrpc": "2.0", "id": request.message["id"], "error": error }).to_string(),
        )
    };
    let error = call_twice(refusal, small()).await;
    assert!(matches!(&error, McpError::Refused { code: -32_602, message } if message == "bad input"), "{error:?}");
}

#[tokio::test]
async fn endless_body_is_aborted_at_the_limit() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let endless = move |_: &ReceivedRequest| {
        let (events, answer) = stream();
        let sender = sender.clone();
        tokio::spawn(async move {
            let mut sent = 0u64;
            while events.send(format!("data: {}\n", "x".repeat(10_000))).is_ok() {
                sent += 1;
                tokio::task::yield_now().await;
            }
            let _ = sender.send(sent);
        });
        answer
    };
    let options = ConnectOptions { max_message_bytes: 1_000_000, ..ConnectOptions::default() };
    let error = call_twice(endless, options).await;
    assert!(matches!(error, McpError::AnswerTooLarge { .. }), "{error:?}");
    let sent = receiver.recv_timeout(Duration::from_secs(60)).expect("the body was given up");
    assert!(sent > 90, "{sent} lines were enough");
}

#[tokio::test]
async fn silent_server_times_out() {
    let held = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let server = HttpServer::start(move |_| {
        let (sender, answer) = stream();
        held.lock().push(sender);
        answer
    })
    .await;
    let options = ConnectOptions { handshake_limit: Duration::from_millis(300), ..ConnectOptions::default() };
    let error = server.connect_with(options, &[]).await.expect_err("no connection");
    assert!(matches!(error.error(), McpError::HandshakeTimeout { seconds: 1 }), "{error:?}");
}

#[tokio::test]
async fn call_ends_at_its_time_limit() {
    let held = parking_lot::Mutex::new(Vec::new());
    let server = HttpServer::start(move |request| match request.method_name() {
        "tools/call" => {
            let (sender, answer) = stream();
            held.lock().push(sender);
            answer
        }
        _ => plain(&request),
    })
    .await;
    let connection = server.connect().await.expect("a connection");
    let limits = CallLimits { time: Duration::from_millis(200), ..CallLimits::default() };
    let error = connection.call_tool("a", json!({}), limits).await.expect_err("no output");
    assert!(matches!(error, McpError::Timeout { seconds: 1 }), "{error:?}");
    connection.close().await;
}

#[tokio::test]
async fn stopped_server_is_detected_immediately() {
    let mut server = HttpServer::start(|request| plain(&request)).await;
    let connection = server.connect().await.expect("a connection");
    assert_eq!(call(&connection).await.expect("an output"), "ok");
    server.stop().await;
    // Open connections may fail first; afterwards the port is closed.
    for _ in 0..2 {
        let error = call(&connection).await.expect_err("no output");
        assert!(matches!(error, McpError::Net(_) | McpError::Closed { .. }), "{error:?}");
    }
    assert_eq!(connection.closed().await, CloseReason::Unreachable);
    connection.close().await;
}

#[tokio::test]
async fn address_policy_of_the_client_applies() {
    let server = HttpServer::start(|request| plain(&request)).await;
    let connect = |trust| async move {
        let client = GuardedClient::new(PolicyHandle::new(NetPolicy::default()), trust);
        Connection::over_http(server.url(), &[], client, ConnectOptions::default()).await
    };
    let error = connect(Trust::Untrusted).await.expect_err("no connection");
    assert!(matches!(error.error(), McpError::Net(NetError::Refused { .. })), "{error:?}");
    for url in ["http://169.254.169.254/latest", "file:///etc/passwd"] {
        let url = Url::parse(url).expect("a URL");
        let error = Connection::over_http(url, &[], client(), ConnectOptions::default()).await;
        let error = error.expect_err("no connection");
        assert!(matches!(error.error(), McpError::Net(error) if error.is_refusal()), "{error:?}");
    }
}

#[tokio::test]
async fn errors_contain_no_credentials() {
    let server = HttpServer::start(|_| status(401)).await;
    let secret = || Secret::new("Bearer s3cret".to_owned());
    let headers = [("Authorization".to_owned(), secret())];
    let mut url = server.url();
    url.set_query(Some("key=s3cret"));
    let error = Connection::over_http(url, &headers, client(), ConnectOptions::default()).await;
    let error = error.expect_err("no connection");
    assert!(!format!("{error} {error:?} {}", error.diagnosis()).contains("s3cret"));
    let headers = [("Mcp-Session-Id".to_owned(), secret())];
    let error = server.connect_with(ConnectOptions::default(), &headers).await.expect_err("no connection");
    assert_eq!(error.code(), "header_invalid");
    assert!(!format!("{error:?}").contains("s3cret"));
}

#[tokio::test]
async fn requests_of_the_server_are_refused() {
    let (replied, reply) = tokio::sync::oneshot::channel::<Value>();
    let replied = parking_lot::Mutex::new(Some(replied));
    let calls = parking_lot::Mutex::new(None);
    let server = HttpServer::start(move |request| match request.method_name() {
        "tools/call" => {
            let (sender, answer) = stream();
            let asks = json!({ "jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": { "messages": [], "maxTokens": 1 } });
            sender.send(event(&asks)).expect("a receiver");
            *calls.lock() = Some((sender, request.result_event(text_result("ok"))));
            answer
        }
        "POST" => {
            replied.lock().take().expect("one reply").send(request.message.clone()).expect("the test");
            if let Some((sender, result)) = calls.lock().take() {
                sender.send(result).expect("a receiver");
            }
            accepted()
        }
        _ => plain(&request),
    })
    .await;
    let connection = server.connect().await.expect("a connection");
    assert_eq!(call(&connection).await.expect("an output"), "ok");
    let reply = reply.await.expect("a reply");
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!("s"), &json!(-32_601)));
    connection.close().await;
}

#[tokio::test]
async fn failing_event_stream_is_not_reopened_in_a_loop() {
    type Breaking = fn() -> Answer;
    let streams: [Breaking; 2] = [|| events("retry: 0\nid: 1\ndata:\n\n"), || broken_events("id: 1\ndata:\n\n")];
    for breaking in streams {
        let opened = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&opened);
        let server = HttpServer::start(move |request| {
            let mut answer = match request.method_name() {
                "GET" => {
                    count.fetch_add(1, Ordering::SeqCst);
                    breaking()
                }
                _ => plain(&request),
            };
            answer.headers_mut().insert("mcp-session-id", "s".parse().expect("a value"));
            answer
        })
        .await;
        let start = tokio::time::Instant::now();
        let connection = server.connect().await.expect("a connection");
        for _ in 0..200 {
            assert_eq!(call(&connection).await.expect("an output"), "ok");
        }
        // One per second, regardless of the machine's speed.
        let (opened, seconds) = (opened.load(Ordering::SeqCst), start.elapsed().as_secs());
        assert!(opened >= 1 && opened as u64 <= seconds + 2, "{opened} streams were opened in {seconds} seconds");
        connection.close().await;
    }
}
