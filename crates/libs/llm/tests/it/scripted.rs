//! Tests of the scripted backend.

use agentd_llm::{FinishReason, ModelBackend, ModelError, ModelErrorCode, ModelEvent, Usage};
use agentd_testing_llm::{Gate, ScriptedBackend, ScriptedReply};
use futures_util::StreamExt;

use crate::support::{read, request};

#[tokio::test]
async fn scripted_backend_replays_in_order_and_records_requests() {
    let scripted = ScriptedBackend::new();
    scripted.push(ScriptedReply::text(["a", "b"], Usage::default()));
    scripted.push(ScriptedReply::refused(ModelError::new(ModelErrorCode::RateLimit, "slow down")));
    let (events, error) = read(scripted.generate(request()).await.unwrap()).await;
    assert!(error.is_none() && events.len() == 3, "{events:?}");
    assert_eq!(scripted.generate(request()).await.err().unwrap().code, ModelErrorCode::RateLimit);
    assert_eq!(scripted.generate(request()).await.err().unwrap().code, ModelErrorCode::Internal);
    assert_eq!(scripted.requests(), [request(), request(), request()]);
}

#[tokio::test]
async fn gates_pause_the_stream_and_failures_end_it() {
    let scripted = ScriptedBackend::new();
    let gate = Gate::new();
    let error = ModelError::new(ModelErrorCode::Overloaded, "busy");
    scripted.always(
        ScriptedReply::new().piece("a").wait(&gate).piece("b").fail(error).finish(FinishReason::Stop, Usage::default()),
    );
    let mut stream = scripted.generate(request()).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), ModelEvent::Text("a".to_owned()));
    assert!(futures_util::poll!(stream.next()).is_pending());
    gate.release(1);
    let (events, error) = read(stream).await;
    assert_eq!(events, [ModelEvent::Text("b".to_owned())]);
    assert_eq!(error.unwrap().code, ModelErrorCode::Overloaded);
}
