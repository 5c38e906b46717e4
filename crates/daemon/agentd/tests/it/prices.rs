//! `/api/monitoring/prices`: listing, overrides, and costs of calls.

use agentd_llm::{Usage, UsageSource};
use agentd_testing_llm::{Reply, Script};
use serde_json::{Value, json};

use crate::cli::{agentd, path};
use crate::support::chat_fixture::ChatFixture;
use crate::support::{TestApp, TestProcess};

const PRICES: &str = "/api/monitoring/prices";
const USED: Usage = Usage {
    input_tokens: 1_000,
    output_tokens: 100,
    cache_read_tokens: 400,
    cache_write_tokens: 200,
    reasoning_tokens: 50,
    source: UsageSource::Provider,
};

async fn list_prices(app: &TestApp) -> Vec<Value> {
    let answer = app.get(PRICES).send().await.expect_status(200).json();
    assert_eq!(answer["total"], answer["prices"].as_array().expect("a list").len());
    answer["prices"].as_array().expect("a list").clone()
}

fn find(prices: &[Value], provider: &str, model: &str) -> Option<Value> {
    prices.iter().find(|price| price["provider"] == provider && price["model"] == model).cloned()
}

async fn put(app: &TestApp, prices: Value) -> Vec<Value> {
    let answer = app.put(PRICES).json(&json!({"prices": prices})).send().await.expect_status(200).json();
    answer["prices"].as_array().expect("a list").clone()
}

async fn costs(app: &TestApp) -> Vec<Option<u64>> {
    let mut read = app.running().context().db.read().await.expect("a connection");
    let rows =
        read.fetch_all("SELECT cost_micro_usd FROM usage ORDER BY id", agentd_store::args![]).await.expect("rows");
    rows.iter().map(|row| row.get("cost_micro_usd").expect("a cost")).collect()
}

async fn chat(fixture: &ChatFixture, model: &str) {
    let message = json!({"content": "hello", "agent_id": "scout", "model": format!("openai/{model}")});
    let events = fixture.exchange(&message).await;
    assert_eq!(events.last().expect("events").event, "done", "{events:?}");
}

#[tokio::test]
async fn every_price_has_an_origin() {
    let app = TestApp::with_owner().await;
    let prices = list_prices(&app).await;
    let names: Vec<(String, String)> =
        prices.iter().map(|price| (price["provider"].to_string(), price["model"].to_string())).collect();
    assert!(names.is_sorted(), "{names:?}");
    for price in &prices {
        assert!(price["as_of"].is_string() && price["source"].is_string(), "{price}");
        assert_eq!(price["origin"], "shipped");
    }
    let local = find(&prices, "local", "*").expect("the local model");
    assert_eq!((local["input"].as_f64(), local["output"].as_f64()), (Some(0.0), Some(0.0)));
}

#[tokio::test]
async fn override_applies_to_later_calls_only() {
    let mut fixture = ChatFixture::with(Script::always(Reply::text(["hi"], USED))).await;
    chat(&fixture, "ours-2").await;
    let ours = json!({"provider": "openai", "model": "ours*", "input": 1, "output": 10, "cache_read": 0.5,
        "cache_write": 2, "reasoning": 4});
    let prices = put(&fixture.app, json!([ours])).await;
    let entry = find(&prices, "openai", "ours*").expect("the override");
    assert_eq!(
        (&entry["origin"], &entry["as_of"], &entry["source"]),
        (&json!("override"), &json!("2026-01-05"), &Value::Null)
    );
    chat(&fixture, "ours-2").await;
    // 400 input at 1, 400 cache reads at 0.5, 200 cache writes at 2, 50 output at 10, 50 reasoning at 4.
    assert_eq!(costs(&fixture.app).await, [None, Some(400 + 200 + 400 + 500 + 200)]);

    // A new list replaces all overrides, and shipped prices apply again.
    let mini = json!({"provider": "openai", "model": "gpt-4o-mini", "input": 7, "output": 0, "source": "our contract"});
    let prices = put(&fixture.app, json!([mini])).await;
    assert!(find(&prices, "openai", "ours*").is_none());
    assert_eq!(find(&prices, "openai", "gpt-4o-mini").expect("the price")["source"], "our contract");
    fixture.app.restart().await;
    assert_eq!(list_prices(&fixture.app).await, prices);
    chat(&fixture, "gpt-4o-mini").await;
    chat(&fixture, "ours-2").await;
    assert_eq!(costs(&fixture.app).await, [None, Some(1_700), Some(7_000), None]);

    // The returned list can be sent back and has the same effect.
    let changed = put(&fixture.app, json!(prices)).await;
    assert_eq!(changed, prices);
    let before = put(&fixture.app, json!([])).await;
    assert_eq!(find(&before, "openai", "gpt-4o-mini").expect("the shipped price")["origin"], "shipped");
}

#[tokio::test]
async fn long_prompt_uses_its_own_price() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["hi"], USED))).await;
    let price = |above: u64| {
        json!([{"provider": "openai", "model": "ours", "input": 1, "output": 1,
            "long_prompt": {"above": above, "input": 3, "output": 5}}])
    };
    put(&fixture.app, price(1_000)).await;
    chat(&fixture, "ours").await;
    put(&fixture.app, price(999)).await;
    chat(&fixture, "ours").await;
    assert_eq!(costs(&fixture.app).await, [Some(1_100), Some(3_500)]);
}

