//! Server-Sent Events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).

use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};

/// Interval of keep-alive comments; proxies close streams that are silent for longer.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");
/// Maximum number of events per frame: events that are ready together are sent together.
const MAX_EVENTS_PER_FRAME: usize = 64;

/// Returns a response that streams `events`, each formatted by `render`.
pub fn event_stream<E: Send + 'static>(
    events: impl Stream<Item = E> + Send + 'static,
    render: fn(&E, &mut String),
) -> Response {
    let frames: Pin<Box<dyn Stream<Item = Vec<E>> + Send>> = events.ready_chunks(MAX_EVENTS_PER_FRAME).boxed();
    let body = stream::unfold(frames, move |mut frames| async move {
        let bytes = match tokio::time::timeout(KEEP_ALIVE_INTERVAL, frames.next()).await {
            Ok(Some(events)) => {
                let mut text = String::new();
                events.iter().for_each(|event| render(event, &mut text));
                text.into()
            }
            Ok(None) => return None,
            Err(_) => COMMENT,
        };
        Some((Ok::<_, std::convert::Infallible>(bytes), frames))
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // nginx and similar proxies must not buffer the stream.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(body)).into_response()
}
