//! Agreement between the fake vendor and the backends: any script arrives unchanged.

use agentd_llm::{Finish, FinishReason, ModelBackend, ModelEvent, ToolCall, Usage, UsageSource, Vendor};
use agentd_testing_llm::{FakeVendor, Piece, Reply, Script};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{backend, play, read, request};

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        "\\PC{1,20}|[\\n\\r\\t \"\\\\]{1,4}".prop_map(Piece::Text),
        "\\PC{1,20}".prop_map(Piece::Reasoning),
        ("[a-z]{1,8}", "\\PC{0,20}").prop_map(|(name, text)| {
            Piece::ToolCall(ToolCall::new("", name, json!({ "text": text, "deep": [1, {"x": null}] })))
        }),
    ]
}

/// Assigns ids that every vendor accepts, and moves the calls after the text, as all vendors do.
fn numbered(pieces: Vec<Piece>) -> Vec<Piece> {
    let (calls, text_pieces): (Vec<_>, Vec<_>) =
        pieces.into_iter().partition(|piece| matches!(piece, Piece::ToolCall(_)));
    let calls = calls.into_iter().enumerate().map(|(number, piece)| match piece {
        Piece::ToolCall(call) => Piece::ToolCall(ToolCall { id: format!("call{number:05}"), ..call }),
        other => other,
    });
    text_pieces.into_iter().chain(calls).collect()
}

fn assert_arrives(vendor: Vendor, pieces: &[Piece], usage: Usage, events: Vec<ModelEvent>) {
    let has_calls = pieces.iter().any(|piece| matches!(piece, Piece::ToolCall(_)));
    let reason = if has_calls { FinishReason::ToolUse } else { FinishReason::Stop };
    let expected = pieces.iter().map(|piece| match piece {
        Piece::Text(text) => ModelEvent::Text(text.clone()),
        Piece::Reasoning(text) => ModelEvent::Reasoning(text.clone()),
        Piece::ToolCall(call) => ModelEvent::ToolCall(call.clone()),
    });
    let expected: Vec<_> = expected.chain([ModelEvent::Finished(Finish { reason, usage })]).collect();
    // The data stored for DeepSeek's replay is not part of the script.
    let plain = |event| match event {
        ModelEvent::ToolCall(call) => ModelEvent::ToolCall(ToolCall { replay: None, ..call }),
        other => other,
    };
    assert_eq!(events.into_iter().map(plain).collect::<Vec<_>>(), expected, "{vendor}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_script_arrives_unchanged(pieces in prop::collection::vec(piece(), 0..8), reasoning in 0u64..5) {
        let pieces = numbered(pieces);
        let has_calls = pieces.iter().any(|piece| matches!(piece, Piece::ToolCall(_)));
        let reason = if has_calls { FinishReason::ToolUse } else { FinishReason::Stop };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for vendor in Vendor::ALL {
            let usage = Usage {
                input_tokens: 20,
                output_tokens: 10,
                cache_read_tokens: 5,
                cache_write_tokens: if vendor == Vendor::Anthropic { 3 } else { 0 },
                reasoning_tokens: if vendor == Vendor::Anthropic { 0 } else { reasoning },
                source: UsageSource::Provider,
            };
            let reply = Reply::answer(pieces.clone(), reason, usage);
            let (events, error) = runtime.block_on(play(vendor, reply));
            prop_assert!(error.is_none(), "{vendor}: {error:?}");
            assert_arrives(vendor, &pieces, usage, events);
        }
    }
}

#[tokio::test]
async fn script_can_depend_on_the_request() {
    let script = Script::by(|request| {
        let prompt = request.body.pointer("/messages/0/content").and_then(serde_json::Value::as_str);
        Reply::text([if prompt == Some("Hello?") { "Hello." } else { "What?" }], Usage::default())
    });
    let fake = FakeVendor::start(Vendor::Openai, script).await.unwrap();
    let (events, _) = read(backend(&fake, Vendor::Openai).generate(request()).await.unwrap()).await;
    assert_eq!(events[0], ModelEvent::Text("Hello.".to_owned()));
}

#[tokio::test]
async fn concurrent_streams_are_complete_and_ordered() {
    let pieces: Vec<String> = (0..50).map(|number| format!("{number} ")).collect();
    let reply = Reply::text(pieces.iter().map(String::as_str), Usage::default());
    let fake = FakeVendor::start(Vendor::Openai, Script::always(reply)).await.unwrap();
    let backend = backend(&fake, Vendor::Openai);
    let calls = (0..100).map(|_| async { read(backend.generate(request()).await.unwrap()).await });
    for (events, error) in futures_util::future::join_all(calls).await {
        assert!(error.is_none());
        let texts = events.iter().filter_map(|event| match event {
            ModelEvent::Text(text) => Some(text),
            _ => None,
        });
        assert!(texts.eq(&pieces));
    }
}

/// Prints the overhead of a call over a plain exchange of the same bytes; asserts nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints a measurement"]
async fn measure_overhead() {
    const CALLS: u32 = 2000;
    let pieces: Vec<String> = (0..20).map(|number| format!("token{number} ")).collect();
    for vendor in [Vendor::Anthropic, Vendor::Openai, Vendor::Google] {
        let reply = Reply::text(pieces.iter().map(String::as_str), Usage::default());
        let fake = FakeVendor::start_without_recording(vendor, Script::always(reply)).await.unwrap();
        let backend = backend(&fake, vendor);
        read(backend.generate(request()).await.unwrap()).await;
        let path = match vendor {
            Vendor::Anthropic => "/v1/messages",
            Vendor::Google => "/v1beta/models/some-model:streamGenerateContent?alt=sse",
            _ => "/v1/chat/completions",
        };
        let (url, client) = (fake.base_url().join(path).unwrap(), crate::support::client());
        let bare = async || {
            let sent = client.request(http::Method::POST, url.clone()).unwrap().body("{}").send().await.unwrap();
            assert!(sent.bytes().await.unwrap().len() > 1000);
        };
        bare().await;
        let start = tokio::time::Instant::now();
        for _ in 0..CALLS {
            bare().await;
        }
        let bare_time = start.elapsed() / CALLS;
        let start = tokio::time::Instant::now();
        for _ in 0..CALLS {
            read(backend.generate(request()).await.unwrap()).await;
        }
        println!("{vendor}: bare {bare_time:?}, backend {:?}", start.elapsed() / CALLS);
    }
}
