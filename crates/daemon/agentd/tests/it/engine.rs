//! Turns: streams, event logs, and outcomes.

use std::time::Duration;

use agentd_llm::Vendor;
use agentd_testing_llm::{DocumentedFailure, Ending, FakeVendor, Gate, Reply, Script};
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, create_agent, read_tokens, started};
use crate::support::request::{ServerEvent, token_text};
use crate::support::{TestApp, TestProcess};

fn kinds(events: &[ServerEvent]) -> Vec<&str> {
    events.iter().map(|event| event.event.as_str()).collect()
}

fn assert_numbered(events: &[ServerEvent], first: usize) {
    for (position, event) in events.iter().enumerate() {
        assert_eq!(event.id.as_deref(), Some((first + position).to_string().as_str()), "{events:?}");
    }
}

/// Returns the message of the reply from the conversation.
async fn reply(fixture: &ChatFixture, events: &[ServerEvent]) -> Value {
    let conversation = fixture.conversation(&started(events, "conversation_id")).await;
    let id = started(events, "message_id");
    let messages = conversation["messages"].as_array().expect("messages");
    messages.iter().find(|message| message["id"] == *id).expect("the reply").clone()
}

#[tokio::test]
async fn reply_is_streamed_in_pieces_and_stored() {
    let pieces = ["Par", "is ", "est\n\n", "data: ", "\"é\\", "😀", " ", "\u{2028}end"];
    let fixture = ChatFixture::saying(&pieces).await;
    let events = fixture.exchange(&json!({"content": "Where?"})).await;
    assert_eq!(kinds(&events), [&["start"][..], &["token"; 8], &["done"]].concat());
    assert_numbered(&events, 0);
    let texts: Vec<&str> = events.iter().filter_map(|event| event.data["content"].as_str()).collect();
    assert_eq!(texts, pieces);
    assert!(started(&events, "session_id").starts_with("sess_"));
    let done = &events[9].data;
    let expected = json!({
        "message_id": started(&events, "message_id"), "provider": "openai", "model": "gpt-5.4-mini",
        "input_tokens": 7, "output_tokens": 3, "total_tokens": 10, "finish_reason": "stop",
    });
    assert_eq!(*done, expected);
    let stored = reply(&fixture, &events).await;
    assert_eq!(
        (&stored["content"], &stored["status"], &stored["role"]),
        (&json!(pieces.concat()), &json!("complete"), &json!("assistant"))
    );
    assert_eq!(fixture.usage().await, [("provider".to_owned(), 7, 3)]);
}

#[tokio::test]
async fn stream_has_event_stream_headers() {
    let fixture = ChatFixture::saying(&["x"]).await;
    let answer = fixture.send(&json!({"content": "hello"})).send().await.expect_status(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn event_log_can_be_replayed_from_any_position() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b", "c", "d"], TEST_USAGE).gated(&gate))).await;
    let mut stream = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(2);
    let before = read_tokens(&mut stream, 2).await;
    let session = started(&before, "session_id");
    let mut late = fixture.follow(&session).header("last-event-id", "1").stream().await;
    assert_eq!(late.next().await.expect("the second token").data["content"], "b");
    gate.open();
    let rest = late.collect().await;
    assert_eq!(kinds(&rest), ["token", "token", "done"]);
    assert_numbered(&rest, 3);
    let whole = [before, stream.collect().await].concat();
    for query in ["", "?last_event_id=0", "?last_event_id=3", "?last_event_id=5"] {
        let replayed =
            fixture.app.get(&format!("/api/chat/sessions/{session}/stream{query}")).stream().await.collect().await;
        let skip = query.split_once('=').map_or(0, |(_, id)| id.parse::<usize>().expect("a number") + 1);
        assert_eq!(replayed, whole.get(skip..).unwrap_or_default(), "{query}");
    }
    let beyond = format!("/api/chat/sessions/{session}/stream?last_event_id=99");
    fixture.app.get(&beyond).send().await.expect_error(400, "invalid_request");
    fixture.follow(&session).header("last-event-id", "x").send().await.expect_error(400, "invalid_request");
    fixture.app.get(&format!("/api/chat/sessions/{session}/stream?last_event_id=-1")).send().await.expect_status(400);
    fixture.follow("sess_none").send().await.expect_error(404, "session_not_found");
    fixture.app.clock.advance(Duration::from_secs(24 * 60 * 60 + 1));
    fixture.app.run_workers().await;
    fixture.follow(&session).send().await.expect_error(404, "session_not_found");
    assert_eq!(reply(&fixture, &whole).await["content"], "abcd");
}

#[tokio::test]
async fn client_disconnect_does_not_stop_the_reply() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b", "c"], TEST_USAGE).gated(&gate))).await;
    let mut stream = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(1);
    let seen = read_tokens(&mut stream, 1).await;
    let so_far = reply(&fixture, &seen).await;
    assert_eq!((&so_far["content"], &so_far["status"]), (&json!("a"), &json!("running")));
    drop(stream);
    gate.open();
    let session = started(&seen, "session_id");
    fixture.follow(&session).stream().await.collect().await;
    let stored = reply(&fixture, &seen).await;
    assert_eq!((&stored["content"], &stored["status"]), (&json!("abc"), &json!("complete")));
}

