//! Anthropic's Messages (<https://docs.anthropic.com/en/api/messages-streaming>). An answer ends with a `stop_reason`;
//! the event `message_stop` follows it, except from some compatible servers.

mod request;
mod stream;

use crate::ModelRequest;
use crate::wire::format::Call;

pub(super) fn call(is_official_endpoint: bool, request: &ModelRequest) -> Call {
    Call {
        path: vec!["messages".to_owned()],
        query: None,
        body: serde_json::to_vec(&request::body(request)),
        decoder: Box::new(stream::MessagesDecoder::new(request)),
        may_have_think_tags: !is_official_endpoint,
    }
}
