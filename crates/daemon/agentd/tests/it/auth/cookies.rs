//! Page sessions: a cookie that the browser attaches, and a page secret that only the page's own origin can send.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::{account, log_in, text};
use crate::support::{TestApp, TestPage, TestRequest, TestResponse};

/// Returns the pair and the attributes of the `Set-Cookie` header that starts a session.
fn session_cookie(response: &TestResponse) -> (String, Vec<String>) {
    let cookie = response.cookies().into_iter().rfind(|cookie| cookie.starts_with("svc_session=sess_"));
    let mut parts = cookie.expect("a session cookie").split("; ").map(str::to_owned);
    (parts.next().expect("a pair"), parts.collect())
}

#[track_caller]
fn expect_deletions(response: &TestResponse, paths: &[&str]) {
    let expected: Vec<String> = paths.iter().map(|path| format!("svc_session=; Path={path}; Max-Age=0")).collect();
    assert_eq!(response.cookies(), expected, "{} {}", response.method, response.path);
}

#[tokio::test]
async fn page_session_is_a_cookie_and_a_page_secret() {
    let app = TestApp::with_owner().await;
    let login = app.post("/api/auth/login").anonymous().json(&TestPage::account()).send().await.expect_status(200);
    let body = login.json();
    assert_eq!(
        (&body["token"], &body["token_type"], &body["expires_in"]),
        (&Value::Null, &json!("session"), &json!(86_400))
    );
    let (cookie, attributes) = session_cookie(&login);
    assert_eq!(attributes, ["Path=/", "Max-Age=86400", "HttpOnly", "SameSite=Strict"]);
    assert!(cookie.starts_with("svc_session=sess_") && !login.text().contains("sess_"), "{}", login.text());
    let page = TestPage::of(&login);
    assert_eq!(page.secret.len(), "page_".len() + 64);
    page.get(&app, "/api/auth/keys").send().await.expect_status(200);
    let valid = page.post(&app, "/api/auth/validate").send().await.expect_status(200).json();
    assert_eq!(valid, json!({"valid": true, "token_type": "session"}));
    let ended = page.post(&app, "/api/auth/logout").send().await.expect_status(200);
    assert_eq!(ended.json()["success"], true);
    expect_deletions(&ended, &["/", "/api", "/api/", "/api/auth", "/api/auth/", "/api/auth/logout"]);
    let refused = page.get(&app, "/api/auth/keys").send().await.expect_error(401, "invalid_credential");
    expect_deletions(&refused, &["/", "/api", "/api/", "/api/auth", "/api/auth/", "/api/auth/keys"]);
    // Without `cookie` there is no page secret.
    let token = app.post("/api/auth/login").anonymous().json(&account()).send().await.expect_status(200).json();
    assert_eq!(token["page_secret"], Value::Null);
}

