//! Credentials in URLs are secrets: they are encrypted and shown as `***`.

use agentd_store::args;
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{create, dump, reader};
use crate::hooks::receiver::Receiver;
use crate::hooks::{emit, settle};
use crate::skills::{Server, app, call};
use crate::support::TestApp;

const PASSWORD: &str = "canary-password";
const TOKEN: &str = "canary-token";

fn with_credentials(url: &str) -> String {
    let scheme = url.replacen("://", &format!("://ada:{PASSWORD}@"), 1);
    format!("{scheme}?q=1&token={TOKEN}")
}

fn masked(url: &str) -> String {
    format!("{}?q=1&token=***", url.replacen("://", "://***@", 1))
}

/// Returns whether a request has the password and the token.
fn has_credentials(request: &Value) -> bool {
    let login = format!("Basic {}", STANDARD.encode(format!("ada:{PASSWORD}")));
    request["authorization"] == json!(login) && request["query"] == json!(format!("q=1&token={TOKEN}"))
}

async fn server() -> Server {
    Server::start(|_| axum::Json(json!({})).into_response()).await
}

fn last(server: &Server) -> Value {
    let request = server.requests().pop().expect("a request");
    json!({"authorization": request.headers.get("authorization"), "query": request.uri.query()})
}

async fn config(app: &TestApp, hook: &str) -> Value {
    app.get(hook).send().await.expect_status(200).json()["config"].clone()
}

#[tokio::test]
async fn credentials_in_a_hook_url_are_encrypted_masked_and_kept() {
    let app = app().await;
    let (first, second) = (server().await, server().await);
    let url = first.url("/in");
    let hook = json!({"name": "h", "event_type": "memory.stored", "hook_type": "http",
        "config": {"url": with_credentials(&url), "queued": true}});
    let made = app.post("/api/hooks").json(&hook).header("idempotency-key", "once").send().await.expect_status(201);
    assert_eq!(made.json()["config"]["url"], masked(&url));
    let hook = format!("/api/hooks/{}", made.json()["id"].as_str().unwrap());
    let fire = async || {
        emit(&app, "memory.stored", json!({})).await;
        settle(&app).await;
    };
    fire().await;
    assert!(has_credentials(&last(&first)), "{}", last(&first));
    // The masked URL keeps the credentials on the same server, also with another path.
    for back in [masked(&url), masked(&first.url("/other"))] {
        let change = json!({"config": {"url": back}});
        assert_eq!(app.put(&hook).json(&change).send().await.expect_status(200).json()["config"]["url"], back);
        fire().await;
        assert!(has_credentials(&last(&first)), "{}", last(&first));
    }
    for bad in [masked(&second.url("/in")), first.url("/in?sig=***")] {
        let refused = app.put(&hook).json(&json!({"config": {"url": bad}})).send().await;
        assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["config.url"], "{bad}");
    }
    let database = dump(&app).await;
    assert!(!database.contains(PASSWORD) && !database.contains(TOKEN), "{database}");
    let moved = json!({"config": {"url": with_credentials(&second.url("/in"))}});
    app.put(&hook).json(&moved).send().await.expect_status(200);
    fire().await;
    assert!(has_credentials(&last(&second)));
    app.put(&hook).json(&json!({"config": {"url": second.url("/in")}})).send().await.expect_status(200);
    fire().await;
    assert_eq!(last(&second), json!({"authorization": null, "query": null}));
    let left = app.running().context().db.read().await.unwrap().fetch_all("SELECT name FROM secrets", args![]).await;
    assert_eq!(left.unwrap().len(), 0, "all secrets were deleted");
}

