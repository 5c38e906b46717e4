//! Middleware in its order: headers, CORS, host, authentication; and the format of errors.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::TestApp;
use crate::support::chat_fixture::create_agent;

#[tokio::test]
async fn unknown_paths_and_methods_return_the_error_format() {
    let app = TestApp::with_owner().await;
    app.get("/api/nothing").send().await.expect_error(404, "not_found");
    app.post("/nothing").anonymous().send().await.expect_error(404, "not_found");
    app.get("/api/nothing").anonymous().send().await.expect_status(401);
    app.patch("/api/agents").anonymous().send().await.expect_status(401);
    let answer = app.patch("/api/agents").send().await.expect_error(405, "method_not_allowed");
    let allow = answer.header("allow").expect("the header Allow");
    assert!(allow.contains("GET") && allow.contains("POST"), "{allow}");
}

#[tokio::test]
async fn invalid_json_bodies_are_rejected() {
    let app = TestApp::with_owner().await;
    let post = || app.post("/api/agents");
    post().raw_json("{").send().await.expect_error(400, "malformed_json");
    post().raw_json("").send().await.expect_error(400, "malformed_json");
    post().raw_json("[]").send().await.expect_error(400, "invalid_request");
    post().raw_json("null").send().await.expect_error(400, "invalid_request");
    post().raw_json("[".repeat(100_000)).send().await.expect_error(400, "malformed_json");
    post().raw_json(format!("{{\"a\":{}1{}}}", "[".repeat(120), "]".repeat(120))).send().await.expect_status(400);
    post().raw_json(vec![b'"', 0xff, b'"']).send().await.expect_error(400, "malformed_json");
    post().body("text/plain", "{}").send().await.expect_error(415, "unsupported_media_type");
    post().body("application/x-www-form-urlencoded", "a=b").send().await.expect_status(415);
    let large = json!({"svc_name": "x".repeat(3 * 1024 * 1024)}).to_string();
    post().raw_json(large).send().await.expect_error(413, "body_too_large");
    assert_eq!(app.get("/api/agents").send().await.json()["agents"], json!([]));
}

#[tokio::test]
async fn missing_body_is_an_empty_object() {
    let app = TestApp::with_owner().await;
    let refused = app.post("/api/agents").send().await.expect_error(400, "invalid_request");
    assert!(refused.bad_fields().contains(&"svc_name".to_owned()), "{}", refused.text());
    create_agent(&app, "scout").await;
    app.post("/api/chat/conversations").send().await.expect_status(201);
    let untyped = reqwest::Client::new().post(app.url("/api/chat/conversations")).body("{}");
    let untyped = untyped.bearer_auth(app.key.as_deref().expect("a key")).send().await.expect("an answer");
    assert_eq!(untyped.status().as_u16(), 415);
    let typed = app.post("/api/chat/conversations").body("text/plain", "").send().await;
    typed.expect_error(415, "unsupported_media_type");
    let fresh = TestApp::start().await;
    assert_eq!(fresh.post("/api/setup/complete").send().await.expect_status(200).json()["name"], "first");
}

#[tokio::test]
async fn request_id_is_accepted_if_valid_and_generated_otherwise() {
    let app = TestApp::start().await;
    let id_for = async |given: &str| {
        let answer = app.get("/health").header("x-request-id", given).send().await;
        answer.header("x-request-id").expect("an id").to_owned()
    };
    assert_eq!(id_for("trace-1.a_B").await, "trace-1.a_B");
    assert!(id_for("with space").await.starts_with("req_"));
    assert!(id_for(&"x".repeat(129)).await.starts_with("req_"));
}

