//! Creating, changing, listing and deleting webhooks.

use agentd_store::args;
use serde_json::{Value, json};

use super::{Sender, ci};
use crate::support::TestApp;
use crate::support::chat_fixture::create_agent;

#[tokio::test]
async fn secret_is_shown_once() {
    let app = TestApp::with_owner().await;
    let create = || app.post("/api/webhooks").json(&ci()).header("idempotency-key", "once").send();
    let made = create().await.expect_status(201).json();
    let id = made["id"].as_str().expect("an id");
    assert!(id.starts_with("whk_"));
    assert_eq!(made["url"], format!("http://{}/api/webhooks/{id}/receive", app.address));
    let secret = made["secret"].as_str().expect("a secret");
    assert_eq!(secret.strip_prefix("whsec_").map(str::len), Some(44), "256 bits in base64");
    let mut shown = made.clone();
    shown["secret"] = json!({"set": true});
    assert_eq!(app.get(&format!("/api/webhooks/{id}")).send().await.expect_status(200).json(), shown);
    let list = app.get("/api/webhooks").send().await.expect_status(200).json();
    assert_eq!(list, json!({"webhooks": [shown], "total": 1}));
    let again = create().await.expect_error(409, "already_done");
    assert!(again.text().contains(id) && !again.text().contains(secret), "{}", again.text());
    // The secret is not stored in plain text.
    if app.database_url().is_none() {
        for file in std::fs::read_dir(app.data_dir()).expect("the data directory").flatten() {
            if file.path().is_file() {
                let bytes = std::fs::read(file.path()).expect("a file");
                assert!(!bytes.windows(20).any(|part| part == &secret.as_bytes()[..20]), "{}", file.path().display());
            }
        }
    }
    let own = json!({"name": "own", "secret": "correct horse battery"});
    let own = app.post("/api/webhooks").json(&own).send().await.expect_status(201).json();
    assert_eq!(own["secret"], "correct horse battery");
}

#[tokio::test]
async fn url_uses_the_configured_base_url() {
    let mut app = TestApp::start_with(|source| source.base_url = Some("https://agents.example.com/in/".into())).await;
    app.create_owner().await;
    let made = app.post("/api/webhooks").json(&ci()).send().await.expect_status(201).json();
    let expected = format!("https://agents.example.com/in/api/webhooks/{}/receive", made["id"].as_str().unwrap());
    assert_eq!(made["url"], expected);
}

#[tokio::test]
async fn webhook_is_updated_field_by_field() {
    let app = TestApp::with_owner().await;
    let agent = create_agent(&app, "scout").await;
    let fields =
        json!({"name": "ci", "agent_id": "scout", "prompt_template": "{{body.a}}", "tools": ["shell", "shell"]});
    let ci = Sender::create(&app, fields).await;
    let read = async || app.get(&ci.path()).send().await.expect_status(200).json();
    let made = read().await;
    assert_eq!((&made["agent_id"], &made["tools"], &made["enabled"]), (&agent["id"], &json!(["shell"]), &json!(true)));
    let change = async |fields: Value| {
        let changed = app.put(&ci.path()).json(&fields).send().await.expect_status(200).json();
        assert_eq!(changed, read().await);
        changed
    };
    let changed = change(json!({"name": "CI", "enabled": false})).await;
    assert_eq!(
        (&changed["name"], &changed["enabled"], &changed["agent_id"]),
        (&json!("CI"), &json!(false), &agent["id"])
    );
    let changed = change(json!({"agent_id": null, "prompt_template": null, "tools": [], "enabled": true})).await;
    assert_eq!(
        (&changed["agent_id"], &changed["prompt_template"], &changed["tools"]),
        (&Value::Null, &Value::Null, &json!([]))
    );
    let body = b"{}";
    ci.signed(&app, "application/json", body).send().await.expect_status(202);
    // The shown value can be sent back.
    change(json!({"secret": {"set": true}})).await;
    ci.signed(&app, "application/json", body).send().await.expect_status(202);
    assert_eq!(change(json!({"secret": "another secret"})).await["secret"], json!({"set": true}));
    ci.signed(&app, "application/json", body).send().await.expect_error(401, "invalid_signature");
    let another = Sender { id: ci.id.clone(), secret: "another secret".to_owned() };
    another.signed(&app, "application/json", body).send().await.expect_status(202);
    assert_eq!(change(json!({"secret": null})).await["secret"], json!({"set": false}));
    another.signed(&app, "application/json", body).send().await.expect_error(401, "no_secret");
}

