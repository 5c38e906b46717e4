//! Bounded queue between recording and export. It is limited by items and by bytes; items that do not fit are dropped.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio::time::Instant;

/// Maximum number of queued bytes: message contents may be long.
const MAX_QUEUE_BYTES: usize = 8 << 20;
const MAX_BATCH_BYTES: usize = 1 << 20;

/// Limits of a queue and its batches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchLimits {
    pub(crate) queue_items: usize,
    pub(crate) batch_items: usize,
    /// Maximum time that an item waits for a batch to fill.
    pub(crate) delay: Duration,
}

/// Outcomes of recorded items since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ItemCounts {
    /// Accepted by the collector.
    pub sent: u64,
    /// Dropped because the queue was full or the collector rejected them.
    pub dropped: u64,
}

/// Items waiting for export, with their size in bytes.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    limits: BatchLimits,
    sender: mpsc::Sender<(T, usize)>,
    receiver: Mutex<mpsc::Receiver<(T, usize)>>,
    bytes: AtomicUsize,
    sent: AtomicU64,
    dropped: AtomicU64,
    flush: Notify,
    stop: watch::Sender<bool>,
    is_finished: watch::Sender<bool>,
}

impl<T> Queue<T> {
    pub(crate) fn new(limits: BatchLimits) -> Self {
        let (sender, receiver) = mpsc::channel(limits.queue_items);
        Self {
            limits,
            sender,
            receiver: Mutex::new(receiver),
            bytes: AtomicUsize::new(0),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            flush: Notify::new(),
            stop: watch::Sender::new(false),
            is_finished: watch::Sender::new(false),
        }
    }

    /// Adds an item of about `bytes` bytes, or counts it as dropped. Never blocks.
    pub(crate) fn push(&self, item: T, bytes: usize) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > MAX_QUEUE_BYTES || self.sender.try_send((item, bytes)).is_err() {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes the next batch: after the delay, when it is full, or when a flush is requested. Empty once the queue is
    /// stopped and drained.
    pub(crate) async fn next_batch(&self) -> Vec<T> {
        let mut receiver = self.receiver.lock().await;
        let mut stops = self.stop.subscribe();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut until: Option<Instant> = None;
        while batch.len() < self.limits.batch_items && bytes < MAX_BATCH_BYTES {
            let is_stopped = *stops.borrow_and_update();
            let is_begun = until.is_some();
            let delay = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let next = tokio::select! {
                biased;
                item = receiver.recv() => item,
                () = std::future::ready(()), if is_stopped => None,
                () = delay => None,
                () = self.flush.notified(), if is_begun => None,
                // Collects the remaining items, and then ends.
                _ = stops.changed(), if !is_stopped => continue,
            };
            let Some((item, size)) = next else { break };
            self.bytes.fetch_sub(size, Ordering::Relaxed);
            bytes += size;
            batch.push(item);
            until.get_or_insert_with(|| Instant::now() + self.limits.delay);
        }
        batch
    }

    /// Sends a partial batch immediately.
    pub(crate) fn flush(&self) {
        self.flush.notify_one();
    }

    /// Ends the export once the queued items are sent.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn stops(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Ends the export after one attempt to send the queued items. Returns whether that took less than `limit`.
    pub(crate) async fn drain(&self, limit: Duration) -> bool {
        let mut is_finished = self.is_finished.subscribe();
        self.stop();
        tokio::time::timeout(limit, is_finished.wait_for(|is_finished| *is_finished)).await.is_ok()
    }

    pub(crate) fn finish(&self) {
        self.is_finished.send_replace(true);
    }

    pub(crate) fn record_outcome(&self, sent: usize, dropped: usize) {
        self.sent.fetch_add(sent as u64, Ordering::Relaxed);
        self.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> ItemCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ItemCounts { sent: read(&self.sent), dropped: read(&self.dropped) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(queue_items: usize, batch_items: usize) -> Queue<usize> {
        Queue::new(BatchLimits { queue_items, batch_items, delay: Duration::from_secs(1) })
    }

    #[tokio::test(start_paused = true)]
    async fn queue_is_bounded_by_items_and_by_bytes() {
        let many = queue(3, 10);
        (0..5).for_each(|number| many.push(number, 1));
        assert_eq!(many.counts().dropped, 2);
        assert_eq!(many.next_batch().await, [0, 1, 2], "older items are retained");
        let large = queue(100, 100);
        for number in 0..5 {
            large.push(number, MAX_QUEUE_BYTES / 2);
        }
        assert_eq!(large.counts().dropped, 3);
        // A batch ends with the item that fills it, and taking it frees space in the queue.
        assert_eq!(large.next_batch().await, [0]);
        large.push(9, MAX_QUEUE_BYTES / 2);
        assert_eq!(large.counts().dropped, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn batch_is_taken_after_the_delay_when_full_or_on_flush() {
        let queue = queue(100, 2);
        let begun = Instant::now();
        queue.push(1, 1);
        assert_eq!(queue.next_batch().await, [1]);
        assert_eq!(begun.elapsed().as_secs(), 1);
        (2..5).for_each(|number| queue.push(number, 1));
        assert_eq!(queue.next_batch().await, [2, 3]);
        queue.flush();
        assert_eq!(queue.next_batch().await, [4]);
        assert!(begun.elapsed() < Duration::from_millis(1_500), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn stopped_queue_is_drained() {
        let queue = queue(100, 2);
        (0..3).for_each(|number| queue.push(number, 1));
        queue.stop();
        assert_eq!(queue.next_batch().await, [0, 1]);
        assert_eq!(queue.next_batch().await, [2]);
        assert!(queue.next_batch().await.is_empty());
        assert!(!queue.drain(Duration::from_secs(1)).await, "the export has not finished");
        queue.finish();
        assert!(queue.drain(Duration::from_secs(1)).await);
    }
}
