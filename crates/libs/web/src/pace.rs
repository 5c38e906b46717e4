//! Minimum speed of request bodies. Without a limit, a few thousand clients that send a byte per minute could occupy
//! every connection forever, without a credential.
//!
//! Only time spent waiting for the client counts. The maximum duration follows from the size of the body and the
//! minimum rate, so an upload may take longer than a short request.
//!
//! Part of an unwanted body is read anyway: a client that is still sending when its connection closes may never see the
//! error response.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep, timeout};

use crate::error::ApiError;

/// Time without data after which a client counts as stalled.
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);
/// Time that any body may take regardless of its size.
const GRACE_PERIOD: Duration = Duration::from_secs(30);
/// Minimum average rate after the grace period.
const MIN_BYTES_PER_SECOND: u64 = 1024;
/// Maximum size of an unwanted body that is read, and maximum time for it.
const MAX_DRAINED_BYTES: u64 = 16 * 1024 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the body of a request was received too slowly.
#[derive(Debug)]
pub(crate) struct Pace(Option<Arc<AtomicBool>>);

impl Pace {
    /// Monitors the body of a request, if it has one.
    pub(crate) fn monitor(request: Request) -> (Request, Self) {
        if request.body().is_end_stream() {
            return (request, Self(None));
        }
        let is_too_slow = Arc::<AtomicBool>::default();
        let pace = Self(Some(Arc::clone(&is_too_slow)));
        // A client that sent `Expect` sends nothing before the body is read.
        let is_sent_without_continue = !request.headers().contains_key(EXPECT);
        let request = request.map(|inner| {
            Body::new(PacedBody {
                inner,
                is_sent_without_continue,
                is_too_slow,
                pause: None,
                waited: Duration::ZERO,
                received: 0,
            })
        });
        (request, pace)
    }

    /// Returns the response, or the error that replaces it if the body was too slow.
    pub(crate) fn finish(self, response: Response) -> Response {
        if !self.0.is_some_and(|is_too_slow| is_too_slow.load(Ordering::Acquire)) {
            return response;
        }
        let error = ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_too_slow",
            "The request body was received too slowly; send it again over a faster connection",
        );
        let mut rejected = error.into_response();
        // The replacement keeps the extensions, because a route was matched.
        *rejected.extensions_mut() = response.into_parts().0.extensions;
        rejected.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        rejected
    }
}

struct PacedBody {
    inner: Body,
    is_sent_without_continue: bool,
    is_too_slow: Arc<AtomicBool>,
    /// Start of the current wait for the client, and its timer.
    pause: Option<(Instant, Pin<Box<Sleep>>)>,
    waited: Duration,
    received: u64,
}

impl PacedBody {
    fn is_behind(&self) -> bool {
        let counted = self.waited.saturating_sub(GRACE_PERIOD).as_secs();
        self.received < counted.saturating_mul(MIN_BYTES_PER_SECOND)
    }

    fn fail(&self) -> axum::Error {
        self.is_too_slow.store(true, Ordering::Release);
        axum::Error::new("the body was received too slowly")
    }
}

impl Drop for PacedBody {
    fn drop(&mut self) {
        let is_abandoned = !self.inner.is_end_stream() && !self.is_too_slow.load(Ordering::Acquire);
        let is_small = self.inner.size_hint().lower() <= MAX_DRAINED_BYTES;
        if !(is_abandoned && is_small && self.is_sent_without_continue) {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            // The response is being sent meanwhile; the connection stays open for it.
            runtime.spawn(timeout(DRAIN_TIMEOUT, drain(std::mem::take(&mut self.inner))));
        }
    }
}

async fn drain(body: Body) {
    let mut chunks = body.into_data_stream();
    let mut received = 0;
    while let Some(Ok(chunk)) = chunks.next().await {
        received += chunk.len() as u64;
        if received > MAX_DRAINED_BYTES {
            return;
        }
    }
}

impl HttpBody for PacedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) {
            if let Some((since, _)) = this.pause.take() {
                this.waited += since.elapsed();
            }
            if let Some(Ok(frame)) = &frame {
                this.received += frame.data_ref().map_or(0, |data| data.len() as u64);
                if this.is_behind() {
                    return Poll::Ready(Some(Err(this.fail())));
                }
            }
            return Poll::Ready(frame);
        }
        let (_, sleep) = this.pause.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(MAX_IDLE_TIME))));
        ready!(sleep.as_mut().poll(context));
        Poll::Ready(Some(Err(this.fail())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use futures_util::stream;

    use super::*;

    /// Reads a body of `count` chunks of `size` bytes with a pause before each. Returns the number of bytes and the
    /// status.
    async fn read(count: usize, size: usize, pause: Duration) -> (Option<usize>, StatusCode) {
        let chunks = stream::unfold(count, move |left: usize| async move {
            let left = left.checked_sub(1)?;
            tokio::time::sleep(pause).await;
            Some((Ok::<_, std::io::Error>(Bytes::from(vec![7; size])), left))
        });
        let (request, pace) = Pace::monitor(Request::new(Body::from_stream(chunks)));
        let read = to_bytes(request.into_body(), usize::MAX).await.ok().map(|bytes| bytes.len());
        (read, pace.finish(StatusCode::OK.into_response()).status())
    }

    #[tokio::test(start_paused = true)]
    async fn body_below_the_minimum_rate_is_rejected() {
        let seconds = Duration::from_secs;
        assert_eq!(read(3, 10, seconds(5)).await, (Some(30), StatusCode::OK));
        // A large body may take long.
        assert_eq!(read(1000, 20 * 1024, seconds(10)).await, (Some(1000 * 20 * 1024), StatusCode::OK));
        assert_eq!(read(1, 10, seconds(31)).await, (None, StatusCode::REQUEST_TIMEOUT));
        assert_eq!(read(1000, 1, seconds(1)).await, (None, StatusCode::REQUEST_TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_handler_does_not_count_as_slow_body() {
        let chunks = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"a")), Ok(Bytes::from_static(b"b"))]);
        let (request, pace) = Pace::monitor(Request::new(Body::from_stream(chunks)));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(to_bytes(request.into_body(), 10).await.unwrap(), "ab");
        assert_eq!(pace.finish(StatusCode::OK.into_response()).status(), StatusCode::OK);
    }
}
