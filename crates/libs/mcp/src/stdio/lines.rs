//! Splitting of a byte stream into lines of bounded length.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::budget::Budget;

const READ_BYTES: usize = 16 * 1024;
/// Buffer capacity that is retained between lines.
const MAX_RETAINED_CAPACITY: usize = 128 * 1024;
/// Bytes of an overlong line's beginning that are returned.
const HEAD_BYTES: usize = 4 * 1024;
const TAIL_BYTES: usize = 256;

/// Part of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Line without its terminator.
    Line(Vec<u8>),
    /// Beginning of a line that is longer than the limit. The rest is skipped; a [`Piece::OverlongEnd`] follows.
    OverlongStart(Vec<u8>),
    /// End of the overlong line.
    OverlongEnd(Vec<u8>),
}

/// Line reader. [`Self::next`] is cancel-safe: data already read is buffered.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    inner: R,
    buffer: BytesMut,
    /// Length of the prefix of `buffer` that contains no line end.
    searched: usize,
    limit: usize,
    /// Last bytes of the overlong line that is being skipped.
    skipping: Option<Vec<u8>>,
    ended: bool,
    budget: Budget,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(inner: R, limit: usize, budget: Budget) -> Self {
        Self { inner, buffer: BytesMut::new(), searched: 0, limit, skipping: None, ended: false, budget }
    }

    /// Returns the next piece, or `None` at the end of the stream.
    ///
    /// # Errors
    /// Returns read errors of the stream.
    pub(super) async fn next(&mut self) -> io::Result<Option<Piece>> {
        loop {
            if let Some(piece) = self.next_buffered_piece() {
                return Ok(Some(piece));
            }
            if self.ended {
                return Ok(self.remaining_piece());
            }
            if self.skipping.is_some() {
                self.budget.wait().await;
            }
            self.buffer.reserve(READ_BYTES);
            let mut bounded = (&mut self.inner).take(READ_BYTES as u64);
            self.ended = bounded.read_buf(&mut self.buffer).await? == 0;
        }
    }

    fn next_buffered_piece(&mut self) -> Option<Piece> {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n').map(|at| self.searched + at);
        if let Some(kept) = &mut self.skipping {
            let until = end.unwrap_or(self.buffer.len());
            keep_end(kept, &self.buffer[..until]);
            self.budget.charge_skipped(until);
            self.buffer.advance(until + usize::from(end.is_some()));
            self.searched = 0;
            return end.and_then(|_| self.skipping.take()).map(Piece::OverlongEnd);
        }
        match end {
            Some(end) if end <= self.limit => {
                let line = self.buffer.split_to(end);
                self.buffer.advance(1);
                self.searched = 0;
                if self.buffer.is_empty() && self.buffer.capacity() > MAX_RETAINED_CAPACITY {
                    self.buffer = BytesMut::new();
                }
                Some(Piece::Line(line.to_vec()))
            }
            None if self.buffer.len() <= self.limit => {
                self.searched = self.buffer.len();
                None
            }
            _ => {
                self.skipping = Some(Vec::new());
                self.searched = 0;
                Some(Piece::OverlongStart(self.buffer[..HEAD_BYTES.min(self.limit)].to_vec()))
            }
        }
    }

    /// Returns the data between the last line end and the end of the stream.
    fn remaining_piece(&mut self) -> Option<Piece> {
        if let Some(kept) = self.skipping.take() {
            return Some(Piece::OverlongEnd(kept));
        }
        let rest = self.buffer.split();
        self.searched = 0;
        (!rest.is_empty()).then(|| Piece::Line(rest.to_vec()))
    }
}

