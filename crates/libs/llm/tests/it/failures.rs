//! Failures as documented by the vendors, before and during the stream.

use std::time::Duration;

use agentd_llm::{ModelBackend, ModelErrorCode, ModelEvent, Vendor, VendorBackend};
use agentd_net::{GuardedClient, PolicyHandle, Trust};
use agentd_testing_llm::{DocumentedFailure, FakeVendor, Reply, Script};
use bytes::Bytes;

use crate::support::{KEY, all_text, backend, play, request};

fn expected(failure: DocumentedFailure) -> ModelErrorCode {
    match failure {
        DocumentedFailure::RateLimit => ModelErrorCode::RateLimit,
        DocumentedFailure::Overloaded => ModelErrorCode::Overloaded,
        DocumentedFailure::WrongKey | DocumentedFailure::NoCredit => ModelErrorCode::Auth,
        DocumentedFailure::ContextTooLong => ModelErrorCode::ContextLength,
        DocumentedFailure::Broken => ModelErrorCode::ProviderUnavailable,
        DocumentedFailure::UnknownModel => ModelErrorCode::Internal,
    }
}

#[tokio::test]
async fn documented_failures_are_classified_without_showing_the_key() {
    for vendor in Vendor::ALL {
        for failure in DocumentedFailure::ALL {
            let (events, error) = play(vendor, Reply::failure(failure)).await;
            let error = error.unwrap();
            assert!(events.is_empty());
            assert_eq!(error.code, expected(failure), "{vendor} {failure:?}: {error}");
            assert!(error.message.contains(vendor.display_name()), "{error}");
            assert!(!all_text(&error).contains(KEY), "{vendor} {failure:?}: {}", all_text(&error));
        }
    }
}

#[tokio::test]
async fn retry_after_is_parsed_from_seconds_dates_and_bodies() {
    let limited = Reply::failure(DocumentedFailure::RateLimit);
    for vendor in Vendor::ALL {
        let (_, error) = play(vendor, limited.clone().header("retry-after", "7")).await;
        assert_eq!(error.unwrap().retry_after, Some(Duration::from_secs(7)), "{vendor}");
        let dated = limited
            .clone()
            .header("date", "Fri, 20 Nov 2026 10:00:00 GMT")
            .header("retry-after", "Fri, 20 Nov 2026 10:01:30 GMT");
        let (_, error) = play(vendor, dated).await;
        assert_eq!(error.unwrap().retry_after, Some(Duration::from_secs(90)), "{vendor}");
        let (_, error) = play(vendor, limited.clone()).await;
        // Google sends the delay in the body.
        let in_body = (vendor == Vendor::Google).then_some(Duration::from_secs(7));
        assert_eq!(error.unwrap().retry_after, in_body, "{vendor}");
    }
}

/// Appends the vendor's error event to a first chunk.
fn with_error_event(vendor: Vendor) -> (&'static str, ModelErrorCode) {
    match vendor {
        Vendor::Anthropic => (
            concat!(
                "event: content_block_delta\n",
                r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Half"}}"#,
                "\n\nevent: error\n",
                r#"data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                "\n\n"
            ),
            ModelErrorCode::Overloaded,
        ),
        Vendor::Google => (
            concat!(
                r#"data: {"candidates":[{"content":{"parts":[{"text":"Half"}],"role":"model"},"index":0}]}"#,
                "\r\n\r\n",
                r#"data: {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
                "\r\n\r\n"
            ),
            ModelErrorCode::Overloaded,
        ),
        Vendor::Groq => (
            concat!(
                r#"data: {"choices":[{"index":0,"delta":{"content":"Half"},"finish_reason":null}]}"#,
                "\n\nevent: error\n",
                r#"data: {"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}"#,
                "\n\n"
            ),
            ModelErrorCode::RateLimit,
        ),
        Vendor::Openrouter => (
            concat!(
                r#"data: {"choices":[{"index":0,"delta":{"content":"Half"},"finish_reason":null}]}"#,
                "\n\n",
                r#"data: {"id":"gen-1","error":{"code":502,"message":"Provider disconnected unexpectedly"},"#,
                r#""choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}"#,
                "\n\n"
            ),
            ModelErrorCode::ProviderUnavailable,
        ),
        Vendor::Mistral => (
            concat!(
                r#"data: {"choices":[{"index":0,"delta":{"content":"Half"},"finish_reason":null}]}"#,
                "\n\n",
                r#"data: {"object":"error","message":"Service tier capacity exceeded for this model.","#,
                r#""type":"service_tier_capacity_exceeded","param":null,"code":"3505"}"#,
                "\n\n"
            ),
            ModelErrorCode::Overloaded,
        ),
        Vendor::Deepseek => (
            concat!(
                r#"data: {"choices":[{"index":0,"delta":{"content":"Half"},"finish_reason":null}]}"#,
                "\n\n",
                r#"data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"insufficient_system_resource"}]}"#,
                "\n\n"
            ),
            ModelErrorCode::Overloaded,
        ),
        Vendor::Openai | Vendor::Xai => (
            concat!(
                r#"data: {"choices":[{"index":0,"delta":{"content":"Half"},"finish_reason":null}]}"#,
                "\n\n",
                r#"data: {"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}"#,
                "\n\n"
            ),
            ModelErrorCode::ProviderUnavailable,
        ),
    }
}

