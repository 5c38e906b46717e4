//! Shared helpers: a backend connected to a fake vendor, and a reader of whole answers.

use std::time::Duration;

use agentd_base::Secret;
use agentd_llm::{
    ModelBackend, ModelError, ModelEvent, ModelMessage, ModelRequest, ModelStream, Vendor, VendorBackend,
};
use agentd_net::{GuardedClient, PolicyHandle, Trust};
use agentd_testing_llm::{FakeVendor, Reply, Script};
use futures_util::StreamExt;

/// Resembles a real key, so that searching for it in error texts is meaningful.
pub(crate) const KEY: &str = "sk-test-3fA9xQ72LmZp";

pub(crate) fn client() -> GuardedClient {
    GuardedClient::new(PolicyHandle::default(), Trust::Owner)
}

pub(crate) fn backend(fake: &FakeVendor, vendor: Vendor) -> VendorBackend {
    VendorBackend::new(vendor, client(), Some(fake.base_url()), Some(Secret::new(KEY.to_owned())))
}

pub(crate) fn request() -> ModelRequest {
    ModelRequest {
        client: "test".into(),
        model: "some-model".to_owned(),
        system: None,
        messages: vec![ModelMessage::User { content: "Hello?".to_owned() }],
        tools: [].into(),
        temperature: None,
        max_output_tokens: None,
        is_conversation: false,
        timeout: Duration::from_secs(30),
    }
}

/// Reads all events up to the end, and the error if the stream ended with one.
pub(crate) async fn read(mut stream: ModelStream) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut events = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none(), "nothing follows an error");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}

/// Plays one reply of `vendor`.
pub(crate) async fn play(vendor: Vendor, reply: Reply) -> (Vec<ModelEvent>, Option<ModelError>) {
    let fake = FakeVendor::start(vendor, Script::queue([reply])).await.unwrap();
    match backend(&fake, vendor).generate(request()).await {
        Ok(stream) => read(stream).await,
        Err(error) => (Vec::new(), Some(error)),
    }
}

/// Returns an error with everything that could be printed of it.
pub(crate) fn all_text(error: &ModelError) -> String {
    let mut text = format!("{error:?} {error}");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text.push_str(&format!(" {inner} {inner:?}"));
        source = inner.source();
    }
    text
}
