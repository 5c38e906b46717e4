//! The connection: commands with their answers, events to who asked for them, one end for all.

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
use super::halves::without_halves;
use super::message::{Event, Incoming, Outgoing, SessionId};
use super::subscription::{Subscriber, Subscription};

/// Commands that wait to be written; the next caller waits.
const OUTGOING: usize = 256;
const READ_BYTES: usize = 256 << 10;

/// Why a command has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum CdpError {
    #[error("the connection to Chromium has ended: {0}")]
    Ended(Arc<str>),
    #[error("Chromium did not answer {method} within {} ms", limit.as_millis())]
    Timeout { method: &'static str, limit: Duration },
    #[error("Chromium refused {method}: {message}")]
    Refused { method: &'static str, message: String },
    #[error("Chromium answered {method} with more than {MAX_MESSAGE_BYTES} bytes")]
    TooLong { method: &'static str },
    #[error("Chromium answered {method} in a form that is not known: {message}")]
    Form { method: &'static str, message: String },
}

/// Sees every event before whatever Chromium says after it is delivered. It is called by the task
/// that reads, so it must not block.
pub(crate) trait Observer: Send + Sync + 'static {
    fn event(&self, event: &Event);
    /// Nothing comes any more.
    fn ended(&self, reason: &str);
}

type Answer = Result<Box<RawValue>, Failure>;

/// Why an answer is none.
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

/// A connection to one Chromium. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connection(Arc<Inner>);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

/// Takes a command that nobody waits for any more off the list.
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
    /// Starts the tasks that read and write. They end with the pipe, or when `end` is called.
    pub(crate) fn start(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        observer: Arc<dyn Observer>,
    ) -> Self {
        let (outgoing, queue) = mpsc::channel(OUTGOING);
        let inner = Arc::new(Inner { state: Mutex::default(), next_id: AtomicU64::new(1), outgoing });
        let connection = Self(inner);
        let for_reader = connection.clone();
        tokio::spawn(async move {
            let reason = for_reader.read_all(reader, &*observer).await;
            for_reader.end(&reason);
            observer.ended(&reason);
        });
        // Only the connection's users keep it open for writing: the task holds no sender.
        let for_writer = Arc::downgrade(&connection.0);
        tokio::spawn(async move {
            if let Err(error) = write_all(writer, queue).await
                && let Some(inner) = for_writer.upgrade()
            {
                Self(inner).end(&format!("its pipe could not be written to ({error})"));
            }
        });
        connection
    }

    /// Sends a command and waits for its answer. Dropping the future gives the answer up, not the command.
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

    /// The answer as it came.
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
            // It fails only after the end, and then the receiver says so.
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

    /// Events from now on: of one session or of all, of these methods; at most `capacity` wait.
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

    /// Whether nothing comes any more.
    pub(crate) fn is_ended(&self) -> bool {
        self.0.state.lock().ended.is_some()
    }

    /// Fails every command that waits and every later one. The first reason stays.
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
            buffer.reserve(READ_BYTES);
            match reader.read_buf(buffer).await {
                Ok(0) => return "it has closed its pipe".to_owned(),
                Ok(_) => {}
                Err(error) => return format!("its pipe could not be read ({error})"),
            }
            loop {
                match framing.next() {
                    None => break,
                    Some(Framed::Whole(message)) => self.deliver(message, observer),
                    Some(Framed::TooLong(beginning)) => self.pass_over(&beginning),
                }
            }
        }
    }

    fn answer(&self, id: u64, answer: Answer) {
        let waiting = self.0.state.lock().pending.remove(&id);
        if let Some(waiting) = waiting {
            // It fails where nobody waits any more.
            let _ = waiting.send(answer);
        }
    }

    /// Whoever waits for an answer that is too long is told; an event is lost.
    fn pass_over(&self, beginning: &[u8]) {
        let id = id_of(beginning);
        tracing::warn!(is_answer = id.is_some(), "a message of Chromium was too long");
        if let Some(id) = id {
            self.answer(id, Err(Failure::TooLong));
        }
    }

    fn deliver(&self, message: &[u8], observer: &dyn Observer) {
        let message = without_halves(message);
        let incoming: Incoming<'_> = match serde_json::from_slice(&message) {
            Ok(incoming) => incoming,
            Err(error) => {
                tracing::warn!(%error, "a message of Chromium could not be read");
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

/// Of the answer that begins so.
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
