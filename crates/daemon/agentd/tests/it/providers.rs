//! `/api/providers`: keys, base URLs, tests and status; usage and budgets.

use std::time::Duration;

use agentd_base::Timestamp;
use agentd_llm::{Usage, UsageSource, Vendor};
use agentd_testing_llm::{DocumentedFailure, FakeVendor, Reply, Script};
use serde_json::{Value, json};

use crate::support::{TestApp, TestResponse};

const KEY: &str = "sk-4f3e2d1c0b9a8877665544332211";
const IDS: [&str; 9] = ["anthropic", "openai", "google", "mistral", "groq", "deepseek", "xai", "openrouter", "local"];

fn usage(input: u64, output: u64) -> Usage {
    Usage { input_tokens: input, output_tokens: output, source: UsageSource::Provider, ..Usage::default() }
}

async fn put(app: &TestApp, id: &str, change: Value) -> TestResponse {
    app.put(&format!("/api/providers/{id}/key")).json(&change).send().await
}

async fn test(app: &TestApp, id: &str) -> Value {
    app.post(&format!("/api/providers/{id}/test")).send().await.expect_status(200).json()
}

async fn get_provider(app: &TestApp, id: &str) -> Value {
    let list = app.get("/api/providers").send().await.expect_status(200).json();
    let providers = list["providers"].as_array().expect("a list");
    providers.iter().find(|provider| provider["id"] == id).cloned().expect("the provider")
}

/// Starts a daemon with an agent and a fake OpenAI vendor with this reply.
async fn app_with_fake(reply: Reply) -> (TestApp, FakeVendor) {
    let app = TestApp::with_owner().await;
    let fake = FakeVendor::start(Vendor::Openai, Script::always(reply)).await.unwrap();
    let change = json!({"api_key": KEY, "base_url": fake.base_url().as_str(), "default_model": "gpt-4o-mini"});
    put(&app, "openai", change).await.expect_status(200);
    let agent = json!({"svc_name": "ada", "user_name": "Owner", "archetype": "assistant"});
    app.post("/api/agents").json(&agent).send().await.expect_status(201);
    (app, fake)
}

fn message() -> Value {
    json!({"agent_id": "ada", "content": "hello"})
}

async fn chat(app: &TestApp) {
    let events = app.post("/api/chat/messages/stream").json(&message()).stream().await.collect().await;
    let last = events.last().expect("events");
    assert_eq!(last.event, "done", "{last:?}");
}

#[tokio::test]
async fn providers_are_listed_in_order() {
    let app = TestApp::with_owner().await;
    let list = app.get("/api/providers").send().await.expect_status(200).json();
    let ids: Vec<&str> = list["providers"].as_array().unwrap().iter().filter_map(|p| p["id"].as_str()).collect();
    assert_eq!(ids, IDS);
    assert_eq!(list["total"], 9);
    for provider in list["providers"].as_array().unwrap() {
        assert_eq!(provider["status"], "unconfigured");
        assert_eq!((&provider["configured"], &provider["key"]), (&json!(false), &Value::Null));
        assert!(provider["message"].is_string(), "{provider} has a hint");
        assert_eq!(provider.get("local").is_some(), provider["id"] == "local");
    }
}

