//! Events for one listener, in a bounded buffer. What did not fit is counted and told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::message::{Event, SessionId};

/// The connection's side.
#[derive(Debug)]
pub(crate) struct Subscriber {
    session: Option<SessionId>,
    methods: &'static [&'static str],
    sender: mpsc::Sender<Event>,
    lost: Arc<AtomicU64>,
}

/// The listener's side.
#[derive(Debug)]
pub(crate) struct Subscription {
    receiver: mpsc::Receiver<Event>,
    lost: Arc<AtomicU64>,
}

/// What a listener gets.
#[derive(Debug)]
pub(crate) enum Heard {
    Event(Event),
    /// That many events came while the buffer was full, after those heard before and ahead of the next.
    Lost(u64),
}

impl Subscriber {
    pub(super) fn new(
        session: Option<SessionId>,
        methods: &'static [&'static str],
        capacity: usize,
    ) -> (Self, Subscription) {
        let (sender, receiver) = mpsc::channel(capacity);
        let lost = Arc::new(AtomicU64::new(0));
        (Self { session, methods, sender, lost: Arc::clone(&lost) }, Subscription { receiver, lost })
    }

    /// False once nobody listens.
    pub(super) fn offer(&self, event: &Event) -> bool {
        let is_meant = self.methods.contains(&&*event.method)
            && self.session.as_ref().is_none_or(|session| event.session.as_ref() == Some(session));
        if !is_meant {
            return !self.sender.is_closed();
        }
        // While something is lost and not told yet, later events are lost as well: the gap stays one.
        if self.lost.load(Ordering::Acquire) == 0 {
            match self.sender.try_send(event.clone()) {
                Ok(()) => return true,
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
                Err(mpsc::error::TrySendError::Full(_)) => {}
            }
        }
        self.lost.fetch_add(1, Ordering::AcqRel);
        true
    }
}

impl Subscription {
    /// The next event; `None` after the end of the connection.
    pub(crate) async fn next(&mut self) -> Option<Heard> {
        if let Ok(event) = self.receiver.try_recv() {
            return Some(Heard::Event(event));
        }
        let lost = self.lost.swap(0, Ordering::AcqRel);
        if lost > 0 {
            return Some(Heard::Lost(lost));
        }
        self.receiver.recv().await.map(Heard::Event)
    }
}
