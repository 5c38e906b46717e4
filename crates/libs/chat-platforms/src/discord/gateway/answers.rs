//! Initial responses to interactions, sent concurrently with the session up to a limit.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Maximum number of concurrent requests of one session.
const MAX_CONCURRENT: usize = 16;
/// Maximum number of responses that wait for a permit.
const MAX_QUEUED: usize = 64;

/// Pending interaction responses of a session.
pub(super) struct Answers {
    /// Permits held from submission to the end of the request.
    slots: Arc<Semaphore>,
    /// Permits held during a request.
    permits: Arc<Semaphore>,
    has_logged_drop: bool,
}

impl Answers {
    pub(super) fn new() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MAX_CONCURRENT + MAX_QUEUED)),
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT)),
            has_logged_drop: false,
        }
    }

    /// Sends a request in the background. Drops it if the queue is full, which is logged once per session.
    pub(super) fn submit(&mut self, request: impl Future<Output = ()> + Send + 'static) {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            if !self.has_logged_drop {
                self.has_logged_drop = true;
                tracing::warn!(limit = MAX_CONCURRENT + MAX_QUEUED, "interaction answers dropped: queue full");
            }
            return;
        };
        let permits = Arc::clone(&self.permits);
        tokio::spawn(async move {
            // The semaphore is never closed.
            if let Ok(_permit) = permits.acquire().await {
                request.await;
            }
            drop(slot);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::watch;

    use super::*;

    #[tokio::test]
    async fn concurrent_requests_and_queue_are_limited() {
        let (release, released) = watch::channel(false);
        let (started, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut answers = Answers::new();
        for _ in 0..1500 {
            let (started, finished, mut released) = (Arc::clone(&started), Arc::clone(&finished), released.clone());
            answers.submit(async move {
                started.fetch_add(1, Ordering::SeqCst);
                released.wait_for(|is_released| *is_released).await.unwrap();
                finished.fetch_add(1, Ordering::SeqCst);
            });
        }
        assert!(answers.has_logged_drop);
        while started.load(Ordering::SeqCst) < MAX_CONCURRENT {
            tokio::task::yield_now().await;
        }
        // The runtime is single-threaded: after this many yields every runnable task has started.
        for _ in 0..1500 {
            tokio::task::yield_now().await;
        }
        assert_eq!(started.load(Ordering::SeqCst), MAX_CONCURRENT);
        release.send(true).unwrap();
        let all = u32::try_from(MAX_CONCURRENT + MAX_QUEUED).unwrap();
        let _ = answers.slots.acquire_many(all).await.unwrap();
        assert_eq!(finished.load(Ordering::SeqCst), MAX_CONCURRENT + MAX_QUEUED);
    }
}