#[tokio::test]
async fn tokens_in_urls_of_tools_and_tool_servers_are_hidden() {
    let app = app().await;
    let server = server().await;
    let url = |path: &str, token: &str| server.url(&format!("{path}?q=1&token={token}"));
    let mcp = json!({"name": "docs", "transport": "http", "url": url("/mcp", TOKEN)});
    let mcp = create(&app, "/api/settings/skills/mcp", mcp).await;
    let program =
        json!({"name": "prog", "transport": "stdio", "command": "uvx", "args": ["--token", TOKEN], "enabled": false});
    let program = create(&app, "/api/settings/skills/mcp", program).await;
    let tool =
        json!({"name": "api", "description": "Asks.", "kind": "http", "request": {"url": url("/{{input.x}}", TOKEN)}});
    let tool = create(&app, "/api/settings/skills/custom", tool).await;
    for (path, pointer, shown) in
        [(&mcp, "/url", url("/mcp", "***")), (&tool, "/request/url", url("/{{input.x}}", "***"))]
    {
        let whole = app.get(path).send().await.expect_status(200).json();
        assert_eq!(whole.pointer(pointer), Some(&json!(shown)));
        // The response of GET can be sent back.
        let back = app.put(path).json(&whole).send().await.expect_status(200).json();
        assert_eq!(back.pointer(pointer), Some(&json!(shown)));
        let text = serde_json::to_string(&whole).unwrap().replace(&server.url(""), "https://evil.example");
        let elsewhere: Value = serde_json::from_str(&text).unwrap();
        app.put(path).json(&elsewhere).send().await.expect_error(400, "invalid_request");
    }
    call(&app, "api", json!({"x": "y"})).await.unwrap();
    assert_eq!(last(&server)["query"], format!("q=1&token={TOKEN}"));
    app.post(&format!("{mcp}/test")).send().await.expect_status(200);
    assert_eq!(last(&server)["query"], format!("q=1&token={TOKEN}"));

    let key = reader(&app).await;
    for path in [&mcp, &program, &tool] {
        let list = path.rsplit_once('/').unwrap().0;
        for path in [path.as_str(), list] {
            let shown = app.get(path).bearer(&key).send().await.expect_status(200).text();
            assert!(!shown.contains(TOKEN) && !shown.contains("q=1"), "{shown}");
        }
    }
    for path in ["/api/settings", "/api/settings/export"] {
        let shown = app.get(path).bearer(&key).send().await.expect_status(200).text();
        assert!(!shown.contains(TOKEN), "{shown}");
    }

    let export = app.get("/api/settings/export").send().await.expect_status(200);
    let import = async |app: &TestApp, file: &Value| {
        app.post("/api/settings/import").json(file).send().await.expect_status(200).json()
    };
    assert_eq!(import(&app, &export.json()).await["dropped_secrets"], json!([]));
    call(&app, "api", json!({"x": "y"})).await.unwrap();
    assert_eq!(last(&server)["query"], format!("q=1&token={TOKEN}"), "importing the same URL keeps the token");
    let elsewhere: Value =
        serde_json::from_str(&export.text().replace(&server.url(""), "https://evil.example")).unwrap();
    let dropped = import(&app, &elsewhere).await["dropped_secrets"].to_string();
    for secret in ["skills.custom.api.url", "skills.mcp.docs.url"] {
        assert!(dropped.contains(secret), "{dropped}");
    }
    for path in [&mcp, &tool] {
        app.delete(path).send().await.expect_status(200);
    }
    let left = app.running().context().db.read().await.unwrap().fetch_all("SELECT name FROM secrets", args![]).await;
    assert_eq!(left.unwrap().len(), 0, "all secrets were deleted");
}

#[tokio::test]
async fn tokens_in_message_urls_are_not_stored_in_plain_text() {
    let app = app().await;
    let receiver = Receiver::start().await;
    let url = receiver.url();
    let note = json!({"name": "n", "event_type": "memory.stored", "hook_type": "builtin",
        "config": {"channel": format!("webhook:{}", with_credentials(&url)), "template": "x"}});
    let note = create(&app, "/api/hooks", note).await;
    assert_eq!(config(&app, &note).await["channel"], format!("webhook:{}", masked(&url)));
    let job = json!({"name": "j", "goal": "Say.", "agent_id": "scout", "schedule": {"type": "every", "interval": 600},
        "delivery": {"channel": format!("webhook:{}", with_credentials(&url))}});
    let job = create(&app, "/api/scheduler/jobs", job).await;
    let shown = app.get(&job).send().await.expect_status(200).json();
    assert_eq!(shown["delivery"]["channel"], format!("webhook:{}", masked(&url)));
    let back = json!({"delivery": shown["delivery"]});
    app.put(&job).json(&back).send().await.expect_status(200);
    let elsewhere = json!({"delivery": {"channel": format!("webhook:{}", masked("https://evil.example/in"))}});
    let refused = app.put(&job).json(&elsewhere).send().await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["delivery.channel"]);
    emit(&app, "memory.stored", json!({})).await;
    settle(&app).await;
    let received = receiver.wait_for(1).await;
    assert_eq!(received[0].header("authorization"), format!("Basic {}", STANDARD.encode(format!("ada:{PASSWORD}"))));
    let database = dump(&app).await;
    assert!(!database.contains(PASSWORD) && !database.contains(TOKEN), "{database}");
    app.delete(&note).send().await.expect_status(200);
    app.delete(&job).send().await.expect_status(200);
    // Secrets of a message are deleted with it.
    app.clock.advance(std::time::Duration::from_secs(31 * 24 * 3600));
    app.run_workers().await;
    let left = app.running().context().db.read().await.unwrap().fetch_all("SELECT scope FROM secrets", args![]).await;
    assert_eq!(left.unwrap().len(), 0, "all secrets were deleted");
}
