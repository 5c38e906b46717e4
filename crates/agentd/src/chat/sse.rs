//! Replies as Server-Sent Events.

use std::fmt::Write as _;

use axum::response::Response;
use futures_util::Stream;

use crate::engine::SessionEvent;

/// A response that carries `events` as they come, each with its number as `id`.
pub(super) fn event_stream(events: impl Stream<Item = SessionEvent> + Send + 'static) -> Response {
    agentd_web::event_stream(events, render)
}

fn render(event: &SessionEvent, text: &mut String) {
    // JSON holds no line breaks, so one `data` line is enough. Writing into a string does not fail.
    let _ = write!(text, "id: {}\nevent: {}\ndata: {}\n\n", event.seq, event.kind.as_str(), event.data);
}
