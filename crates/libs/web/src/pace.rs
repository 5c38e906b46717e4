//! How slowly a request's body may come. Without a bound, a few thousand clients that send a byte a
//! minute would keep every connection for ever, without a credential.
//!
//! Only time that the handler spends waiting for the client counts. The longest that a body may
//! take follows from the route's own size limit and the lowest rate: an upload gets longer than a
//! short request.
//!
//! Of a body that nobody wants, some is read all the same: a client that is still sending when its
//! connection closes may never see why it was refused.

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

/// A client that sends nothing for so long is not sending.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A body may take so long whatever its size.
const GRACE: Duration = Duration::from_secs(30);
/// After that it must have come at this rate on average.
const LOWEST_BYTES_PER_SECOND: u64 = 1024;
/// So much of a body is read in vain, and for so long.
const READ_IN_VAIN_BYTES: u64 = 16 * 1024 * 1024;
const READ_IN_VAIN_TIME: Duration = Duration::from_secs(10);

/// Whether the body of a request came too slowly.
#[derive(Debug)]
pub(crate) struct Pace(Option<Arc<AtomicBool>>);

impl Pace {
    /// Watches the body of a request, if it has one.
    pub(crate) fn watch(request: Request) -> (Request, Self) {
        if request.body().is_end_stream() {
            return (request, Self(None));
        }
        let is_too_slow = Arc::<AtomicBool>::default();
        let pace = Self(Some(Arc::clone(&is_too_slow)));
        // Whoever asks first sends nothing before the body is read.
        let is_sent_unasked = !request.headers().contains_key(EXPECT);
        let request = request.map(|inner| {
            Body::new(PacedBody {
                inner,
                is_sent_unasked,
                is_too_slow,
                pause: None,
                waited: Duration::ZERO,
                received: 0,
            })
        });
        (request, pace)
    }

    /// The answer, or what stands in its place because the handler did not get its body.
    pub(crate) fn finish(self, response: Response) -> Response {
        if !self.0.is_some_and(|is_too_slow| is_too_slow.load(Ordering::Acquire)) {
            return response;
        }
        let refusal = ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "body_too_slow",
            "The request body came too slowly; send it again over a better connection",
        );
        let mut refused = refusal.into_response();
        // What stands in for the answer was still given by a route.
        *refused.extensions_mut() = response.into_parts().0.extensions;
        refused.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        refused
    }
}

struct PacedBody {
    inner: Body,
    is_sent_unasked: bool,
    is_too_slow: Arc<AtomicBool>,
    /// Since when the client is waited for, and until when.
    pause: Option<(Instant, Pin<Box<Sleep>>)>,
    waited: Duration,
    received: u64,
}

impl PacedBody {
    fn is_behind(&self) -> bool {
        let counted = self.waited.saturating_sub(GRACE).as_secs();
        self.received < counted.saturating_mul(LOWEST_BYTES_PER_SECOND)
    }

    fn give_up(&self) -> axum::Error {
        self.is_too_slow.store(true, Ordering::Release);
        axum::Error::new("the body came too slowly")
    }
}

impl Drop for PacedBody {
    fn drop(&mut self) {
        let is_wanted_no_more = !self.inner.is_end_stream() && !self.is_too_slow.load(Ordering::Acquire);
        let is_small = self.inner.size_hint().lower() <= READ_IN_VAIN_BYTES;
        if !(is_wanted_no_more && is_small && self.is_sent_unasked) {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            // The answer is on its way meanwhile; the connection stays open for it.
            runtime.spawn(timeout(READ_IN_VAIN_TIME, read_in_vain(std::mem::take(&mut self.inner))));
        }
    }
}

async fn read_in_vain(body: Body) {
    let mut pieces = body.into_data_stream();
    let mut received = 0;
    while let Some(Ok(piece)) = pieces.next().await {
        received += piece.len() as u64;
        if received > READ_IN_VAIN_BYTES {
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
                    return Poll::Ready(Some(Err(this.give_up())));
                }
            }
            return Poll::Ready(frame);
        }
        let (_, sleep) = this.pause.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(LONGEST_PAUSE))));
        ready!(sleep.as_mut().poll(context));
        Poll::Ready(Some(Err(this.give_up())))
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

    /// Reads a body of `count` pieces of `size` bytes, each after a pause; how much came, and
    /// whether the answer stands.
    async fn read(count: usize, size: usize, pause: Duration) -> (Option<usize>, StatusCode) {
        let pieces = stream::unfold(count, move |left: usize| async move {
            let left = left.checked_sub(1)?;
            tokio::time::sleep(pause).await;
            Some((Ok::<_, std::io::Error>(Bytes::from(vec![7; size])), left))
        });
        let (request, pace) = Pace::watch(Request::new(Body::from_stream(pieces)));
        let read = to_bytes(request.into_body(), usize::MAX).await.ok().map(|bytes| bytes.len());
        (read, pace.finish(StatusCode::OK.into_response()).status())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_must_come_at_some_rate() {
        let seconds = Duration::from_secs;
        assert_eq!(read(3, 10, seconds(5)).await, (Some(30), StatusCode::OK));
        // A large one may take long.
        assert_eq!(read(1000, 20 * 1024, seconds(10)).await, (Some(1000 * 20 * 1024), StatusCode::OK));
        assert_eq!(read(1, 10, seconds(31)).await, (None, StatusCode::REQUEST_TIMEOUT));
        assert_eq!(read(1000, 1, seconds(1)).await, (None, StatusCode::REQUEST_TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_handler_is_not_the_clients_fault() {
        let pieces = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"a")), Ok(Bytes::from_static(b"b"))]);
        let (request, pace) = Pace::watch(Request::new(Body::from_stream(pieces)));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(to_bytes(request.into_body(), 10).await.unwrap(), "ab");
        assert_eq!(pace.finish(StatusCode::OK.into_response()).status(), StatusCode::OK);
    }
}