#[tokio::test]
async fn unknown_hosts_are_rejected() {
    let app = TestApp::start_with(|source| source.allowed_hosts = Some("agents.example".into())).await;
    for host in ["localhost", "127.0.0.1:9", "[::1]", "192.0.2.7", "agents.example", "AGENTS.EXAMPLE:443"] {
        let answer = app.get("/api/auth/bootstrap").header("host", host).send().await;
        assert_eq!(answer.status.as_u16(), 200, "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "agents.example.evil.example"] {
        app.get("/api/auth/bootstrap").header("host", host).send().await.expect_error(421, "unknown_host");
        app.get("/api/agents").header("host", host).send().await.expect_error(421, "unknown_host");
        for probe in ["/health", "/health/live", "/health/ready", "/api/health", "/api/metrics/prometheus"] {
            app.get(probe).header("host", host).send().await.expect_status(200);
        }
    }
}

#[tokio::test]
async fn cors_allows_only_configured_origins() {
    let app = TestApp::start_with(|source| source.cors_origins = Some("https://ui.example".into())).await;
    let preflight = |origin: &str| {
        app.request(reqwest::Method::OPTIONS, "/api/agents")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .send()
    };
    for origin in ["https://ui.example", "http://localhost:5173", &app.url("")] {
        let answer = preflight(origin).await.expect_status(204);
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert_eq!(answer.header("access-control-allow-methods"), Some("GET, POST, PUT, PATCH, DELETE, OPTIONS"));
        assert_eq!(answer.header("access-control-allow-headers"), Some("Authorization, X-API-Key, Content-Type"));
        assert_eq!(answer.header("access-control-max-age"), Some("3600"));
        let answer = app.get("/api/agents").header("origin", origin).send().await.expect_status(401);
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        let exposed = answer.header("access-control-expose-headers").expect("exposed headers");
        assert_eq!(exposed, "X-Request-Id, Retry-After, Idempotency-Replayed");
    }
    for origin in ["https://evil.example", "null", "https://ui.example.evil.example"] {
        let answer = preflight(origin).await;
        assert_eq!(answer.header("access-control-allow-origin"), None, "{origin}");
        let answer = app.get("/health").header("origin", origin).send().await.expect_status(200);
        assert_eq!(answer.header("access-control-allow-origin"), None, "{origin}");
    }
    // CORS headers are set before the host check, so that the page can read the error.
    let answer =
        app.get("/api/agents").header("origin", "https://ui.example").header("host", "evil.example").send().await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("access-control-allow-origin")),
        (421, Some("https://ui.example"))
    );
}

/// Applies with and without the built-in page.
#[tokio::test]
async fn only_page_links_return_the_page() {
    let app = TestApp::with_owner().await;
    let page = app.get("/").anonymous().send().await.expect_status(200);
    let steps = page.text().contains(&app.url("/api/auth/register")) && page.text().contains("make ui");
    assert!(steps || page.text().contains("/assets/"), "{}", page.text());
    for link in ["/chat/conv_1", "/agents/ada/files/notes.md", "/memory?q=x"] {
        let answer = app.get(link).anonymous().header("accept", "text/html").send().await.expect_status(200);
        assert_eq!(answer.text(), page.text(), "{link}");
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        assert!(
            answer.header("content-security-policy").is_some_and(|policy| policy.starts_with("default-src 'none'; "))
        );
    }
    for path in ["/assets/none.js", "/v1/none", "/mcp/none", "/health/none", "/.well-known/none", "/api"] {
        app.get(path).anonymous().send().await.expect_error(404, "not_found");
    }
    app.get("/api/none").anonymous().send().await.expect_status(401);
    let program = app.get("/agents").anonymous().header("accept", "application/json").send().await;
    program.expect_error(404, "not_found");
    app.get("/chat").header("host", "evil.example").send().await.expect_error(421, "unknown_host");
}

#[tokio::test]
async fn base_url_is_an_allowed_origin() {
    let app = TestApp::start_with(|source| source.base_url = Some("https://Agents.example:443/daemon/".into())).await;
    let allowed = async |origin: &str| {
        let answer = app.get("/api/auth/bootstrap").header("host", "agents.example").header("origin", origin).send();
        answer.await.expect_status(200).header("access-control-allow-origin").map(str::to_owned)
    };
    // Browsers send the origin without the path and the default port.
    assert_eq!(allowed("https://agents.example").await.as_deref(), Some("https://agents.example"));
    assert_eq!(allowed("http://agents.example").await, None);
    assert_eq!(allowed("https://agents.example:8443").await, None);
}

/// Sends an unauthenticated request with only the beginning of its body.
pub async fn begin_slow_request(app: &TestApp) -> TcpStream {
    let mut stream = TcpStream::connect(app.address).await.expect("a connection");
    let head = "POST /api/auth/login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 1000\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.expect("written");
    stream
}

/// Reads the whole response until the connection is closed.
async fn expect_too_slow(stream: &mut TcpStream) {
    let mut answer = String::new();
    let reading = tokio::time::timeout(Duration::from_secs(300), stream.read_to_string(&mut answer));
    reading.await.expect("the connection is closed").expect("an answer and the end");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 408 ") && head.to_lowercase().contains("x-request-id"), "{head}");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["code"], "body_too_slow");
}

