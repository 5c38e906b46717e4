//! Whatever the inference process does, each request ends and the next one succeeds.

use std::path::Path;
use std::time::Duration;

use agentd_inference::{
    ChatMessage, FinishReason, GenerateRequest, LocalError, LocalErrorCode, LocalEvent, LocalModel, LocalModelOptions,
    LocalState, LocalStatus,
};
use futures_util::StreamExt;

use crate::child;

/// Any existing file: scripted processes do not read it.
const MODEL: &str = "/dev/null";

fn options() -> LocalModelOptions {
    child::options("scripted")
}

fn script(steps: &str) -> GenerateRequest {
    GenerateRequest::new(MODEL, "", vec![ChatMessage::user(steps)])
}

async fn until(model: &LocalModel, holds: impl Fn(&LocalStatus) -> bool) -> LocalStatus {
    model.subscribe().wait_for(|status| holds(status)).await.unwrap().clone()
}

async fn assert_works(model: &LocalModel) {
    let (text, _) = model.generate(script("say fine;say  again")).collect_text().await.unwrap();
    assert_eq!(text, "fine again");
}

/// Returns the text before the failure, and the failure.
async fn failure(model: &LocalModel, steps: &str) -> (String, LocalError) {
    let mut stream = model.generate(script(steps));
    let mut text = String::new();
    loop {
        match stream.next().await.unwrap() {
            Ok(LocalEvent::Text(piece)) => text.push_str(&piece),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert!(stream.next().await.is_none());
                return (text, error);
            }
        }
    }
}

#[tokio::test]
async fn process_is_started_on_the_first_request() {
    let model = LocalModel::new(options());
    let status = model.status();
    assert_eq!((status.state, status.process_id, status.resident_bytes), (LocalState::Unloaded, None, 0));
}

#[tokio::test]
async fn reply_is_streamed_and_shown_in_the_status() {
    let model = LocalModel::new(options());
    let mut stream = model.generate(script("say one;say  two"));
    assert_eq!(stream.next().await, Some(Ok(LocalEvent::Text("one".into()))));
    assert_eq!(stream.next().await, Some(Ok(LocalEvent::Text(" two".into()))));
    let finished =
        LocalEvent::Finished { reason: FinishReason::Stop, input_tokens: 20, output_tokens: 30, calls: Vec::new() };
    assert_eq!(stream.next().await, Some(Ok(finished)));
    assert_eq!(stream.next().await, None);
    let status = until(&model, |status| status.active_requests == 0).await;
    assert_eq!(status.state, LocalState::Ready);
    assert_eq!(status.model.as_deref(), Some(Path::new(MODEL)));
    assert_eq!(status.context_length, Some(1234));
    assert_eq!(status.prompt_tokens_per_second, Some(100.0));
    assert_eq!(status.generation_tokens_per_second, Some(60.0));
    assert!(model.status().resident_bytes > 0);
}

#[tokio::test]
async fn crash_during_a_reply_is_an_error_with_the_last_log_lines() {
    let model = LocalModel::new(options());
    let (text, error) = failure(&model, "say par;say tial;crash GGML_ASSERT failed").await;
    assert_eq!(text, "partial");
    assert_eq!(error.code, LocalErrorCode::Unavailable);
    assert!(error.message.contains("signal 6") && error.message.contains("GGML_ASSERT failed"), "{error}");
    assert_eq!(model.status().state, LocalState::Failed);
    assert_works(&model).await;
    assert_eq!(model.status().last_error, None);
}

#[tokio::test]
async fn killed_process_is_an_error_and_the_next_request_succeeds() {
    let model = LocalModel::new(options());
    let mut stream = model.generate(script("say x;until-cancelled"));
    assert!(matches!(stream.next().await, Some(Ok(LocalEvent::Text(_)))));
    let pid = i32::try_from(model.status().process_id.unwrap()).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.code, LocalErrorCode::Unavailable);
    assert!(error.message.contains("signal 9"), "{error}");
    assert_works(&model).await;
}

#[tokio::test]
async fn hung_process_is_killed() {
    let model = LocalModel::new(LocalModelOptions { stall_timeout: Duration::from_millis(300), ..options() });
    let (text, error) = failure(&model, "say x;hang").await;
    assert_eq!((text.as_str(), error.code), ("x", LocalErrorCode::Unavailable));
    assert!(error.message.contains("did not respond"), "{error}");
    assert_works(&model).await;
}

#[tokio::test]
async fn invalid_frame_ends_the_process() {
    for (step, words) in [
        ("garbage", "not valid JSON"),
        ("oversize", "exceeds the limit"),
        ("cut", "in the middle of a frame"),
        ("leave 3", "exited with code 3"),
    ] {
        let model = LocalModel::new(options());
        let (text, error) = failure(&model, &format!("say x;{step}")).await;
        assert_eq!((text.as_str(), error.code), ("x", LocalErrorCode::Unavailable));
        assert!(error.message.contains(words), "{step}: {error}");
        assert_works(&model).await;
    }
}

#[tokio::test]
async fn all_requests_of_a_lost_process_fail() {
    let model = LocalModel::new(options());
    let mut first = model.generate(script("say x;hang"));
    assert!(matches!(first.next().await, Some(Ok(LocalEvent::Text(_)))));
    let waiting = model.generate(script("say never"));
    let pid = i32::try_from(until(&model, |status| status.active_requests == 2).await.process_id.unwrap()).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    assert_eq!(first.next().await.unwrap().unwrap_err().code, LocalErrorCode::Unavailable);
    assert_eq!(waiting.collect_text().await.unwrap_err().code, LocalErrorCode::Unavailable);
}

