//! DevTools connection: matches responses to commands, and dispatches events to subscribers.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};

use super::framing::{Framed, Framing, MAX_MESSAGE_BYTES};
use super::message::{Event, Incoming, Outgoing, SessionId};
use super::subscription::{Subscriber, Subscription};
use super::surrogates::replace_lone_surrogates;

/// Maximum number of commands queued for writing; further callers wait.
const QUEUE_CAPACITY: usize = 256;
const READ_BUFFER_BYTES: usize = 256 << 10;

/// Failure of a command.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CdpError {
    #[error("the connection to Chromium was closed: {0}")]
    Ended(Arc<str>),
    #[error("Chromium did not respond to {method} within {} ms", limit.as_millis())]
    Timeout { method: &'static str, limit: Duration },
    #[error("Chromium refused {method}: {message}")]
    Refused { method: &'static str, message: String },
    #[error("the response of Chromium to {method} exceeds {MAX_MESSAGE_BYTES} bytes")]
    TooLong { method: &'static str },
    #[error("Chromium responded to {method} in an unknown format: {message}")]
    Form { method: &'static str, message: String },
}

/// Receives every event before later messages are delivered. It is called by the reading task, so it must not block.
pub(crate) trait Observer: Send + Sync + 'static {
    fn event(&self, event: &Event);
    /// The connection has ended; no further events follow.
    fn ended(&self, reason: &str);
}

type Answer = Result<Box<RawValue>, Failure>;

/// Failed response to a command.
enum Failure {
    Refused(String),
    TooLong,
}

#[derive(Default)]
struct State {
    pending: HashMap<u64, oneshot::Sender<Answer>>,
    subscribers: Vec<Subscriber>,
    ended: Option<Arc<str>>,
}

struct Inner {
    state: Mutex<State>,
    next_id: AtomicU64,
    outgoing: mpsc::Sender<Vec<u8>>,
}

/// Connection to one Chromium. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Inner>);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

/// Removes a command from the pending list when its caller stops caller.
struct Pending<'a> {
    inner: &'a Inner,
    id: u64,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.inner.state.lock().pending.remove(&self.id);
    }
}

impl Connection {
    /// Starts the tasks that read and write. They end with the pipe or with a call of `end`.
    pub(crate) fn start(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let (outgoing, queue) = mpsc::channel(QUEUE_CAPACITY);
        let inner = Arc::new(Inner { state: Mutex::default(), next_id: AtomicU64::new(1), outgoing });
        let connection = Self(inner);
        let reader_connection = connection.clone();
        tokio::spawn(async move {
            let reason = reader_connection.read_all(reader, &*observer).await;
            reader_connection.end(&reason);
            observer.ended(&reason);
        });
        // The task holds no sender, so that dropping all connection handles closes the pipe.
        let writer_connection = Arc::downgrade(&connection.0);
        tokio::spawn(async move {
            if let Err(error) = write_all(writer, queue).await
                && let Some(inner) = writer_connection.upgrade()
            {
                Self(inner).end(&format!("failed to write to its pipe: {error}"));
            }
        });
        connection
    }

    /// Sends a command and waits for its response. Dropping the future discards the response but does not cancel the
    /// command.
    pub(crate) async fn call<R: DeserializeOwned>(
        &self,
        session: Option<&str>,
        method: &'static str,
        params: impl Serialize,
        limit: Duration,
    ) -> Result<R, CdpError> {
        let raw = self.call_raw(session, method, params, limit).await?;
        serde_json::from_str(raw.get()).map_err(|error| CdpError::Form { method, message: error.to_string() })
    }

