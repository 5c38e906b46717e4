//! Server-Sent Events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).

use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};

use crate::engine::SessionEvent;

/// Proxies close what is silent for longer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");
/// Events that are ready together leave together.
const EVENTS_A_FRAME: usize = 64;

/// A response that carries `events` as they come, each with its number as `id`.
pub(super) fn event_stream(events: impl Stream<Item = SessionEvent> + Send + 'static) -> Response {
    let frames: Pin<Box<dyn Stream<Item = Vec<SessionEvent>> + Send>> = events.ready_chunks(EVENTS_A_FRAME).boxed();
    let body = stream::unfold(frames, |mut frames| async move {
        let bytes = match tokio::time::timeout(KEEP_ALIVE, frames.next()).await {
            Ok(Some(events)) => render(&events),
            Ok(None) => return None,
            Err(_) => COMMENT,
        };
        Some((Ok::<_, std::convert::Infallible>(bytes), frames))
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // nginx and its like must not hold pieces back.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(body)).into_response()
}

fn render(events: &[SessionEvent]) -> Bytes {
    let mut text = String::with_capacity(events.iter().map(|event| event.data.len() + 48).sum());
    for event in events {
        // JSON holds no line breaks, so one `data` line is enough.
        text.push_str(&format!("id: {}\nevent: {}\ndata: {}\n\n", event.seq, event.kind.as_str(), event.data));
    }
    text.into()
}
