//! Responses as vendors and compatible servers send them in practice: complete without an end marker, empty, refused,
//! malformed, truncated, or with reasoning in the text.

use agentd_llm::{FinishReason, ToolCall};
use agentd_testing_llm::{Ending, Piece, Reply, Script};
use serde_json::{Value, json};

use crate::scheduler::{create, every, id, run, trigger, wait_for_run};
use crate::support::chat_fixture::{ChatFixture, TEST_USAGE, started};
use crate::support::request::{ServerEvent, token_text};

fn reply_with_reason(text: &[&str], reason: FinishReason) -> Reply {
    Reply::answer(text.iter().map(|text| Piece::Text((*text).to_owned())).collect(), reason, TEST_USAGE)
}

fn last_event(events: &[ServerEvent]) -> &ServerEvent {
    events.last().expect("an end")
}

/// A recorded stream in OpenAI's format: the pieces of text, then the last chunk.
fn recorded(pieces: &[&str], last: Value) -> Reply {
    let piece = |text: &&str| json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
    let events = pieces.iter().map(piece).chain([last]).map(|event| format!("data: {event}\n\n"));
    Reply::chunks(events.map(Into::into).collect())
}

fn finish_chunk(usage: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
}

fn reported_usage() -> Value {
    json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10})
}

/// Returns the last message of the conversation.
async fn last_message(fixture: &ChatFixture, events: &[ServerEvent]) -> Value {
    let conversation = fixture.conversation(&started(events, "conversation_id")).await;
    conversation["messages"].as_array().and_then(|messages| messages.last()).expect("a reply").clone()
}

#[tokio::test]
async fn answer_without_an_end_marker_is_complete() {
    for ending in [Ending::Proper, Ending::Hang] {
        let fixture = ChatFixture::with(Script::always(
            recorded(&["Hello ", "there."], finish_chunk(reported_usage())).ending(ending),
        ))
        .await;
        let events = fixture.exchange(&json!({"content": "go"})).await;
        assert_eq!(
            (last_event(&events).event.as_str(), &last_event(&events).data["total_tokens"]),
            ("done", &json!(10)),
            "{ending:?}"
        );
        let stored = last_message(&fixture, &events).await;
        assert_eq!((&stored["content"], &stored["status"]), (&json!("Hello there."), &json!("complete")));
        assert_eq!(fixture.usage().await, [("provider".to_owned(), 7, 3)]);
    }
}

#[tokio::test]
async fn job_run_succeeds_without_an_end_marker() {
    let fixture = ChatFixture::with(Script::always(recorded(&["Report ready."], finish_chunk(reported_usage())))).await;
    let job = id(&create(&fixture.app, &every(600)).await);
    let run_id = trigger(&fixture.app, &job).await;
    fixture.app.run_workers().await;
    let ended = wait_for_run(&fixture.app, &job, &run_id, |run| run["completed_at"] != Value::Null).await;
    assert_eq!((&ended["status"], &ended["output"]), (&json!("success"), &json!("Report ready.")), "{ended}");
    assert_eq!(fixture.vendor.requests().len(), 1);
}

#[tokio::test]
async fn empty_usage_is_estimated() {
    for usage in [json!({}), json!({"prompt_tokens": 0, "completion_tokens": 0})] {
        let fixture = ChatFixture::with(Script::always(recorded(&["Hello"], finish_chunk(usage)))).await;
        fixture.exchange(&json!({"content": "go"})).await;
        let [(source, input, output)] = &fixture.usage().await[..] else { panic!("one call") };
        assert_eq!(source, "estimated");
        assert!(*input > 0 && *output > 0);
    }
}

#[tokio::test]
async fn reasoning_in_the_text_is_neither_shown_nor_stored_nor_sent_back() {
    let pieces = ["<th", "ink>SECRET PLAN</thi", "nk>\n\nUse the <think> tag."];
    let fixture = ChatFixture::with(Script::always(recorded(&pieces, finish_chunk(reported_usage())))).await;
    let events = fixture.exchange(&json!({"content": "go"})).await;
    assert_eq!(token_text(&events), "Use the <think> tag.");
    assert_eq!(last_message(&fixture, &events).await["content"], "Use the <think> tag.");
    fixture.exchange(&json!({"content": "again", "conversation_id": started(&events, "conversation_id")})).await;
    let sent = fixture.vendor.requests()[1].body.to_string();
    assert!(sent.contains("Use the <think> tag.") && !sent.contains("SECRET"), "{sent}");
}

