//! Buffer between the supervisor, which must never block, and a possibly slow reader.
//!
//! Invariant: at most [`MAX_PIECES`] pieces are buffered. For a slower reader, further text is merged into larger
//! pieces; the text itself is bounded by the context window. No text is lost.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures_util::Stream;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{LocalError, LocalErrorCode, LocalEvent};

const MAX_PIECES: usize = 256;

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<String>,
    end: Option<Result<LocalEvent, LocalError>>,
    /// The end was set; it may have been read already.
    ended: bool,
    reader: Option<Waker>,
    abandoned: bool,
}

/// Buffer of one reply.
#[derive(Debug, Default)]
pub(super) struct Buffer(Mutex<State>);

impl Buffer {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn push_text(&self, text: String) {
        let mut state = self.0.lock();
        if state.ended || text.is_empty() {
            return;
        }
        if state.pieces.len() >= MAX_PIECES
            && let Some(last) = state.pieces.back_mut()
        {
            last.push_str(&text);
        } else {
            state.pieces.push_back(text);
        }
        wake(state);
    }

    /// Sets the end; only the first call has an effect.
    pub(super) fn finish(&self, end: Result<LocalEvent, LocalError>) {
        let mut state = self.0.lock();
        if !state.ended {
            state.ended = true;
            state.end = Some(end);
        }
        wake(state);
    }

    /// Whether the reader was dropped before the end.
    pub(super) fn is_abandoned(&self) -> bool {
        self.0.lock().abandoned
    }
}

/// Supervisor's side of a buffer. If dropped before the end (for example with its runtime), it fails the reply, so that
/// no reader waits forever.
#[derive(Debug)]
pub(super) struct Reply(Arc<Buffer>);

impl Reply {
    pub(super) fn new(buffer: Arc<Buffer>) -> Self {
        Self(buffer)
    }

    pub(super) fn push_text(&self, text: String) {
        self.0.push_text(text);
    }

    pub(super) fn finish(self, end: Result<LocalEvent, LocalError>) {
        self.0.finish(end);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.0.is_abandoned()
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.0.finish(Err(LocalError::shutting_down()));
    }
}

fn wake(mut state: parking_lot::MutexGuard<'_, State>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

/// Events of one reply: text as it is generated, then `Finished`; or an error as the last item.
#[derive(Debug)]
pub struct LocalStream {
    buffer: Arc<Buffer>,
    dropped: Arc<Notify>,
}

impl LocalStream {
    pub(super) fn new(buffer: Arc<Buffer>, dropped: Arc<Notify>) -> Self {
        Self { buffer, dropped }
    }

    pub(super) fn failed(error: LocalError) -> Self {
        let buffer = Buffer::new();
        buffer.finish(Err(error));
        Self { buffer: Arc::new(buffer), dropped: Arc::new(Notify::new()) }
    }

    /// Reads the whole text and the last event.
    ///
    /// # Errors
    /// Returns the error that ended the stream.
    pub async fn collect_text(mut self) -> Result<(String, LocalEvent), LocalError> {
        let mut text = String::new();
        loop {
            match futures_util::StreamExt::next(&mut self).await {
                Some(Ok(LocalEvent::Text(piece))) => text.push_str(&piece),
                Some(Ok(finished)) => return Ok((text, finished)),
                Some(Err(error)) => return Err(error),
                None => return Err(LocalError::new(LocalErrorCode::Internal, "the stream was already read")),
            }
        }
    }
}

impl Stream for LocalStream {
    type Item = Result<LocalEvent, LocalError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.buffer.0.lock();
        if let Some(piece) = state.pieces.pop_front() {
            return Poll::Ready(Some(Ok(LocalEvent::Text(piece))));
        }
        if let Some(end) = state.end.take() {
            return Poll::Ready(Some(end));
        }
        if state.ended {
            return Poll::Ready(None);
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for LocalStream {
    fn drop(&mut self) {
        let mut state = self.buffer.0.lock();
        if !state.ended {
            state.abandoned = true;
            drop(state);
            self.dropped.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;
    use crate::FinishReason;

    fn finished() -> LocalEvent {
        LocalEvent::Finished { reason: FinishReason::Stop, input_tokens: 1, output_tokens: 2, calls: Vec::new() }
    }

    #[tokio::test]
    async fn slow_reader_loses_nothing_and_buffer_is_bounded() {
        let buffer = Arc::new(Buffer::new());
        let mut stream = LocalStream::new(Arc::clone(&buffer), Arc::default());
        let mut expected = String::new();
        for number in 0..10 * MAX_PIECES {
            let piece = format!("{number} ");
            expected.push_str(&piece);
            buffer.push_text(piece);
        }
        buffer.finish(Ok(finished()));
        assert_eq!(buffer.0.lock().pieces.len(), MAX_PIECES);
        let mut text = String::new();
        while let Some(Ok(LocalEvent::Text(piece))) = stream.next().await {
            text.push_str(&piece);
        }
        assert_eq!(text, expected);
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn only_the_first_end_is_used() {
        let buffer = Arc::new(Buffer::new());
        let stream = LocalStream::new(Arc::clone(&buffer), Arc::default());
        let reply = Reply::new(buffer);
        reply.push_text("a".to_owned());
        reply.finish(Ok(finished()));
        assert_eq!(stream.collect_text().await, Ok(("a".to_owned(), finished())));
    }

    #[tokio::test]
    async fn unfinished_reply_is_an_error() {
        let buffer = Arc::new(Buffer::new());
        let stream = LocalStream::new(Arc::clone(&buffer), Arc::default());
        drop(Reply::new(buffer));
        assert_eq!(stream.collect_text().await.unwrap_err().code, LocalErrorCode::Unavailable);
    }

    #[tokio::test]
    async fn dropping_the_stream_notifies_the_supervisor() {
        let buffer = Arc::new(Buffer::new());
        let dropped = Arc::new(Notify::new());
        drop(LocalStream::new(Arc::clone(&buffer), Arc::clone(&dropped)));
        dropped.notified().await;
        assert!(buffer.is_abandoned());
    }
}
