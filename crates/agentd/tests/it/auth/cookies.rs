//! The session of the daemon's own page, in a cookie that a browser adds to requests by itself.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::account;
use crate::support::{TestApp, TestRequest, TestResponse};

/// `account`, and what the page adds.
fn from_page() -> Value {
    let mut body = account();
    body["cookie"] = json!(true);
    body
}

/// The pair that a browser would send back, and what the daemon said of it.
fn kept_cookie(answer: &TestResponse) -> (String, Vec<String>) {
    let mut parts = answer.header("set-cookie").expect("a cookie").split("; ").map(str::to_owned);
    (parts.next().expect("a pair"), parts.collect())
}

async fn log_in_page(app: &TestApp) -> String {
    let answer = app.post("/api/auth/login").anonymous().json(&from_page()).send().await.expect_status(200);
    kept_cookie(&answer).0
}

/// As the page sends what changes something.
fn with_cookie(request: TestRequest, cookie: &str) -> TestRequest {
    request.anonymous().header("cookie", cookie).header("x-svc-csrf", "1")
}

#[tokio::test]
async fn a_page_logs_in_and_out_without_seeing_its_token() {
    let app = TestApp::with_owner().await;
    let answer = app.post("/api/auth/login").anonymous().json(&from_page()).send().await.expect_status(200);
    let body = answer.json();
    assert_eq!(
        (&body["token"], &body["token_type"], &body["expires_in"]),
        (&Value::Null, &json!("session"), &json!(86_400))
    );
    let (cookie, attributes) = kept_cookie(&answer);
    assert_eq!(attributes, ["Path=/", "Max-Age=86400", "HttpOnly", "SameSite=Strict"]);
    assert!(cookie.starts_with("svc_session=sess_") && !answer.text().contains("sess_"), "{}", answer.text());
    app.get("/api/auth/keys").anonymous().header("cookie", &cookie).send().await.expect_status(200);
    let valid = with_cookie(app.post("/api/auth/validate"), &cookie).send().await.expect_status(200).json();
    assert_eq!(valid, json!({"valid": true, "token_type": "session"}));
    let made = with_cookie(app.post("/api/auth/keys"), &cookie).json(&json!({"name": "laptop"})).send().await;
    made.expect_status(200);
    let ended = with_cookie(app.post("/api/auth/logout"), &cookie).send().await.expect_status(200);
    assert_eq!(ended.json()["success"], true);
    let (emptied, attributes) = kept_cookie(&ended);
    assert!(emptied == "svc_session=" && attributes.contains(&"Max-Age=0".to_owned()), "{attributes:?}");
    // Who still sends it is told to drop it.
    let refused = app.get("/api/auth/keys").anonymous().header("cookie", &cookie).send().await;
    assert_eq!(kept_cookie(&refused.expect_error(401, "invalid_credential")).0, "svc_session=");
}

#[tokio::test]
async fn a_page_registers_and_makes_the_first_key() {
    for path in ["/api/auth/register", "/api/setup/account"] {
        let app = TestApp::start().await;
        let answer = app.post(path).json(&from_page()).send().await.expect_status(201);
        let (cookie, _) = kept_cookie(&answer);
        assert_eq!(answer.json()["token"], Value::Null);
        // It opens nothing yet, and is not taken back for that.
        let early = app.get("/api/agents").header("cookie", &cookie).send().await.expect_error(401, "bootstrap");
        assert_eq!(early.header("set-cookie"), None);
        let key = with_cookie(app.post("/api/auth/keys"), &cookie).json(&json!({"name": "first"})).send().await;
        key.expect_status(200);
        app.get("/api/agents").header("cookie", &cookie).send().await.expect_status(200);
    }
}

