//! What the parts of one connection share: who waits for which answer, whether it is still open,
//! whether the tools changed, and what the program said beside the protocol.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest};
use tokio::sync::watch;

use crate::CloseReason;
use crate::budget::Budget;
use crate::message::number;
use crate::tail::Tail;

/// Cheap to clone; all clones are one session.
#[derive(Debug, Clone)]
pub(crate) struct Session(Arc<State>);

#[derive(Debug)]
struct State {
    /// By request id: whether somebody waits for its answer now (a subscription only listens).
    pending: Mutex<HashMap<i64, bool>>,
    closed: watch::Sender<Option<CloseReason>>,
    tools_changes: watch::Sender<u64>,
    budget: Budget,
    tail: Mutex<Tail>,
}

impl Session {
    pub(crate) fn new(stderr_tail_bytes: usize) -> Self {
        Self(Arc::new(State {
            pending: Mutex::default(),
            closed: watch::Sender::new(None),
            tools_changes: watch::Sender::new(0),
            budget: Budget::new(),
            tail: Mutex::new(Tail::new(stderr_tail_bytes)),
        }))
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// Notes what is about to be sent. A new handshake voids the old one's request, and a
    /// cancelled request expects no answer any more.
    pub(crate) fn note_outgoing(&self, message: &ClientJsonRpcMessage) {
        let mut pending = self.0.pending.lock();
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let Some(id) = number(&request.id) else { return };
                match request.request {
                    ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_) => {
                        pending.clear();
                        pending.insert(id, true);
                    }
                    ClientRequest::SubscriptionsListenRequest(_) => {
                        pending.insert(id, false);
                    }
                    _ => {
                        pending.insert(id, true);
                    }
                }
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = cancelled.params.request_id.as_ref().and_then(number)
                {
                    pending.remove(&id);
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {}
        }
    }

    /// Whether an answer with this id was awaited; the next one with it is not.
    pub(crate) fn take_pending(&self, id: i64) -> bool {
        self.0.pending.lock().remove(&id).is_some()
    }

    /// As [`Self::take_pending`], for subscriptions alone: only those may a server cancel.
    pub(crate) fn take_subscription(&self, id: i64) -> bool {
        let mut pending = self.0.pending.lock();
        let is_subscription = pending.get(&id) == Some(&false);
        if is_subscription {
            pending.remove(&id);
        }
        is_subscription
    }

    pub(crate) fn has_subscription(&self) -> bool {
        self.0.pending.lock().values().any(|waits| !waits)
    }

    pub(crate) fn is_pending(&self, id: i64) -> bool {
        self.0.pending.lock().contains_key(&id)
    }

    /// The one request that waits for an answer, if there is exactly one.
    pub(crate) fn only_pending(&self) -> Option<i64> {
        let pending = self.0.pending.lock();
        let mut waiting = pending.iter().filter(|(_, waits)| **waits).map(|(id, _)| *id);
        let first = waiting.next()?;
        waiting.next().is_none().then_some(first)
    }

    /// The first reason stands.
    pub(crate) fn close(&self, reason: CloseReason) {
        self.0.closed.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(reason);
            }
            first
        });
    }

    pub(crate) fn close_reason(&self) -> Option<CloseReason> {
        self.0.closed.borrow().clone()
    }

    /// Cancel-safe.
    pub(crate) async fn closed(&self) -> CloseReason {
        let mut closed = self.0.closed.subscribe();
        let reason = closed.wait_for(Option::is_some).await;
        // The sender lives in `self`, so it cannot be gone.
        reason.ok().and_then(|reason| reason.clone()).unwrap_or(CloseReason::Requested)
    }

    pub(crate) fn note_tools_change(&self) {
        self.0.tools_changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(crate) fn tools_changes(&self) -> watch::Receiver<u64> {
        self.0.tools_changes.subscribe()
    }

    pub(crate) fn note_noise(&self, bytes: &[u8]) {
        self.0.tail.lock().push(bytes);
    }

    pub(crate) fn diagnosis(&self) -> String {
        self.0.tail.lock().text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn sent(session: &Session, id: i64, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        session.note_outgoing(&serde_json::from_value(message).expect("a message"));
    }

    #[test]
    fn an_answer_is_awaited_once() {
        let session = Session::new(0);
        sent(&session, 1, "tools/list", json!({}));
        assert!(!session.take_pending(2));
        assert!(session.take_pending(1));
        assert!(!session.take_pending(1));
    }

    #[test]
    fn a_late_answer_to_an_earlier_handshake_is_nobodys() {
        let session = Session::new(0);
        sent(&session, 0, "server/discover", json!({}));
        let client = json!({ "name": "a", "version": "1" });
        let initialize = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        sent(&session, 1, "initialize", initialize);
        assert!(!session.take_pending(0));
        assert!(session.take_pending(1));
    }

    #[test]
    fn a_subscription_waits_for_nothing() {
        let session = Session::new(0);
        sent(&session, 1, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
        assert_eq!(session.only_pending(), None);
        sent(&session, 2, "tools/list", json!({}));
        assert_eq!(session.only_pending(), Some(2));
        assert!(!session.take_subscription(2) && session.take_subscription(1));
        sent(&session, 3, "tools/list", json!({}));
        assert_eq!(session.only_pending(), None);
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 3 } });
        session.note_outgoing(&serde_json::from_value(cancelled).expect("a message"));
        assert_eq!(session.only_pending(), Some(2));
    }

    #[tokio::test]
    async fn the_first_reason_to_close_stands() {
        let session = Session::new(0);
        session.close(CloseReason::OutputClosed);
        session.close(CloseReason::Requested);
        assert_eq!(session.closed().await, CloseReason::OutputClosed);
    }
}
