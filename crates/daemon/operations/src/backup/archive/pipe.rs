//! Bytes between async code and a thread that blocks, with a short queue between them.
//!
//! Invariant: a stream ends well only when its writer said so. One that vanished, by a panic for
//! instance, leaves an error at the end, so that nobody takes a part of an archive for a whole one.

use std::io::{self, Read, Write};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Stream, stream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

const CHUNK_BYTES: usize = 64 * 1024;
const CHUNKS: usize = 8;
/// A reader that takes nothing for so long is gone, whatever its connection says.
const STALLED_AFTER: Duration = Duration::from_secs(300);

pub(crate) type Chunk = io::Result<Bytes>;

enum Piece {
    Bytes(Bytes),
    /// The last one; nothing follows it.
    End(io::Result<()>),
}

/// A writer for the blocking side, and what it writes. The writer belongs to a blocking thread of
/// a runtime.
pub(crate) fn pipe() -> (PipeWriter, impl Stream<Item = Chunk> + Send + use<>) {
    let (sender, receiver) = mpsc::channel(CHUNKS);
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
    /// Ends the stream: well, or with the reason why there is no more.
    pub(crate) fn finish(mut self, outcome: io::Result<()>) {
        let outcome = outcome.and_then(|()| self.flush());
        // Nobody there is nobody to tell.
        drop(self.send(Piece::End(outcome)));
    }

    fn send(&self, piece: Piece) -> io::Result<()> {
        match Handle::current().block_on(self.sender.send_timeout(piece, STALLED_AFTER)) {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "the archive's reader takes nothing any more"))
            }
            Err(mpsc::error::SendTimeoutError::Closed(_)) => {
                Err(io::Error::new(io::ErrorKind::BrokenPipe, "nobody reads the archive any more"))
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

/// A reader for the blocking side.
#[derive(Debug)]
pub(crate) struct PipeReader {
    receiver: mpsc::Receiver<Chunk>,
    current: Bytes,
}

impl PipeReader {
    /// The sender for the async side, and the reader that ends when the sender is dropped.
    pub(crate) fn new() -> (mpsc::Sender<Chunk>, Self) {
        let (sender, receiver) = mpsc::channel(CHUNKS);
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

    /// What a reader gets of a writer that does `work` on a thread of its own.
    async fn read(work: impl FnOnce(PipeWriter) + Send + 'static) -> Vec<Result<usize, io::ErrorKind>> {
        let (writer, chunks) = pipe();
        let working = tokio::task::spawn_blocking(move || work(writer));
        let read = chunks.map(|chunk| chunk.map(|bytes| bytes.len()).map_err(|error| error.kind())).collect().await;
        drop(working.await);
        read
    }

    #[tokio::test]
    async fn only_a_writer_that_says_so_ends_well() {
        let whole = read(|mut writer| {
            writer.write_all(&[7; CHUNK_BYTES + 1]).unwrap();
            writer.finish(Ok(()));
        });
        assert_eq!(whole.await, [Ok(CHUNK_BYTES), Ok(1)]);
        let failed = read(|writer| writer.finish(Err(io::ErrorKind::StorageFull.into())));
        assert_eq!(failed.await, [Err(io::ErrorKind::StorageFull)]);
        let panicked = read(|mut writer| {
            writer.write_all(&[7; CHUNK_BYTES]).unwrap();
            panic!("as a broken file system might make it");
        });
        assert_eq!(panicked.await, [Ok(CHUNK_BYTES), Err(io::ErrorKind::Other)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_given_up() {
        let (writer, chunks) = pipe();
        // A thread that is not the runtime's own lets the paused time run on.
        let handle = Handle::current();
        let (told, outcome) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let _inside = handle.enter();
            let mut writer = writer;
            let written = writer.write_all(&vec![7; CHUNK_BYTES * (CHUNKS + 1)]);
            told.send(written.map_err(|error| error.kind())).unwrap();
        });
        assert_eq!(outcome.await.unwrap(), Err(io::ErrorKind::TimedOut));
        drop(chunks);
    }
}
