//! Approvals: requested, answered, expired, and resumed after a restart.

use agentd_store::{StoreError, Tx, args};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::support::Eventually;

#[tokio::test]
async fn approved_input_is_what_runs() {
    let input = json!({"word": "exactly this"});
    let bench = Bench::with(vec![calls(&[("look", json!({})), ("act", input.clone())]), says("Done.")]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let mut stream = bench.fixture.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let mut events = Vec::new();
    while !kinds(&events).contains(&"approval_request") || !kinds(&events).contains(&"tool_result") {
        events.push(stream.next().await.expect("next event"));
    }
    assert_eq!(bench.runs(), 1, "read-only tools need no approval");
    let pending = bench.pending().await;
    assert_eq!((pending.len(), &pending[0]["tool"], &pending[0]["input"]), (1, &json!("act"), &input));
    let approval_request = events.iter().find(|event| event.event == "approval_request").expect("an approval request");
    assert_eq!((&approval_request.data["approval_id"], &approval_request.data["input"]), (&pending[0]["id"], &input));
    assert_eq!(approval_request.data["input_sha256"], pending[0]["input_sha256"]);
    // The conversation is busy while the approval is pending.
    bench
        .fixture
        .send(&json!({"content": "more", "conversation_id": id}))
        .send()
        .await
        .expect_error(409, "turn_in_progress");
    let path = format!("/api/chat/conversations/{id}/approval-response");
    let answer = json!({"approval_id": pending[0]["id"], "decision": "approve"});
    let other = bench.conversation(json!({})).await;
    let foreign = format!("/api/chat/conversations/{other}/approval-response");
    bench.fixture.app.post(&foreign).json(&answer).send().await.expect_error(404, "approval_not_found");
    let decided = bench.fixture.app.post(&path).json(&answer).send().await.expect_status(200).json();
    assert_eq!(decided["status"], "approved");
    events.extend(stream.collect().await);
    assert_eq!(last(&events).event, "done");
    assert_eq!(token_text(&events), "Done.");
    assert_eq!(bench.runs(), 2);
    bench.fixture.app.post(&path).json(&answer).send().await.expect_error(409, "approval_answered");
    assert_eq!(bench.answer(&json!("appr_unknown"), json!({"decision": "approve"})).await, 404);
    let reply = bench.stored_reply(&events).await;
    assert_eq!(reply["tool_calls"][1]["output"], json!({"echo": input}));
}

/// Events about approvals and tools contain only ids, no content.
#[tokio::test]
async fn event_stream_shows_turn_and_approvals_without_content() {
    let bench = Bench::with(vec![calls(&[("act", json!({"word": "secret"}))]), says("Done.")]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let follow = "/api/events/stream?types=task.started,task.completed,approval,turn";
    let mut watched = bench.fixture.app.get(follow).stream().await;
    let stream = bench.fixture.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let pending = wait_for_pending(&bench).await;
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 200);
    let events = stream.collect().await;
    let mut seen = Vec::new();
    while seen.len() < 7 {
        seen.push(watched.next().await.expect("next event"));
    }
    let (mut stored, steps): (Vec<_>, Vec<_>) = seen.into_iter().partition(|event| event.id.is_some());
    stored.remove(0);
    assert_eq!(kinds(&stored), ["task.started", "approval.requested", "approval.decided", "task.completed"]);
    assert_eq!(kinds(&steps), ["turn.tool_use", "turn.tool_result"]);
    assert_eq!(
        (&stored[1].data["data"]["status"], &stored[2].data["data"]["status"]),
        (&json!("pending"), &json!("approved"))
    );
    assert_eq!(stored[1].data["data"]["approval_id"], pending["id"]);
    for event in stored.iter().chain(&steps) {
        let data = &event.data["data"];
        assert_eq!(
            (&data["conversation_id"], &data["session_id"]),
            (&json!(id), &json!(started(&events, "session_id")))
        );
    }
    assert_eq!((&steps[1].data["data"]["tool"], &steps[1].data["data"]["status"]), (&json!("act"), &json!("done")));
    assert!(!stored.iter().chain(&steps).any(|event| event.data.to_string().contains("secret")));
}

#[tokio::test]
async fn rejection_reason_is_sent_to_the_model() {
    let bench = Bench::with(vec![calls(&[("act", json!({}))]), says("Then not.")]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let stream = bench.fixture.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let pending = wait_for_pending(&bench).await;
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "reject", "reason": "too risky"})).await, 200);
    let events = stream.collect().await;
    assert_eq!(kinds(&events), ["start", "approval_request", "tool_result", "token", "done"]);
    assert_eq!(bench.runs(), 0);
    assert!(bench.request(1).to_string().contains("the owner rejected the call: too risky"));
    assert_eq!(bench.stored_reply(&events).await["tool_calls"][0]["status"], "rejected");
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
async fn tools_listed_in_settings_require_approval() {
    let bench = Bench::with(vec![calls(&[("look", json!({}))]), says("ok")]).await;
    bench
        .fixture
        .app
        .put("/api/settings/security")
        .json(&json!({"approval_tools": ["lo*"]}))
        .send()
        .await
        .expect_status(200);
    let stream = bench.fixture.send(&json!({"content": "go"})).stream().await;
    let pending = wait_for_pending(&bench).await;
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 200);
    assert_eq!(last(&stream.collect().await).event, "done");
}