#[tokio::test]
async fn slow_body_is_aborted_and_frees_its_slot() {
    let app = TestApp::start().await;
    let mut silent = begin_slow_request(&app).await;
    let mut dripping = begin_slow_request(&app).await;
    // From here on time advances when all tasks are waiting.
    tokio::time::pause();
    expect_too_slow(&mut silent).await;
    let (mut reader, mut writer) = dripping.split();
    let drip = async {
        loop {
            tokio::time::sleep(Duration::from_secs(20)).await;
            if writer.write_all(b" ").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let mut first = [0; 12];
    tokio::select! {
        () = drip => {}
        read = reader.read_exact(&mut first) => assert_eq!((read.expect("an answer"), &first), (12, b"HTTP/1.1 408")),
        () = tokio::time::sleep(Duration::from_secs(300)) => panic!("the slot is still occupied"),
    }
}

/// Sends raw bytes on a new connection and returns the response.
async fn send_raw(app: &TestApp, request: &str) -> String {
    let mut stream = TcpStream::connect(app.address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer and the end");
    answer
}

#[tokio::test]
async fn unread_bodies_are_limited_too() {
    let app = TestApp::with_owner().await;
    let large = || vec![b'x'; 3 << 20];
    for path in ["/api/auth/validate", "/api/auth/ticket", "/api/providers/openai/test", "/api/auth/logout"] {
        let answer = app.post(path).raw_json(large()).send().await;
        assert!(answer.expect_error(413, "body_too_large").text().contains("exceeds the limit of this endpoint"));
    }
    let refused = app.post("/api/auth/ticket").anonymous().raw_json(large()).send().await;
    refused.expect_error(401, "missing_credential");
    // A client that sends `Expect: 100-continue` is rejected before it sends the body.
    for path in ["/api/auth/validate", "/api/auth/login", "/api/agents"] {
        let key = app.key.as_deref().expect("a key");
        let asked = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
             Expect: 100-continue\r\nContent-Length: 99000000\r\n\r\n"
        );
        let answer = send_raw(&app, &asked).await;
        assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("\"body_too_large\""), "{path}: {answer}");
    }
}

/// The rejection also reaches clients that send the whole body before they read.
#[tokio::test]
async fn rejection_reaches_a_client_that_is_still_sending() {
    let app = TestApp::with_owner().await;
    let body = vec![b'x'; 3 << 20];
    let key = format!("Authorization: Bearer {}\r\n", app.key.as_deref().expect("a key"));
    for (request, host, credential, status) in [
        ("POST /api/agents", "localhost", "", 401),
        ("POST /api/nothing", "localhost", key.as_str(), 404),
        ("PUT /api/agents", "localhost", &key, 405),
        ("POST /api/agents", "evil.example", &key, 421),
        ("POST /api/agents", "localhost", &key, 413),
        ("POST /api/settings/avatar", "localhost", "", 401),
    ] {
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: {host}\r\n{credential}Content-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(app.address).await.expect("a connection");
        stream.write_all(head.as_bytes()).await.expect("send the head");
        stream.write_all(&body).await.unwrap_or_else(|error| panic!("{request}: send the body: {error}"));
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).await.expect("an answer");
        assert_eq!(begin, format!("HTTP/1.1 {status}").as_bytes(), "{request}");
    }
}

#[tokio::test]
async fn request_must_have_exactly_one_host() {
    let app = TestApp::start().await;
    for path in ["/health", "/api/auth/bootstrap"] {
        let head =
            |version: &str, hosts: &str| format!("GET {path} HTTP/{version}\r\n{hosts}Connection: close\r\n\r\n");
        let host = "Host: localhost\r\n";
        for bad in
            [head("1.1", ""), head("1.1", &host.repeat(2)), head("1.0", "Host: localhost\r\nHost: evil.example\r\n")]
        {
            let answer = send_raw(&app, &bad).await;
            let has_code = answer.contains("\"bad_host\"");
            assert!(answer.get(8..13) == Some(" 400 ") && has_code, "{bad}: {answer}");
        }
        for good in [head("1.1", host), head("1.0", "")] {
            let answer = send_raw(&app, &good).await;
            assert_eq!(answer.get(8..13), Some(" 200 "), "{good}: {answer}");
        }
    }
}
