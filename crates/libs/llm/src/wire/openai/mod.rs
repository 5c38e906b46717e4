//! OpenAI's chat completions (<https://platform.openai.com/docs/api-reference/chat-streaming>), as OpenAI, Mistral,
//! Groq, DeepSeek, xAI and OpenRouter speak it, and Ollama, vLLM or a gateway in OpenAI's stead. An answer ends with a
//! `finish_reason`; `data: [DONE]` after it is a convention that not every server follows.

mod request;
mod stream;

use crate::wire::format::Call;
use crate::{ModelRequest, Vendor};

pub(super) fn call(vendor: Vendor, is_vendors_own: bool, request: &ModelRequest) -> Call {
    Call {
        path: vec!["chat".to_owned(), "completions".to_owned()],
        query: None,
        body: serde_json::to_vec(&request::body(vendor, is_vendors_own, request)),
        decoder: Box::new(stream::ChatDecoder::new(vendor, is_vendors_own, request)),
        may_have_think_tags: true,
    }
}