#[tokio::test]
async fn each_vendor_accepts_its_key_and_can_be_tested() {
    let mut app = TestApp::with_owner().await;
    for vendor in Vendor::ALL {
        let id = vendor.id();
        let script = Script::always(Reply::text(["hi"], usage(1, 1)));
        let fake = FakeVendor::start_with_key(vendor, script, KEY).await.unwrap();
        let change = json!({"api_key": format!(" {KEY}\n"), "base_url": fake.base_url().as_str()});
        let set = put(&app, id, change).await.expect_status(200);
        assert!(!set.text().contains(KEY));
        let view = set.json();
        assert_eq!((&view["status"], &view["key"]), (&json!("configured"), &json!({"set": true})), "{id}");

        let report = test(&app, id).await;
        assert_eq!((&report["ok"], &report["models"]), (&json!(true), &json!(["fake-model"])), "{id}: {report}");
        assert!(report["latency_ms"].is_u64() && report.get("error").is_none());
        let view = get_provider(&app, id).await;
        assert_eq!((&view["status"], &view["message"]), (&json!("ok"), &Value::Null), "{id}");
        assert!(view["checked_at"].is_string());

        let wrong = put(&app, id, json!({"api_key": "sk-wrong-key-000000"})).await.expect_status(200).json();
        assert_eq!(wrong["status"], "configured", "a new key resets the status");
        let report = test(&app, id).await;
        assert_eq!((&report["ok"], &report["code"]), (&json!(false), &json!("auth")), "{id}: {report}");
        assert!(!report.to_string().contains("sk-wrong"), "{report}");
        let view = get_provider(&app, id).await;
        assert_eq!((&view["status"], &view["message"]), (&json!("failing"), &report["error"]), "{id}");
    }
    app.restart().await;
    assert_eq!(get_provider(&app, "mistral").await["status"], "failing", "the status is kept");
    for vendor in Vendor::ALL {
        let path = format!("/api/providers/{}/key", vendor.id());
        let view = app.delete(&path).send().await.expect_status(200).json();
        assert_eq!((&view["configured"], &view["base_url"]), (&json!(false), &Value::Null));
        app.delete(&path).send().await.expect_status(200);
        let report = test(&app, vendor.id()).await;
        assert_eq!((&report["ok"], &report["code"]), (&json!(false), &json!("unconfigured")));
    }
}

#[tokio::test]
async fn omitted_fields_are_kept_and_null_clears() {
    let app = TestApp::with_owner().await;
    let change = json!({"api_key": KEY, "base_url": "http://127.0.0.1:9/v1", "default_model": "m"});
    put(&app, "openai", change).await.expect_status(200);
    let view = put(&app, "openai", json!({"api_key": {"set": true}, "default_model": null})).await.json();
    assert_eq!((&view["key"], &view["base_url"]), (&json!({"set": true}), &json!("http://127.0.0.1:9/v1")));
    assert_ne!(view["default_model"], "m");
    // A self-hosted server needs no key, a vendor does.
    let view = put(&app, "openai", json!({"api_key": null})).await.expect_status(200).json();
    assert_eq!((&view["key"], &view["configured"]), (&Value::Null, &json!(true)));
    let refused = put(&app, "openai", json!({"base_url": null})).await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["api_key"]);
    assert_eq!(get_provider(&app, "openai").await["base_url"], "http://127.0.0.1:9/v1");
}

#[tokio::test]
async fn key_must_be_entered_again_for_another_server() {
    let app = TestApp::with_owner().await;
    put(&app, "openai", json!({"api_key": KEY})).await.expect_status(200);
    let server = "http://127.0.0.1:9/v1";
    for change in [json!({"base_url": server}), json!({"base_url": server, "api_key": {"set": true}})] {
        let refused = put(&app, "openai", change).await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), ["api_key"]);
    }
    assert_eq!(get_provider(&app, "openai").await["base_url"], Value::Null);
    // Another spelling of the vendor's URL is not another server.
    put(&app, "openai", json!({"base_url": "https://api.openai.com:443/v2"})).await.expect_status(200);
    put(&app, "openai", json!({"base_url": server, "api_key": KEY})).await.expect_status(200);
    put(&app, "openai", json!({"base_url": "http://127.0.0.1:9/v2", "default_model": "m"})).await.expect_status(200);
    // Returning to the vendor counts as another server.
    let refused = put(&app, "openai", json!({"base_url": null})).await.expect_error(400, "invalid_request");
    assert_eq!(refused.bad_fields(), ["api_key"]);
    let view = put(&app, "openai", json!({"base_url": "http://127.0.0.1:8/v1", "api_key": null})).await;
    assert_eq!(view.expect_status(200).json()["key"], Value::Null);
    put(&app, "openai", json!({"base_url": server})).await.expect_status(200);
}