#[tokio::test]
async fn pending_approval_survives_restart() {
    let mut bench = Bench::with(vec![calls(&[("act", json!({"word": "w"}))]), says("Done.")]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let (pending, session) = begin_parked_turn(&bench, &id).await;
    bench.restart().await;
    assert_eq!(bench.pending().await, std::slice::from_ref(&pending));
    let conversation = bench.fixture.conversation(&id).await;
    assert_eq!(conversation["messages"][1]["status"], "running");
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 200);
    let events = bench.fixture.follow(&session).stream().await.collect().await;
    assert_eq!(kinds(&events), ["start", "approval_request", "tool_use", "tool_result", "token", "done"]);
    assert_eq!(bench.runs(), 1);
}

#[tokio::test]
async fn tool_changed_after_approval_request_does_not_run() {
    let mut bench = Bench::with(vec![calls(&[("greet", json!({}))]), says("Then not.")]).await;
    without_sandbox(&bench).await;
    let custom = "/api/settings/skills/custom";
    let tool = json!({"name": "greet", "description": "Greets.", "kind": "shell", "source_code": "echo old"});
    let made = bench.fixture.app.post(custom).json(&tool).send().await.expect_status(201).json();
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let (pending, session) = begin_parked_turn(&bench, &id).await;
    let path = format!("{custom}/{}", made["id"].as_str().expect("an id"));
    bench.fixture.app.put(&path).json(&json!({"source_code": "echo new"})).send().await.expect_status(200);
    bench.restart().await;
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve", "input": {}})).await, 400);
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 200);
    let events = bench.fixture.follow(&session).stream().await.collect().await;
    let result = &events.iter().find(|event| event.event == "tool_result").expect("a result").data;
    let error = result["output"]["error"].as_str().expect("an error");
    assert!(result["status"] == "failed" && error.contains("tool changed"), "{result}");
    assert_eq!(last(&events).event, "done");
}

/// Begins a turn that waits for an approval; returns the approval and the session id.
pub(super) async fn begin_parked_turn(bench: &Bench, conversation: &str) -> (Value, String) {
    let stream = bench.fixture.send(&json!({"content": "go", "conversation_id": conversation})).stream().await;
    let pending = wait_for_pending(bench).await;
    let session = pending["session_id"].as_str().expect("a session").to_owned();
    wait_until_parked(bench, &session).await;
    drop(stream);
    (pending, session)
}

async fn wait_until_parked(bench: &Bench, session: &str) {
    let db = &bench.fixture.app.running().context().db;
    let mut eventually = Eventually::new();
    loop {
        let mut read = db.read().await.expect("a connection");
        let sql = "SELECT 1 FROM sessions WHERE id = $1 AND waiting_since IS NOT NULL";
        if read.fetch_optional(sql, args![session]).await.expect("a row").is_some() {
            return;
        }
        eventually.retry().await;
    }
}

/// Begins another turn that waits for an approval; returns its session id.
async fn begin_parked_session(bench: &Bench) -> String {
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let mut stream = bench.fixture.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let session = started(&[stream.next().await.expect("start")], "session_id");
    wait_until_parked(bench, &session).await;
    session
}

async fn session_status(bench: &Bench, session: &str) -> Option<String> {
    let mut read = bench.fixture.app.running().context().db.read().await.expect("a connection");
    let row = read.fetch_optional("SELECT status FROM sessions WHERE id = $1", args![session]).await.expect("a row");
    row.map(|row| row.get("status").expect("a status"))
}

