//! Outbound connections that receive messages, with one interface for all platforms.
//!
//! Invariants
//! - A separate task keeps a connection alive and ends when the owner drops it.
//! - Messages are acknowledged to the platform only after the owner has stored them ([`Connection::acknowledge`]). The
//!   platform redelivers others.
//! - The number of unacknowledged batches is limited. At the limit nothing is read until some are acknowledged.
//!
//! Deliberately absent: reconnecting. [`Ended`] states when it is due, and the owner does it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;

use crate::message::Incoming;
use crate::outgoing::SendError;

/// Maximum number of unacknowledged batches.
const MAX_UNACKNOWLEDGED_BATCHES: usize = 32;
/// Channel capacity for events other than batches.
const EVENT_HEADROOM: usize = 8;

/// Options for opening a connection.
#[derive(Clone)]
pub struct ConnectOptions {
    /// Resume state of an earlier connection ([`Connection::resume`]); it may be outdated.
    pub resume: Option<String>,
    /// Uniform random number in `0.0..1.0` for jitter.
    pub unit: f64,
    /// Notified of every event.
    pub wake: Arc<Notify>,
}

impl fmt::Debug for ConnectOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectOptions").field("is_resumed", &self.resume.is_some()).finish_non_exhaustive()
    }
}

/// Connection event, in order of occurrence.
#[derive(Debug)]
pub enum ConnectionEvent {
    /// The connection is established.
    Connected,
    Batch(Batch),
    /// The platform is about to close the connection. Open another one, and keep this one until it ends.
    Leaving,
    Ended(Ended),
}

/// Messages that are acknowledged together.
#[derive(Debug, Clone)]
pub struct Batch {
    number: u64,
    pub incoming: Vec<Incoming>,
}

/// End of a connection.
#[derive(Debug)]
pub struct Ended {
    /// Error; `None` for an announced or routine end.
    pub error: Option<SendError>,
    /// Minimum delay before reconnecting, if the platform requires one.
    pub wait: Option<Duration>,
}

impl Ended {
    pub(crate) fn expected() -> Self {
        Self { error: None, wait: None }
    }

    pub(crate) fn waiting(self, wait: Duration) -> Self {
        Self { wait: Some(wait), ..self }
    }

    pub(crate) fn later(problem: impl Into<String>) -> Self {
        SendError::Later(problem.into()).into()
    }
}

impl From<SendError> for Ended {
    fn from(error: SendError) -> Self {
        let wait = match &error {
            SendError::RateLimited { wait, .. } => *wait,
            _ => None,
        };
        Self { error: Some(error), wait }
    }
}

impl From<agentd_net::NetError> for Ended {
    fn from(error: agentd_net::NetError) -> Self {
        SendError::from(error).into()
    }
}

/// Connection that is open or being opened. Dropping it closes it.
#[derive(Debug)]
pub struct Connection {
    events: mpsc::Receiver<ConnectionEvent>,
    stored: mpsc::UnboundedSender<u64>,
    resume: watch::Receiver<Option<String>>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Spawns `work`, which maintains the connection until it ends.
    pub(crate) fn open<F>(options: ConnectOptions, work: impl FnOnce(Link, ConnectOptions) -> F) -> Self
    where
        F: Future<Output = Ended> + Send + 'static,
    {
        let (event_sender, events) = mpsc::channel(MAX_UNACKNOWLEDGED_BATCHES + EVENT_HEADROOM);
        let (stored, stored_receiver) = mpsc::unbounded_channel();
        let (resume, resume_receiver) = watch::channel(options.resume.clone());
        let sender = Sender { events: event_sender, wake: Arc::clone(&options.wake) };
        let link = Link { sender: sender.clone(), stored: stored_receiver, resume, last: 0, unacknowledged: 0 };
        let work = work(link, options);
        let task = tokio::spawn(async move {
            let ended = work.await;
            sender.send(ConnectionEvent::Ended(ended)).await;
        });
        Self { events, stored, resume: resume_receiver, task: task.abort_handle() }
    }

    /// Returns the next event, or `None` if there is none yet.
    pub fn try_next(&mut self) -> Option<ConnectionEvent> {
        match self.events.try_recv() {
            Ok(event) => Some(event),
            Err(mpsc::error::TryRecvError::Empty) => None,
            // The task panicked.
            Err(mpsc::error::TryRecvError::Disconnected) => {
                Some(ConnectionEvent::Ended(Ended::later("the connection ended unexpectedly")))
            }
        }
    }

    /// Acknowledges a batch that has been stored.
    pub fn acknowledge(&self, batch: &Batch) {
        // If the connection is gone, the platform redelivers the batch, and its IDs are known.
        let _ = self.stored.send(batch.number);
    }

    /// Returns the state for [`ConnectOptions::resume`], which continues after the last stored batch. It contains no
    /// credentials.
    #[must_use]
    pub fn resume(&self) -> Option<String> {
        self.resume.borrow().clone()
    }
}

#[derive(Clone)]
struct Sender {
    events: mpsc::Sender<ConnectionEvent>,
    wake: Arc<Notify>,
}

impl Sender {
    async fn send(&self, event: ConnectionEvent) {
        // Fails if the owner is gone, which also aborts this task.
        let _ = self.events.send(event).await;
        self.wake.notify_one();
    }
}

/// Platform side of a connection.
pub(crate) struct Link {
    sender: Sender,
    stored: mpsc::UnboundedReceiver<u64>,
    resume: watch::Sender<Option<String>>,
    last: u64,
    unacknowledged: usize,
}

impl Link {
    pub(crate) async fn connected(&self) {
        self.sender.send(ConnectionEvent::Connected).await;
    }

    pub(crate) async fn leaving(&self) {
        self.sender.send(ConnectionEvent::Leaving).await;
    }

    /// Whether another batch may be delivered; [`Self::stored`] frees capacity.
    pub(crate) fn has_capacity(&self) -> bool {
        self.unacknowledged < MAX_UNACKNOWLEDGED_BATCHES
    }

    /// Whether all delivered batches are stored.
    pub(crate) fn is_idle(&self) -> bool {
        self.unacknowledged == 0
    }

    /// Delivers messages as a batch. Returns the number that [`Self::stored`] will return.
    pub(crate) async fn deliver(&mut self, incoming: Vec<Incoming>) -> u64 {
        self.last += 1;
        self.unacknowledged += 1;
        self.sender.send(ConnectionEvent::Batch(Batch { number: self.last, incoming })).await;
        self.last
    }

    /// Waits for the next stored batch, in order of delivery. Cancel safe.
    pub(crate) async fn stored(&mut self) -> u64 {
        match self.stored.recv().await {
            Some(number) => {
                self.unacknowledged = self.unacknowledged.saturating_sub(1);
                number
            }
            None => std::future::pending().await,
        }
    }

    pub(crate) fn set_resume(&self, resume: Option<String>) {
        self.resume.send_replace(resume);
    }
}
