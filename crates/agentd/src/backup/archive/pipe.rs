//! Bytes between async code and a thread that blocks, with a short queue between them.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use tokio::sync::mpsc;

const CHUNK_BYTES: usize = 64 * 1024;
const CHUNKS: usize = 8;

pub(in crate::backup) type Chunk = io::Result<Bytes>;

/// A writer for the blocking side; the receiver ends when it is dropped.
pub(in crate::backup) fn pipe() -> (PipeWriter, mpsc::Receiver<Chunk>) {
    let (sender, receiver) = mpsc::channel(CHUNKS);
    (PipeWriter { sender, buffer: BytesMut::with_capacity(CHUNK_BYTES) }, receiver)
}

#[derive(Debug)]
pub(in crate::backup) struct PipeWriter {
    sender: mpsc::Sender<Chunk>,
    buffer: BytesMut,
}

impl PipeWriter {
    /// Tells the reading side why there is no more.
    pub(in crate::backup) fn fail(sender: &mpsc::Sender<Chunk>, error: io::Error) {
        // Nobody there is nobody to tell.
        drop(sender.blocking_send(Err(error)));
    }

    pub(in crate::backup) fn sender(&self) -> mpsc::Sender<Chunk> {
        self.sender.clone()
    }

    fn send(&mut self) -> io::Result<()> {
        let chunk = self.buffer.split().freeze();
        self.buffer.reserve(CHUNK_BYTES);
        self.sender
            .blocking_send(Ok(chunk))
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "nobody reads the archive any more"))
    }
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        if self.buffer.len() >= CHUNK_BYTES {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() { Ok(()) } else { self.send() }
    }
}

/// A reader for the blocking side.
#[derive(Debug)]
pub(in crate::backup) struct PipeReader {
    receiver: mpsc::Receiver<Chunk>,
    current: Bytes,
}

impl PipeReader {
    /// The sender for the async side, and the reader that ends when the sender is dropped.
    pub(in crate::backup) fn new() -> (mpsc::Sender<Chunk>, Self) {
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