#[tokio::test]
async fn half_of_a_page_session_is_rejected() {
    let app = TestApp::with_owner().await;
    let (page, other) = (TestPage::sign_in(&app).await, TestPage::sign_in(&app).await);
    let get = || app.get("/api/agents").anonymous();
    let cookie = page.cookie.as_str();
    let key = app.key.clone().expect("a key");
    let unknown_secret = format!("page_{}", "0a".repeat(32));
    let requests: Vec<(&str, TestRequest, &str)> = vec![
        ("the cookie alone", get().header("cookie", cookie), "invalid_credential"),
        ("an empty secret", get().header("cookie", cookie).header("x-svc-page", ""), "invalid_credential"),
        (
            "an unknown secret",
            get().header("cookie", cookie).header("x-svc-page", &unknown_secret),
            "invalid_credential",
        ),
        (
            "the secret of another session",
            get().header("cookie", cookie).header("x-svc-page", &other.secret),
            "invalid_credential",
        ),
        (
            "the token as the secret",
            get().header("cookie", cookie).header("x-svc-page", page.token()),
            "invalid_credential",
        ),
        ("a key as the secret", get().header("cookie", cookie).header("x-svc-page", &key), "invalid_credential"),
        ("the secret alone", get().header("x-svc-page", &page.secret), "missing_credential"),
        (
            "a key in the cookie",
            get().header("cookie", &format!("svc_session={key}")).header("x-svc-page", &page.secret),
            "invalid_credential",
        ),
        ("the token as Bearer", get().bearer(page.token()), "invalid_credential"),
        ("the token as X-API-Key", get().header("x-api-key", page.token()), "invalid_credential"),
        ("the secret as Bearer", get().bearer(&page.secret), "invalid_credential"),
        ("both as Bearer", get().bearer(page.token()).header("x-svc-page", &page.secret), "invalid_credential"),
        (
            "the secret in the query",
            app.get(&format!("/api/agents?ticket={}", page.secret)).anonymous(),
            "missing_credential",
        ),
    ];
    for (name, request, code) in requests {
        let refused = request.send().await;
        assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (401, &json!(code)), "{name}");
    }
    let alone = page.cookie_request(&app, Method::POST, "/api/auth/keys").header("x-svc-csrf", "1");
    let refused = alone.json(&json!({"name": "stolen"})).send().await.expect_error(401, "invalid_credential");
    assert!(refused.text().contains("X-Svc-Page"), "{}", refused.text());
    for (cookie, secret) in [(&page.cookie, None), (&page.cookie, Some(&other.secret))] {
        let mut request = app.post("/api/auth/validate").anonymous().header("cookie", cookie).header("x-svc-csrf", "1");
        if let Some(secret) = secret {
            request = request.header("x-svc-page", secret);
        }
        assert_eq!(request.send().await.expect_status(200).json()["valid"], false);
    }
    let bearer = app.post("/api/auth/validate").bearer(page.token()).send().await.expect_status(200);
    assert_eq!(bearer.json()["valid"], false);
    page.get(&app, "/api/agents").send().await.expect_status(200);
    other.get(&app, "/api/agents").send().await.expect_status(200);
}

#[tokio::test]
async fn bearer_session_is_never_valid_as_a_cookie() {
    let app = TestApp::with_owner().await;
    let (token, page) = (log_in(&app).await, TestPage::sign_in(&app).await);
    for secret in [None, Some(page.secret.as_str())] {
        let cookie = format!("svc_session={token}");
        let mut request = app.get("/api/agents").anonymous().header("cookie", &cookie);
        if let Some(secret) = secret {
            request = request.header("x-svc-page", secret);
        }
        request.send().await.expect_error(401, "invalid_credential");
    }
    app.get("/api/agents").bearer(&token).send().await.expect_status(200);
}

#[tokio::test]
async fn page_session_is_valid_on_every_replica_and_after_a_restart() {
    let mut app = TestApp::with_owner().await;
    let page = TestPage::sign_in(&app).await;
    if let Some(replica) = app.replica().await {
        page.get(&replica, "/api/agents").send().await.expect_status(200);
        page.cookie_request(&replica, Method::GET, "/api/agents").send().await.expect_error(401, "invalid_credential");
        let ended = page.post(&replica, "/api/auth/logout").send().await;
        ended.expect_status(200);
        page.get(&app, "/api/agents").send().await.expect_error(401, "invalid_credential");
        return;
    }
    app.restart().await;
    page.get(&app, "/api/agents").send().await.expect_status(200);
    page.cookie_request(&app, Method::GET, "/api/agents").send().await.expect_error(401, "invalid_credential");
}

#[tokio::test]
async fn page_registers_and_creates_the_first_key() {
    for path in ["/api/auth/register", "/api/setup/account"] {
        let app = TestApp::start().await;
        let page = TestPage::of(&app.post(path).json(&TestPage::account()).send().await.expect_status(201));
        // The session is rejected before the first key exists, but its cookie is not deleted.
        let early = page.get(&app, "/api/agents").send().await.expect_error(401, "bootstrap");
        assert!(early.cookies().is_empty());
        page.post(&app, "/api/auth/keys").json(&json!({"name": "first"})).send().await.expect_status(200);
        page.get(&app, "/api/agents").send().await.expect_status(200);
    }
}

