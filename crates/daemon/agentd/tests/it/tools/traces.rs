//! `GET /api/chat/sessions/{id}/trace`: spans, times and costs of a turn.

use agentd_testing_llm::DocumentedFailure;

use super::*;
use crate::support::Eventually;

async fn trace(app: &TestApp, session: &str) -> Value {
    app.get(&format!("/api/chat/sessions/{session}/trace")).send().await.expect_status(200).json()
}

/// Returns the spans of one type in a turn.
fn parts<'t>(trace: &'t Value, span_type: &str) -> Vec<&'t Value> {
    let children = trace["span"]["children"].as_array().expect("children");
    children.iter().filter(|child| child["type"] == span_type).collect()
}

#[tokio::test]
async fn trace_shows_model_calls_and_tools() {
    let gate = Gate::new();
    let replies = vec![calls(&[("look", json!({})), ("breaks", json!({}))]), says("Done.")];
    let bench = Bench::gated(replies, Some(gate.clone())).await;
    let mut stream = bench.fixture.send(&json!({"content": "go"})).stream().await;
    let session =
        stream.next().await.expect("the `start` event").data["session_id"].as_str().expect("an id").to_owned();
    let mut eventually = Eventually::new();
    while bench.state.running.load(Ordering::SeqCst) < 2 {
        eventually.retry().await;
    }
    // Both tools run concurrently.
    let during = trace(&bench.fixture.app, &session).await;
    assert_eq!((&during["span"]["status"], &during["span"]["duration_ms"]), (&json!("running"), &Value::Null));
    let tools = parts(&during, "tool");
    assert_eq!(tools.len(), 2, "{during}");
    assert!(tools.iter().all(|tool| tool["status"] == "running" && tool["duration_ms"].is_null()), "{during}");
    assert_eq!(parts(&during, "model_call").len(), 1, "{during}");
    bench.fixture.app.clock.advance(Duration::from_millis(1_500));
    gate.open();
    let events = stream.collect().await;
    assert_eq!(last(&events).event, "done");

    let shown = trace(&bench.fixture.app, &session).await;
    let turn = &shown["span"];
    assert_eq!((&turn["type"], &turn["status"], &turn["duration_ms"]), (&json!("turn"), &json!("done"), &json!(1500)));
    assert_eq!((&turn["tokens"]["input_tokens"], &turn["tokens"]["output_tokens"]), (&json!(14), &json!(6)));
    let tools = parts(&shown, "tool");
    assert!(
        tools.iter().all(|tool| tool["duration_ms"] == 1500 && tool["started_at"] == turn["started_at"]),
        "{shown}"
    );
    let failed = tools.iter().find(|tool| tool["name"] == "breaks").expect("the tool `breaks`");
    assert_eq!((&failed["status"], &failed["error"]["message"]), (&json!("failed"), &json!("the disk is on fire")));
    let calls = parts(&shown, "model_call");
    assert_eq!(calls.len(), 2, "{shown}");
    assert!(calls.iter().all(|call| call["purpose"] == "answer" && call["status"] == "done"), "{shown}");
    assert_eq!(calls[0]["tokens"]["input_tokens"], 7);
    let costs: f64 = calls.iter().map(|call| call["cost_estimate"].as_f64().expect("a price")).sum();
    let cost = turn["cost_estimate"].as_f64().expect("a price");
    assert!(shown["unpriced_calls"] == 0 && cost > 0.0 && (cost - costs).abs() < 1e-9, "{shown}");
    assert_eq!(parts(&shown, "recall").len(), 1, "{shown}");
}

