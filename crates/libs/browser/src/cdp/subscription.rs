//! Events for one subscriber, in a bounded buffer. Events that did not fit are counted and reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::message::{Event, SessionId};

/// Sending side, held by the connection.
#[derive(Debug)]
pub(crate) struct Subscriber {
    session: Option<SessionId>,
    methods: &'static [&'static str],
    sender: mpsc::Sender<Event>,
    lost: Arc<AtomicU64>,
}

/// Receiving side, held by the subscriber.
#[derive(Debug)]
pub(crate) struct Subscription {
    receiver: mpsc::Receiver<Event>,
    lost: Arc<AtomicU64>,
}

/// Item received from a subscription.
#[derive(Debug)]
pub(crate) enum Delivery {
    Event(Event),
    /// Number of events that were dropped at this position because the buffer was full.
    Lagged(u64),
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

    /// Delivers an event. Returns false once the subscription was dropped.
    pub(super) fn offer(&self, event: &Event) -> bool {
        let matches = self.methods.contains(&&*event.method)
            && self.session.as_ref().is_none_or(|session| event.session.as_ref() == Some(session));
        if !matches {
            return !self.sender.is_closed();
        }
        // Drop later events as well until the loss is reported, so that the gap is contiguous.
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
    /// Returns the next item, or `None` after the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<Delivery> {
        if let Ok(event) = self.receiver.try_recv() {
            return Some(Delivery::Event(event));
        }
        let lost = self.lost.swap(0, Ordering::AcqRel);
        if lost > 0 {
            return Some(Delivery::Lagged(lost));
        }
        self.receiver.recv().await.map(Delivery::Event)
    }
}
