//! Setup wizard.

use serde_json::{Value, json};

use crate::support::TestApp;

const STEPS: [&str; 5] = ["status", "account", "provider", "agent", "complete"];

fn path(step: &str) -> String {
    match step {
        "status" => "/api/setup/status".to_owned(),
        "account" => "/api/setup/account".to_owned(),
        "provider" => "/api/setup/provider".to_owned(),
        "agent" => "/api/setup/agent".to_owned(),
        other => format!("/api/setup/{other}"),
    }
}

fn account() -> Value {
    json!({"username": "owner", "password": "correct horse"})
}

fn agent() -> Value {
    json!({"svc_name": "scout", "user_name": "Ada", "archetype": "researcher"})
}

async fn status(app: &TestApp) -> Value {
    app.post("/api/setup/status").send().await.expect_status(200).json()
}

#[tokio::test]
async fn wizard_steps_lead_to_the_first_key() {
    let mut app = TestApp::start().await;
    let empty = json!({"account": false, "provider": false, "agent": false, "complete": false, "next": "account"});
    assert_eq!(status(&app).await, empty);

    let made = app.post("/api/setup/account").json(&account()).send().await.expect_status(201).json();
    assert_eq!(made["token_type"], "session");
    assert_eq!(status(&app).await["next"], "provider");
    app.post("/api/setup/account").json(&account()).send().await.expect_error(409, "account_exists");

    let choice = json!({"provider": "openai", "api_key": "sk-test-0123456789", "model": "gpt-test"});
    let answer = app.post("/api/setup/provider").json(&choice).send().await.expect_status(200);
    assert!(!answer.text().contains("sk-test"));
    assert_eq!((&answer.json()["provider"], &answer.json()["next"]), (&json!(true), &json!("agent")));

    let made = app.post("/api/setup/agent").json(&agent()).send().await.expect_status(201).json();
    assert_eq!(made["archetype"], json!(["researcher"]));
    app.post("/api/setup/agent").json(&agent()).send().await.expect_status(409);
    assert_eq!(status(&app).await["next"], "complete");

    // All other endpoints are still closed.
    app.get("/api/agents").send().await.expect_error(401, "bootstrap");
    let made =
        app.post("/api/setup/complete").json(&json!({"key_name": "laptop"})).send().await.expect_status(200).json();
    assert_eq!(made["name"], "laptop");
    app.key = made["key"].as_str().map(str::to_owned);
    let done = json!({"account": true, "provider": true, "agent": true, "complete": true, "next": null});
    assert_eq!(status(&app).await, done);
    let agents = app.get("/api/agents").send().await.expect_status(200).json();
    assert_eq!(agents["agents"][0]["svc_name"], "scout");
    let settings = app.get("/api/settings/agent").send().await.expect_status(200).json();
    assert_eq!((&settings["default_provider"], &settings["default_model"]), (&json!("openai"), &json!("gpt-test")));
}