#[tokio::test]
async fn approval_is_a_span_with_its_waiting_time() {
    let mut bench = Bench::with(vec![calls(&[("act", json!({}))]), says("Done.")]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let stream = bench.fixture.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let (mut eventually, approval) = (Eventually::new(), wait_for_pending(&bench).await);
    let session = approval["session_id"].as_str().expect("a session").to_owned();
    let mut waiting = trace(&bench.fixture.app, &session).await;
    while waiting["span"]["status"] != "waiting" {
        eventually.retry_with(&waiting).await;
        waiting = trace(&bench.fixture.app, &session).await;
    }
    assert_eq!(parts(&waiting, "approval")[0]["status"], "waiting");
    assert!(parts(&waiting, "tool").is_empty(), "{waiting}");
    drop(stream);
    // The turn continues in the same trace after a restart.
    bench.restart().await;
    // The restart advanced the clock by one millisecond.
    bench.fixture.app.clock.advance(Duration::from_millis(89_999));
    assert_eq!(bench.answer(&approval["id"], json!({"decision": "approve"})).await, 200);
    bench.fixture.follow(&session).stream().await.collect().await;
    let shown = trace(&bench.fixture.app, &session).await;
    assert_eq!((&shown["trace_id"], &shown["span"]["id"]), (&waiting["trace_id"], &waiting["span"]["id"]));
    let approval_request = parts(&shown, "approval")[0];
    assert_eq!((&approval_request["status"], &approval_request["duration_ms"]), (&json!("done"), &json!(90_000)));
    let ran = parts(&shown, "tool")[0];
    assert_eq!(
        (&ran["status"], &ran["call_id"], &ran["duration_ms"]),
        (&json!("done"), &approval_request["call_id"], &json!(0))
    );
    assert_eq!((&shown["span"]["status"], &shown["span"]["duration_ms"]), (&json!("done"), &json!(90_000)));
    assert_eq!(parts(&shown, "model_call").len(), 2, "{shown}");
}

async fn wait_for_pending(bench: &Bench) -> Value {
    let mut eventually = Eventually::new();
    loop {
        if let Some(first) = bench.pending().await.first() {
            return first.clone();
        }
        eventually.retry().await;
    }
}

#[tokio::test]
async fn plan_and_reflection_are_separate_model_calls() {
    let replies = vec![says("1. look"), calls(&[("look", json!({}))]), says("Seen."), says("FINE")];
    let bench = Bench::with(replies).await;
    let strategy = json!({"planning": "always", "reflection": true});
    bench.fixture.app.put("/api/settings/strategy").json(&strategy).send().await.expect_status(200);
    let events = bench.fixture.exchange(&json!({"content": "Look."})).await;
    let shown = trace(&bench.fixture.app, &started(&events, "session_id")).await;
    let mut purposes: Vec<&str> =
        parts(&shown, "model_call").iter().filter_map(|call| call["purpose"].as_str()).collect();
    purposes.sort_unstable();
    assert_eq!(purposes, ["answer", "answer", "plan", "reflection"]);
    assert_eq!(parts(&shown, "tool").len(), 1, "a plan is not a tool span: {shown}");
}

#[tokio::test]
async fn failed_model_call_is_shown_with_its_error() {
    let bench = Bench::with(vec![Reply::failure(DocumentedFailure::WrongKey)]).await;
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    let shown = trace(&bench.fixture.app, &started(&events, "session_id")).await;
    let call = parts(&shown, "model_call")[0];
    assert_eq!((&call["status"], &call["error"]["code"]), (&json!("failed"), &json!("auth")));
    assert_eq!((&shown["span"]["status"], &shown["span"]["error"]["code"]), (&json!("failed"), &json!("auth")));
}

#[tokio::test]
async fn unknown_or_expired_session_has_no_trace() {
    let bench = Bench::with(vec![says("Yes.")]).await;
    let app = &bench.fixture.app;
    app.get("/api/chat/sessions/sess_unknown/trace").send().await.expect_error(404, "session_not_found");
    let events = bench.fixture.exchange(&json!({"content": "go"})).await;
    let path = format!("/api/chat/sessions/{}/trace", started(&events, "session_id"));
    app.get(&path).send().await.expect_status(200);
    // The trace is retained as long as the session.
    app.clock.advance(Duration::from_secs(25 * 3600));
    app.run_workers().await;
    app.get(&path).send().await.expect_error(404, "session_not_found");
}