#[tokio::test]
async fn invalid_webhook_is_rejected() {
    let app = TestApp::with_owner().await;
    let with = |field: &str, value: Value| json!({"name": "ci", field: value});
    for (fields, bad) in [
        (json!({}), "name"),
        (with("name", json!("  ")), "name"),
        (with("name", json!("x".repeat(201))), "name"),
        (with("secret", json!("short")), "secret"),
        (with("secret", json!("whsec_not base64")), "secret"),
        (with("secret", json!("line\nbreaks")), "secret"),
        (with("secret", json!(7)), "secret"),
        (with("prompt_template", json!("{{bdy}}")), "prompt_template"),
        (with("prompt_template", json!("{{body.a")), "prompt_template"),
        (with("prompt_template", json!("x".repeat(16_001))), "prompt_template"),
        (with("tools", json!(["rm -rf"])), "tools[0]"),
        (with("tools", json!("shell")), "tools"),
        (with("enabled", json!("yes")), "enabled"),
    ] {
        let refused = app.post("/api/webhooks").json(&fields).send().await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), [bad], "{fields}");
    }
    let unknown = with("agent_id", json!("nobody"));
    app.post("/api/webhooks").json(&unknown).send().await.expect_error(404, "agent_not_found");
    assert_eq!(app.get("/api/webhooks").send().await.expect_status(200).json()["total"], 0);
    let ci = Sender::create(&app, ci()).await;
    for fields in
        [json!({"name": ""}), json!({"prompt_template": "{{x}}"}), json!({"secret": "short"}), json!({"secret": 7})]
    {
        app.put(&ci.path()).json(&fields).send().await.expect_status(400);
    }
    for path in ["/api/webhooks/whk_unknown", "/api/webhooks/whk_unknown/deliveries"] {
        app.get(path).send().await.expect_error(404, "webhook_not_found");
    }
    app.put("/api/webhooks/whk_unknown").json(&json!({})).send().await.expect_error(404, "webhook_not_found");
    app.delete("/api/webhooks/whk_unknown").send().await.expect_error(404, "webhook_not_found");
}

#[tokio::test]
async fn deleting_a_webhook_deletes_its_data() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    let (ci, other) = (
        Sender::create(&app, json!({"name": "ci", "agent_id": "scout"})).await,
        Sender::create(&app, super::ci()).await,
    );
    let body = b"{}";
    for number in 0..60 {
        let request = ci.signed(&app, "application/json", body).header("webhook-id", &number.to_string());
        request.send().await.expect_status(202);
    }
    let kept = other.send(&app, &json!({"a": 1})).await;
    let answer = app.delete(&ci.path()).send().await.expect_status(200).json();
    assert_eq!(answer, json!({"deleted": true}));
    ci.signed(&app, "application/json", body).send().await.expect_error(404, "webhook_not_found");
    app.get(&ci.path()).send().await.expect_error(404, "webhook_not_found");
    app.get(&format!("{}/deliveries", ci.path())).send().await.expect_error(404, "webhook_not_found");
    app.delete(&ci.path()).send().await.expect_error(404, "webhook_not_found");
    app.run_workers().await;
    assert_eq!(other.delivery(&app, &kept).await["status"], "received");
    let mut read = app.running().context().db.read().await.expect("a connection");
    for (sql, left) in [
        ("SELECT COUNT(*) FROM webhooks", 1_u64),
        ("SELECT COUNT(*) FROM webhook_deliveries", 1),
        ("SELECT COUNT(*) FROM webhook_requests", 1),
        ("SELECT COUNT(*) FROM webhook_messages", 0),
        ("SELECT COUNT(*) FROM secrets WHERE scope = 'webhooks'", 1),
        ("SELECT COUNT(*) FROM queue WHERE queue = 'webhooks' AND status <> 'done'", 0),
        ("SELECT COUNT(*) FROM sessions", 0),
    ] {
        let count = read.fetch_one(sql, args![]).await.expect("a count").first::<u64>().expect("a number");
        assert_eq!(count, left, "{sql}");
    }
}
