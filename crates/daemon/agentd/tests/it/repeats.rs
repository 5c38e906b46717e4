//! `Idempotency-Key`: an operation that documents the header returns the first response to a repeat, and every
//! operation
//! without the header can be repeated safely.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::hooks::settle;
use crate::notify::{enqueue, mail, use_server};
use crate::settings::avatar::{GIF, multipart};
use crate::support::chat_fixture::ChatFixture;
use crate::support::document::{find, operations};
use crate::support::push_service::PushService;
use crate::support::smtp::{Behaviour, SmtpServer};
use crate::support::{TestApp, TestRequest, TestResponse};
use crate::webhooks::Sender;

/// Operations that were sent twice.
#[derive(Default)]
struct Repeated(BTreeSet<String>);

impl Repeated {
    /// Sends a request twice with one key. The second response equals the first, or reports that a secret cannot be
    /// repeated.
    async fn send_twice(&mut self, request: impl Fn() -> TestRequest) -> TestResponse {
        let key = format!("key-{}", self.0.len());
        let first = request().header("idempotency-key", &key).send().await;
        let name = format!("{} {}", first.method, first.path);
        assert!(first.status.is_success(), "{name} returned {}: {}", first.status, first.text());
        let again = request().header("idempotency-key", &key).send().await;
        if again.status == 409 {
            assert_eq!(again.json()["code"], "already_done", "{name}: {}", again.text());
        } else {
            assert_eq!(again.header("idempotency-replayed"), Some("true"), "{name}: {}", again.text());
            assert_eq!((again.status, again.text()), (first.status, first.text()), "{name}");
        }
        self.0.insert(find(first.method.as_str(), &first.path).expect("a documented operation").id.clone());
        first
    }

    async fn post(&mut self, app: &TestApp, path: &str, body: Value) -> Value {
        self.send_twice(|| app.post(path).json(&body)).await.json()
    }

    /// Sends a POST request without a body.
    async fn start(&mut self, app: &TestApp, path: &str) -> Value {
        self.send_twice(|| app.post(path)).await.json()
    }
}

fn id(made: &Value) -> &str {
    made["id"].as_str().expect("an id")
}

#[tokio::test]
async fn documented_operations_honor_the_idempotency_key() {
    let mut repeated = Repeated::default();
    accounts(&mut repeated).await;
    let fixture = ChatFixture::saying(&["Hello."]).await;
    let app = &fixture.app;
    agents_and_chat(app, &mut repeated).await;
    memory_and_settings(app, &mut repeated).await;
    schedules(app, &mut repeated).await;
    alerts(app, &mut repeated).await;
    hooks_and_webhooks(app, &mut repeated).await;
    repeated.start(app, "/api/backups").await;
    let named = |operation: &Value| {
        let mut parameters = operation["parameters"].as_array().into_iter().flatten();
        parameters.any(|parameter| parameter["name"] == "Idempotency-Key" && parameter["in"] == "header")
    };
    let documented: BTreeSet<String> =
        operations().iter().filter(|operation| named(&operation.value)).map(|operation| operation.id.clone()).collect();
    let untested: Vec<_> = documented.difference(&repeated.0).collect();
    let undocumented: Vec<_> = repeated.0.difference(&documented).collect();
    assert!(untested.is_empty(), "documented but untested: {untested:?}");
    assert!(undocumented.is_empty(), "implemented but undocumented: {undocumented:?}");
}

/// Operations that create something must document the header, so a new operation must be classified.
#[test]
fn operations_without_the_idempotency_key_are_repeatable() {
    const REPEATABLE: &[&str] = &[
        // Read-only operations and tests.
        "check_channel",
        "check_components",
        "parse_schedule",
        "preview_alert",
        "reauthenticate",
        "setup_status",
        "test_channel",
        "test_provider",
        "test_tool_server",
        "validate",
        // Operations that set a state.
        "cancel_session",
        "change_browser_profile",
        "close_browser",
        "connect_tool_server",
        "disconnect_tool_server",
        "discover_tool_server",
        "emulate_browser_device",
        "logout",
        "mock_browser_requests",
        "register_channel",
        "reset_security_settings",
        "reset_settings",
        "restore_backup",
        "restore_browser_auth_state",
        "save_browser_auth_state",
        "set_browser_cookies",
        "setup_provider",
        "truncate_messages",
        // Identified by content.
        "upload_backup",
        // Actions on browser pages, which are not persistent.
        "act_in_browser",
        "create_recording_video",
        "open_browser_tab",
        "record_screen",
        "start_browser_har",
        "stop_browser_har",
        "replay_browser_recording",
        "take_browser_screenshot",
        // Return 409 when repeated.
        "answer_approval",
        "respond_to_approval",
        "start_browser_recording",
        "stop_browser_recording",
        // Returns 404 when repeated.
        "approve_pairing",
        // Deduplicated by the message id.
        "receive_channel_webhook",
        "receive_webhook",
    ];
    let documents_header = |value: &Value| value["parameters"].to_string().contains("\"Idempotency-Key\"");
    let (posts, others): (Vec<_>, Vec<_>) = operations().iter().partition(|operation| operation.method == "post");
    let without: BTreeSet<&str> =
        posts.iter().filter(|post| !documents_header(&post.value)).map(|post| post.id.as_str()).collect();
    assert_eq!(without, REPEATABLE.iter().copied().collect());
    assert!(others.iter().all(|other| !documents_header(&other.value)), "only POST operations support the header");
}