#[tokio::test]
async fn change_requires_the_csrf_header() {
    let app = TestApp::with_owner().await;
    let page = TestPage::sign_in(&app).await;
    let body = json!({"name": "made by another page"});
    let with_secret = |method, path: &str| page.cookie_request(&app, method, path).header("x-svc-page", &page.secret);
    for path in [
        "/api/auth/keys",
        "/api/auth/ticket",
        "/api/auth/validate",
        "/api/auth/logout",
        "/api/auth/reauthenticate",
        "/api/setup/agent",
        "/api/nothing",
    ] {
        for wrong in [None, Some("0"), Some("1, 1")] {
            let mut request = with_secret(Method::POST, path).json(&body);
            if let Some(wrong) = wrong {
                request = request.header("x-svc-csrf", wrong);
            }
            let refused = request.send().await.expect_error(403, "csrf_header_missing");
            assert!(refused.text().contains("X-Svc-Csrf: 1"), "{path}: {}", refused.text());
        }
    }
    with_secret(Method::DELETE, "/api/agents/x").send().await.expect_error(403, "csrf_header_missing");
    assert_eq!(app.get("/api/auth/keys").send().await.json()["keys"].as_array().map(Vec::len), Some(1));
    // A presented key takes precedence over any cookie.
    let by_key = app.post("/api/auth/keys").header("cookie", &page.cookie).json(&json!({"name": "by key"}));
    by_key.send().await.expect_status(200);
    let wrong = page.get(&app, "/api/agents").bearer("svc_0123").send().await;
    wrong.expect_error(401, "invalid_credential");
    // The scheme of a proxy does not take precedence.
    let proxied = page.get(&app, "/api/agents").header("authorization", "Basic eDp5");
    proxied.send().await.expect_status(200);
}

#[tokio::test]
async fn page_session_is_rejected_from_other_origins() {
    let mut app = TestApp::start_with(|source| source.cors_origins = Some("https://ui.example".into())).await;
    app.create_owner().await;
    let page = TestPage::sign_in(&app).await;
    let own = app.url("");
    page.get(&app, "/api/agents").header("origin", &own).send().await.expect_status(200);
    page.post(&app, "/api/auth/ticket").header("origin", &own).send().await.expect_status(200);
    let neighbour = format!("http://127.0.0.1:{}", app.address.port() ^ 1);
    // Origins that may read responses with a key are rejected, too.
    for foreign in ["https://ui.example", "http://localhost:5173", &neighbour, "null", "https://evil.example"] {
        let refused = page.get(&app, "/api/agents").header("origin", foreign).send().await;
        let refused = refused.expect_error(401, "missing_credential");
        assert_eq!(refused.header("access-control-allow-credentials"), None);
        assert!(refused.cookies().is_empty());
        let ticket = page.post(&app, "/api/auth/ticket").header("origin", foreign).send().await;
        ticket.expect_error(401, "missing_credential");
        let login = app.post("/api/auth/login").anonymous().header("origin", foreign).json(&TestPage::account());
        assert!(login.send().await.expect_error(403, "foreign_origin").cookies().is_empty());
    }
    for (site, status) in [("same-origin", 200), ("none", 401), ("same-site", 401), ("cross-site", 401)] {
        page.get(&app, "/api/agents").header("sec-fetch-site", site).send().await.expect_status(status);
    }
    // A rebound host name is unknown to the daemon, regardless of the page's headers.
    let rebound = page.get(&app, "/api/agents").header("host", "evil.example");
    rebound.header("origin", "http://evil.example").send().await.expect_error(421, "unknown_host");
}

#[tokio::test]
async fn cookies_of_other_servers_do_not_lock_the_page_out() {
    let app = TestApp::with_owner().await;
    let page = TestPage::sign_in(&app).await;
    let planted: Vec<String> = (0..4).map(|n| format!("svc_session=sess_{}", n.to_string().repeat(64))).collect();
    let get = |cookies: String| {
        app.get("/api/agents").anonymous().header("cookie", &cookies).header("x-svc-page", &page.secret)
    };
    // Browsers send the cookie with the longest path first.
    for count in 1..=3 {
        let cookies = format!("{}; {}", planted[..count].join("; "), page.cookie);
        get(cookies).send().await.expect_status(200);
    }
    get(format!("theme=dark; {}; {}", page.cookie, planted[0])).send().await.expect_status(200);
    let refused = get(format!("{}; {}", planted.join("; "), page.cookie)).send().await;
    expect_deletions(&refused.expect_error(401, "invalid_credential"), &["/", "/api", "/api/", "/api/agents"]);
    // A login deletes the planted cookies, and the new cookie follows the deletions.
    let login = app.post("/api/auth/login").anonymous().header("cookie", &planted.join("; "));
    let login = login.json(&TestPage::account()).send().await.expect_status(200);
    let cookies = login.cookies();
    let (last, deletions) = cookies.split_last().expect("cookies");
    assert!(last.starts_with("svc_session=sess_"), "{cookies:?}");
    let paths = ["/", "/api", "/api/", "/api/auth", "/api/auth/", "/api/auth/login"];
    assert_eq!(deletions, paths.map(|path| format!("svc_session=; Path={path}; Max-Age=0")));
}

