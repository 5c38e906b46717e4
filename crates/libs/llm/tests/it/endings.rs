//! Streams that break, hang, never end, or contain invalid data.

use std::time::Duration;

use agentd_llm::{FinishReason, ModelBackend, ModelErrorCode, ModelEvent, ModelRequest, Usage, UsageSource, Vendor};
use agentd_testing_llm::{Ending, FakeVendor, Gate, Piece, Reply, Script};
use bytes::Bytes;
use futures_util::StreamExt;

use crate::support::{backend, play, read, request};

fn usage() -> Usage {
    Usage { input_tokens: 3, output_tokens: 2, source: UsageSource::Provider, ..Usage::default() }
}

fn two_pieces() -> Reply {
    Reply::text(["one", "two"], usage())
}

fn texts(events: &[ModelEvent]) -> Vec<&str> {
    let texts = events.iter().filter_map(|event| match event {
        ModelEvent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[tokio::test]
async fn broken_connection_is_an_error_and_preserves_events() {
    for vendor in Vendor::ALL {
        for ending in [Ending::Broken, Ending::WithoutEndMarker] {
            let (events, error) = play(vendor, two_pieces().ending(ending)).await;
            let error = error.unwrap();
            assert_eq!(error.code, ModelErrorCode::ProviderUnavailable, "{vendor} {ending:?}");
            assert!(error.message.contains("interrupted"), "{error}");
            if ending == Ending::WithoutEndMarker {
                assert_eq!(texts(&events), ["one", "two"], "{vendor}");
            }
        }
    }
}

#[tokio::test]
async fn hanging_stream_times_out_and_preserves_events() {
    for vendor in Vendor::ALL {
        let fake = FakeVendor::start(vendor, Script::queue([two_pieces().ending(Ending::Hang)])).await.unwrap();
        let request = ModelRequest { timeout: Duration::from_millis(200), ..request() };
        let stream = backend(&fake, vendor).generate(request).await.unwrap();
        let (events, error) = read(stream).await;
        assert_eq!(texts(&events), ["one", "two"], "{vendor}");
        assert_eq!(error.unwrap().code, ModelErrorCode::Timeout, "{vendor}");
        fake.wait_for_aborted(1).await;
    }
}

#[tokio::test]
async fn silent_server_times_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap()).parse().unwrap();
    let backend = agentd_llm::VendorBackend::new(Vendor::Openai, crate::support::client(), Some(url), None);
    let request = ModelRequest { timeout: Duration::from_millis(100), ..request() };
    assert_eq!(backend.generate(request).await.err().unwrap().code, ModelErrorCode::Timeout);
}

/// The whole call may take ten minutes, but a minute without data ends it.
#[tokio::test]
async fn idle_timeout_is_one_minute() {
    let fake = FakeVendor::start(Vendor::Openai, Script::queue([two_pieces().ending(Ending::Hang)])).await.unwrap();
    let request = ModelRequest { timeout: Duration::from_secs(600), ..request() };
    let mut stream = backend(&fake, Vendor::Openai).generate(request).await.unwrap();
    for _ in 0..2 {
        assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))));
    }
    tokio::time::pause();
    let before = tokio::time::Instant::now();
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.code, ModelErrorCode::Timeout);
    assert!((59..=60).contains(&before.elapsed().as_secs()), "of the clock that is stopped");
}

/// A finish reason whose connection stays open, followed by silence, comments, or empty events.
#[tokio::test]
async fn answer_with_finish_reason_is_complete_after_two_seconds() {
    const FINISHED: [(Vendor, &str); 3] = [
        (
            Vendor::Openai,
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one\"},\"finish_reason\":\"stop\"}]}\n\n",
        ),
        (
            Vendor::Anthropic,
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"one\"}}\n\n\
             data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
        ),
        (
            Vendor::Google,
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"one\"}]},\"finishReason\":\"STOP\"}]}\n\n",
        ),
    ];
    for (vendor, finished) in FINISHED {
        for rest in ["", ": ping\n\n", "data:\n\n"] {
            let reply = Reply::chunks(vec![Bytes::from(format!("{finished}{rest}"))]).ending(Ending::Hang);
            let fake = FakeVendor::start(vendor, Script::queue([reply])).await.unwrap();
            let request = ModelRequest { timeout: Duration::from_secs(600), ..request() };
            let mut stream = backend(&fake, vendor).generate(request).await.unwrap();
            assert_eq!(stream.next().await.unwrap().unwrap(), ModelEvent::Text("one".to_owned()), "{vendor}");
            tokio::time::pause();
            let before = tokio::time::Instant::now();
            let end = stream.next().await.unwrap();
            assert!(matches!(end, Ok(ModelEvent::Finished(finish)) if finish.reason == FinishReason::Stop), "{end:?}");
            assert!((1..=2).contains(&before.elapsed().as_secs()), "of the clock that is stopped");
            tokio::time::resume();
        }
    }
}

