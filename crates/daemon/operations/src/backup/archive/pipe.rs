//! Byte pipes between async code and a blocking thread, with a bounded queue.
//!
//! Invariant: a stream ends successfully only if its writer finished it. A writer that disappears, for example by a
//! panic, leaves an error at the end, so a partial archive is never mistaken for a complete one.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Stream, stream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

const CHUNK_BYTES: usize = 64 * 1024;
const MAX_QUEUED_CHUNKS: usize = 8;
/// Time without progress after which a reader counts as gone, even if its connection is open.
const STALL_TIMEOUT: Duration = Duration::from_secs(300);

pub(crate) type Chunk = io::Result<Bytes>;

enum Piece {
    Bytes(Bytes),
    /// Last piece of a stream.
    End(io::Result<()>),
}

/// Returns a writer for a blocking thread of a runtime, and the stream of what it writes.
pub(crate) fn pipe() -> (PipeWriter, impl Stream<Item = Chunk> + Send + use<>) {
    let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
    let chunks = stream::unfold(Some(receiver), async |receiver| {
        let mut receiver: mpsc::Receiver<Piece> = receiver?;
        match receiver.recv().await {
            Some(Piece::Bytes(bytes)) => Some((Ok(bytes), Some(receiver))),
            Some(Piece::End(Ok(()))) => None,
            Some(Piece::End(Err(error))) => Some((Err(error), None)),
            None => Some((Err(io::Error::other("the archive broke off")), None)),
        }
    });
    (PipeWriter { sender, buffer: BytesMut::with_capacity(CHUNK_BYTES) }, chunks)
}

#[derive(Debug)]
pub(crate) struct PipeWriter {
    sender: mpsc::Sender<Piece>,
    buffer: BytesMut,
}

impl PipeWriter {
    /// Ends the stream, successfully or with an error.
    pub(crate) fn finish(mut self, outcome: io::Result<()>) {
        let outcome = outcome.and_then(|()| self.flush());
        // A missing receiver needs no notification.
        drop(self.send(Piece::End(outcome)));
    }

    fn send(&self, piece: Piece) -> io::Result<()> {
        match Handle::current().block_on(self.sender.send_timeout(piece, STALL_TIMEOUT)) {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the reader of the archive stalled"))
            }
            Err(mpsc::error::SendTimeoutError::Closed(_)) => {
                Err(io::Error::new(io::ErrorKind::BrokenPipe, "the reader of the archive disconnected"))
            }
        }
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = self.buffer.split().freeze();
        self.buffer.reserve(CHUNK_BYTES);
        self.send(Piece::Bytes(chunk))
    }
}

/// Reader for the blocking side.
#[derive(Debug)]
pub(crate) struct PipeReader {
    receiver: mpsc::Receiver<Chunk>,
    current: Bytes,
}

impl PipeReader {
    /// Returns the sender for the async side, and the reader, which ends when the sender is dropped.
    pub(crate) fn new() -> (mpsc::Sender<Chunk>, Self) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_CHUNKS);
        (sender, Self { receiver, current: Bytes::new() })
    }
}

impl Read for PipeReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.receiver.blocking_recv() {
                Some(chunk) => self.current = chunk?,
                None => return Ok(0),
            }
        }
        let taken = into.len().min(self.current.len());
        self.current.copy_to_slice(into.get_mut(..taken).unwrap_or_default());
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    /// Returns what a reader receives from a writer that runs `work` on a separate thread.
    async fn read(work: impl FnOnce(PipeWriter) + Send + 'static) -> Vec<Result<usize, io::ErrorKind>> {
        let (writer, chunks) = pipe();
        let working = tokio::task::spawn_blocking(move || work(writer));
        let read = chunks.map(|chunk| chunk.map(|bytes| bytes.len()).map_err(|error| error.kind())).collect().await;
        drop(working.await);
        read
    }

    #[tokio::test]
    async fn stream_ends_successfully_only_if_the_writer_finished() {
        let whole = read(|mut writer| {
            writer.write_all(&[7; CHUNK_BYTES + 1]).unwrap();
            writer.finish(Ok(()));
        });
        assert_eq!(whole.await, [Ok(CHUNK_BYTES), Ok(1)]);
        let failed = read(|writer| writer.finish(Err(io::ErrorKind::StorageFull.into())));
        assert_eq!(failed.await, [Err(io::ErrorKind::StorageFull)]);
        let panicked = read(|mut writer| {
            writer.write_all(&[7; CHUNK_BYTES]).unwrap();
            panic!("simulated file system failure");
        });
        assert_eq!(panicked.await, [Ok(CHUNK_BYTES), Err(io::ErrorKind::Other)]);
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_reader_times_out() {
        let (writer, chunks) = pipe();
        // Paused time advances only if the blocked thread is not the runtime's own.
        let handle = Handle::current();
        let (sender_done, outcome) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _inside = handle.enter();
            let mut writer = writer;
            let written = writer.write_all(&vec![7; CHUNK_BYTES * (MAX_QUEUED_CHUNKS + 1)]);
            sender_done.send(written.map_err(|error| error.kind())).unwrap();
        });
        assert_eq!(outcome.await.unwrap(), Err(io::ErrorKind::TimedOut));
        drop(chunks);
    }
}