#[tokio::test]
async fn a_change_needs_the_pages_own_header() {
    let app = TestApp::with_owner().await;
    let cookie = log_in_page(&app).await;
    let body = json!({"name": "made by another page"});
    for path in [
        "/api/auth/keys",
        "/api/auth/ticket",
        "/api/auth/validate",
        "/api/auth/logout",
        "/api/setup/agent",
        "/api/nothing",
    ] {
        for wrong in [None, Some("0"), Some("1, 1")] {
            let mut request = app.post(path).anonymous().header("cookie", &cookie).json(&body);
            if let Some(wrong) = wrong {
                request = request.header("x-svc-csrf", wrong);
            }
            let refused = request.send().await.expect_error(403, "csrf_header_missing");
            assert!(refused.text().contains("X-Svc-Csrf: 1"), "{path}: {}", refused.text());
        }
    }
    app.delete("/api/agents/x")
        .anonymous()
        .header("cookie", &cookie)
        .send()
        .await
        .expect_error(403, "csrf_header_missing");
    assert_eq!(app.get("/api/auth/keys").send().await.json()["keys"].as_array().map(Vec::len), Some(1));
    // Who presents a key asks with that, whatever a browser adds.
    app.post("/api/auth/keys")
        .header("cookie", &cookie)
        .json(&json!({"name": "by key"}))
        .send()
        .await
        .expect_status(200);
    let wrong = app.get("/api/agents").bearer("svc_0123").header("cookie", &cookie).send().await;
    wrong.expect_error(401, "invalid_credential");
    // Nobody else's scheme stands in its way.
    let proxied = app.get("/api/agents").anonymous().header("authorization", "Basic eDp5").header("cookie", &cookie);
    proxied.send().await.expect_status(200);
}

#[tokio::test]
async fn cookies_count_on_no_other_origin() {
    let mut app = TestApp::start_with(|source| source.cors_origins = Some("https://ui.example".into())).await;
    app.make_owner().await;
    let cookie = log_in_page(&app).await;
    let ask = |request: TestRequest, name: &str, value: &str| with_cookie(request, &cookie).header(name, value).send();
    let own = app.url("");
    ask(app.get("/api/agents"), "origin", &own).await.expect_status(200);
    ask(app.post("/api/auth/ticket"), "origin", &own).await.expect_status(200);
    let neighbour = format!("http://127.0.0.1:{}", app.address.port() ^ 1);
    // Also not of those that may read answers with a key.
    for foreign in ["https://ui.example", "http://localhost:5173", &neighbour, "null", "https://evil.example"] {
        let refused = ask(app.get("/api/agents"), "origin", foreign).await.expect_error(401, "missing_credential");
        assert_eq!(refused.header("access-control-allow-credentials"), None);
        ask(app.post("/api/auth/ticket"), "origin", foreign).await.expect_error(401, "missing_credential");
        let login = app.post("/api/auth/login").anonymous().header("origin", foreign).json(&from_page()).send().await;
        assert_eq!(login.expect_error(403, "foreign_origin").header("set-cookie"), None);
    }
    for (site, status) in [("same-origin", 200), ("none", 200), ("same-site", 401), ("cross-site", 401)] {
        ask(app.get("/api/agents"), "sec-fetch-site", site).await.expect_status(status);
    }
    // A name that is rebound to our address is no name of ours, whatever its page sends.
    let rebound = with_cookie(app.get("/api/agents"), &cookie).header("host", "evil.example");
    rebound.header("origin", "http://evil.example").send().await.expect_error(421, "unknown_host");
}

#[tokio::test]
async fn what_is_no_single_session_in_a_cookie_opens_nothing() {
    let app = TestApp::with_owner().await;
    let cookie = log_in_page(&app).await;
    let key = app.key.clone().expect("a key");
    let twice = format!("{cookie}; svc_session=sess_{}", "0".repeat(64));
    app.get("/api/agents").anonymous().header("cookie", &twice).send().await.expect_error(401, "missing_credential");
    let with_key = format!("svc_session={key}");
    let refused = app.get("/api/agents").anonymous().header("cookie", &with_key).send().await;
    refused.expect_error(401, "invalid_credential");
    let valid = with_cookie(app.post("/api/auth/validate"), &with_key).send().await.expect_status(200).json();
    assert_eq!(valid["valid"], false);
}