#[tokio::test]
async fn reply_can_be_cancelled() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b", "c"], TEST_USAGE).gated(&gate))).await;
    let mut stream = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(2);
    let seen = read_tokens(&mut stream, 2).await;
    let path = format!("/api/chat/sessions/{}/cancel", started(&seen, "session_id"));
    let session = fixture.app.post(&path).send().await.expect_status(200).json();
    assert_eq!(session["status"], "cancelled");
    let rest = stream.collect().await;
    assert_eq!((kinds(&rest), &rest[0].data["code"]), (vec!["error"], &json!("cancelled")));
    let stored = reply(&fixture, &seen).await;
    assert_eq!((&stored["content"], &stored["status"]), (&json!("ab"), &json!("cancelled")));
    fixture.vendor.wait_for_aborted(1).await;
    let usage = fixture.usage().await;
    assert_eq!((usage.len(), usage[0].0.as_str()), (1, "estimated"));
    fixture.app.post(&path).send().await.expect_error(409, "session_ended");
    fixture.app.post("/api/chat/sessions/sess_none/cancel").send().await.expect_error(404, "session_not_found");
    // The conversation accepts messages again.
    gate.open();
    let again =
        fixture.exchange(&json!({"content": "go on", "conversation_id": started(&seen, "conversation_id")})).await;
    assert_eq!(token_text(&again), "abc");
}

#[tokio::test]
async fn concurrent_messages_are_not_interleaved() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b"], TEST_USAGE).gated(&gate))).await;
    let conversation = fixture.app.post("/api/chat/conversations").json(&json!({})).send().await.json()["id"].clone();
    let send = |number: usize| fixture.send(&json!({"content": format!("q{number}"), "conversation_id": conversation}));
    let mut first = send(0).stream().await;
    gate.release(1);
    let seen = read_tokens(&mut first, 1).await;
    let refused = send(1).send().await.expect_error(409, "turn_in_progress");
    let session = started(&seen, "session_id");
    assert!(refused.json()["error"].as_str().is_some_and(|text| text.contains(&session)));
    gate.open();
    first.collect().await;
    // Eight concurrent messages: a rejected one stores nothing.
    let answers = join_all((2..10).map(|number| send(number).send())).await;
    let stored = answers.iter().filter(|answer| answer.status == 200).count();
    assert!(stored >= 1 && answers.iter().all(|answer| matches!(answer.status.as_u16(), 200 | 409)));
    let found = fixture.conversation(conversation.as_str().expect("an id")).await;
    assert_eq!(found["message_count"], json!(2 + 2 * stored));
    for pair in found["messages"].as_array().expect("messages").chunks(2) {
        assert_eq!((&pair[0]["role"], &pair[1]["role"]), (&json!("user"), &json!("assistant")));
        assert_eq!((&pair[1]["content"], &pair[1]["status"]), (&json!("ab"), &json!("complete")));
    }
}