#[tokio::test]
async fn first_key_closes_anonymous_access_to_all_steps() {
    let mut app = TestApp::start().await;
    let made = app.post("/api/setup/complete").json(&json!({})).send().await.expect_status(200).json();
    assert_eq!(made["name"], "first");
    let key = made["key"].as_str().expect("a key").to_owned();
    for step in STEPS {
        app.post(&path(step)).json(&json!({})).send().await.expect_error(401, "missing_credential");
        app.post(&path(step)).bearer("svc_00").json(&json!({})).send().await.expect_error(401, "invalid_credential");
    }
    app.key = Some(key);
    let reader = app.post("/api/auth/keys").json(&json!({"name": "reader", "scope": "read"})).send().await.json();
    for step in STEPS {
        let request = app.post(&path(step)).bearer(reader["key"].as_str().expect("a key")).json(&json!({}));
        request.send().await.expect_error(403, "insufficient_scope");
    }
    // With full credentials the steps behave like their own endpoints.
    app.post("/api/setup/account").json(&account()).send().await.expect_status(201);
    app.post("/api/setup/agent").json(&agent()).send().await.expect_status(201);
    app.post("/api/setup/complete").json(&json!({})).send().await.expect_error(409, "setup_complete");
    let keys = app.get("/api/auth/keys").send().await.json();
    assert_eq!(keys["keys"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn configuration_and_foreign_origins_close_all_steps() {
    let closed = TestApp::start_with(|source| source.api_key_required = Some("true".to_owned())).await;
    let open = TestApp::start().await;
    for step in STEPS {
        closed.post(&path(step)).json(&json!({})).send().await.expect_error(401, "bootstrap");
        let foreign = open.post(&path(step)).header("origin", "https://evil.example").json(&json!({}));
        foreign.send().await.expect_error(401, "foreign_origin");
    }
}

#[tokio::test]
async fn invalid_steps_are_rejected_and_change_nothing() {
    let app = TestApp::start().await;
    let before = status(&app).await;
    let provider = |body: Value| app.post("/api/setup/provider").json(&body).send();
    assert_eq!(provider(json!({})).await.expect_status(400).bad_fields(), ["provider"]);
    assert_eq!(provider(json!({"provider": "openai"})).await.expect_status(400).bad_fields(), ["api_key"]);
    for unknown in [json!({"provider": "nobody", "api_key": "x"}), json!({"provider": "nobody"})] {
        let refused = provider(unknown).await.expect_error(400, "invalid_request");
        assert!(refused.bad_fields().contains(&"provider".to_owned()), "{}", refused.text());
    }
    provider(json!({"provider": "local", "api_key": "x"})).await.expect_status(409);
    provider(json!({"provider": "openai", "base_url": "no address"})).await.expect_status(400);
    provider(json!({"provider": "openai", "base_url": "http://169.254.169.254/v1"})).await.expect_status(400);
    app.post("/api/setup/agent")
        .json(&json!({"svc_name": "../x", "user_name": "A", "archetype": "x"}))
        .send()
        .await
        .expect_status(400);
    app.post("/api/setup/account").json(&json!({"username": "ab", "password": "x"})).send().await.expect_status(400);
    app.post("/api/setup/complete").json(&json!({"key_name": ""})).send().await.expect_status(400);
    assert_eq!(status(&app).await, before);
    let wrong = json!({"provider": "openai", "api_key": "sk-test"});
    provider(wrong).await.expect_status(200);
    // A configured provider can be selected without a key.
    provider(json!({"provider": "openai"})).await.expect_status(200);
}

/// A provider and its selection as the default are one atomic step.
#[tokio::test]
async fn provider_step_is_atomic() {
    let app = TestApp::start().await;
    let before = status(&app).await;
    let provider = |body: Value| app.post("/api/setup/provider").json(&body).send();
    let refused = provider(json!({"provider": "openai", "api_key": "sk-test", "model": "two words"})).await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["model"]);
    assert_eq!(status(&app).await, before);
    let refused = provider(json!({"provider": "openai", "api_key": "a b", "model": "two words"})).await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["api_key", "model"]);
    let refused = provider(json!({"provider": "openai", "model": "two words"})).await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["api_key", "model"]);
    let refused = provider(json!({"provider": "local", "model": "../x.gguf"})).await;
    assert_eq!(refused.expect_error(400, "invalid_request").bad_fields(), ["model"]);
    assert_eq!(status(&app).await, before);
}

/// Anonymous clients can use this step before the first key exists, but must not redirect the stored key.
#[tokio::test]
async fn stored_key_is_not_sent_to_another_server() {
    let app = TestApp::start().await;
    let provider = |body: Value| app.post("/api/setup/provider").json(&body).send();
    provider(json!({"provider": "openai", "api_key": "sk-test"})).await.expect_status(200);
    let elsewhere = json!({"provider": "openai", "base_url": "http://127.0.0.1:9/v1"});
    assert_eq!(provider(elsewhere.clone()).await.expect_error(400, "invalid_request").bad_fields(), ["api_key"]);
    let mut with_key = elsewhere;
    with_key["api_key"] = json!("sk-other");
    provider(with_key).await.expect_status(200);
    let same_server = json!({"provider": "openai", "base_url": "http://127.0.0.1:9/v2"});
    provider(same_server).await.expect_status(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_completion_creates_one_key() {
    let app = TestApp::start().await;
    let requests = (0..16).map(|_| app.post("/api/setup/complete").json(&json!({})).send());
    let answers = futures_util::future::join_all(requests).await;
    assert_eq!(answers.iter().filter(|answer| answer.status.as_u16() == 200).count(), 1);
    assert_eq!(answers.iter().filter(|answer| answer.status.as_u16() == 401).count(), 15);
}

#[tokio::test]
async fn repeated_steps_are_executed_once() {
    let app = TestApp::start().await;
    let make = || app.post("/api/setup/agent").header("idempotency-key", "agent").json(&agent()).send();
    let first = make().await.expect_status(201);
    let again = make().await.expect_status(201);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(first.json(), again.json());
    let register = || app.post("/api/setup/account").header("idempotency-key", "account").json(&account()).send();
    register().await.expect_status(201);
    register().await.expect_error(409, "already_done");
    // Completing the wizard closes anonymous access, also for a repeat by a client that missed the response.
    let complete =
        |body: &Value| app.post("/api/setup/complete").header("idempotency-key", "complete").json(body).send();
    let made = complete(&json!({})).await.expect_status(200).json();
    let again = complete(&json!({})).await.expect_error(409, "already_done").json();
    assert!(again["error"].as_str().unwrap().contains(made["id"].as_str().unwrap()), "{again}");
    complete(&json!({"key_name": "another"})).await.expect_error(401, "missing_credential");
    make().await.expect_error(401, "missing_credential");
    register().await.expect_error(409, "already_done");
}