#[tokio::test]
async fn invalid_prices_are_rejected_and_previous_ones_kept() {
    let app = TestApp::with_owner().await;
    let before = put(&app, json!([{"provider": "xai", "model": "ours", "input": 1, "output": 2}])).await;
    let good = json!({"provider": "openai", "model": "m", "input": 1, "output": 1});
    let with = |field: &str, value: Value| {
        let mut price = good.clone();
        price[field] = value;
        price
    };
    let without = |field: &str| {
        let mut price = good.clone();
        price.as_object_mut().expect("an object").remove(field);
        price
    };
    for (price, field) in [
        (with("input", json!(-1)), "input"),
        (with("input", json!(1e9)), "input"),
        (with("input", json!("1")), "input"),
        (with("input", Value::Null), "input"),
        (without("input"), "input"),
        (without("output"), "output"),
        (without("provider"), "provider"),
        (with("provider", json!("skynet")), "provider"),
        (with("model", json!("")), "model"),
        (with("model", json!("a b")), "model"),
        (with("model", json!("a*b")), "model"),
        (with("model", json!("m".repeat(201))), "model"),
        (with("cache_read", json!(-0.1)), "cache_read"),
        (with("cache_write", json!(100_001)), "cache_write"),
        (with("reasoning", json!(true)), "reasoning"),
        (with("context_window", json!(0)), "context_window"),
        (with("max_output_tokens", json!(1.5)), "max_output_tokens"),
        (with("as_of", json!("soon")), "as_of"),
        (with("source", json!("s".repeat(501))), "source"),
        (with("long_prompt", json!({"above": 0, "input": 1, "output": 1})), "long_prompt.above"),
    ] {
        let refused = app.put(PRICES).json(&json!({"prices": [price]})).send().await;
        let refused = refused.expect_error(400, "invalid_request");
        assert_eq!(refused.bad_fields(), [format!("prices[0].{field}")], "{price}: {}", refused.text());
    }
    let several = json!({"prices": [with("input", json!(-1)), good, good, with("provider", json!("skynet"))]});
    let refused = app.put(PRICES).json(&several).send().await.expect_error(400, "invalid_request");
    let mut fields = refused.bad_fields();
    fields.sort();
    assert_eq!(fields, ["prices[0].input", "prices[1].model", "prices[2].model", "prices[3].provider"]);
    for body in [json!({}), json!([]), json!({"prices": null}), json!({"prices": {}}), json!({"prices": [7]})] {
        app.put(PRICES).json(&body).send().await.expect_error(400, "invalid_request");
    }
    let huge = r#"{"prices": [{"provider": "openai", "model": "m", "input": 1e999, "output": 1}]}"#;
    app.put(PRICES).raw_json(huge).send().await.expect_error(400, "malformed_json");
    let many = json!({"prices": vec![good; 2_001]});
    app.put(PRICES).json(&many).send().await.expect_error(400, "invalid_request");
    assert_eq!(list_prices(&app).await, before);
}

#[tokio::test]
async fn replicas_use_the_same_prices() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["hi"], USED))).await;
    let Some(replica) = fixture.app.replica().await else { return };
    assert_eq!(list_prices(&replica).await, list_prices(&fixture.app).await);
    let set = put(&replica, json!([{"provider": "openai", "model": "ours", "input": 1, "output": 0}])).await;
    assert_eq!(list_prices(&fixture.app).await, set);
    chat(&fixture, "ours").await;
    assert_eq!(costs(&fixture.app).await, [Some(1_000)]);
}

#[tokio::test]
async fn missing_usage_is_estimated() {
    let uncounted = Usage { source: UsageSource::Missing, ..Usage::default() };
    let fixture = ChatFixture::with(Script::always(Reply::text(["four words of answer"], uncounted))).await;
    put(&fixture.app, json!([{"provider": "openai", "model": "ours", "input": 0, "output": 1}])).await;
    chat(&fixture, "ours").await;
    let [(source, input, output)] = fixture.usage().await.try_into().expect("one call");
    assert_eq!((source.as_str(), output), ("estimated", 5));
    assert!(input > 10, "{input}");
    assert_eq!(costs(&fixture.app).await, [Some(5)]);
}

#[tokio::test]
async fn prices_are_included_in_a_backup() {
    let process = TestProcess::with_owner().await;
    let ours = json!({"prices": [{"provider": "openai", "model": "ours", "input": 1.25, "output": 3}]});
    process.put(PRICES).json(&ours).send().await.expect_status(200);
    let archive = process.folder().join("archive.tar.gz");
    agentd(&process, &["backup", path(&archive)]).await.success();
    process.put(PRICES).json(&json!({"prices": []})).send().await.expect_status(200);
    agentd(&process, &["restore", "--yes", path(&archive)]).await.success();
    let answer = process.get(PRICES).send().await.expect_status(200).json();
    let entry = find(answer["prices"].as_array().expect("a list"), "openai", "ours").expect("the override");
    assert_eq!((entry["input"].as_f64(), &entry["origin"]), (Some(1.25), &json!("override")));
}
