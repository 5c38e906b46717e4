//! Anthropic's Messages (<https://docs.anthropic.com/en/api/messages-streaming>). The end marker
//! is the event `message_stop`.

mod request;
mod stream;

use crate::ModelRequest;
use crate::wire::Call;

pub(super) fn call(request: &ModelRequest) -> Call {
    Call {
        path: vec!["messages".to_owned()],
        query: None,
        body: serde_json::to_vec(&request::body(request)),
        decoder: Box::new(stream::MessagesDecoder::new(request.messages.len())),
    }
}