/// A broken connection is distinguished from a proper end, even after the finish reason.
#[tokio::test]
async fn broken_connection_after_the_finish_reason_is_an_error() {
    let finished = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one\"},\"finish_reason\":\"stop\"}]}\n\n";
    let reply = Reply::chunks(vec![Bytes::from(finished)]).ending(Ending::Broken);
    let (events, error) = play(Vendor::Openai, reply).await;
    assert_eq!(error.unwrap().code, ModelErrorCode::ProviderUnavailable, "{events:?}");
}

#[tokio::test]
async fn every_byte_resets_the_idle_timeout() {
    let gate = Gate::new();
    let pieces = ["a", "b", "c", "d", "e"];
    let reply = Reply::text(pieces, usage()).gated(&gate);
    let fake = FakeVendor::start(Vendor::Openai, Script::queue([reply])).await.unwrap();
    let request = ModelRequest { timeout: Duration::from_secs(600), ..request() };
    let mut stream = backend(&fake, Vendor::Openai).generate(request).await.unwrap();
    tokio::time::pause();
    for piece in pieces {
        tokio::time::advance(Duration::from_secs(40)).await;
        gate.release(1);
        assert_eq!(stream.next().await.unwrap().unwrap(), ModelEvent::Text(piece.to_owned()));
    }
}

/// Comments prevent the idle timeout, but not the deadline of the whole call.
#[tokio::test]
async fn stream_of_pings_ends_at_the_deadline() {
    let pings = vec![Bytes::from_static(b": OPENROUTER PROCESSING\n\n"); 10_000];
    let reply = Reply::chunks(pings).delayed(Duration::from_millis(5));
    let fake = FakeVendor::start(Vendor::Openrouter, Script::queue([reply])).await.unwrap();
    let request = ModelRequest { timeout: Duration::from_millis(300), ..request() };
    let (events, error) = read(backend(&fake, Vendor::Openrouter).generate(request).await.unwrap()).await;
    assert!(events.is_empty());
    assert_eq!(error.unwrap().code, ModelErrorCode::Timeout);
}

#[tokio::test]
async fn dropping_the_stream_cancels_the_request() {
    for vendor in Vendor::ALL {
        let gate = Gate::new();
        let fake = FakeVendor::start(vendor, Script::queue([two_pieces().gated(&gate)])).await.unwrap();
        let mut stream = backend(&fake, vendor).generate(request()).await.unwrap();
        gate.release(1);
        assert_eq!(stream.next().await.unwrap().unwrap(), ModelEvent::Text("one".to_owned()), "{vendor}");
        drop(stream);
        fake.wait_for_aborted(1).await;
    }
}

#[tokio::test]
async fn chunks_are_delivered_immediately() {
    for vendor in Vendor::ALL {
        let gate = Gate::new();
        let fake = FakeVendor::start(vendor, Script::queue([two_pieces().gated(&gate)])).await.unwrap();
        let mut stream = backend(&fake, vendor).generate(request()).await.unwrap();
        for expected in ["one", "two"] {
            gate.release(1);
            assert_eq!(stream.next().await.unwrap().unwrap(), ModelEvent::Text(expected.to_owned()), "{vendor}");
        }
        gate.release(1);
        assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Finished(_)))), "{vendor}");
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn connections_are_reused() {
    for vendor in Vendor::ALL {
        let fake = FakeVendor::start(vendor, Script::always(two_pieces())).await.unwrap();
        let backend = backend(&fake, vendor);
        for _ in 0..10 {
            let (_, error) = read(backend.generate(request()).await.unwrap()).await;
            assert!(error.is_none(), "{vendor}");
        }
        assert_eq!(fake.connections(), 1, "{vendor}");
    }
}

