//! The protocol library's transport over a pair of byte streams.

use std::collections::VecDeque;
use std::future::{Future, ready};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::lines::{LineReader, Piece};
use crate::CloseReason;
use crate::message::{Parsed, id_in_head, id_in_tail, parse, stand_in};
use crate::session::Session;

/// Messages that may wait to be written.
pub(crate) const WRITE_QUEUE: usize = 64;
/// How long a single message may take to be written: the program does not read meanwhile.
const WRITE_LIMIT: Duration = Duration::from_secs(60);
/// How long what is queued may take to be written when the connection closes.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

const METHOD: &[u8] = b"\"method\"";

#[derive(Debug, thiserror::Error)]
pub(crate) enum StdioError {
    #[error("the message is longer than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("too many messages wait for the program to read them")]
    QueueFull,
    #[error("the program's input is closed")]
    Closed,
    #[error("the message could not be written as JSON")]
    Encode(#[source] serde_json::Error),
}

/// One program's standard streams. A clone is the same streams: a handshake that was refused
/// leaves them to the next one.
#[derive(Debug)]
pub(crate) struct StdioTransport<R>(Arc<Streams<R>>);

#[derive(Debug)]
struct Streams<R> {
    incoming: tokio::sync::Mutex<Incoming<R>>,
    outgoing: Mutex<Option<Outgoing>>,
    session: Session,
    max_message_bytes: usize,
}

#[derive(Debug)]
struct Incoming<R> {
    reader: LineReader<R>,
    arrived: VecDeque<ServerJsonRpcMessage>,
}

#[derive(Debug)]
struct Outgoing {
    queue: mpsc::Sender<Vec<u8>>,
    writer: EndsWithThis,
}

#[derive(Debug)]
struct EndsWithThis(JoinHandle<()>);

impl Drop for EndsWithThis {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<R> Clone for StdioTransport<R> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> StdioTransport<R> {
    pub(crate) fn start(
        from_program: R,
        to_program: impl AsyncWrite + Send + Unpin + 'static,
        session: Session,
        max_message_bytes: usize,
    ) -> Self {
        let (queue, queued) = mpsc::channel(WRITE_QUEUE);
        let writer = EndsWithThis(tokio::spawn(write(to_program, queued, session.clone())));
        let reader = LineReader::new(from_program, max_message_bytes, session.budget().clone());
        Self(Arc::new(Streams {
            incoming: tokio::sync::Mutex::new(Incoming { reader, arrived: VecDeque::new() }),
            outgoing: Mutex::new(Some(Outgoing { queue, writer })),
            session,
            max_message_bytes,
        }))
    }

    fn enqueue(&self, message: &ClientJsonRpcMessage) -> Result<(), StdioError> {
        let limit = self.0.max_message_bytes;
        let mut line = serde_json::to_vec(message).map_err(StdioError::Encode)?;
        if line.len() > limit {
            return Err(StdioError::TooLarge { limit });
        }
        line.push(b'\n');
        let outgoing = self.0.outgoing.lock();
        let queue = &outgoing.as_ref().ok_or(StdioError::Closed)?.queue;
        queue.try_send(line).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StdioError::QueueFull,
            mpsc::error::TrySendError::Closed(_) => StdioError::Closed,
        })
    }
}

impl<R> Incoming<R> {
    /// Turns a piece of the stream into the messages it stands for.
    fn take_in(&mut self, piece: Piece, session: &Session) {
        let (id, too_large) = match piece {
            Piece::Line(line) => {
                let line = line.trim_ascii();
                match parse(line) {
                    Parsed::Messages(messages) => return self.arrived.extend(messages),
                    Parsed::Broken { id, too_large } => {
                        session.budget().charge_message(line.len());
                        (id, too_large)
                    }
                    Parsed::Noise => {
                        session.budget().charge_message(line.len());
                        if !line.is_empty() {
                            session.note_noise(line);
                            session.note_noise(b"\n");
                        }
                        return;
                    }
                }
            }
            Piece::OverlongStart(head) => {
                // What calls a method is not an answer.
                let is_answer = !head.windows(METHOD.len()).any(|window| window == METHOD);
                (id_in_head(&head).or_else(|| session.only_pending().filter(|_| is_answer)), true)
            }
            Piece::OverlongEnd(tail) => (id_in_tail(&tail), true),
        };
        // The one who waits for this answer hears at once that it is of no use.
        if let Some(id) = id.filter(|id| session.is_pending(*id)) {
            self.arrived.push_back(stand_in(id, too_large));
        }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleClient> for StdioTransport<R> {
    type Error = StdioError;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        ready(self.enqueue(&message))
    }

    /// Cancel-safe.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let Streams { incoming, session, .. } = &*self.0;
        let mut incoming = incoming.lock().await;
        loop {
            if let Some(message) = incoming.arrived.pop_front() {
                return Some(message);
            }
            session.budget().wait().await;
            match incoming.reader.next().await {
                Ok(Some(piece)) => incoming.take_in(piece, session),
                Ok(None) => {
                    session.close(CloseReason::OutputClosed);
                    return None;
                }
                Err(error) => {
                    tracing::debug!(%error, "reading from a tool server failed");
                    session.close(CloseReason::ReadFailed);
                    return None;
                }
            }
        }
    }

    /// Closes the program's standard input, which asks it to end.
    async fn close(&mut self) -> Result<(), Self::Error> {
        let outgoing = self.0.outgoing.lock().take();
        if let Some(Outgoing { queue, mut writer }) = outgoing {
            drop(queue);
            let _ = tokio::time::timeout(CLOSE_LIMIT, &mut writer.0).await;
        }
        Ok(())
    }
}

async fn write(mut to_program: impl AsyncWrite + Unpin, mut queued: mpsc::Receiver<Vec<u8>>, session: Session) {
    while let Some(line) = queued.recv().await {
        let written = tokio::time::timeout(WRITE_LIMIT, async {
            to_program.write_all(&line).await?;
            to_program.flush().await
        });
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return session.close(CloseReason::InputClosed),
            Err(_) => return session.close(CloseReason::NotReading),
        }
    }
    let _ = to_program.shutdown().await;
}
