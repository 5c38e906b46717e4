//! Stream of an SMTP session. Bounds the data received from the server, and can replay a greeting.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum number of bytes received in a session. A normal session has a few hundred.
const MAX_SESSION_BYTES: usize = 256 * 1024;
/// Maximum number of lines that the server sends between two commands. lettre parses a reply again for each of its
/// lines, so the cost of a reply is quadratic.
const MAX_REPLY_LINES: usize = 100;
/// Maximum number of bytes that the server sends between two commands.
pub(super) const MAX_REPLY_BYTES: usize = 16 * 1024;

/// The server exceeded the limit of a reply or of the session.
#[derive(Debug, thiserror::Error)]
#[error("the reply is longer than {} lines or {} bytes", MAX_REPLY_LINES, MAX_REPLY_BYTES)]
pub(super) struct ReplyTooLong;

impl ReplyTooLong {
    /// Whether `error` was caused by an overlong reply.
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

/// A stream that limits the received data.
pub(super) struct BoundedStream<S> {
    stream: S,
    peer: SocketAddr,
    /// Bytes returned before those of the stream.
    greeting: &'static [u8],
    /// Remaining bytes of the session limit.
    left: usize,
    /// Lines received since the last write.
    reply_lines: usize,
    /// Bytes received since the last write.
    reply_bytes: usize,
}

impl<S> BoundedStream<S> {
    pub(super) fn new(stream: S, peer: SocketAddr) -> Self {
        Self { stream, peer, greeting: b"", left: MAX_SESSION_BYTES, reply_lines: 0, reply_bytes: 0 }
    }

    /// Creates a stream for a session whose greeting was already read, and replays a greeting.
    pub(super) fn with_greeting(stream: S, peer: SocketAddr) -> Self {
        Self { greeting: b"220 protected\r\n", ..Self::new(stream, peer) }
    }
}

impl<S> fmt::Debug for BoundedStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedStream").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
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

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> AsyncTokioStream for BoundedStream<S> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn connected() -> (BoundedStream<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (ours, server) = tokio::io::duplex(1 << 20);
        (BoundedStream::new(ours, SocketAddr::from(([127, 0, 0, 1], 25))), server)
    }

    #[tokio::test]
    async fn reply_size_is_bounded_until_the_next_write() {
        for (reply, is_taken) in [
            ("250-x\r\n".repeat(MAX_REPLY_LINES), true),
            ("250-x\r\n".repeat(MAX_REPLY_LINES + 1), false),
            ("x".repeat(MAX_REPLY_BYTES), true),
            ("x".repeat(MAX_REPLY_BYTES + 1), false),
        ] {
            let (mut stream, mut server) = connected();
            for _ in 0..3 {
                server.write_all(reply.as_bytes()).await.unwrap();
                let read = stream.read_exact(&mut vec![0; reply.len()]).await;
                assert_eq!(read.is_ok(), is_taken);
                if let Err(error) = read {
                    assert!(ReplyTooLong::is_cause_of(&error));
                    break;
                }
                stream.write_all(b"NOOP\r\n").await.unwrap();
            }
        }
        assert!(!ReplyTooLong::is_cause_of(&io::Error::other("the end")));
    }
}