async fn alerts(app: &TestApp, repeated: &mut Repeated) {
    let alert = json!({"name": "Disk", "condition": "disk_percent >= 0.0"});
    let made = repeated.post(app, "/api/monitoring/alerts", alert).await;
    app.run_workers().await;
    let action = |name: &str| format!("/api/monitoring/alerts/{}/{name}", id(&made));
    repeated.start(app, &action("acknowledge")).await;
    repeated.post(app, &action("snooze"), json!({"minutes": 5})).await;
    repeated.start(app, &action("resolve")).await;
}

async fn accounts(repeated: &mut Repeated) {
    let account = json!({"username": "owner", "password": "correct horse"});
    let fresh = TestApp::start().await;
    repeated.post(&fresh, "/api/auth/register", account.clone()).await;
    let fresh = TestApp::start().await;
    repeated.post(&fresh, "/api/setup/account", account.clone()).await;
    let agent = json!({"svc_name": "scout", "user_name": "Ada", "archetype": "assistant"});
    repeated.post(&fresh, "/api/setup/agent", agent).await;
    repeated.post(&fresh, "/api/setup/complete", json!({})).await;

    let app = TestApp::with_owner().await;
    repeated.send_twice(|| app.post("/api/auth/login").anonymous().json(&account)).await;
    repeated.start(&app, "/api/auth/ticket").await;
    let key = repeated.post(&app, "/api/auth/keys", json!({"name": "second"})).await;
    repeated.start(&app, &format!("/api/auth/keys/{}/rotate", id(&key))).await;
    let code = repeated.start(&app, "/api/auth/device/code").await["code"].clone();
    let device = json!({"code": code, "name": "laptop", "platform": "linux"});
    repeated.send_twice(|| app.post("/api/auth/device/pair").anonymous().json(&device)).await;
}

async fn agents_and_chat(app: &TestApp, repeated: &mut Repeated) {
    let agent = json!({"svc_name": "other", "user_name": "Ada", "archetype": "assistant"});
    repeated.post(app, "/api/agents", agent).await;
    let change = json!({"profile": {"instructions": "Be brief."}});
    app.patch("/api/agents/scout").json(&change).send().await.expect_status(200);
    repeated.start(app, "/api/agents/scout/versions/1/restore").await;
    repeated.post(app, "/api/projects", json!({"name": "Garden"})).await;

    let conversation = repeated.post(app, "/api/chat/conversations", json!({"agent_id": "scout"})).await;
    let message = json!({"conversation_id": id(&conversation), "role": "user", "content": "Hello"});
    repeated.post(app, "/api/chat/messages/inject", message).await;
    let message = json!({"conversation_id": id(&conversation), "content": "Hello"});
    repeated.send_twice(|| app.post("/api/chat/messages/stream").json(&message)).await;
    repeated.post(app, "/api/chat/welcome", json!({"agent_id": "scout"})).await;
}