#[tokio::test]
async fn a_login_takes_the_place_of_what_its_browser_had() {
    let app = TestApp::with_owner().await;
    let first = log_in_page(&app).await;
    let again = app.post("/api/auth/login").anonymous().header("cookie", &first).json(&from_page()).send().await;
    let second = kept_cookie(&again.expect_status(200)).0;
    assert_ne!(second, first);
    app.get("/api/agents").anonymous().header("cookie", &first).send().await.expect_error(401, "invalid_credential");
    app.get("/api/agents").anonymous().header("cookie", &second).send().await.expect_status(200);
    // Who takes a token may keep several, and a wrong password ends nothing.
    let token = app.post("/api/auth/login").anonymous().header("cookie", &second).json(&account()).send().await;
    token.expect_status(200);
    let mut wrong = from_page();
    wrong["password"] = json!("wrong horse");
    let refused = app.post("/api/auth/login").anonymous().header("cookie", &second).json(&wrong).send().await;
    refused.expect_error(401, "wrong_credentials");
    app.get("/api/agents").anonymous().header("cookie", &second).send().await.expect_status(200);
}

#[tokio::test]
async fn a_cookie_ends_with_its_session() {
    let app = TestApp::with_owner().await;
    let cookie = log_in_page(&app).await;
    app.clock.advance(Duration::from_secs(86_400));
    let refused = app.get("/api/agents").anonymous().header("cookie", &cookie).send().await;
    assert_eq!(kept_cookie(&refused.expect_error(401, "invalid_credential")).0, "svc_session=");
}

#[tokio::test]
async fn https_is_known_from_a_trusted_proxy_and_the_base_url() {
    let mut app = TestApp::start_with(|source| {
        source.trusted_proxies = Some("127.0.0.1".into());
        source.base_url = Some("https://agents.example".into());
    })
    .await;
    app.make_owner().await;
    let attributes = async |name: &str, value: &str| {
        let login = app.post("/api/auth/login").anonymous().header(name, value).json(&from_page()).send().await;
        kept_cookie(&login.expect_status(200)).1
    };
    let secure = "Secure".to_owned();
    assert!(attributes("x-forwarded-proto", "https").await.contains(&secure));
    assert!(attributes("host", "agents.example").await.contains(&secure));
    assert!(!attributes("x-forwarded-proto", "http").await.contains(&secure));
    // A proxy that sends another Host: the page says what it was loaded from.
    assert!(attributes("origin", "https://agents.example").await.contains(&secure));
    // Who is no trusted proxy says nothing of the way here.
    let direct = TestApp::with_owner().await;
    let login = direct.post("/api/auth/login").anonymous().header("x-forwarded-proto", "https").json(&from_page());
    assert!(!kept_cookie(&login.send().await.expect_status(200)).1.contains(&secure));
}

#[tokio::test]
async fn a_socket_by_cookie_needs_its_own_origin() {
    let app = TestApp::with_owner().await;
    let cookie = log_in_page(&app).await;
    let connect = async |origin: Option<&str>| {
        let mut request = format!("ws://{}/api/browser/stream", app.address).into_client_request().expect("a request");
        request.headers_mut().insert("cookie", cookie.parse().expect("a header"));
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().expect("a header"));
        }
        let stream = TcpStream::connect(app.address).await.expect("a connection");
        match client_async(request, stream).await {
            Ok((_, response)) => response.status().as_u16(),
            Err(Error::Http(response)) => response.status().as_u16(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(connect(None).await, 401);
    assert_eq!(connect(Some("http://evil.example")).await, 401);
    assert_ne!(connect(Some(&app.url(""))).await, 401);
}