#[tokio::test]
async fn expired_approval_ends_the_turn() {
    let bench = Bench::with(vec![calls(&[("act", json!({}))]), says("Nobody said yes.")]).await;
    let ttl = json!({"approval_ttl_seconds": 1});
    bench.fixture.app.put("/api/settings/security").json(&ttl).send().await.expect_status(200);
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let stream = bench.fixture.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let pending = wait_for_pending(&bench).await;
    wait_until_parked(&bench, pending["session_id"].as_str().expect("a session")).await;
    bench.fixture.app.clock.advance(Duration::from_secs(2));
    let late = format!("/api/chat/approvals/{}", pending["id"].as_str().expect("an id"));
    let answer = json!({"decision": "approve"});
    let refused = bench.fixture.app.post(&late).json(&answer).send().await.expect_error(409, "approval_expired");
    assert!(refused.text().contains("ask the agent again"), "{}", refused.text());
    // No worker has recorded the expiry yet.
    assert!(bench.pending().await.is_empty());
    let expired = bench.fixture.app.get("/api/chat/approvals?status=expired").send().await.expect_status(200).json();
    assert_eq!((&expired["total"], &expired["approvals"][0]["status"]), (&json!(1), &json!("expired")));
    bench.fixture.app.run_workers().await;
    let events = stream.collect().await;
    assert_eq!(last(&events).event, "done");
    assert_eq!(bench.runs(), 0);
    assert_eq!(bench.stored_reply(&events).await["tool_calls"][0]["status"], "expired");
    bench.fixture.app.post(&late).json(&answer).send().await.expect_error(409, "approval_expired");
}

/// The conversation is released when the approval expires, not at the next worker interval.
#[tokio::test]
async fn approval_expires_without_waiting_for_worker_interval() {
    let bench = Bench::with(vec![calls(&[("act", json!({}))]), says("Nobody said yes.")]).await;
    let ttl = json!({"approval_ttl_seconds": 1});
    bench.fixture.app.put("/api/settings/security").json(&ttl).send().await.expect_status(200);
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let running = bench.fixture.app.running();
    let (tracker, draining) = (TaskTracker::new(), CancellationToken::new());
    running.daemon.workers.spawn(&running.context().db, &tracker, &draining);
    // Every worker has run once and now waits for its interval.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stream = bench.fixture.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let pending = wait_for_pending(&bench).await;
    wait_until_parked(&bench, pending["session_id"].as_str().expect("a session")).await;
    bench.fixture.app.clock.advance(Duration::from_secs(1));
    let events = tokio::time::timeout(Duration::from_secs(15), stream.collect()).await.expect("the approval expires");
    assert_eq!(last(&events).event, "done");
    assert_eq!(bench.stored_reply(&events).await["tool_calls"][0]["status"], "expired");
    draining.cancel();
    tracker.close();
    tracker.wait().await;
}