#[tokio::test]
async fn repeat_with_the_same_key_follows_the_same_reply() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b"], TEST_USAGE).gated(&gate))).await;
    let send = || fixture.send(&json!({"content": "hello"})).header("idempotency-key", "once");
    let mut first = send().stream().await;
    gate.release(1);
    let seen = read_tokens(&mut first, 1).await;
    drop(first);
    let mut again = send().stream().await;
    assert_eq!(read_tokens(&mut again, 1).await, seen);
    gate.open();
    let rest = again.collect().await;
    assert_eq!(kinds(&rest), ["token", "done"]);
    assert_eq!(send().stream().await.collect().await, [seen, rest].concat());
    assert_eq!(fixture.vendor.requests().len(), 1);
    let other = fixture.send(&json!({"content": "other"})).header("idempotency-key", "once").send().await;
    other.expect_error(409, "idempotency_key_reused");
}

#[tokio::test]
async fn provider_failures_have_distinct_codes() {
    let limit = Reply::failure(DocumentedFailure::RateLimit).header("retry-after", "3600");
    for (replies, code, calls) in [
        (vec![limit], "rate_limit", 1),
        (vec![Reply::failure(DocumentedFailure::WrongKey)], "auth", 1),
        (vec![Reply::failure(DocumentedFailure::ContextTooLong)], "context_length", 1),
        (vec![Reply::failure(DocumentedFailure::UnknownModel)], "provider_unavailable", 1),
        (vec![Reply::failure(DocumentedFailure::Overloaded); 2], "overloaded", 2),
        (vec![Reply::failure(DocumentedFailure::Broken); 2], "provider_unavailable", 2),
    ] {
        let fixture = ChatFixture::with(Script::queue(replies)).await;
        let events = fixture.exchange(&json!({"content": "hello"})).await;
        assert_eq!(kinds(&events), ["start", "error"], "{code}");
        assert_eq!(events[1].data["code"], code);
        let message = events[1].data["message"].as_str().unwrap_or_default();
        assert!(message.len() > 10, "{events:?}");
        assert_eq!(message.ends_with("; retry in 3600 seconds"), code == "rate_limit", "{message}");
        let stored = reply(&fixture, &events).await;
        assert_eq!((&stored["content"], &stored["status"]), (&json!(""), &json!("failed")));
        assert_eq!(fixture.usage().await, vec![("missing".to_owned(), 0, 0); calls]);
    }
}

#[tokio::test]
async fn failure_before_the_first_token_is_retried() {
    let replies = [Reply::failure(DocumentedFailure::Overloaded), Reply::text(["there"], TEST_USAGE)];
    let fixture = ChatFixture::with(Script::queue(replies)).await;
    let events = fixture.exchange(&json!({"content": "hello"})).await;
    assert_eq!(kinds(&events), ["start", "token", "done"]);
    assert_eq!(fixture.usage().await.len(), 2);
}

#[tokio::test]
async fn interrupted_reply_keeps_its_text() {
    for ending in [Ending::Broken, Ending::WithoutEndMarker] {
        let fixture = ChatFixture::with(Script::always(Reply::text(["half ", "a"], TEST_USAGE).ending(ending))).await;
        let events = fixture.exchange(&json!({"content": "hello"})).await;
        let (last, before) = events.split_last().expect("events");
        assert_eq!((last.event.as_str(), &last.data["code"]), ("error", &json!("provider_unavailable")), "{ending:?}");
        let stored = reply(&fixture, &events).await;
        assert_eq!((&stored["content"], &stored["status"]), (&json!(token_text(before)), &json!("failed")));
    }
}

#[tokio::test]
async fn hanging_model_times_out() {
    let fixture = ChatFixture::with(Script::always(Reply::text(["a"], TEST_USAGE).ending(Ending::Hang))).await;
    let settings = json!({"request_timeout_seconds": 1});
    fixture.app.put("/api/settings/agent").json(&settings).send().await.expect_status(200);
    let events = fixture.exchange(&json!({"content": "hello"})).await;
    assert_eq!(kinds(&events), ["start", "token", "error"]);
    assert_eq!(events[2].data["code"], "timeout");
}

