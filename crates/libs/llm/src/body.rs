//! Response body with time limits and a size limit.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Instant, Sleep, sleep_until};

/// Maximum size of one event. No vendor sends events near this size; a larger one indicates a broken or hostile server.
pub(crate) const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("timed out")]
    TimedOut,
    #[error("an event exceeds {MAX_EVENT_BYTES} bytes")]
    TooLarge,
    #[error("the connection was interrupted")]
    Broken(#[source] reqwest::Error),
}

type Chunks = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// Forwards chunks as they arrive. Fails if none arrives for `idle`, if `deadline` has passed, or if more than
/// [`MAX_EVENT_BYTES`] arrived since [`Self::unread`] was last reset to 0.
pub(crate) struct TimedBody {
    chunks: Chunks,
    limit: Pin<Box<Sleep>>,
    idle: Duration,
    deadline: Instant,
    unread: Arc<AtomicUsize>,
}

impl TimedBody {
    pub(crate) fn new(response: reqwest::Response, idle: Duration, deadline: Instant) -> Self {
        let first = deadline.min(Instant::now() + idle);
        Self {
            chunks: Box::pin(response.bytes_stream()),
            limit: Box::pin(sleep_until(first)),
            idle,
            deadline,
            unread: Arc::default(),
        }
    }

    /// Returns the count of unread bytes, which the reader resets to 0 after each event.
    pub(crate) fn unread(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.unread)
    }
}

impl Stream for TimedBody {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        match this.chunks.as_mut().poll_next(context) {
            Poll::Ready(Some(Ok(chunk))) => {
                let now = Instant::now();
                if now >= this.deadline {
                    return Poll::Ready(Some(Err(BodyError::TimedOut)));
                }
                this.limit.as_mut().reset(this.deadline.min(now + this.idle));
                let unread = this.unread.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
                let bounded = if unread > MAX_EVENT_BYTES { Err(BodyError::TooLarge) } else { Ok(chunk) };
                Poll::Ready(Some(bounded))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(BodyError::Broken(error.without_url())))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => this.limit.as_mut().poll(context).map(|()| Some(Err(BodyError::TimedOut))),
        }
    }
}