#[tokio::test]
async fn invalid_page_session_is_also_deleted_for_parent_domains() {
    let mut app = TestApp::start_with(|source| source.allowed_hosts = Some("agents.example.org".into())).await;
    app.create_owner().await;
    let request = app.get("/api").anonymous().header("host", "agents.example.org:7878");
    let refused = request.header("cookie", "svc_session=sess_0").send().await;
    // `/api` is public; an unknown path is not.
    assert!(refused.cookies().is_empty());
    let request = app.get("/api/x").anonymous().header("host", "agents.example.org:7878");
    let refused = request.header("cookie", "svc_session=sess_0").send().await.expect_error(401, "invalid_credential");
    let cookies = refused.cookies();
    for path in ["/", "/api", "/api/", "/api/x"] {
        for domain in ["", "; Domain=agents.example.org", "; Domain=example.org"] {
            let expected = format!("svc_session=; Path={path}{domain}; Max-Age=0");
            assert!(cookies.contains(&expected.as_str()), "{expected} in {cookies:?}");
        }
    }
    assert_eq!(cookies.len(), 12);
}

#[tokio::test]
async fn page_login_replaces_the_session_of_the_same_browser() {
    let app = TestApp::with_owner().await;
    let first = TestPage::sign_in(&app).await;
    // A login with a valid password ends any session of the user among the presented cookies.
    let cookies = format!("svc_session=sess_0; {}", first.cookie);
    let again = app.post("/api/auth/login").anonymous().header("cookie", &cookies).json(&TestPage::account());
    let second = TestPage::of(&again.send().await.expect_status(200));
    assert_ne!((&second.cookie, &second.secret), (&first.cookie, &first.secret));
    first.get(&app, "/api/agents").send().await.expect_error(401, "invalid_credential");
    second.get(&app, "/api/agents").send().await.expect_status(200);
    // A token client may have several sessions, and a wrong password ends none.
    let token = app.post("/api/auth/login").anonymous().header("cookie", &second.cookie).json(&account()).send().await;
    token.expect_status(200);
    let mut wrong = TestPage::account();
    wrong["password"] = json!("wrong horse");
    let refused = app.post("/api/auth/login").anonymous().header("cookie", &second.cookie).json(&wrong).send().await;
    refused.expect_error(401, "wrong_credentials");
    second.get(&app, "/api/agents").send().await.expect_status(200);
}

#[tokio::test]
async fn page_session_expires() {
    let app = TestApp::with_owner().await;
    let page = TestPage::sign_in(&app).await;
    app.clock.advance(Duration::from_secs(86_399));
    page.get(&app, "/api/agents").send().await.expect_status(200);
    app.clock.advance(Duration::from_secs(1));
    let refused = page.get(&app, "/api/agents").send().await.expect_error(401, "invalid_credential");
    expect_deletions(&refused, &["/", "/api", "/api/", "/api/agents"]);
}

#[tokio::test]
async fn use_of_a_page_session_is_recorded() {
    let app = TestApp::with_owner().await;
    let page = TestPage::sign_in(&app).await;
    let last_used = async || {
        app.run_workers().await;
        app.get("/api/auth/sessions").send().await.expect_status(200).json()["sessions"][0]["last_used_at"].clone()
    };
    page.cookie_request(&app, Method::GET, "/api/agents").send().await.expect_status(401);
    assert_eq!(last_used().await, Value::Null);
    page.get(&app, "/api/agents").send().await.expect_status(200);
    assert_eq!(last_used().await, "2026-01-05T09:00:00.000Z");
}