#[tokio::test]
async fn message_is_not_stored_without_a_model_or_budget() {
    let app = TestApp::with_owner().await;
    create_agent(&app, "scout").await;
    let send = || app.post("/api/chat/messages/stream").json(&json!({"content": "hello"})).send();
    send().await.expect_error(503, "no_model");
    let vendor =
        FakeVendor::start(Vendor::Openai, Script::always(Reply::text(["a"], TEST_USAGE))).await.expect("a vendor");
    crate::support::chat_fixture::use_vendor(&app, &vendor).await;
    app.put("/api/settings/agent").json(&json!({"daily_token_limit": 10})).send().await.expect_status(200);
    send().await.expect_status(200);
    let refused = send().await.expect_error(429, "budget_exhausted");
    assert!(refused.header("retry-after").is_some());
    app.put("/api/settings/agent").json(&json!({"daily_token_limit": null, "total_token_limit": 10})).send().await;
    send().await.expect_error(409, "budget_exhausted");
    assert_eq!(vendor.requests().len(), 1);
    assert_eq!(app.get("/api/chat/conversations").send().await.json()["total"], 1);
}

#[tokio::test]
async fn beginning_of_a_long_conversation_is_summarized() {
    let reply = |request: &agentd_testing_llm::RecordedRequest| match request.body["messages"].as_array().map(Vec::len)
    {
        Some(messages) if messages > 6 => Reply::failure(DocumentedFailure::ContextTooLong),
        _ if request.body.to_string().contains("keep the minutes") => Reply::text(["They counted."], TEST_USAGE),
        _ => Reply::text(["ok"], TEST_USAGE),
    };
    let fixture = ChatFixture::with(Script::by(reply)).await;
    let id = started(&fixture.exchange(&json!({"content": "q0"})).await, "conversation_id");
    for number in 1..6 {
        let events = fixture.exchange(&json!({"content": format!("q{number}"), "conversation_id": id})).await;
        assert_eq!(kinds(&events), ["start", "token", "done"], "{number}");
    }
    let last = fixture.vendor.requests().pop().expect("a request").body;
    let system = last["messages"][0]["content"].as_str().expect("a system prompt");
    assert!(system.contains("They counted.") && !system.contains("were left out"), "{system}");
    let question = last["messages"].as_array().and_then(|messages| messages.last()).expect("a question").clone();
    assert_eq!(question["content"], "q5");
}

#[tokio::test]
async fn draining_daemon_marks_interrupted_replies() {
    let gate = Gate::new();
    let mut fixture = ChatFixture::with(Script::always(Reply::text(["a", "b"], TEST_USAGE).gated(&gate))).await;
    let mut stream = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(1);
    let seen = read_tokens(&mut stream, 1).await;
    // Draining rejects new messages while the running reply continues.
    fixture.app.running().context().draining.cancel();
    fixture.send(&json!({"content": "late"})).send().await.expect_error(503, "draining");
    fixture.app.running().daemon.drain(Duration::from_millis(100)).await;
    let rest = stream.collect().await;
    assert_eq!((kinds(&rest), &rest[0].data["code"]), (vec!["error"], &json!("internal")));
    fixture.app.restart().await;
    let stored = reply(&fixture, &seen).await;
    assert_eq!((&stored["content"], &stored["status"]), (&json!("a"), &json!("interrupted")));
}