#[tokio::test]
async fn deleting_agent_cancels_its_approvals() {
    let bench = Bench::with(vec![calls(&[("act", json!({}))])]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let stream = bench.fixture.send(&json!({"content": "go", "conversation_id": id})).stream().await;
    let pending = wait_for_pending(&bench).await;
    wait_until_parked(&bench, pending["session_id"].as_str().expect("a session")).await;
    bench.fixture.app.delete("/api/agents/scout").send().await.expect_status(200);
    assert!(bench.pending().await.is_empty(), "deleting the agent closes its approvals");
    let path = format!("/api/chat/approvals/{}", pending["id"].as_str().expect("an id"));
    for decision in ["approve", "reject"] {
        let answer = bench.fixture.app.post(&path).json(&json!({"decision": decision})).send().await;
        answer.expect_error(409, "approval_answered");
    }
    let listed = bench.fixture.app.get("/api/chat/approvals?status=cancelled").send().await.expect_status(200).json();
    assert_eq!(listed["approvals"][0]["reason"], "the agent was deleted");
    drop(stream);
    bench.fixture.app.run_workers().await;
    assert_eq!((bench.runs(), bench.answer(&pending["id"], json!({"decision": "approve"})).await), (0, 404));
}

#[tokio::test]
async fn parked_turn_of_deleted_agent_does_not_block_startup() {
    let mut bench = Bench::with(vec![calls(&[("act", json!({}))])]).await;
    let session = begin_parked_session(&bench).await;
    // The state after a kill immediately following the deletion.
    let gone = async |tx: &mut Tx| {
        let now = tx.clock().now();
        tx.execute("UPDATE agents SET deleted_at = $1", args![now]).await?;
        tx.execute("UPDATE sessions SET cancel_requested = 1", args![]).await
    };
    bench.fixture.app.running().context().db.write::<_, StoreError, _>(gone).await.expect("changed");
    bench.restart().await;
    bench.fixture.app.run_workers().await;
    assert_ne!(session_status(&bench, &session).await.as_deref(), Some("running"));
    bench.restart().await;
    assert_eq!(bench.runs(), 0);
}

#[tokio::test]
async fn unreadable_parked_turn_is_interrupted_and_others_continue() {
    let mut bench = Bench::with(vec![calls(&[("act", json!({}))]), calls(&[("act", json!({}))]), says("Done.")]).await;
    let (broken, whole) = (begin_parked_session(&bench).await, begin_parked_session(&bench).await);
    let lost = broken.clone();
    let spoil = async move |tx: &mut Tx| {
        tx.execute("UPDATE parked_turns SET state = '{}' WHERE session_id = $1", args![&lost]).await?;
        // Approved while no daemon is running.
        tx.execute("UPDATE approvals SET status = 'approved'", args![]).await
    };
    bench.fixture.app.running().context().db.write::<_, StoreError, _>(spoil).await.expect("changed");
    bench.restart().await;
    bench.fixture.app.run_workers().await;
    assert_eq!(session_status(&bench, &broken).await.as_deref(), Some("interrupted"));
    let mut eventually = Eventually::new();
    while session_status(&bench, &whole).await.as_deref() != Some("done") {
        eventually.retry().await;
    }
}

#[tokio::test]
async fn parked_turn_can_be_cancelled_and_its_conversation_deleted() {
    let bench = Bench::with(vec![calls(&[("act", json!({}))])]).await;
    let id = bench.conversation(json!({"execution_mode": "approval_required"})).await;
    let send = json!({"content": "go", "conversation_id": id});
    let stream = bench.fixture.send(&send).stream().await;
    let pending = wait_for_pending(&bench).await;
    let session = pending["session_id"].as_str().expect("a session").to_owned();
    wait_until_parked(&bench, &session).await;
    let path = format!("/api/chat/sessions/{session}/cancel");
    let cancelled = bench.fixture.app.post(&path).send().await.expect_status(200).json();
    assert_eq!(cancelled["status"], "cancelled");
    let events = stream.collect().await;
    assert_eq!(last(&events).data["code"], "cancelled");
    assert_eq!(bench.stored_reply(&events).await["tool_calls"][0]["status"], "cancelled", "the tool did not run");
    assert!(bench.pending().await.is_empty());
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 409);
    assert_eq!(bench.runs(), 0);
    // A second parked turn, whose conversation is deleted.
    let stream = bench.fixture.send(&send).stream().await;
    let pending = wait_for_pending(&bench).await;
    wait_until_parked(&bench, pending["session_id"].as_str().expect("a session")).await;
    bench.fixture.app.delete(&format!("/api/chat/conversations/{id}")).send().await.expect_status(200);
    drop(stream);
    bench.fixture.app.run_workers().await;
    assert!(bench.pending().await.is_empty());
    assert_eq!(bench.answer(&pending["id"], json!({"decision": "approve"})).await, 404);
}

#[tokio::test]
async fn cancelled_tool_call_is_marked_unknown_and_not_repeated() {
    let gate = Gate::new();
    let bench = Bench::gated(vec![calls(&[("act", json!({}))])], Some(gate.clone())).await;
    let mut stream = bench.fixture.send(&json!({"content": "go"})).stream().await;
    let mut events = vec![stream.next().await.expect("start"), stream.next().await.expect("tool_use")];
    let session = started(&events, "session_id");
    bench.fixture.app.post(&format!("/api/chat/sessions/{session}/cancel")).send().await.expect_status(200);
    events.extend(stream.collect().await);
    assert_eq!(last(&events).data["code"], "cancelled");
    let reply = bench.stored_reply(&events).await;
    assert_eq!((&reply["status"], &reply["tool_calls"][0]["status"]), (&json!("cancelled"), &json!("unknown")));
    assert_eq!(bench.runs(), 1);
}

#[tokio::test]
async fn queued_tool_call_is_cancelled_without_running() {
    let gate = Gate::new();
    let bench = Bench::gated(vec![calls(&[("act", json!({})), ("act", json!({}))])], Some(gate.clone())).await;
    let one = json!({"max_parallel_tools": 1});
    bench.fixture.app.put("/api/settings/strategy").json(&one).send().await.expect_status(200);
    let mut stream = bench.fixture.send(&json!({"content": "go"})).stream().await;
    let mut events = vec![stream.next().await.expect("start"), stream.next().await.expect("tool_use")];
    let session = started(&events, "session_id");
    bench.fixture.app.post(&format!("/api/chat/sessions/{session}/cancel")).send().await.expect_status(200);
    events.extend(stream.collect().await);
    let reply = bench.stored_reply(&events).await;
    let statuses = [&reply["tool_calls"][0]["status"], &reply["tool_calls"][1]["status"]];
    assert_eq!(statuses, [&json!("unknown"), &json!("cancelled")]);
}