#[tokio::test]
async fn consecutive_failures_cause_a_backoff_with_a_reason() {
    let model = LocalModel::new(options());
    for _ in 0..2 {
        assert!(failure(&model, "crash no luck").await.1.message.contains("no luck"));
    }
    let error = model.generate(script("say x")).collect_text().await.unwrap_err();
    assert_eq!(error.code, LocalErrorCode::Unavailable);
    assert!(error.message.contains("2 times in a row") && error.message.contains("no luck"), "{error}");
}

#[tokio::test]
async fn dropped_stream_cancels_its_request() {
    let model = LocalModel::new(options());
    let mut stream = model.generate(script("say x;until-cancelled"));
    assert!(matches!(stream.next().await, Some(Ok(LocalEvent::Text(_)))));
    drop(stream);
    until(&model, |status| status.active_requests == 0).await;
    assert_works(&model).await;
}

#[tokio::test]
async fn idle_process_is_ended_and_restarted_on_demand() {
    let model = LocalModel::new(LocalModelOptions { idle_unload: Duration::from_millis(200), ..options() });
    assert_works(&model).await;
    let pid = model.status().process_id.unwrap();
    let status = until(&model, |status| status.state == LocalState::Unloaded).await;
    assert_eq!((status.process_id, status.context_length), (None, None));
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert_works(&model).await;
}

#[tokio::test]
async fn process_with_a_running_request_is_not_idle() {
    let model = LocalModel::new(LocalModelOptions { idle_unload: Duration::ZERO, ..options() });
    for _ in 0..3 {
        assert_works(&model).await;
    }
}

#[tokio::test]
async fn excess_requests_are_refused() {
    let model = LocalModel::new(LocalModelOptions { max_parallel: 1, max_queue: 1, ..options() });
    let running = model.generate(script("until-cancelled"));
    let waiting = model.generate(script("say x"));
    let error = model.generate(script("say y")).collect_text().await.unwrap_err();
    assert_eq!(error.code, LocalErrorCode::Overloaded);
    drop(running);
    assert_eq!(waiting.collect_text().await.unwrap().0, "x");
}

#[tokio::test]
async fn waiting_clients_take_turns() {
    let model = LocalModel::new(LocalModelOptions { max_parallel: 1, max_queue: 100, ..options() });
    let ask = |client: &str, steps: &str| model.generate(GenerateRequest { client: client.into(), ..script(steps) });
    let mut crowd: Vec<_> = (0..101).map(|number| ask("crowd", &format!("say {number};until-cancelled"))).collect();
    // The queue is full now, and the last request of the crowd is evicted.
    let stays = tokio::spawn(ask("one", "say mine").collect_text());
    let refused = crowd.pop().unwrap().collect_text().await.unwrap_err();
    assert_eq!(refused.code, LocalErrorCode::Overloaded);
    // Each finished request lets the next one start; the other client is second.
    for (number, mut leaves) in (0..2).zip(crowd.drain(..2)) {
        assert_eq!(leaves.next().await, Some(Ok(LocalEvent::Text(number.to_string()))));
    }
    assert_eq!(stays.await.unwrap().unwrap().0, "mine");
    drop(crowd);
    until(&model, |status| status.active_requests == 0).await;
}

#[tokio::test]
async fn queued_requests_continue_with_the_next_process() {
    let model = LocalModel::new(LocalModelOptions { max_parallel: 1, ..options() });
    let mut first = model.generate(script("say x;hang"));
    assert!(matches!(first.next().await, Some(Ok(LocalEvent::Text(_)))));
    let waiting = model.generate(script("say later"));
    let pid = i32::try_from(until(&model, |status| status.active_requests == 2).await.process_id.unwrap()).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    assert_eq!(first.next().await.unwrap().unwrap_err().code, LocalErrorCode::Unavailable);
    assert_eq!(waiting.collect_text().await.unwrap().0, "later");
}

#[tokio::test]
async fn shutdown_ends_the_process_and_all_streams() {
    let model = LocalModel::new(options());
    let mut stream = model.generate(script("say x;until-cancelled"));
    assert!(matches!(stream.next().await, Some(Ok(LocalEvent::Text(_)))));
    let pid = model.status().process_id.unwrap();
    model.shutdown().await;
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert_eq!(stream.next().await.unwrap().unwrap_err().code, LocalErrorCode::Unavailable);
    assert_eq!(model.status().state, LocalState::Unloaded);
    let error = model.generate(script("say x")).collect_text().await.unwrap_err();
    assert!(error.message.contains("shutting down"), "{error}");
    model.shutdown().await;
}

#[tokio::test]
async fn missing_model_file_is_reported_without_a_process() {
    let model = LocalModel::new(options());
    let mut request = script("say x");
    request.model_path = "/nonexistent/model.gguf".into();
    let error = model.generate(request).collect_text().await.unwrap_err();
    assert_eq!(error.code, LocalErrorCode::ModelMissing);
    assert!(error.message.contains("/nonexistent/model.gguf"), "{error}");
    assert_eq!(model.status().process_id, None);
}

#[tokio::test]
async fn missing_program_is_an_error_with_its_cause() {
    let mut options = options();
    options.worker_command.0 = "/nonexistent/agentd".into();
    let error = LocalModel::new(options).generate(script("say x")).collect_text().await.unwrap_err();
    assert_eq!(error.code, LocalErrorCode::Unavailable);
    assert!(error.message.contains("/nonexistent/agentd") && error.message.contains("No such file"), "{error}");
}

#[tokio::test]
async fn oversized_conversation_is_refused_immediately() {
    let model = LocalModel::new(options());
    let error = model.generate(script(&"x".repeat(9 << 20))).collect_text().await.unwrap_err();
    assert_eq!(error.code, LocalErrorCode::ContextLength);
    assert_works(&model).await;
}