#[tokio::test]
async fn reply_can_be_followed_and_cancelled_on_another_replica() {
    let gate = Gate::new();
    let fixture = ChatFixture::with(Script::always(Reply::text(["a", "b", "c"], TEST_USAGE).gated(&gate))).await;
    let Some(replica) = fixture.app.replica().await else { return };
    let mut stream = fixture.send(&json!({"content": "hello"})).stream().await;
    gate.release(1);
    let seen = read_tokens(&mut stream, 1).await;
    let session = format!("/api/chat/sessions/{}", started(&seen, "session_id"));
    let mut on_replica = replica.get(&format!("{session}/stream")).stream().await;
    assert_eq!(read_tokens(&mut on_replica, 1).await, seen);
    gate.release(1);
    assert_eq!(on_replica.next().await.expect("the second token").data["content"], "b");
    let body = json!({"content": "me too", "conversation_id": started(&seen, "conversation_id")});
    let refused = replica.post("/api/chat/messages/stream").json(&body).send().await;
    refused.expect_error(409, "turn_in_progress");
    let cancelled = replica.post(&format!("{session}/cancel")).send().await.expect_status(200).json();
    assert_eq!(cancelled["status"], "cancelled");
    for rest in [on_replica.collect().await, stream.collect().await] {
        assert_eq!(rest.last().expect("an end").data["code"], "cancelled");
    }
    // A reply of another daemon is not taken over until its lease expires.
    let mut stream = fixture.send(&json!({"content": "again"})).stream().await;
    gate.release(1);
    let seen = read_tokens(&mut stream, 1).await;
    replica.run_workers().await;
    assert_eq!(reply(&fixture, &seen).await["status"], "running");
    replica.clock.advance(Duration::from_secs(60));
    replica.run_workers().await;
    assert_eq!(reply(&fixture, &seen).await["status"], "interrupted");
    gate.open();
    let rest = stream.collect().await;
    assert_eq!((kinds(&rest), &rest[0].data["code"]), (vec!["error"], &json!("internal")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_daemon_keeps_every_sent_token() {
    let gate = Gate::new();
    let script = Script::always(Reply::text(["one ", "two ", "three"], TEST_USAGE).gated(&gate));
    let vendor = FakeVendor::start(Vendor::Openai, script).await.expect("a vendor");
    let mut process = TestProcess::with_owner().await;
    let key = json!({"api_key": "k", "base_url": vendor.base_url().as_str()});
    process.put("/api/providers/openai/key").json(&key).send().await.expect_status(200);
    let agent = json!({"svc_name": "scout", "user_name": "Ada", "archetype": "assistant"});
    process.post("/api/agents").json(&agent).send().await.expect_status(201);
    let mut stream = process.post("/api/chat/messages/stream").json(&json!({"content": "count"})).stream().await;
    gate.release(2);
    let seen = read_tokens(&mut stream, 2).await;
    process.kill();
    process.spawn().await;
    let session = format!("/api/chat/sessions/{}", started(&seen, "session_id"));
    let replayed = process.get(&format!("{session}/stream?last_event_id=1")).stream().await.collect().await;
    assert_eq!(kinds(&replayed), ["token", "error"]);
    assert_eq!((&replayed[0].data["content"], &replayed[1].data["code"]), (&json!("two "), &json!("internal")));
    let path = format!("/api/chat/conversations/{}", started(&seen, "conversation_id"));
    let conversation = process.get(&path).send().await.expect_status(200).json();
    let reply = &conversation["messages"][1];
    assert_eq!((&reply["content"], &reply["status"]), (&json!("one two "), &json!("interrupted")));
    let metrics = process.get("/api/metrics/prometheus").send().await.expect_status(200).text();
    assert!(metrics.contains("svc_tasks_total{status=\"interrupted\"} 1\n"), "{metrics}");
    gate.open();
    let again = json!({"content": "again", "conversation_id": started(&seen, "conversation_id")});
    let events = process.post("/api/chat/messages/stream").json(&again).stream().await.collect().await;
    assert_eq!(token_text(&events), "one two three");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_concurrent_streams_lose_and_reorder_nothing() {
    const STREAMS: usize = 50;
    const TOKENS: usize = 40;
    let pieces: Vec<String> = (0..TOKENS).map(|number| format!("t{number} ")).collect();
    let reply = Reply::text(pieces.iter().map(String::as_str), TEST_USAGE).delayed(Duration::from_millis(1));
    let fixture = ChatFixture::with(Script::always(reply)).await;
    let streams = (0..STREAMS).map(|number| {
        let fixture = &fixture;
        async move { fixture.exchange(&json!({"content": format!("q{number}")})).await }
    });
    for events in join_all(streams).await {
        assert_eq!(events.len(), TOKENS + 2);
        assert_numbered(&events, 0);
        assert_eq!(token_text(&events), pieces.concat());
        let replayed = fixture.follow(&started(&events, "session_id")).stream().await.collect().await;
        assert_eq!(replayed, events);
    }
    assert_eq!(fixture.usage().await.len(), STREAMS);
    assert_eq!(fixture.app.get("/api/chat/conversations").send().await.json()["total"], STREAMS);
}