async fn memory_and_settings(app: &TestApp, repeated: &mut Repeated) {
    let episode = json!({"content": "Ada likes Rust.", "agent_id": "scout"});
    repeated.post(app, "/api/memory/episodes", episode).await;
    for job in ["consolidate/conversations", "generate-episodes", "backfill-entities"] {
        repeated.start(app, &format!("/api/memory/{job}")).await;
    }

    let mail_server = SmtpServer::plain().await;
    use_server(app, &mail_server, json!({})).await;
    repeated.post(app, "/api/settings/email/test", json!({"to": "ada@example.net"})).await;
    assert_eq!(mail_server.received().len(), 1);
    mail_server.then([Behaviour::Recipient("550 5.1.1 no such user")]);
    let dead = enqueue(app, mail("gone")).await;
    app.run_workers().await;
    repeated.start(app, &format!("/api/notifications/{dead}/retry")).await;

    let push_service = PushService::start().await;
    push_service.subscribe(app, "first").await;
    let (_, device) = push_service.browser("phone");
    let device = repeated.post(app, "/api/notifications/push/subscriptions", device).await;
    repeated.start(app, &format!("/api/notifications/push/subscriptions/{}/test", id(&device))).await;
    assert_eq!(push_service.count(), 1);

    repeated.post(app, "/api/settings/import", json!({"settings": {"interface": {"language": "de"}}})).await;
    let picture =
        || app.post("/api/settings/avatar").body("multipart/form-data; boundary=bound", multipart("file", GIF));
    repeated.send_twice(picture).await;

    // Without the key each repeat would undo the previous toggle.
    let switched = repeated.start(app, "/api/settings/skills/builtin/shell/toggle").await;
    let tools = app.get("/api/settings/skills/builtin").send().await.expect_status(200).json();
    let shell = tools["tools"].as_array().into_iter().flatten().find(|tool| tool["name"] == "shell");
    assert_eq!(shell, Some(&switched));
    let tool = json!({"name": "add", "description": "Adds.", "kind": "python", "source_code": "result = 1",
        "input_schema": {"type": "object"}});
    let tool = repeated.post(app, "/api/settings/skills/custom", tool).await;
    let path = format!("/api/settings/skills/custom/{}", id(&tool));
    let switched = repeated.start(app, &format!("{path}/toggle")).await;
    assert_eq!(app.get(&path).send().await.json()["enabled"], switched["enabled"]);
    let server = json!({"name": "files", "transport": "stdio", "command": "/bin/true", "enabled": false});
    repeated.post(app, "/api/settings/skills/mcp", server).await;
    let entry = json!({"values": {"token": "t"}, "enabled": false});
    repeated.post(app, "/api/settings/skills/mcp/catalog/github/install", entry).await;
}

async fn schedules(app: &TestApp, repeated: &mut Repeated) {
    let job = json!({"name": "n", "goal": "g", "agent_id": "scout", "schedule": {"type": "every", "interval": 600}});
    let job = repeated.post(app, "/api/scheduler/jobs", job).await;
    let path = format!("/api/scheduler/jobs/{}", id(&job));
    let run = repeated.start(app, &format!("{path}/trigger")).await["run_id"].clone();
    let run = run.as_str().expect("an id");
    repeated.start(app, &format!("{path}/runs/{run}/cancel")).await;
    repeated.start(app, &format!("{path}/pause")).await;
    repeated.start(app, &format!("{path}/resume")).await;
    let other = json!({"name": "o", "goal": "g", "agent_id": "scout", "schedule": {"type": "every", "interval": 600}});
    let other = app.post("/api/scheduler/jobs").json(&other).send().await.expect_status(201).json();
    let chain = json!({"name": "c", "jobs": [id(&job), id(&other)],
        "edges": [{"from": id(&job), "to": id(&other), "type": "on_success"}]});
    let chain = repeated.post(app, "/api/scheduler/chains", chain).await;
    repeated.start(app, &format!("/api/scheduler/chains/{}/trigger", id(&chain))).await;
}

async fn hooks_and_webhooks(app: &TestApp, repeated: &mut Repeated) {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let hook = json!({"name": "h", "event_type": "memory.stored", "hook_type": "http", "max_retries": 1,
        "config": {"url": format!("http://{closed}/"), "queued": true}});
    let hook = repeated.post(app, "/api/hooks", hook).await;
    let path = format!("/api/hooks/{}", id(&hook));
    repeated.start(app, &format!("{path}/test")).await;
    let delivery = repeated.start(app, &format!("{path}/test-delivery")).await;
    settle(app).await;
    repeated.start(app, &format!("{path}/deliveries/{}/retry", id(&delivery))).await;
    repeated.start(app, "/api/hooks/deliveries/dead-letters/retry").await;
    repeated.start(app, "/api/hooks/bundled/webhook-digest/install").await;

    let made = repeated.post(app, "/api/webhooks", json!({"name": "ci"})).await;
    let text = |field: &str| made[field].as_str().expect("a text").to_owned();
    let sender = Sender { id: text("id"), secret: text("secret") };
    let delivery = sender.send(app, &json!({"ref": "main"})).await;
    repeated.start(app, &format!("{}/deliveries/{delivery}/replay", sender.path())).await;
}