fn keep_end(kept: &mut Vec<u8>, more: &[u8]) {
    kept.extend_from_slice(&more[more.len().saturating_sub(TAIL_BYTES)..]);
    let excess = kept.len().saturating_sub(TAIL_BYTES);
    kept.drain(..excess);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tokio::io::ReadBuf;

    /// Returns the chunks one by one, pending once before each.
    struct Chunks {
        chunks: std::collections::VecDeque<Vec<u8>>,
        ready: bool,
    }

    impl AsyncRead for Chunks {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if !self.ready {
                self.ready = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.ready = false;
            if let Some(mut chunk) = self.chunks.pop_front() {
                let rest = chunk.split_off(chunk.len().min(buf.remaining()));
                buf.put_slice(&chunk);
                if !rest.is_empty() {
                    self.chunks.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    fn reader(chunks: Vec<Vec<u8>>, limit: usize) -> LineReader<Chunks> {
        let chunks = chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect();
        LineReader::new(Chunks { chunks, ready: false }, limit, Budget::new())
    }

    async fn all(mut reader: LineReader<Chunks>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while let Some(piece) = reader.next().await.expect("chunks do not fail") {
            pieces.push(piece);
        }
        pieces
    }

    #[tokio::test]
    async fn overlong_line_yields_its_beginning_and_end() {
        let text = [b"ok\n".to_vec(), vec![b'x'; 5_000], b"the end\nok again".to_vec()].concat();
        let pieces = all(reader(vec![text], 100)).await;
        assert_eq!(pieces.len(), 4);
        assert_eq!(pieces[0], Piece::Line(b"ok".to_vec()));
        assert_eq!(pieces[1], Piece::OverlongStart(vec![b'x'; 100]));
        assert!(matches!(&pieces[2], Piece::OverlongEnd(end) if end.ends_with(b"xthe end") && end.len() == TAIL_BYTES));
        assert_eq!(pieces[3], Piece::Line(b"ok again".to_vec()));
    }

    #[tokio::test(start_paused = true)]
    async fn endless_line_uses_bounded_memory() {
        let mut reader = LineReader::new(tokio::io::repeat(b'x').take(1 << 28), 1 << 20, Budget::new());
        assert!(matches!(reader.next().await, Ok(Some(Piece::OverlongStart(_)))));
        assert!(matches!(reader.next().await, Ok(Some(Piece::OverlongEnd(_)))));
        assert!(matches!(reader.next().await, Ok(None)));
        assert!(reader.buffer.capacity() < 4 << 20, "{} bytes are held", reader.buffer.capacity());
    }

    proptest! {
        #[test]
        fn lines_match_the_text_for_any_chunking(
            lines in prop::collection::vec(prop::collection::vec(0u8..=255, 0..30), 0..12),
            cuts in prop::collection::vec(0usize..400, 0..20),
        ) {
            const LIMIT: usize = 20;
            let lines: Vec<Vec<u8>> =
                lines.into_iter().map(|line| line.into_iter().filter(|byte| *byte != b'\n').collect()).collect();
            let text: Vec<u8> = lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let chunks = cuts.windows(2).map(|pair| text[pair[0]..pair[1]].to_vec()).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
            let pieces = runtime.block_on(async {
                let mut reader = reader(chunks, LIMIT);
                let mut pieces = Vec::new();
                // Each wait is cancelled once: no data may be lost.
                loop {
                    let polled = {
                        let mut next = std::pin::pin!(reader.next());
                        futures_util::poll!(next.as_mut())
                    };
                    let piece = match polled {
                        Poll::Ready(piece) => piece,
                        Poll::Pending => reader.next().await,
                    };
                    match piece.expect("chunks do not fail") {
                        Some(piece) => pieces.push(piece),
                        None => break pieces,
                    }
                }
            });
            let mut expected = Vec::new();
            for line in lines {
                if line.len() <= LIMIT {
                    expected.push(Piece::Line(line));
                } else {
                    expected.push(Piece::OverlongStart(line[..LIMIT].to_vec()));
                    expected.push(Piece::OverlongEnd(line));
                }
            }
            prop_assert_eq!(pieces, expected);
        }
    }
}
