//! Connections by which messages come that the daemon opens itself, all of one shape.
//!
//! Invariants
//! - A task of its own keeps a connection alive, whatever its owner is busy with, and ends when the owner drops it.
//! - What came is taken from the platform only after the owner says that it is stored
//!   ([`Connection::acknowledge`]). What is not stored, the platform sends again.
//! - So many batches wait at most; then nothing more is read until some of them are stored.
//!
//! Deliberately absent: opening a connection again. When that is due says [`Ended`], and the owner does it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;

use crate::message::Incoming;
use crate::outgoing::SendError;

/// Batches that are not stored yet.
const MAX_WAITING: usize = 32;
/// For the few other events of a connection.
const OTHER_EVENTS: usize = 8;

/// How a connection is opened.
#[derive(Clone)]
pub struct Opening {
    /// Where an earlier connection was ([`Connection::resume`]); it may be outdated.
    pub resume: Option<String>,
    /// A uniform random number in `0.0..1.0`, for waits that are spread.
    pub unit: f64,
    /// Told of everything that happens.
    pub wake: Arc<Notify>,
}

impl fmt::Debug for Opening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").field("is_resumed", &self.resume.is_some()).finish_non_exhaustive()
    }
}

/// What happens to a connection, in this order.
#[derive(Debug)]
pub enum ConnectionEvent {
    /// From now on messages come.
    Connected,
    Batch(Batch),
    /// The platform is about to end it: open another one beside it, and keep this one until it ends.
    Leaving,
    Ended(Ended),
}

/// Messages that are acknowledged together.
#[derive(Debug, Clone)]
pub struct Batch {
    number: u64,
    pub incoming: Vec<Incoming>,
}

/// Why a connection ended.
#[derive(Debug)]
pub struct Ended {
    /// `None`: as the platform announced, or as happens now and then.
    pub error: Option<SendError>,
    /// Not before this is over, where the platform says so.
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

/// A connection, or one that is being opened; it ends when dropped.
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
    /// `work` holds the connection until it ends.
    pub(crate) fn open<F>(opening: Opening, work: impl FnOnce(Link, Opening) -> F) -> Self
    where
        F: Future<Output = Ended> + Send + 'static,
    {
        let (to_owner, events) = mpsc::channel(MAX_WAITING + OTHER_EVENTS);
        let (stored, of_owner) = mpsc::unbounded_channel();
        let (resume, kept) = watch::channel(opening.resume.clone());
        let sender = Sender { events: to_owner, wake: Arc::clone(&opening.wake) };
        let link = Link { sender: sender.clone(), stored: of_owner, resume, last: 0, waiting: 0 };
        let work = work(link, opening);
        let task = tokio::spawn(async move {
            let ended = work.await;
            sender.tell(ConnectionEvent::Ended(ended)).await;
        });
        Self { events, stored, resume: kept, task: task.abort_handle() }
    }

    /// What happened next; `None`: nothing yet.
    pub fn try_next(&mut self) -> Option<ConnectionEvent> {
        match self.events.try_recv() {
            Ok(event) => Some(event),
            Err(mpsc::error::TryRecvError::Empty) => None,
            // Its task panicked.
            Err(mpsc::error::TryRecvError::Disconnected) => {
                Some(ConnectionEvent::Ended(Ended::later("the connection ended unexpectedly")))
            }
        }
    }

    /// It is stored: the platform need not keep it.
    pub fn acknowledge(&self, batch: &Batch) {
        // Where the connection is gone, the platform sends it again, and it is known.
        let _ = self.stored.send(batch.number);
    }

    /// What [`Opening::resume`] takes to go on after what is stored. Holds no credential.
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
    async fn tell(&self, event: ConnectionEvent) {
        // Nobody listens when the owner is gone, and this task with it.
        let _ = self.events.send(event).await;
        self.wake.notify_one();
    }
}

/// The end of a connection that its platform has.
pub(crate) struct Link {
    sender: Sender,
    stored: mpsc::UnboundedReceiver<u64>,
    resume: watch::Sender<Option<String>>,
    last: u64,
    waiting: usize,
}

impl Link {
    pub(crate) async fn connected(&self) {
        self.sender.tell(ConnectionEvent::Connected).await;
    }

    pub(crate) async fn leaving(&self) {
        self.sender.tell(ConnectionEvent::Leaving).await;
    }

    /// Whether there is room for another batch; [`Self::stored`] makes some.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting < MAX_WAITING
    }

    /// Whether everything that was delivered is stored.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting == 0
    }

    /// Hands messages over; the number is that which [`Self::stored`] answers.
    pub(crate) async fn deliver(&mut self, incoming: Vec<Incoming>) -> u64 {
        self.last += 1;
        self.waiting += 1;
        self.sender.tell(ConnectionEvent::Batch(Batch { number: self.last, incoming })).await;
        self.last
    }

    /// Waits for the next batch that is stored; they are stored in their order. May be dropped and asked again.
    pub(crate) async fn stored(&mut self) -> u64 {
        match self.stored.recv().await {
            Some(number) => {
                self.waiting = self.waiting.saturating_sub(1);
                number
            }
            None => std::future::pending().await,
        }
    }

    pub(crate) fn set_resume(&self, resume: Option<String>) {
        self.resume.send_replace(resume);
    }
}
