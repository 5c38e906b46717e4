//! The queue that spans wait in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use agentd_base::Entropy;
use agentd_net::GuardedClient;
use tokio::sync::{Mutex, mpsc, watch};

use crate::options::Collector;
use crate::span::{Attribute, Span};

/// More spans do not wait.
const MAX_WAITING: usize = 2_048;
/// Nor more bytes of them: contents of messages may be long.
const MAX_WAITING_BYTES: usize = 8 << 20;

/// What became of spans since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpanCounts {
    /// The collector has them.
    pub sent: u64,
    /// There was no room, or the collector did not take them.
    pub dropped: u64,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) collector: Collector,
    sender: mpsc::Sender<Span>,
    pub(crate) waiting: Mutex<mpsc::Receiver<Span>>,
    waiting_bytes: AtomicUsize,
    sent: AtomicU64,
    dropped: AtomicU64,
    stop: watch::Sender<bool>,
    is_over: watch::Sender<bool>,
}

impl Shared {
    /// Makes room for what was taken out of the queue.
    pub(crate) fn note_taken(&self, bytes: usize) {
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn note_sent(&self, count: usize) {
        self.sent.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_dropped(&self, count: usize) {
        self.dropped.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn stops(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    pub(crate) fn note_over(&self) {
        self.is_over.send_replace(true);
    }
}

/// Where spans are recorded. Cheap to clone; one that is off costs a look at a pointer.
#[derive(Debug, Clone, Default)]
pub struct Tracer(Option<Arc<Shared>>);

impl Tracer {
    /// Records nothing.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Keeps spans until [`export`](Self::export) sends them.
    #[must_use]
    pub fn new(collector: Collector) -> Self {
        let (sender, waiting) = mpsc::channel(MAX_WAITING);
        Self(Some(Arc::new(Shared {
            collector,
            sender,
            waiting: Mutex::new(waiting),
            waiting_bytes: AtomicUsize::new(0),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            stop: watch::Sender::new(false),
            is_over: watch::Sender::new(false),
        })))
    }

    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Whether what was said may stand in spans.
    #[must_use]
    pub fn keeps_content(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.collector.keeps_content)
    }

    /// Records a span, where somebody collects them; `make` is called only then.
    pub fn record(&self, make: impl FnOnce() -> Span) {
        let Some(shared) = &self.0 else { return };
        let span = make();
        if !span.place.is_sampled {
            return;
        }
        let weight = span.weight();
        let before = shared.waiting_bytes.fetch_add(weight, Ordering::Relaxed);
        if before.saturating_add(weight) > MAX_WAITING_BYTES || shared.sender.try_send(span).is_err() {
            shared.note_taken(weight);
            shared.note_dropped(1);
        }
    }

    /// `None` where nobody collects spans.
    #[must_use]
    pub fn counts(&self) -> Option<SpanCounts> {
        let shared = self.0.as_ref()?;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Some(SpanCounts { sent: of(&shared.sent), dropped: of(&shared.dropped) })
    }

    /// Sends what is recorded, until [`shut_down`](Self::shut_down). `resource` says whose spans they are.
    pub async fn export(self, client: GuardedClient, entropy: Entropy, resource: Arc<[(&'static str, Attribute)]>) {
        if let Some(shared) = self.0 {
            crate::export::run(&shared, &client, &entropy, &resource).await;
        }
    }

    /// Sends what waits, once, and ends the export; gives up after `limit`.
    pub async fn shut_down(&self, limit: Duration) {
        let Some(shared) = &self.0 else { return };
        let mut is_over = shared.is_over.subscribe();
        shared.stop.send_replace(true);
        if tokio::time::timeout(limit, is_over.wait_for(|is_over| *is_over)).await.is_err() {
            tracing::warn!("the collector took too long; the last spans are lost");
        }
    }
}
