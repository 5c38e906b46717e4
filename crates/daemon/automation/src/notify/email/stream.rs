//! The stream that SMTP is spoken over: counts what the server says, and can say a greeting anew.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A whole session says a few hundred bytes; a server that says more than this means no good.
const MOST_RECEIVED: usize = 256 * 1024;
/// Maximum number of lines that the server sends between two commands. lettre parses a reply again for each of its
/// lines, so the cost of a reply is quadratic.
const MAX_REPLY_LINES: usize = 100;
/// Maximum number of bytes that the server sends between two commands.
pub(super) const MAX_REPLY_BYTES: usize = 16 * 1024;

/// The server sent more than a reply may have.
#[derive(Debug, thiserror::Error)]
#[error("the reply is longer than {} lines or {} bytes", MAX_REPLY_LINES, MAX_REPLY_BYTES)]
pub(super) struct ReplyTooLong;

impl ReplyTooLong {
    /// Whether `error` was caused by a reply that is too long.
    pub(super) fn is_cause_of(error: &(dyn std::error::Error + 'static)) -> bool {
        let mut cause = Some(error);
        while let Some(inner) = cause {
            let wrapped = inner.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
            if wrapped.is_some_and(|wrapped| wrapped.is::<Self>()) {
                return true;
            }
            cause = inner.source();
        }
        false
    }
}

pub(super) struct Talk<S> {
    stream: S,
    peer: SocketAddr,
    /// Read before anything of the stream.
    greeting: &'static [u8],
    left: usize,
    /// Received since the last write.
    reply_lines: usize,
    reply_bytes: usize,
}

impl<S> Talk<S> {
    pub(super) fn new(stream: S, peer: SocketAddr) -> Self {
        Self { stream, peer, greeting: b"", left: MOST_RECEIVED, reply_lines: 0, reply_bytes: 0 }
    }

    /// For a session that goes on where its greeting was heard already.
    pub(super) fn greeted(stream: S, peer: SocketAddr) -> Self {
        Self { greeting: b"220 protected\r\n", ..Self::new(stream, peer) }
    }
}

impl<S> fmt::Debug for Talk<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Talk<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.greeting.is_empty() {
            let (now, later) = this.greeting.split_at(this.greeting.len().min(out.remaining()));
            out.put_slice(now);
            this.greeting = later;
            return Poll::Ready(Ok(()));
        }
        let before = out.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, out))?;
        let received = out.filled().get(before..).unwrap_or_default();
        this.reply_lines += received.iter().filter(|byte| **byte == b'\n').count();
        this.reply_bytes += received.len();
        let is_too_long = this.reply_lines > MAX_REPLY_LINES || this.reply_bytes > MAX_REPLY_BYTES;
        if is_too_long || received.len() > this.left {
            out.set_filled(before);
            return Poll::Ready(Err(io::Error::other(ReplyTooLong)));
        }
        this.left -= received.len();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Talk<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, bytes))?;
        if written > 0 {
            (this.reply_lines, this.reply_bytes) = (0, 0);
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> AsyncTokioStream for Talk<S> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn talk() -> (Talk<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (ours, server) = tokio::io::duplex(1 << 20);
        (Talk::new(ours, SocketAddr::from(([127, 0, 0, 1], 25))), server)
    }

    #[tokio::test]
    async fn replies_are_bounded_in_lines_and_bytes_until_the_next_write() {
        for (reply, is_taken) in [
            ("250-x\r\n".repeat(MAX_REPLY_LINES), true),
            ("250-x\r\n".repeat(MAX_REPLY_LINES + 1), false),
            ("x".repeat(MAX_REPLY_BYTES), true),
            ("x".repeat(MAX_REPLY_BYTES + 1), false),
        ] {
            let (mut talk, mut server) = talk();
            for _ in 0..3 {
                server.write_all(reply.as_bytes()).await.unwrap();
                let read = talk.read_exact(&mut vec![0; reply.len()]).await;
                assert_eq!(read.is_ok(), is_taken);
                if let Err(error) = read {
                    assert!(ReplyTooLong::is_cause_of(&error));
                    break;
                }
                talk.write_all(b"NOOP\r\n").await.unwrap();
            }
        }
        assert!(!ReplyTooLong::is_cause_of(&io::Error::other("the end")));
    }
}