#[tokio::test]
async fn invalid_provider_settings_are_rejected_and_change_nothing() {
    let app = TestApp::with_owner().await;
    let before = app.get("/api/providers").send().await.json();
    for (change, field) in [
        (json!({}), "api_key"),
        (json!({"api_key": ""}), "api_key"),
        (json!({"api_key": "  "}), "api_key"),
        (json!({"api_key": "two words"}), "api_key"),
        (json!({"api_key": "x".repeat(5000)}), "api_key"),
        (json!({"api_key": null}), "api_key"),
        (json!({"api_key": 5}), "api_key"),
        (json!({"base_url": "nonsense"}), "base_url"),
        (json!({"base_url": "file:///etc/passwd"}), "base_url"),
        (json!({"base_url": "http://user:pw@x.example"}), "base_url"),
        (json!({"base_url": "http://169.254.169.254/v1"}), "base_url"),
        (json!({"base_url": "http://metadata.google.internal"}), "base_url"),
        (json!({"base_url": format!("https://{}.example", "x".repeat(3000))}), "base_url"),
        (json!({"api_key": KEY, "default_model": "a b"}), "default_model"),
        (json!({"api_key": KEY, "default_model": ""}), "default_model"),
    ] {
        let refused = put(&app, "openai", change.clone()).await.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), [field], "{change}: {}", refused.text());
    }
    let both = put(&app, "openai", json!({"api_key": "a b", "base_url": "x"})).await.expect_status(400);
    assert_eq!(both.bad_fields(), ["api_key", "base_url"]);
    assert_eq!(app.get("/api/providers").send().await.json(), before);
}

#[tokio::test]
async fn unknown_and_local_providers_reject_keys() {
    let app = TestApp::with_owner().await;
    for id in ["skynet", "OpenAI", "..%2fopenai", "%F0%9F%A4%96"] {
        let refused = put(&app, id, json!({"api_key": KEY})).await.expect_error(404, "unknown_provider");
        assert!(refused.text().contains("anthropic, openai"), "{}", refused.text());
        app.delete(&format!("/api/providers/{id}/key")).send().await.expect_error(404, "unknown_provider");
        app.post(&format!("/api/providers/{id}/test")).send().await.expect_error(404, "unknown_provider");
    }
    put(&app, "local", json!({"api_key": KEY})).await.expect_error(409, "no_key_needed");
    app.delete("/api/providers/local/key").send().await.expect_error(409, "no_key_needed");
    let report = test(&app, "local").await;
    assert_eq!((&report["ok"], &report["code"]), (&json!(false), &json!("unconfigured")));
}

#[tokio::test]
async fn blocked_hosts_apply_immediately() {
    let (app, _fake) = app_with_fake(Reply::text(["hi"], usage(60, 40))).await;
    assert_eq!(test(&app, "openai").await["ok"], true);
    let block = async |hosts: Value| {
        app.put("/api/settings/security").json(&json!({"blocked_hosts": hosts})).send().await.expect_status(200);
    };
    block(json!(["127.0.0.0/8"])).await;
    let report = test(&app, "openai").await;
    assert!(report["error"].as_str().is_some_and(|error| error.contains("blocked_hosts")), "{report}");
    block(json!([])).await;
    assert_eq!(test(&app, "openai").await["ok"], true);
}

#[tokio::test]
async fn calls_update_the_provider_status() {
    let (app, _fake) = app_with_fake(Reply::failure(DocumentedFailure::WrongKey)).await;
    app.post("/api/chat/messages/stream").json(&message()).stream().await.collect().await;
    assert_eq!(get_provider(&app, "openai").await["status"], "failing");
    let (app, _fake) = app_with_fake(Reply::text(["hi"], usage(60, 40))).await;
    chat(&app).await;
    assert_eq!(get_provider(&app, "openai").await["status"], "ok");
}

#[tokio::test]
async fn missing_model_is_reported_with_instructions() {
    let app = TestApp::with_owner().await;
    let agent = json!({"svc_name": "ada", "user_name": "Owner", "archetype": "assistant"});
    app.post("/api/agents").json(&agent).send().await.expect_status(201);
    let refused = app.post("/api/chat/messages/stream").json(&message()).send().await.expect_error(503, "no_model");
    assert!(refused.text().contains("PUT /api/providers/{id}/key"), "{}", refused.text());
}