/// Data that a server sends after its end marker is drained, so that the connection can be reused.
#[tokio::test]
async fn late_end_of_body_keeps_the_connection_reusable() {
    const CALLS: usize = 5;
    let gate = Gate::new();
    let chunks = vec![Bytes::from_static(b"data: [DONE]\n\n"), Bytes::from_static(b": goodbye\n\n")];
    let reply = Reply::chunks(chunks).gated(&gate);
    let fake = FakeVendor::start(Vendor::Openai, Script::always(reply)).await.unwrap();
    let backend = backend(&fake, Vendor::Openai);
    for _ in 0..CALLS {
        gate.release(1);
        let (events, _) = read(backend.generate(request()).await.unwrap()).await;
        assert!(matches!(events[..], [ModelEvent::Finished(_)]));
        gate.release(1);
        // Lets the rest arrive; no event signals that it was read.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    }
    assert!(fake.connections() < CALLS, "{} connections", fake.connections());
}

#[tokio::test]
async fn invalid_json_or_utf8_is_a_format_error() {
    for vendor in Vendor::ALL {
        let bodies: [&'static [u8]; 4] =
            [b"data: {\"choices\": [\n\n", b"data: hello\n\n", b"data: \xff\xfe\n\n", b"data: [1, 2]\n\n"];
        for body in bodies {
            let (events, error) = play(vendor, Reply::chunks(vec![Bytes::from_static(body)])).await;
            assert!(events.is_empty());
            let error = error.unwrap();
            assert_eq!(error.code, ModelErrorCode::ProviderUnavailable, "{vendor}: {error}");
            assert!(
                error.message.contains("expected JSON") || error.message.contains("UTF-8"),
                "{vendor} {body:?}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn endless_line_is_rejected() {
    for vendor in [Vendor::Anthropic, Vendor::Openai, Vendor::Google] {
        let chunk = Bytes::from(vec![b'x'; 256 * 1024]);
        let mut chunks = vec![Bytes::from_static(b"data: ")];
        chunks.extend(std::iter::repeat_n(chunk, 64));
        let (_, error) = play(vendor, Reply::chunks(chunks)).await;
        let error = error.unwrap();
        assert_eq!(error.code, ModelErrorCode::ProviderUnavailable, "{vendor}");
        assert!(error.message.contains("8388608"), "{error}");
    }
}

#[tokio::test]
async fn finish_reasons_are_distinguished() {
    for vendor in Vendor::ALL {
        for reason in [FinishReason::Stop, FinishReason::Length, FinishReason::ContentFilter, FinishReason::Other] {
            let reply = Reply::answer(vec![Piece::Text("x".to_owned())], reason, usage());
            let (events, error) = play(vendor, reply).await;
            assert!(error.is_none(), "{vendor} {error:?}");
            match events.last() {
                Some(ModelEvent::Finished(finish)) => assert_eq!(finish.reason, reason, "{vendor}"),
                other => panic!("{vendor}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn invalid_json_arguments_are_returned_as_text() {
    let stream = concat!(
        r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\": "}}]},"finish_reason":null}]}"#,
        "\n\n",
        r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}"#,
        "\n\ndata: [DONE]\n\n"
    );
    let (events, error) = play(Vendor::Openai, Reply::chunks(vec![Bytes::from(stream)])).await;
    assert!(error.is_none());
    match &events[..] {
        [ModelEvent::ToolCall(call), ModelEvent::Finished(finish)] => {
            assert_eq!(call.input, serde_json::json!("{\"x\": "));
            assert_eq!(finish.reason, FinishReason::Length);
            assert_eq!(finish.usage.source, UsageSource::Missing);
        }
        other => panic!("{other:?}"),
    }
}

/// Some compatible servers give every call index 0 and distinguish them only by id, or send no id.
#[tokio::test]
async fn calls_without_unique_indices_or_ids_are_distinguished() {
    let stream = concat!(
        r#"data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"b","function":{"name":"g","arguments":{"y":1}}},{"index":3,"function":{"name":"h","arguments":"{}"}}]},"finish_reason":"stop"}]}"#,
        "\n\ndata: [DONE]\n\n"
    );
    let (events, _) = play(Vendor::Openai, Reply::chunks(vec![Bytes::from(stream)])).await;
    let calls: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::ToolCall(call) => Some((call.id.as_str(), call.name.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(calls, [("a", "f"), ("b", "g"), ("call_1_2", "h")]);
    assert!(matches!(events.last(), Some(ModelEvent::Finished(finish)) if finish.reason == FinishReason::ToolUse));
}