#[tokio::test]
async fn error_during_the_stream_preserves_earlier_events() {
    for vendor in Vendor::ALL {
        let (stream, code) = with_error_event(vendor);
        let (events, error) = play(vendor, Reply::chunks(vec![Bytes::from(stream)])).await;
        assert_eq!(events, [ModelEvent::Text("Half".to_owned())], "{vendor}");
        let error = error.unwrap();
        assert_eq!(error.code, code, "{vendor}: {error}");
    }
}

#[tokio::test]
async fn error_with_status_200_is_an_error() {
    let body = r#"{"error":{"code":429,"message":"Rate limit exceeded"}}"#;
    let (_, error) = play(Vendor::Openrouter, Reply::json(200, body)).await;
    assert_eq!(error.unwrap().code, ModelErrorCode::RateLimit);
    let (_, error) = play(Vendor::Openai, Reply::json(200, r#"{"choices":[]}"#)).await;
    assert_eq!(error.unwrap().code, ModelErrorCode::ProviderUnavailable);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let moved = Reply::json(308, "{}").header("location", "http://169.254.169.254/");
    let (_, error) = play(Vendor::Openai, moved).await;
    let error = error.unwrap();
    assert_eq!(error.code, ModelErrorCode::ProviderUnavailable);
    assert!(error.message.contains("base_url"), "{error}");
}

#[tokio::test]
async fn moderated_prompt_is_not_an_auth_error() {
    let body = r#"{"error":{"code":403,"message":"Your input was flagged","metadata":{"reasons":["violence"]}}}"#;
    let (_, error) = play(Vendor::Openrouter, Reply::json(403, body)).await;
    assert_eq!(error.unwrap().code, ModelErrorCode::Internal);
}

#[tokio::test]
async fn address_blocked_by_policy_names_the_remedy() {
    let fake = FakeVendor::start(Vendor::Openai, Script::queue([])).await.unwrap();
    let steered = GuardedClient::new(PolicyHandle::default(), Trust::Untrusted);
    let backend = VendorBackend::new(Vendor::Openai, steered, Some(fake.base_url()), None);
    let error = backend.generate(request()).await.err().unwrap();
    assert_eq!(error.code, ModelErrorCode::ProviderUnavailable);
    assert!(error.message.contains("security.allowed_hosts"), "{error}");
    assert!(fake.requests().is_empty());
}

#[tokio::test]
async fn unused_address_is_provider_unavailable() {
    let fake = FakeVendor::start(Vendor::Xai, Script::queue([])).await.unwrap();
    let backend = backend(&fake, Vendor::Xai);
    let port = fake.base_url().port().unwrap();
    drop(fake);
    // The port is free once the listener's task has ended.
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {}
    let error = backend.generate(request()).await.err().unwrap();
    assert_eq!(error.code, ModelErrorCode::ProviderUnavailable, "{error}");
    assert!(!all_text(&error).contains("/v1"), "{}", all_text(&error));
}
