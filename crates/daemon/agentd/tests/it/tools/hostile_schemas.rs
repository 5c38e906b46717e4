//! Tool schemas that would consume excessive memory or time.

use std::time::Duration;

use super::*;

/// Builds definitions that each reference the next one twice, so that expansion doubles `length` times.
fn doubling(length: usize, keyword: &str) -> Value {
    let mut definitions = serde_json::Map::new();
    for number in 0..length {
        let next = json!({"$ref": format!("#/$defs/a{}", number + 1)});
        definitions.insert(format!("a{number}"), json!({keyword: [next, next]}));
    }
    definitions.insert(format!("a{length}"), json!({"type": "string"}));
    json!({"type": "object", "$defs": definitions, "properties": {"x": {"$ref": "#/$defs/a0"}}})
}

fn tool(name: &str, schema: &Value) -> Value {
    json!({"name": name, "description": "For tests.", "kind": "python", "source_code": "result = 1", "input_schema": schema})
}

#[tokio::test]
async fn schema_with_exponential_references_is_rejected() {
    let fixture = ChatFixture::saying(&["Yes."]).await;
    for keyword in ["allOf", "anyOf", "oneOf"] {
        // The limit applies to the expanded size.
        for length in [18, 40] {
            let schema = doubling(length, keyword);
            assert!(schema.to_string().len() < 4_000);
            let refused = fixture.app.post("/api/settings/skills/custom").json(&tool("bomb", &schema)).send().await;
            let refused = refused.expect_error(400, "invalid_request");
            assert_eq!(refused.bad_fields(), ["input_schema"]);
            assert!(refused.text().contains("its references multiply"), "{}", refused.text());
        }
        let small = doubling(5, keyword);
        let name = format!("small_{}", keyword.to_lowercase());
        fixture.app.post("/api/settings/skills/custom").json(&tool(&name, &small)).send().await.expect_status(201);
    }
}

/// Returns a schema with a small expansion whose validation grows exponentially with the depth of the input.
fn recursive() -> Value {
    let node = json!({"$ref": "#/$defs/node"});
    json!({"type": "object", "$ref": "#/$defs/node", "$defs": {"node": {"anyOf": [
        {"properties": {"a": node}, "required": ["x"]},
        {"properties": {"a": node}, "required": ["y"]},
    ]}}})
}

#[tokio::test]
async fn deeply_nested_input_hits_the_validation_step_limit() {
    let mut deep = json!({});
    for _ in 0..60 {
        deep = json!({"a": deep});
    }
    // Many concurrent calls: each ends on its own and none blocks the daemon.
    let many: Vec<(&str, Value)> = (0..32).map(|_| ("mine", deep.clone())).collect();
    let bench = Bench::with(vec![calls(&many), says("Sorry.")]).await;
    without_sandbox(&bench).await;
    let app = &bench.fixture.app;
    app.post("/api/settings/skills/custom").json(&tool("mine", &recursive())).send().await.expect_status(201);
    let done = tokio_util::sync::CancellationToken::new();
    let probing = async {
        let mut slowest = Duration::ZERO;
        while !done.is_cancelled() {
            let before = std::time::Instant::now();
            app.get("/health/live").send().await.expect_status(200);
            slowest = slowest.max(before.elapsed());
        }
        slowest
    };
    let turn = async {
        let events = bench.fixture.exchange(&json!({"content": "go"})).await;
        done.cancel();
        events
    };
    let (events, slowest) = tokio::join!(turn, probing);
    assert_eq!((last(&events).event.as_str(), token_text(&events).as_str()), ("done", "Sorry."));
    let reply = bench.stored_reply(&events).await;
    for call in reply["tool_calls"].as_array().expect("calls") {
        let error = call["output"]["error"].as_str().unwrap_or_default();
        assert!(error.contains("too large or too deeply nested"), "{call}");
    }
    println!("slowest response of /health/live meanwhile: {slowest:?}");
}
