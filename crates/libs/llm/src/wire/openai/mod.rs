//! OpenAI's chat completions (<https://platform.openai.com/docs/api-reference/chat-streaming>), as implemented by
//! OpenAI, Mistral, Groq, DeepSeek, xAI and OpenRouter, and by compatible servers such as Ollama, vLLM or a gateway. An
//! answer ends with a `finish_reason`; `data: [DONE]` after it is a convention that not every server follows.

mod request;
mod stream;

use crate::wire::format::Call;
use crate::{ModelRequest, Vendor};

pub(super) fn call(vendor: Vendor, is_official_endpoint: bool, request: &ModelRequest) -> Call {
    Call {
        path: vec!["chat".to_owned(), "completions".to_owned()],
        query: None,
        body: serde_json::to_vec(&request::body(vendor, is_official_endpoint, request)),
        decoder: Box::new(stream::ChatDecoder::new(vendor, is_official_endpoint, request)),
        may_have_think_tags: true,
    }
}
