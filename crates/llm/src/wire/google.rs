//! Google's `streamGenerateContent?alt=sse` (<https://ai.google.dev/api/generate-content>). There
//! is no end marker of its own: an answer is complete when a candidate carried a `finishReason`, or
//! the prompt was blocked, and the body then ended in good order.

mod request;
mod stream;

use crate::ModelRequest;
use crate::wire::Call;

pub(super) fn call(request: &ModelRequest) -> Call {
    // The SDK takes `gemini-…` as well as `models/gemini-…`, `tunedModels/…`.
    let name = if request.model.contains('/') { request.model.clone() } else { format!("models/{}", request.model) };
    let mut path: Vec<String> = name.split('/').map(str::to_owned).collect();
    if let Some(last) = path.last_mut() {
        last.push_str(":streamGenerateContent");
    }
    Call {
        path,
        query: Some(("alt", "sse")),
        body: serde_json::to_vec(&request::body(request)),
        decoder: Box::new(stream::ContentDecoder::new(request.messages.len())),
    }
}