#[tokio::test]
async fn empty_and_malformed_answers_are_retried() {
    for reason in [FinishReason::Stop, FinishReason::Other, FinishReason::MalformedCall] {
        let empty = || reply_with_reason(&[], reason);
        let fixture = ChatFixture::with(Script::queue([empty(), empty(), Reply::text(["there"], TEST_USAGE)])).await;
        let events = fixture.exchange(&json!({"content": "go"})).await;
        assert_eq!((last_event(&events).event.as_str(), token_text(&events).as_str()), ("done", "there"), "{reason:?}");
        // Usage is recorded for each attempt.
        assert_eq!(fixture.usage().await, vec![("provider".to_owned(), 7, 3); 3]);
        assert_eq!(last_event(&events).data["total_tokens"], 30);

        let fixture = ChatFixture::with(Script::always(empty())).await;
        let events = fixture.exchange(&json!({"content": "go"})).await;
        assert_eq!(
            (last_event(&events).event.as_str(), &last_event(&events).data["code"]),
            ("error", &json!("provider_unavailable"))
        );
        let message = last_event(&events).data["message"].as_str().expect("a sentence");
        assert!(message.contains("send the message again"), "{message}");
        assert_eq!(fixture.vendor.requests().len(), 3);
        let stored = last_message(&fixture, &events).await;
        assert_eq!((&stored["content"], &stored["status"]), (&json!(""), &json!("failed")));
    }
}

#[tokio::test]
async fn partially_shown_answer_is_not_retried() {
    let fixture = ChatFixture::with(Script::always(reply_with_reason(&["I look."], FinishReason::MalformedCall))).await;
    let events = fixture.exchange(&json!({"content": "go"})).await;
    assert_eq!((last_event(&events).event.as_str(), fixture.vendor.requests().len()), ("error", 1));
    let stored = last_message(&fixture, &events).await;
    assert_eq!((&stored["content"], &stored["status"]), (&json!("I look."), &json!("failed")));
}

#[tokio::test]
async fn refused_answers_fail_with_a_reason() {
    let call = Piece::ToolCall(ToolCall::new("a", "read_file", json!({"path": "a.txt"})));
    for (reply, text) in [
        (reply_with_reason(&[], FinishReason::ContentFilter), ""),
        (reply_with_reason(&["Once upon"], FinishReason::ContentFilter), "Once upon"),
        (Reply::answer(vec![call], FinishReason::ContentFilter, TEST_USAGE), ""),
    ] {
        let fixture = ChatFixture::with(Script::always(reply)).await;
        let events = fixture.exchange(&json!({"content": "go"})).await;
        assert_eq!(
            (last_event(&events).event.as_str(), &last_event(&events).data["code"]),
            ("error", &json!("no_answer"))
        );
        let message = last_event(&events).data["message"].as_str().expect("a sentence");
        assert!(message.contains("content filter") && message.contains("rephrase"), "{message}");
        assert_eq!(fixture.vendor.requests().len(), 1, "a refusal is not retried");
        assert!(events.iter().all(|event| event.event != "tool_use"), "{events:?}");
        let stored = last_message(&fixture, &events).await;
        assert_eq!((&stored["content"], &stored["status"]), (&json!(text), &json!("failed")));
    }
}

#[tokio::test]
async fn answer_at_the_output_limit_is_marked_and_one_without_text_fails() {
    let fixture = ChatFixture::with(Script::always(reply_with_reason(&["Half an ans"], FinishReason::Length))).await;
    let events = fixture.exchange(&json!({"content": "go"})).await;
    assert_eq!(
        (last_event(&events).event.as_str(), &last_event(&events).data["finish_reason"]),
        ("done", &json!("length"))
    );
    assert_eq!(last_message(&fixture, &events).await["status"], "complete");

    let thought = vec![Piece::Reasoning("Let me think.".to_owned())];
    let fixture = ChatFixture::with(Script::always(Reply::answer(thought, FinishReason::Length, TEST_USAGE))).await;
    let events = fixture.exchange(&json!({"content": "go"})).await;
    assert_eq!((last_event(&events).event.as_str(), &last_event(&events).data["code"]), ("error", &json!("no_answer")));
    let message = last_event(&events).data["message"].as_str().expect("a sentence");
    assert!(message.contains("max_output_tokens"), "{message}");
    assert_eq!(fixture.vendor.requests().len(), 1);
}

#[tokio::test]
async fn run_of_a_job_fails_with_the_reason_of_an_empty_or_refused_answer() {
    for (reason, part) in [(FinishReason::MalformedCall, "tool call"), (FinishReason::ContentFilter, "content filter")]
    {
        let fixture = ChatFixture::with(Script::always(reply_with_reason(&[], reason))).await;
        let job = id(&create(&fixture.app, &every(600)).await);
        let run_id = trigger(&fixture.app, &job).await;
        fixture.app.run_workers().await;
        wait_for_run(&fixture.app, &job, &run_id, |run| run["completed_at"] != Value::Null).await;
        let ended = run(&fixture.app, &job, &run_id).await;
        assert_eq!((&ended["status"], &ended["output"]), (&json!("failed"), &Value::Null), "{ended}");
        assert!(ended["error"].as_str().is_some_and(|error| error.contains(part)), "{ended}");
    }
}
