//! Google's `streamGenerateContent?alt=sse` (<https://ai.google.dev/api/generate-content>). The format has no end
//! marker: an answer is complete when a candidate carried a `finishReason`, or the prompt was blocked, and the body
//! then ended properly.

mod request;
mod stream;

use crate::ModelRequest;
use crate::wire::format::Call;

pub(super) fn call(is_official_endpoint: bool, request: &ModelRequest) -> Call {
    // The SDK accepts `gemini-…` as well as `models/gemini-…` and `tunedModels/…`. Any other slash belongs to the name
    // and is encoded, so that a name cannot address another endpoint.
    let (collection, name) = match request.model.split_once('/') {
        Some((collection @ ("models" | "tunedModels"), name)) => (collection, name),
        _ => ("models", request.model.as_str()),
    };
    Call {
        path: vec![collection.to_owned(), format!("{name}:streamGenerateContent")],
        query: Some(("alt", "sse")),
        body: serde_json::to_vec(&request::body(request)),
        decoder: Box::new(stream::ContentDecoder::new(request)),
        may_have_think_tags: !is_official_endpoint,
    }
}
