//! Tests of retries and of defective answers.

use agentd_base::{Entropy, MockClock};
use agentd_testing_llm::{ScriptedBackend, ScriptedReply};

use super::*;
use crate::engine::model::{HistoryMessage, Marker};

fn call(backend: &ScriptedBackend, history: Vec<HistoryMessage>) -> Call {
    let clock = MockClock::new(Timestamp::from_micros(1)).clock();
    let options = CallOptions {
        client: "owner".into(),
        model: "m".to_owned(),
        temperature: None,
        max_output_tokens: None,
        is_conversation: true,
        timeout: Duration::from_secs(60),
        tools: Arc::default(),
        recording: AttemptRecording {
            ids: IdGenerator::new(clock.clone(), Entropy::seeded(1)),
            clock,
            purpose: Purpose::Answer,
            keeps_content: false,
        },
    };
    let prompt = Prompt::new("S".to_owned(), history, false, &Marker::new([1; 32]));
    Call::new(Arc::new(backend.clone()), options, prompt)
}

fn question() -> Vec<HistoryMessage> {
    vec![HistoryMessage::User("hello".to_owned())]
}

fn error(code: ModelErrorCode) -> ModelError {
    ModelError::new(code, "no")
}

async fn run(mut call: Call) -> (String, Option<Result<Finish, ModelError>>, Vec<Usage>) {
    let mut text = String::new();
    while let Some(event) = call.next().await {
        match event {
            CallEvent::Text(piece) => text.push_str(&piece),
            CallEvent::ToolCall(call) => panic!("no tool was offered: {call:?}"),
            CallEvent::End(end) => {
                assert!(call.next().await.is_none());
                return (text, Some(end), usages(call));
            }
        }
    }
    (text, None, usages(call))
}

fn usages(call: Call) -> Vec<Usage> {
    call.into_parts().1.into_iter().map(|attempt| attempt.usage).collect()
}

#[tokio::test(start_paused = true)]
async fn overloaded_provider_is_retried_once() {
    let backend = ScriptedBackend::new();
    backend.push(ScriptedReply::refused(error(ModelErrorCode::Overloaded)));
    let counted = Usage { input_tokens: 3, output_tokens: 2, source: UsageSource::Provider, ..Usage::default() };
    backend.push(ScriptedReply::text(["a", "b"], counted));
    let (text, end, usages) = run(call(&backend, question())).await;
    assert_eq!(text, "ab");
    assert_eq!(end.unwrap().unwrap().reason, FinishReason::Stop);
    assert_eq!(usages, [Usage::default(), counted]);
}

#[tokio::test(start_paused = true)]
async fn second_failure_is_final() {
    let backend = ScriptedBackend::new();
    for _ in 0..3 {
        backend.push(ScriptedReply::refused(error(ModelErrorCode::ProviderUnavailable)));
    }
    let (_, end, usages) = run(call(&backend, question())).await;
    assert_eq!(end.unwrap().unwrap_err().code, ModelErrorCode::ProviderUnavailable);
    assert_eq!((backend.remaining(), usages.len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn call_is_not_retried_after_output() {
    let backend = ScriptedBackend::new();
    backend.push(ScriptedReply::new().piece("four").fail(error(ModelErrorCode::Overloaded)));
    backend.push(ScriptedReply::text(["again"], Usage::default()));
    let (text, end, usages) = run(call(&backend, question())).await;
    assert_eq!((text.as_str(), backend.remaining()), ("four", 1));
    assert_eq!(end.unwrap().unwrap_err().code, ModelErrorCode::Overloaded);
    assert_eq!((usages[0].source, usages[0].output_tokens), (UsageSource::Estimated, 1));
}

#[test]
fn retry_delay_follows_retry_after_up_to_a_limit() {
    let limit = |seconds| error(ModelErrorCode::RateLimit).with_retry_after(Some(Duration::from_secs(seconds)));
    assert_eq!(retry_delay(&limit(10)), Some(Duration::from_secs(10)));
    assert_eq!(retry_delay(&limit(11)), None);
    assert_eq!(retry_delay(&error(ModelErrorCode::RateLimit)), None);
    assert_eq!(retry_delay(&error(ModelErrorCode::Auth)), None);
}

#[tokio::test]
async fn oversized_prompt_is_halved() {
    let backend = ScriptedBackend::new();
    backend.push(ScriptedReply::refused(error(ModelErrorCode::ContextLength)));
    backend.push(ScriptedReply::text(["short"], Usage::default()));
    let long = "x".repeat(4_000);
    let mut history: Vec<HistoryMessage> =
        (0..6).flat_map(|_| [HistoryMessage::User(long.clone()), HistoryMessage::Assistant(long.clone())]).collect();
    history.extend(question());
    let (text, _, _) = run(call(&backend, history)).await;
    assert_eq!(text, "short");
    let sizes: Vec<usize> = backend.requests().iter().map(|request| request.messages.len()).collect();
    assert!(sizes[1] <= sizes[0] / 2 + 1, "{sizes:?}");
}

#[test]
fn defective_answers_are_detected() {
    const NOTHING: (bool, bool) = (false, false);
    const WORDS: (bool, bool) = (true, false);
    const CALLS: (bool, bool) = (false, true);
    for (reason, (has_visible_text, has_calls), expected) in [
        (FinishReason::Stop, WORDS, None),
        (FinishReason::Stop, NOTHING, Some(Defect::Empty)),
        (FinishReason::Other, NOTHING, Some(Defect::Empty)),
        (FinishReason::ToolUse, NOTHING, Some(Defect::Empty)),
        (FinishReason::ToolUse, CALLS, None),
        (FinishReason::Length, WORDS, None),
        (FinishReason::Length, CALLS, None),
        (FinishReason::Length, NOTHING, Some(Defect::OutOfTokens)),
        (FinishReason::MalformedCall, NOTHING, Some(Defect::MalformedCall)),
        (FinishReason::MalformedCall, WORDS, Some(Defect::MalformedCall)),
        (FinishReason::MalformedCall, CALLS, None),
        (FinishReason::ContentFilter, NOTHING, Some(Defect::Refused)),
        (FinishReason::ContentFilter, WORDS, Some(Defect::RefusedMidway)),
        (FinishReason::ContentFilter, CALLS, Some(Defect::Refused)),
    ] {
        let found = find_defect(reason, has_visible_text, has_calls, false);
        assert_eq!(found, expected, "{reason:?} {has_visible_text} {has_calls}");
        let silent = find_defect(reason, has_visible_text, has_calls, true);
        assert_eq!(silent, expected.filter(|defect| *defect != Defect::Empty), "{reason:?}");
    }
}
