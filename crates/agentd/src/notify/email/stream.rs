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

pub(super) struct Talk<S> {
    stream: S,
    peer: SocketAddr,
    /// Read before anything of the stream.
    greeting: &'static [u8],
    left: usize,
}

impl<S> Talk<S> {
    pub(super) fn new(stream: S, peer: SocketAddr) -> Self {
        Self { stream, peer, greeting: b"", left: MOST_RECEIVED }
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
        if this.left == 0 {
            return Poll::Ready(Err(io::Error::other("the server says too much")));
        }
        let before = out.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, out))?;
        this.left = this.left.saturating_sub(out.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Talk<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
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