#[tokio::test]
async fn https_is_detected_from_a_trusted_proxy_and_the_base_url() {
    let mut app = TestApp::start_with(|source| {
        source.trusted_proxies = Some("127.0.0.1".into());
        source.base_url = Some("https://agents.example".into());
    })
    .await;
    app.create_owner().await;
    let attributes = async |name: &str, value: &str| {
        let login = app.post("/api/auth/login").anonymous().header(name, value).json(&TestPage::account());
        session_cookie(&login.send().await.expect_status(200)).1
    };
    let secure = "Secure".to_owned();
    assert!(attributes("x-forwarded-proto", "https").await.contains(&secure));
    assert!(attributes("host", "agents.example").await.contains(&secure));
    assert!(!attributes("x-forwarded-proto", "http").await.contains(&secure));
    // A proxy may send another Host; the Origin header shows the address that the browser loaded.
    assert!(attributes("origin", "https://agents.example").await.contains(&secure));
    // The header is ignored unless the client is a trusted proxy.
    let direct = TestApp::with_owner().await;
    let login = direct.post("/api/auth/login").anonymous().header("x-forwarded-proto", "https");
    let login = login.json(&TestPage::account()).send().await.expect_status(200);
    assert!(!session_cookie(&login).1.contains(&secure));
}

/// Opens the browser stream as a WebSocket and returns the status of the response.
async fn open_socket(app: &TestApp, query: &str, headers: &[(&'static str, &str)]) -> u16 {
    let url = format!("ws://{}/api/browser/stream{query}", app.address);
    let mut request = url.into_client_request().expect("a request");
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("a header"));
    }
    let stream = TcpStream::connect(app.address).await.expect("a connection");
    match client_async(request, stream).await {
        Ok((_, response)) => response.status().as_u16(),
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn page_socket_requires_a_ticket() {
    let app = TestApp::with_owner().await;
    let page = TestPage::sign_in(&app).await;
    let own = app.url("");
    let cookie = ("cookie", page.cookie.as_str());
    // Headers that a browser sends when a page of any origin opens a socket.
    assert_eq!(open_socket(&app, "", &[cookie]).await, 401);
    assert_eq!(open_socket(&app, "", &[cookie, ("origin", "http://evil.example")]).await, 401);
    assert_eq!(open_socket(&app, "", &[cookie, ("origin", &own)]).await, 401);
    let secret = ("x-svc-page", page.secret.as_str());
    assert_eq!(open_socket(&app, "", &[cookie, secret]).await, 401, "without an origin");
    let ticket = text(&page.post(&app, "/api/auth/ticket").send().await.expect_status(200).json(), "ticket");
    let query = format!("?ticket={ticket}");
    assert_ne!(open_socket(&app, &query, &[cookie, ("origin", &own)]).await, 401);
    assert_eq!(open_socket(&app, &query, &[cookie, ("origin", &own)]).await, 401, "a second time");
}

#[tokio::test]
async fn page_download_consumes_one_ticket() {
    let app = TestApp::with_owner().await;
    let page = TestPage::sign_in(&app).await;
    for path in ["/api/settings/export", "/api/settings/memory/export"] {
        page.cookie_request(&app, Method::GET, path).send().await.expect_error(401, "invalid_credential");
        let ticket = text(&page.post(&app, "/api/auth/ticket").send().await.expect_status(200).json(), "ticket");
        let download = || app.get(&format!("{path}?ticket={ticket}")).anonymous().header("sec-fetch-site", "none");
        download().send().await.expect_status(200);
        download().send().await.expect_error(401, "invalid_credential");
    }
    // Other operations accept no tickets.
    let ticket = text(&page.post(&app, "/api/auth/ticket").send().await.expect_status(200).json(), "ticket");
    let refused = app.get(&format!("/api/auth/keys?ticket={ticket}")).anonymous().send().await;
    refused.expect_error(401, "missing_credential");
    let ended = page.post(&app, "/api/auth/logout").send().await;
    ended.expect_status(200);
    let late = app.get(&format!("/api/settings/export?ticket={ticket}")).anonymous().send().await;
    late.expect_error(401, "invalid_credential");
}
