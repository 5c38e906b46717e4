//! Answers as vendors, and servers in their format, really send them: complete without an end marker, empty, refused,
//! malformed, cut off, with reasoning in the text.

use agentd_llm::{FinishReason, ToolCall};
use agentd_testing_llm::{Ending, Piece, Reply, Script};
use serde_json::{Value, json};

use crate::scheduler::{create, every, id, run, trigger, until};
use crate::support::request::{ServerEvent, token_text};
use crate::support::talk::{COUNTED, Talk, started};

fn ends(text: &[&str], reason: FinishReason) -> Reply {
    Reply::answer(text.iter().map(|text| Piece::Text((*text).to_owned())).collect(), reason, COUNTED)
}

fn last(events: &[ServerEvent]) -> &ServerEvent {
    events.last().expect("an end")
}

/// OpenAI's format, as it is written: these pieces of text, and a last chunk.
fn recorded(pieces: &[&str], last: Value) -> Reply {
    let piece = |text: &&str| json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
    let events = pieces.iter().map(piece).chain([last]).map(|event| format!("data: {event}\n\n"));
    Reply::chunks(events.map(Into::into).collect())
}

fn finished(usage: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": usage})
}

fn counted() -> Value {
    json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10})
}

/// The last message of the conversation.
async fn kept(talk: &Talk, events: &[ServerEvent]) -> Value {
    let conversation = talk.conversation(&started(events, "conversation_id")).await;
    conversation["messages"].as_array().and_then(|messages| messages.last()).expect("a reply").clone()
}

#[tokio::test]
async fn answer_without_an_end_marker_is_complete() {
    for ending in [Ending::Proper, Ending::Hang] {
        let talk =
            Talk::with(Script::always(recorded(&["Hello ", "there."], finished(counted())).ending(ending))).await;
        let events = talk.exchange(&json!({"content": "go"})).await;
        assert_eq!(
            (last(&events).event.as_str(), &last(&events).data["total_tokens"]),
            ("done", &json!(10)),
            "{ending:?}"
        );
        let kept = kept(&talk, &events).await;
        assert_eq!((&kept["content"], &kept["status"]), (&json!("Hello there."), &json!("complete")));
        assert_eq!(talk.usage().await, [("provider".to_owned(), 7, 3)]);
    }
}

#[tokio::test]
async fn run_of_a_job_is_a_success_without_an_end_marker() {
    let talk = Talk::with(Script::always(recorded(&["Report ready."], finished(counted())))).await;
    let job = id(&create(&talk.app, &every(600)).await);
    let run_id = trigger(&talk.app, &job).await;
    talk.app.run_workers().await;
    let ended = until(&talk.app, &job, &run_id, |run| run["completed_at"] != Value::Null).await;
    assert_eq!((&ended["status"], &ended["output"]), (&json!("success"), &json!("Report ready.")), "{ended}");
    assert_eq!(talk.vendor.requests().len(), 1);
}

#[tokio::test]
async fn usage_that_says_nothing_is_estimated() {
    for usage in [json!({}), json!({"prompt_tokens": 0, "completion_tokens": 0})] {
        let talk = Talk::with(Script::always(recorded(&["Hello"], finished(usage)))).await;
        talk.exchange(&json!({"content": "go"})).await;
        let [(source, input, output)] = &talk.usage().await[..] else { panic!("one call") };
        assert_eq!(source, "estimated");
        assert!(*input > 0 && *output > 0);
    }
}

#[tokio::test]
async fn reasoning_in_the_text_is_neither_shown_nor_stored_nor_sent_back() {
    let pieces = ["<th", "ink>SECRET PLAN</thi", "nk>\n\nUse the <think> tag."];
    let talk = Talk::with(Script::always(recorded(&pieces, finished(counted())))).await;
    let events = talk.exchange(&json!({"content": "go"})).await;
    assert_eq!(token_text(&events), "Use the <think> tag.");
    assert_eq!(kept(&talk, &events).await["content"], "Use the <think> tag.");
    talk.exchange(&json!({"content": "again", "conversation_id": started(&events, "conversation_id")})).await;
    let sent = talk.vendor.requests()[1].body.to_string();
    assert!(sent.contains("Use the <think> tag.") && !sent.contains("SECRET"), "{sent}");
}

