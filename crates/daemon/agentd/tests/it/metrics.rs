//! Metrics of turns, model calls, costs and the machine, and the maximum size of the response.

use std::time::Duration;

use agentd_core::runtime::Series;
use agentd_store::{StoreError, Tx, args};
use serde_json::json;

use crate::monitoring::{scrape, value};
use crate::support::TestApp;
use crate::support::chat_fixture::ChatFixture;

#[tokio::test]
async fn turns_and_model_calls_are_measured() {
    let fixture = ChatFixture::saying(&["x"]).await;
    let limits = json!({"daily_token_limit": 1000});
    fixture.app.put("/api/settings/agent").json(&limits).send().await.expect_status(200);
    for _ in 0..2 {
        fixture.exchange(&json!({"content": "hello"})).await;
    }
    let text = scrape(&fixture.app).await;
    for (sample, expected) in [
        ("svc_turn_duration_seconds_count", 2.0),
        (r#"svc_turn_duration_seconds_bucket{le="+Inf"}"#, 2.0),
        ("svc_turn_first_token_seconds_count", 2.0),
        ("svc_tool_call_duration_seconds_count", 0.0),
        (r#"svc_model_calls_total{provider="openai",status="ok"}"#, 2.0),
        (r#"svc_model_calls_total{provider="openai",status="failed"}"#, 0.0),
        (r#"svc_model_call_duration_seconds_count{provider="openai"}"#, 2.0),
        ("svc_unpriced_calls_total", 0.0),
        (r#"svc_budget_used_tokens{period="today"}"#, 20.0),
        (r#"svc_budget_limit_tokens{period="today"}"#, 1000.0),
        ("svc_turns_running", 0.0),
    ] {
        assert_eq!(value(&text, sample), Some(expected), "{sample} in {text}");
    }
    assert_eq!(value(&text, r#"svc_budget_limit_tokens{period="all"}"#), None, "no sample without a limit");
    let disk = |kind| value(&text, &format!("svc_disk_bytes{{kind=\"{kind}\"}}"));
    assert!(disk("available").is_some_and(|bytes| bytes > 0.0) && disk("available") <= disk("total"));
}

/// The size of the response is limited, whatever names agents use.
#[tokio::test]
async fn hostile_names_do_not_grow_the_metrics() {
    const MANY: usize = 10_000;
    const MAX_BYTES: usize = 700_000;
    let app = TestApp::with_owner().await;
    let context = app.running().context();
    let name = |number: usize| format!("{number} \"}} 1\n{}", "\\n".repeat(200));
    for number in 0..MANY {
        for series in [Series::Request, Series::Turn, Series::FirstToken, Series::ModelCall, Series::Tool] {
            context.recorder.record(series, &name(number), Duration::from_millis(1), number % 2 == 0);
        }
    }
    let fill = async move |tx: &mut Tx| {
        for number in 0..MANY {
            let name = name(number);
            tx.execute(
                "INSERT INTO usage_totals (day, provider, model, shard, calls, input_tokens, output_tokens, \
                 cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_micro_usd, unpriced_calls) \
                 VALUES ('', $1, $1, 0, 1, 7, 3, 0, 0, 0, 1000000, 0)",
                args![&name],
            )
            .await?;
        }
        Ok::<_, StoreError>(())
    };
    context.db.write(fill).await.expect("rows");
    for number in 0..20 {
        let agent = json!({"svc_name": format!("agent-{number}"), "user_name": "Owner", "archetype": "assistant"});
        app.post("/api/agents").json(&agent).send().await.expect_status(201);
    }
    let text = scrape(&app).await;
    assert!(text.len() < MAX_BYTES, "{} bytes", text.len());
    assert!(!text.contains("agent-1"), "agents have no labels");
    let sum = |family: &str| {
        let lines = text.lines().filter(|line| line.strip_prefix(family).is_some_and(|rest| rest.starts_with('{')));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum::<f64>()
    };
    // All values are included in the totals.
    assert_eq!(sum("svc_token_usage_total"), 10.0 * MANY as f64);
    assert_eq!(sum("svc_cost_usd_total"), MANY as f64);
    assert_eq!(sum("svc_tool_calls_total"), MANY as f64);
    assert_eq!(sum("svc_model_calls_total"), MANY as f64);
    assert_eq!(value(&text, "svc_tool_call_duration_seconds_count"), Some(MANY as f64));
    let again = scrape(&app).await;
    assert!(again.len() < MAX_BYTES, "{} bytes", again.len());
}
