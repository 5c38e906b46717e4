//! State shared by the parts of one connection: pending requests, close reason, tool changes, and output outside the
//! protocol.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest};
use tokio::sync::watch;

use crate::CloseReason;
use crate::budget::Budget;
use crate::message::numeric_id;
use crate::tail::Tail;

/// Shared session state. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Session(Arc<State>);

#[derive(Debug)]
struct State {
    /// Pending requests by id; `true` if a caller awaits the response, `false` for a subscription.
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

    /// Records an outgoing message. A new handshake discards the request of the previous one; a cancelled request
    /// expects no response.
    pub(crate) fn record_outgoing(&self, message: &ClientJsonRpcMessage) {
        let mut pending = self.0.pending.lock();
        match message {
            ClientJsonRpcMessage::Request(request) => {
                let Some(id) = numeric_id(&request.id) else { return };
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
                    && let Some(id) = cancelled.params.request_id.as_ref().and_then(numeric_id)
                {
                    pending.remove(&id);
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {}
        }
    }

    /// Removes a pending request. Returns whether it existed.
    pub(crate) fn take_pending(&self, id: i64) -> bool {
        self.0.pending.lock().remove(&id).is_some()
    }

    /// Removes a pending subscription, the only kind of request that a server may cancel. Returns whether it existed.
    pub(crate) fn take_subscription(&self, id: i64) -> bool {
        let mut pending = self.0.pending.lock();
        let is_subscription = pending.get(&id) == Some(&false);
        if is_subscription {
            pending.remove(&id);
        }
        is_subscription
    }

    pub(crate) fn has_subscription(&self) -> bool {
        self.0.pending.lock().values().any(|is_awaited| !is_awaited)
    }

    pub(crate) fn is_pending(&self, id: i64) -> bool {
        self.0.pending.lock().contains_key(&id)
    }

    /// Returns the awaited request, if there is exactly one.
    pub(crate) fn single_pending(&self) -> Option<i64> {
        let pending = self.0.pending.lock();
        let mut waiting = pending.iter().filter(|(_, is_awaited)| **is_awaited).map(|(id, _)| *id);
        let first = waiting.next()?;
        waiting.next().is_none().then_some(first)
    }

    /// Closes the session. The first reason is retained.
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

    /// Waits until the session is closed. Cancel-safe.
    pub(crate) async fn closed(&self) -> CloseReason {
        let mut closed = self.0.closed.subscribe();
        let reason = closed.wait_for(Option::is_some).await;
        // The sender is owned by `self`, so it cannot have been dropped.
        reason.ok().and_then(|reason| reason.clone()).unwrap_or(CloseReason::Requested)
    }

    pub(crate) fn record_tools_change(&self) {
        self.0.tools_changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(crate) fn tools_changes(&self) -> watch::Receiver<u64> {
        self.0.tools_changes.subscribe()
    }

    pub(crate) fn record_other_output(&self, bytes: &[u8]) {
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
        session.record_outgoing(&serde_json::from_value(message).expect("a message"));
    }

    #[test]
    fn response_is_accepted_once() {
        let session = Session::new(0);
        sent(&session, 1, "tools/list", json!({}));
        assert!(!session.take_pending(2));
        assert!(session.take_pending(1));
        assert!(!session.take_pending(1));
    }

    #[test]
    fn late_response_to_earlier_handshake_is_dropped() {
        let session = Session::new(0);
        sent(&session, 0, "server/discover", json!({}));
        let client = json!({ "name": "a", "version": "1" });
        let initialize = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
        sent(&session, 1, "initialize", initialize);
        assert!(!session.take_pending(0));
        assert!(session.take_pending(1));
    }

    #[test]
    fn subscription_is_not_awaited() {
        let session = Session::new(0);
        sent(&session, 1, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
        assert_eq!(session.single_pending(), None);
        sent(&session, 2, "tools/list", json!({}));
        assert_eq!(session.single_pending(), Some(2));
        assert!(!session.take_subscription(2) && session.take_subscription(1));
        sent(&session, 3, "tools/list", json!({}));
        assert_eq!(session.single_pending(), None);
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 3 } });
        session.record_outgoing(&serde_json::from_value(cancelled).expect("a message"));
        assert_eq!(session.single_pending(), Some(2));
    }

    #[tokio::test]
    async fn first_close_reason_is_retained() {
        let session = Session::new(0);
        session.close(CloseReason::OutputClosed);
        session.close(CloseReason::Requested);
        assert_eq!(session.closed().await, CloseReason::OutputClosed);
    }
}
