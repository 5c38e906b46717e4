//! Broadcast of live events to the subscribers of this daemon. Publishing never blocks, and nothing is stored. A
//! subscriber that falls behind sees a gap. Without subscribers, publishing costs nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::Seq;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// Number of buffered items. A subscriber that is further behind loses items.
const CAPACITY: usize = 1_024;
/// Minimum interval between coalesced notifications of one event type.
const COALESCE_INTERVAL: Duration = Duration::from_millis(500);

/// Item of the live feed.
#[derive(Debug, Clone)]
pub struct FeedItem {
    pub event_type: Arc<str>,
    /// JSON, without line breaks.
    pub data: Arc<str>,
    /// Position of a stored event in the outbox and the id of the database; `None` for events that are not stored.
    pub position: Option<(Seq, Arc<str>)>,
}

/// Sender side of the live feed. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LiveFeed(Arc<Feed>);

#[derive(Debug)]
struct Feed {
    subscribers: broadcast::Sender<FeedItem>,
    /// Event types with a pending coalesced notification.
    pending: Mutex<HashSet<&'static str>>,
}

impl Default for LiveFeed {
    fn default() -> Self {
        Self(Arc::new(Feed { subscribers: broadcast::Sender::new(CAPACITY), pending: Mutex::default() }))
    }
}

impl LiveFeed {
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<FeedItem> {
        self.0.subscribers.subscribe()
    }

    #[must_use]
    pub fn has_subscribers(&self) -> bool {
        self.0.subscribers.receiver_count() > 0
    }

    /// Resolves when there are no subscribers.
    pub async fn closed(&self) {
        self.0.subscribers.closed().await;
    }

    /// Sends an item to all subscribers.
    pub fn send(&self, item: FeedItem) {
        // Fails only without subscribers.
        drop(self.0.subscribers.send(item));
    }

    /// Publishes an event that is not stored.
    pub fn publish(&self, event_type: &'static str, at: Timestamp, data: impl FnOnce() -> Value) {
        if self.has_subscribers() {
            let data = json!({"type": event_type, "timestamp": at, "data": data()}).to_string();
            self.send(FeedItem { event_type: event_type.into(), data: data.into(), position: None });
        }
    }

    /// Publishes a change notification, at most once per [`COALESCE_INTERVAL`] for each event type.
    pub fn publish_coalesced(&self, event_type: &'static str, at: Timestamp) {
        if !self.has_subscribers() || !self.0.pending.lock().insert(event_type) {
            return;
        }
        let feed = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(COALESCE_INTERVAL).await;
            feed.0.pending.lock().remove(event_type);
            feed.publish(event_type, at, || json!({}));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn frequent_changes_are_coalesced() {
        let feed = LiveFeed::default();
        feed.publish_coalesced("delivery.changed", Timestamp::from_micros(0));
        let mut subscriber = feed.subscribe();
        for _ in 0..100 {
            feed.publish_coalesced("delivery.changed", Timestamp::from_micros(0));
        }
        assert_eq!(&*subscriber.recv().await.unwrap().event_type, "delivery.changed");
        tokio::time::sleep(COALESCE_INTERVAL * 2).await;
        assert!(subscriber.is_empty());
        feed.publish_coalesced("delivery.changed", Timestamp::from_micros(0));
        assert!(subscriber.recv().await.is_ok());
    }

    #[tokio::test]
    async fn slow_subscriber_is_told_that_it_lagged() {
        let feed = LiveFeed::default();
        let mut subscriber = feed.subscribe();
        for _ in 0..=CAPACITY {
            feed.publish("turn.tool_use", Timestamp::from_micros(0), || json!({}));
        }
        assert!(matches!(subscriber.recv().await, Err(broadcast::error::RecvError::Lagged(_))));
    }
}
