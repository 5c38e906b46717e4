//! Transport of the protocol library over a pair of byte streams.

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
use crate::message::{Parsed, id_in_head, id_in_tail, parse, substitute_error};
use crate::session::Session;

/// Maximum number of queued outgoing messages.
pub(crate) const WRITE_QUEUE: usize = 64;
/// Maximum time to write a single message, during which the program does not read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time to write queued messages when the connection closes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

const METHOD: &[u8] = b"\"method\"";

#[derive(Debug, thiserror::Error)]
pub(crate) enum StdioError {
    #[error("the message is longer than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("too many messages are waiting to be read by the program")]
    QueueFull,
    #[error("the program's input is closed")]
    Closed,
    #[error("failed to serialize the message")]
    Encode(#[source] serde_json::Error),
}

/// Standard streams of one program. Clones share the streams, so that a second handshake can use them after a refusal.
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
    writer: AbortOnDrop,
}

#[derive(Debug)]
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
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
        let writer = AbortOnDrop(tokio::spawn(write(to_program, queued, session.clone())));
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
    /// Converts a piece of the stream into messages.
    fn handle_piece(&mut self, piece: Piece, session: &Session) {
        let (id, too_large) = match piece {
            Piece::Line(line) => {
                let line = line.trim_ascii();
                match parse(line) {
                    Parsed::Messages(messages) => return self.arrived.extend(messages),
                    Parsed::Invalid { id, too_large } => {
                        session.budget().charge_message(line.len());
                        (id, too_large)
                    }
                    Parsed::NotJson => {
                        session.budget().charge_message(line.len());
                        if !line.is_empty() {
                            session.record_other_output(line);
                            session.record_other_output(b"\n");
                        }
                        return;
                    }
                }
            }
            Piece::OverlongStart(head) => {
                // A message with a method is not a response.
                let is_answer = !head.windows(METHOD.len()).any(|window| window == METHOD);
                (id_in_head(&head).or_else(|| session.single_pending().filter(|_| is_answer)), true)
            }
            Piece::OverlongEnd(tail) => (id_in_tail(&tail), true),
        };
        // Fails the pending request immediately.
        if let Some(id) = id.filter(|id| session.is_pending(*id)) {
            self.arrived.push_back(substitute_error(id, too_large));
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
                Ok(Some(piece)) => incoming.handle_piece(piece, session),
                Ok(None) => {
                    session.close(CloseReason::OutputClosed);
                    return None;
                }
                Err(error) => {
                    tracing::debug!(%error, "failed to read from tool server");
                    session.close(CloseReason::ReadFailed);
                    return None;
                }
            }
        }
    }

    /// Closes the program's standard input, which asks the program to end.
    async fn close(&mut self) -> Result<(), Self::Error> {
        let outgoing = self.0.outgoing.lock().take();
        if let Some(Outgoing { queue, mut writer }) = outgoing {
            drop(queue);
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, &mut writer.0).await;
        }
        Ok(())
    }
}

async fn write(mut to_program: impl AsyncWrite + Unpin, mut queued: mpsc::Receiver<Vec<u8>>, session: Session) {
    while let Some(line) = queued.recv().await {
        let written = tokio::time::timeout(WRITE_TIMEOUT, async {
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
