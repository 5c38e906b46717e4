//! What happens, told to whoever watches this daemon just now. Nobody is waited for, and nothing is kept: who reads too
//! slowly learns that something is missing. Without watchers telling costs nothing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use agentd_base::Timestamp;
use agentd_store::Seq;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// Watchers that are further behind have missed something.
const KEPT: usize = 1_024;
/// What changes again and again is told of so often.
const PAUSE: Duration = Duration::from_millis(500);

/// Something that happened.
#[derive(Debug, Clone)]
pub struct FeedItem {
    pub event_type: Arc<str>,
    /// JSON, without line breaks.
    pub data: Arc<str>,
    /// Of what is stored: where it stands, and how that is written.
    pub place: Option<(Seq, Arc<str>)>,
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct LiveFeed(Arc<Feed>);

#[derive(Debug)]
struct Feed {
    watchers: broadcast::Sender<FeedItem>,
    /// What is told of in a moment.
    due: Mutex<HashSet<&'static str>>,
}

impl Default for LiveFeed {
    fn default() -> Self {
        Self(Arc::new(Feed { watchers: broadcast::Sender::new(KEPT), due: Mutex::default() }))
    }
}

impl LiveFeed {
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<FeedItem> {
        self.0.watchers.subscribe()
    }

    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.0.watchers.receiver_count() > 0
    }

    /// Returns when nobody watches.
    pub async fn deserted(&self) {
        self.0.watchers.closed().await;
    }

    /// Tells what stands in the store.
    pub fn pass_on(&self, item: FeedItem) {
        // Only where nobody watches this fails.
        drop(self.0.watchers.send(item));
    }

    /// Tells what stands nowhere.
    pub fn tell(&self, event_type: &'static str, at: Timestamp, data: impl FnOnce() -> Value) {
        if self.is_watched() {
            let data = json!({"type": event_type, "timestamp": at, "data": data()}).to_string();
            self.pass_on(FeedItem { event_type: event_type.into(), data: data.into(), place: None });
        }
    }

    /// Tells that something changed, once for all changes of a moment.
    pub fn tell_soon(&self, event_type: &'static str, at: Timestamp) {
        if !self.is_watched() || !self.0.due.lock().insert(event_type) {
            return;
        }
        let feed = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            feed.0.due.lock().remove(event_type);
            feed.tell(event_type, at, || json!({}));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn changes_of_a_moment_are_told_once() {
        let feed = LiveFeed::default();
        feed.tell_soon("delivery.changed", Timestamp::from_micros(0));
        let mut watcher = feed.watch();
        for _ in 0..100 {
            feed.tell_soon("delivery.changed", Timestamp::from_micros(0));
        }
        assert_eq!(&*watcher.recv().await.unwrap().event_type, "delivery.changed");
        tokio::time::sleep(PAUSE * 2).await;
        assert!(watcher.is_empty());
        feed.tell_soon("delivery.changed", Timestamp::from_micros(0));
        assert!(watcher.recv().await.is_ok());
    }

    #[tokio::test]
    async fn a_slow_watcher_learns_that_it_missed_something() {
        let feed = LiveFeed::default();
        let mut watcher = feed.watch();
        for _ in 0..=KEPT {
            feed.tell("turn.tool_use", Timestamp::from_micros(0), || json!({}));
        }
        assert!(matches!(watcher.recv().await, Err(broadcast::error::RecvError::Lagged(_))));
    }
}