#[tokio::test]
async fn daily_budget_resets_at_midnight_of_the_profile_zone() {
    let (app, _fake) = app_with_fake(Reply::text(["hi"], usage(60, 40))).await;
    app.put("/api/settings/profile").json(&json!({"timezone": "America/New_York"})).send().await.expect_status(200);
    app.put("/api/settings/agent").json(&json!({"daily_token_limit": 150})).send().await.expect_status(200);
    // 23:30 in New York on the fifth.
    app.clock.set(Timestamp::parse("2026-01-06T04:30:00Z").unwrap());
    chat(&app).await;
    // 100 of 150 tokens are used, so another turn may begin.
    chat(&app).await;
    let refused = app.post("/api/chat/messages/stream").json(&message()).send().await;
    let refused = refused.expect_error(429, "budget_exhausted");
    assert_eq!(refused.header("retry-after"), Some("1800"));
    app.clock.advance(Duration::from_secs(1799));
    let refused = app.post("/api/chat/messages/stream").json(&message()).send().await.expect_status(429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    app.clock.advance(Duration::from_secs(1));
    chat(&app).await;
    // Midnight in UTC does not reset the budget.
    app.put("/api/settings/agent").json(&json!({"daily_token_limit": 100})).send().await.expect_status(200);
    app.post("/api/chat/messages/stream").json(&message()).send().await.expect_status(429);
    app.put("/api/settings/agent").json(&json!({"daily_token_limit": null})).send().await.expect_status(200);
    chat(&app).await;
}

#[tokio::test]
async fn total_budget_persists_across_days_and_restarts() {
    let (mut app, _fake) = app_with_fake(Reply::text(["hi"], usage(60, 40))).await;
    app.put("/api/settings/agent").json(&json!({"total_token_limit": 100})).send().await.expect_status(200);
    chat(&app).await;
    app.post("/api/chat/messages/stream").json(&message()).send().await.expect_error(409, "budget_exhausted");
    app.clock.advance(Duration::from_secs(3 * 24 * 3600));
    app.restart().await;
    app.post("/api/chat/messages/stream").json(&message()).send().await.expect_error(409, "budget_exhausted");
    app.put("/api/settings/agent").json(&json!({"total_token_limit": 101})).send().await.expect_status(200);
    chat(&app).await;
    app.put("/api/settings/agent").json(&json!({"total_token_limit": 0})).send().await.expect_status(200);
    app.post("/api/chat/messages/stream").json(&message()).send().await.expect_status(409);
}

#[tokio::test]
async fn each_call_adds_one_usage_row_and_updates_totals() {
    let (app, _fake) = app_with_fake(Reply::text(["hi"], usage(600, 400))).await;
    chat(&app).await;
    chat(&app).await;
    let unpriced = json!({"agent_id": "ada", "content": "hello", "model": "openai/llama-of-ours"});
    app.post("/api/chat/messages/stream").json(&unpriced).stream().await.collect().await;
    let mut read = app.running().context().db.read().await.unwrap();
    let sql = "SELECT model, cost_micro_usd, input_tokens, output_tokens, source, day FROM usage ORDER BY id";
    let rows = read.fetch_all(sql, agentd_store::args![]).await.unwrap();
    let costs: Vec<Option<u64>> = rows.iter().map(|row| row.get("cost_micro_usd").unwrap()).collect();
    // 600 at 0.15 and 400 at 0.60 micro-dollars; the price of the third call is unknown.
    assert_eq!(costs, [Some(330), Some(330), None]);
    assert!(rows.iter().all(|row| row.get::<String>("source").unwrap() == "provider"));
    assert!(rows.iter().all(|row| row.get::<String>("day").unwrap() == "2026-01-05"));
    let sql = "SELECT CAST(SUM(calls) AS BIGINT) AS calls, CAST(SUM(input_tokens) AS BIGINT) AS input, \
               CAST(SUM(cost_micro_usd) AS BIGINT) AS cost, CAST(SUM(unpriced_calls) AS BIGINT) AS unpriced \
               FROM usage_totals WHERE day = $1";
    for day in ["", "2026-01-05"] {
        let sums = read.fetch_one(sql, agentd_store::args![day]).await.unwrap();
        let sum = |name: &str| sums.get::<u64>(name).unwrap();
        assert_eq!((sum("calls"), sum("input"), sum("cost"), sum("unpriced")), (3, 1800, 660, 1));
    }
}

#[tokio::test]
async fn invalid_price_table_prevents_startup() {
    let mut app = TestApp::with_owner().await;
    app.stop().await;
    let path = app.data_dir().join("prices.toml");
    let entry = "[[price]]\nprovider = \"skynet\"\nmodel = \"m\"\ninput = 1\noutput = 1\n";
    std::fs::write(&path, entry).unwrap();
    let refused = app.try_start().await.unwrap_err();
    assert!(refused.contains("prices.toml") && refused.contains("skynet"), "{refused}");
    std::fs::write(&path, entry.replace("skynet", "openai")).unwrap();
    app.try_start().await.unwrap();
}
