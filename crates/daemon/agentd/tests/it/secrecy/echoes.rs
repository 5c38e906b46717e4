//! Receivers of a secret may echo it; echoed secrets are never stored.

use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

use super::{create, dump};
use crate::hooks::{emit, settle};
use crate::skills::{RecordedRequest, Server, app, call};

const BEARER: &str = "bearer/very+secret";
const PASSWORD: &str = "pass word&1";
const TOKEN: &str = "query-token-0123";
const SIGNING: &str = "0123456789abcdef0123456789abcdef";

/// Returns everything in the request in several encodings.
fn echo(received: &RecordedRequest) -> String {
    let all = format!("{} {:?} {}", received.uri, received.headers, received.body);
    let own = received.headers.get("x-custom-auth").cloned().unwrap_or_default();
    let login = received.headers.get("authorization").cloned().unwrap_or(own);
    let plain = login.rsplit(' ').next().and_then(|login| STANDARD.decode(login).ok());
    let plain = plain.map(|login| String::from_utf8_lossy(&login).into_owned()).unwrap_or_default();
    let percent = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>().replace("%20", "+");
    format!("{login} {plain} {all} {} {}", STANDARD.encode(&all), percent(&login).len())
}

fn assert_clean(text: &str, what: &str) {
    let login = STANDARD.encode(format!("ada:{PASSWORD}"));
    for secret in [BEARER, PASSWORD, TOKEN, SIGNING, &login, "pass%20word%261", "bearer%2Fvery%2Bsecret"] {
        assert!(!text.contains(secret), "{secret} in {what}: {text}");
    }
    for secret in [BEARER, TOKEN] {
        let inside = STANDARD.encode(secret);
        assert!(!text.contains(inside.trim_end_matches('=')), "{secret} in base64 in {what}");
    }
}

#[tokio::test]
async fn hook_receiver_echoing_secrets_leaves_none_stored() {
    let app = app().await;
    let receiver = Server::start(|received| (StatusCode::BAD_REQUEST, echo(received)).into_response()).await;
    let with_login = receiver.url("/in?token=").replace("http://", "http://ada:pass%20word%261@") + TOKEN;
    let bearer = receiver.url("/in");
    for queued in [true, false] {
        for config in [
            json!({"url": with_login, "secret": SIGNING, "queued": queued}),
            json!({"url": bearer, "headers": {"Authorization": format!("Bearer {BEARER}")}, "queued": queued}),
            json!({"url": bearer, "headers": {"X-Custom-Auth": BEARER}, "queued": queued}),
        ] {
            let hook = json!({"name": "h", "event_type": "memory.stored", "hook_type": "http", "max_retries": 1, "config": config});
            let hook = create(&app, "/api/hooks", hook).await;
            emit(&app, "memory.stored", json!({})).await;
            settle(&app).await;
            for list in ["deliveries", "executions"] {
                let list = app.get(&format!("{hook}/{list}")).send().await.expect_status(200);
                assert_clean(&list.text(), &hook);
                if list.json()["total"] == 1 {
                    assert!(list.text().contains("[hidden]"), "{}", list.text());
                }
            }
            app.delete(&hook).send().await.expect_status(200);
        }
    }
    assert!(receiver.requests().len() >= 6);
    assert_clean(&rows_besides(&dump(&app).await, "\"X-Custom-Auth\""), "the database");
}

/// A custom header without a credential name is stored in the config of the hook.
fn rows_besides(dump: &str, but: &str) -> String {
    dump.lines().filter(|line| !line.contains(&but.replace('"', "\\\""))).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn http_tool_echoing_secrets_reveals_none_to_the_model() {
    let app = app().await;
    let server = Server::start(|received| match received.uri.path() {
        "/json" => {
            axum::Json(json!({"echo": echo(received), received.headers["x-own"].as_str(): [received.headers["x-own"]]}))
                .into_response()
        }
        "/redirect" => (StatusCode::FOUND, [("location", format!("/?{}", received.headers["x-own"]))]).into_response(),
        _ => echo(received).into_response(),
    })
    .await;
    for path in ["/json", "/text", "/redirect"] {
        let tool = json!({"name": "api", "description": "Asks.", "kind": "http", "request": {
            "url": server.url(&format!("{path}?token={TOKEN}")),
            "secret_headers": {"authorization": format!("Bearer {BEARER}"), "x-own": BEARER}}});
        let tool = create(&app, "/api/settings/skills/custom", tool).await;
        let output = match call(&app, "api", json!({})).await {
            Ok(answer) => answer.to_string(),
            Err(error) => error.to_string(),
        };
        assert_clean(&output, path);
        assert!(path == "/redirect" || output.contains("[hidden]"), "{output}");
        app.delete(&tool).send().await.expect_status(200);
    }
}

fn tool_server(received: &RecordedRequest) -> Response {
    let request: Value = serde_json::from_str(&received.body).unwrap_or_default();
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": echo(received), "version": "1"}}),
        "tools/list" => {
            json!({"tools": [{"name": "say", "description": echo(received), "inputSchema": {"type": "object"}},
            {"name": "fail", "inputSchema": {"type": "object"}}, {"name": "refuse", "inputSchema": {"type": "object"}}]})
        }
        "tools/call" if request["params"]["name"] == "refuse" => {
            let error = json!({"code": -32000, "message": echo(received)});
            return axum::Json(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).into_response();
        }
        "tools/call" => {
            json!({"content": [{"type": "text", "text": echo(received)}], "structuredContent": {"said": echo(received)},
            "isError": request["params"]["name"] == "fail"})
        }
        "ping" => json!({}),
        _ => return StatusCode::ACCEPTED.into_response(),
    };
    axum::Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}

#[tokio::test]
async fn tool_server_echoing_secrets_leaves_none_stored() {
    let app = app().await;
    let server = Server::start(tool_server).await;
    let url = server.url(&format!("/mcp?api_key={TOKEN}"));
    let fields = json!({"name": "web", "transport": "http", "url": url, "headers": {"Authorization": format!("Bearer {BEARER}")}});
    let path = create(&app, "/api/settings/skills/mcp", fields).await;
    let discovered = app.post(&format!("{path}/discover")).send().await.expect_status(200);
    assert_clean(&discovered.text(), "discover");
    for tool in ["web_say", "web_fail", "web_refuse"] {
        let output = match call(&app, tool, json!({})).await {
            Ok(answer) => answer.to_string(),
            Err(error) => error.to_string(),
        };
        assert_clean(&output, tool);
        assert!(output.contains("[hidden]"), "{output}");
    }
    for shown in [path.clone(), format!("{path}/status")] {
        assert_clean(&app.get(&shown).send().await.expect_status(200).text(), &shown);
    }
    assert_clean(&app.post(&format!("{path}/test")).send().await.expect_status(200).text(), "test");
    assert_clean(&dump(&app).await, "the database");
}