#[tokio::test]
async fn empty_and_malformed_answers_are_asked_for_again() {
    for reason in [FinishReason::Stop, FinishReason::Other, FinishReason::MalformedCall] {
        let empty = || ends(&[], reason);
        let talk = Talk::with(Script::queue([empty(), empty(), Reply::text(["there"], COUNTED)])).await;
        let events = talk.exchange(&json!({"content": "go"})).await;
        assert_eq!((last(&events).event.as_str(), token_text(&events).as_str()), ("done", "there"), "{reason:?}");
        // What the model used is counted for each attempt.
        assert_eq!(talk.usage().await, vec![("provider".to_owned(), 7, 3); 3]);
        assert_eq!(last(&events).data["total_tokens"], 30);

        let talk = Talk::with(Script::always(empty())).await;
        let events = talk.exchange(&json!({"content": "go"})).await;
        assert_eq!(
            (last(&events).event.as_str(), &last(&events).data["code"]),
            ("error", &json!("provider_unavailable"))
        );
        let message = last(&events).data["message"].as_str().expect("a sentence");
        assert!(message.contains("send the message again"), "{message}");
        assert_eq!(talk.vendor.requests().len(), 3);
        let kept = kept(&talk, &events).await;
        assert_eq!((&kept["content"], &kept["status"]), (&json!(""), &json!("failed")));
    }
}

#[tokio::test]
async fn nothing_is_asked_for_again_once_it_was_shown() {
    let talk = Talk::with(Script::always(ends(&["I look."], FinishReason::MalformedCall))).await;
    let events = talk.exchange(&json!({"content": "go"})).await;
    assert_eq!((last(&events).event.as_str(), talk.vendor.requests().len()), ("error", 1));
    let kept = kept(&talk, &events).await;
    assert_eq!((&kept["content"], &kept["status"]), (&json!("I look."), &json!("failed")));
}

#[tokio::test]
async fn refused_answers_are_failures_with_a_reason() {
    let call = Piece::ToolCall(ToolCall::new("a", "read_file", json!({"path": "a.txt"})));
    for (reply, text) in [
        (ends(&[], FinishReason::ContentFilter), ""),
        (ends(&["Once upon"], FinishReason::ContentFilter), "Once upon"),
        (Reply::answer(vec![call], FinishReason::ContentFilter, COUNTED), ""),
    ] {
        let talk = Talk::with(Script::always(reply)).await;
        let events = talk.exchange(&json!({"content": "go"})).await;
        assert_eq!((last(&events).event.as_str(), &last(&events).data["code"]), ("error", &json!("no_answer")));
        let message = last(&events).data["message"].as_str().expect("a sentence");
        assert!(message.contains("content filter") && message.contains("rephrase"), "{message}");
        assert_eq!(talk.vendor.requests().len(), 1, "another attempt would end alike");
        assert!(events.iter().all(|event| event.event != "tool_use"), "{events:?}");
        let kept = kept(&talk, &events).await;
        assert_eq!((&kept["content"], &kept["status"]), (&json!(text), &json!("failed")));
    }
}

#[tokio::test]
async fn answer_at_the_output_limit_is_marked_and_one_without_text_fails() {
    let talk = Talk::with(Script::always(ends(&["Half an ans"], FinishReason::Length))).await;
    let events = talk.exchange(&json!({"content": "go"})).await;
    assert_eq!((last(&events).event.as_str(), &last(&events).data["finish_reason"]), ("done", &json!("length")));
    assert_eq!(kept(&talk, &events).await["status"], "complete");

    let thought = vec![Piece::Reasoning("Let me think.".to_owned())];
    let talk = Talk::with(Script::always(Reply::answer(thought, FinishReason::Length, COUNTED))).await;
    let events = talk.exchange(&json!({"content": "go"})).await;
    assert_eq!((last(&events).event.as_str(), &last(&events).data["code"]), ("error", &json!("no_answer")));
    let message = last(&events).data["message"].as_str().expect("a sentence");
    assert!(message.contains("max_output_tokens"), "{message}");
    assert_eq!(talk.vendor.requests().len(), 1);
}

#[tokio::test]
async fn run_of_a_job_fails_with_the_reason_of_an_empty_or_refused_answer() {
    for (reason, part) in [(FinishReason::MalformedCall, "tool call"), (FinishReason::ContentFilter, "content filter")]
    {
        let talk = Talk::with(Script::always(ends(&[], reason))).await;
        let job = id(&create(&talk.app, &every(600)).await);
        let run_id = trigger(&talk.app, &job).await;
        talk.app.run_workers().await;
        until(&talk.app, &job, &run_id, |run| run["completed_at"] != Value::Null).await;
        let ended = run(&talk.app, &job, &run_id).await;
        assert_eq!((&ended["status"], &ended["output"]), (&json!("failed"), &Value::Null), "{ended}");
        assert!(ended["error"].as_str().is_some_and(|error| error.contains(part)), "{ended}");
    }
}