    /// Sends a command and returns the raw response.
    pub(crate) async fn call_raw(
        &self,
        session: Option<&str>,
        method: &'static str,
        params: impl Serialize,
        limit: Duration,
    ) -> Result<Box<RawValue>, CdpError> {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        let mut message = serde_json::to_vec(&Outgoing { id, method, params, session_id: session })
            .map_err(|error| CdpError::Form { method, message: error.to_string() })?;
        message.push(0);
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.0.state.lock();
            if let Some(reason) = &state.ended {
                return Err(CdpError::Ended(Arc::clone(reason)));
            }
            state.pending.insert(id, sender);
        }
        let _pending = Pending { inner: &self.0, id };
        let answered = tokio::time::timeout(limit, async {
            // Fails only after the connection has ended, which the receiver reports.
            let _ = self.0.outgoing.send(message).await;
            receiver.await
        });
        match answered.await {
            Err(_) => Err(CdpError::Timeout { method, limit }),
            Ok(Ok(Ok(raw))) => Ok(raw),
            Ok(Ok(Err(Failure::Refused(message)))) => Err(CdpError::Refused { method, message }),
            Ok(Ok(Err(Failure::TooLong))) => Err(CdpError::TooLong { method }),
            Ok(Err(_)) => {
                Err(CdpError::Ended(self.0.state.lock().ended.clone().unwrap_or_else(|| "it was closed".into())))
            }
        }
    }

    /// Subscribes to these methods, of one session or of all. At most `capacity` events are buffered.
    pub(crate) fn subscribe(
        &self,
        session: Option<SessionId>,
        methods: &'static [&'static str],
        capacity: usize,
    ) -> Subscription {
        let (subscriber, subscription) = Subscriber::new(session, methods, capacity);
        let mut state = self.0.state.lock();
        if state.ended.is_none() {
            state.subscribers.push(subscriber);
        }
        subscription
    }

    /// Whether the connection has ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.0.state.lock().ended.is_some()
    }

    /// Fails every pending and later command. The first reason is kept.
    pub(crate) fn end(&self, reason: &str) {
        let mut state = self.0.state.lock();
        state.ended.get_or_insert_with(|| reason.into());
        state.pending.clear();
        state.subscribers.clear();
    }

    async fn read_all(&self, mut reader: impl AsyncRead + Unpin, observer: &dyn Observer) -> String {
        let mut framing = Framing::new(MAX_MESSAGE_BYTES);
        loop {
            let buffer = framing.buffer();
            buffer.reserve(READ_BUFFER_BYTES);
            match reader.read_buf(buffer).await {
                Ok(0) => return "it closed its pipe".to_owned(),
                Ok(_) => {}
                Err(error) => return format!("failed to read from its pipe: {error}"),
            }
            loop {
                match framing.next() {
                    None => break,
                    Some(Framed::Whole(message)) => self.deliver(message, observer),
                    Some(Framed::TooLong(beginning)) => self.skip_oversized(&beginning),
                }
            }
        }
    }

    fn answer(&self, id: u64, answer: Answer) {
        let caller = self.0.state.lock().pending.remove(&id);
        if let Some(caller) = caller {
            // Fails if the caller has stopped caller.
            let _ = caller.send(answer);
        }
    }

    /// Fails the command whose response is too long; an event is dropped.
    fn skip_oversized(&self, beginning: &[u8]) {
        let id = id_of(beginning);
        tracing::warn!(is_answer = id.is_some(), "oversized Chromium message dropped");
        if let Some(id) = id {
            self.answer(id, Err(Failure::TooLong));
        }
    }

    fn deliver(&self, message: &[u8], observer: &dyn Observer) {
        let message = replace_lone_surrogates(message);
        let incoming: Incoming<'_> = match serde_json::from_slice(&message) {
            Ok(incoming) => incoming,
            Err(error) => {
                tracing::warn!(%error, "failed to parse Chromium message");
                return;
            }
        };
        if let Some(id) = incoming.id {
            self.answer(id, answer(&incoming));
            return;
        }
        let Some(method) = incoming.method.as_deref() else { return };
        let event = Event::new(incoming.session_id.as_deref(), method, incoming.params);
        observer.event(&event);
        self.0.state.lock().subscribers.retain(|subscriber| subscriber.offer(&event));
    }
}

/// Reads the command ID from the beginning of a response.
fn id_of(beginning: &[u8]) -> Option<u64> {
    let digits = beginning.strip_prefix(b"{\"id\":")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

fn answer(incoming: &Incoming<'_>) -> Answer {
    match (&incoming.error, incoming.result) {
        (Some(refusal), _) => {
            let detail = refusal.data.as_deref().map(|data| format!(" ({data})")).unwrap_or_default();
            Err(Failure::Refused(format!("{}{detail}", refusal.message)))
        }
        (None, Some(result)) => Ok(result.to_owned()),
        (None, None) => Ok(RawValue::NULL.to_owned()),
    }
}

async fn write_all(mut writer: impl AsyncWrite + Unpin, mut queue: mpsc::Receiver<Vec<u8>>) -> std::io::Result<()> {
    while let Some(message) = queue.recv().await {
        writer.write_all(&message).await?;
    }
    Ok(())
}
