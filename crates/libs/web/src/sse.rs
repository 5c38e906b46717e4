//! Server-Sent Events (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).

use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};

/// Proxies close what is silent for longer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");
/// Events that are ready together leave together.
const EVENTS_A_FRAME: usize = 64;

/// A response that carries `events` as they come, each as `render` writes it.
pub fn event_stream<E: Send + 'static>(
    events: impl Stream<Item = E> + Send + 'static,
    render: fn(&E, &mut String),
) -> Response {
    let frames: Pin<Box<dyn Stream<Item = Vec<E>> + Send>> = events.ready_chunks(EVENTS_A_FRAME).boxed();
    let body = stream::unfold(frames, move |mut frames| async move {
        let bytes = match tokio::time::timeout(KEEP_ALIVE, frames.next()).await {
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
        // nginx and its like must not hold pieces back.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(body)).into_response()
}
